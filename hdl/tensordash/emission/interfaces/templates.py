"""Instances of a top to copy, in Verilog and in SystemVerilog with interfaces."""

from collections.abc import Iterator, Sequence

from .buses import Bus, Port, bus_of, find_buses

__all__ = ["interface_module", "interface_name", "interface_template", "verilog_template"]

VERILOG = """\
// An instance of {top}, to copy: every port with a wire of its name and width.
{wires}

{top} u_{top} (
{connections}
);
"""

INTERFACES = """\
// {top} with SystemVerilog interfaces in place of the ports of its buses.
/* verilator lint_off DECLFILENAME */
`default_nettype none

{interfaces}
module {top}_sv (
{ports}
);
  {top} u_{top} (
{connections}
  );
endmodule

`default_nettype wire
/* verilator lint_on DECLFILENAME */
"""

SYSTEM_VERILOG = """\
// An instance of {top}_sv, to copy: an interface for each bus, and a signal for each other port.
{declarations}

{top}_sv u_{top} (
{connections}
);
"""


def verilog_template(top: str, ports: Sequence[Port]) -> str:
    """Return an instance of a top in Verilog, with a declaration of each wire."""
    return VERILOG.format(
        top=top,
        wires="\n".join(f"wire {port.range}{port.name};" for port in ports),
        connections=",\n".join(f"  .{port.name}({port.name})" for port in ports),
    )


def interface_name(top: str, bus: Bus) -> str:
    """Return the name of the SystemVerilog interface of a bus. Buses with the same signals share one."""
    return f"{top}_{bus.family}_if"


def interface_module(top: str, ports: Sequence[Port]) -> str:
    """Return the interfaces of all buses of a top, and a wrapper module that has them as ports.

    Parameters
    ----------
    top : str
        The inner module. The wrapper is ``TOP_sv``.
    ports : sequence of Port
        All ports of the inner module.
    """
    buses = find_buses(ports)
    kinds = {interface_name(top, bus): bus for bus in buses}
    return INTERFACES.format(
        top=top,
        interfaces="\n".join(_interface(name, bus) for name, bus in kinds.items()),
        ports=",\n".join(_module_ports(top, ports)),
        connections=",\n".join(
            f"    .{port.name}({bus_of(port.name)}.{port.signal})" if port.signal else f"    .{port.name}({port.name})"
            for port in ports
        ),
    )


def interface_template(top: str, ports: Sequence[Port]) -> str:
    """Return an instance of the wrapper of `interface_module` in SystemVerilog."""
    buses = find_buses(ports)
    others = [port for port in ports if not port.signal]
    names = [*(bus.name for bus in buses), *(port.name for port in others)]
    return SYSTEM_VERILOG.format(
        top=top,
        declarations="\n".join(
            [f"{interface_name(top, bus)} {bus.name}();" for bus in buses]
            + [f"logic {port.range}{port.name};" for port in others]
        ),
        connections=",\n".join(f"  .{name}({name})" for name in names),
    )


def _interface(name: str, bus: Bus) -> str:
    """Return an interface with the signals of a bus, and a modport for each end."""
    driven = [port.signal for port in bus.ports if (port.direction == "output") == bus.is_master]
    others = [port.signal for port in bus.ports if port.signal not in driven]
    lines = [f"interface {name};"]
    lines += [f"  logic {port.range}{port.signal};" for port in bus.ports]
    for view, outputs, inputs in (("master", driven, others), ("slave", others, driven)):
        directions = [f"    output {signal}" for signal in outputs] + [f"    input {signal}" for signal in inputs]
        lines += [f"  modport {view} (", ",\n".join(directions), "  );"]
    return "\n".join([*lines, "endinterface", ""])


def _module_ports(top: str, ports: Sequence[Port]) -> Iterator[str]:
    """Yield the ports of the wrapper. An interface takes the place of the first port of its bus."""
    buses = {bus.ports[0].name: bus for bus in find_buses(ports)}
    for port in ports:
        if bus := buses.get(port.name):
            yield f"  {interface_name(top, bus)}.{'master' if bus.is_master else 'slave'} {bus.name}"
        elif not port.signal:
            yield f"  {port.direction} wire {port.range}{port.name}"
