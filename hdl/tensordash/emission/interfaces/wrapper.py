"""Wrapper of a top for IP packagers: AXI buses with `aclk` and `aresetn`, and attributes that Vivado reads."""

from collections.abc import Sequence
from dataclasses import replace

from .buses import Port, find_buses

__all__ = ["wrapper", "wrapper_ports"]

RENAMED = {
    "clk": ("aclk", "rising edge"),
    "rst": ("aresetn", "synchronous reset, active low, safe at any cycle"),
}
"""Maps a port of the top to its name and its purpose in the wrapper."""

TEMPLATE = """\
// A wrapper of {top}
// with the clock, the active-low reset and the names that AXI defines. Vivado infers the buses from
// the names.
`default_nettype none

module {name} (
{ports}
);
  {top} u_{top} (
{connections}
  );
endmodule

`default_nettype wire
"""

INTERFACE = '  (* X_INTERFACE_INFO = "xilinx.com:signal:{kind}:1.0 {name} {signal}" *)\n'
PARAMETER = '  (* X_INTERFACE_PARAMETER = "{settings}" *)\n'


def wrapper_ports(ports: Sequence[Port]) -> list[Port]:
    """Return the wrapper's ports, in the order of the top's."""
    renamed = []
    for port in ports:
        name, doc = RENAMED.get(port.name, (port.name, port.doc))
        renamed.append(replace(port, name=name, doc=doc))
    return renamed


def wrapper(name: str, top: str, ports: Sequence[Port]) -> str:
    """Return the wrapper in Verilog-2005.

    Parameters
    ----------
    name : str
        Name of the wrapper's module.
    top : str
        The inner module.
    ports : sequence of Port
        The ports of the inner module, including `clk` and `rst`.

    Source: AMD, "Vivado Design Suite User Guide: Creating and Packaging Custom IP" (UG1118), "Inferring Signals".
    """
    buses = ":".join(bus.name for bus in find_buses(ports))
    attributes = {
        "aclk": INTERFACE.format(kind="clock", name="aclk", signal="CLK")
        + PARAMETER.format(settings=f"ASSOCIATED_BUSIF {buses}, ASSOCIATED_RESET aresetn"),
        "aresetn": INTERFACE.format(kind="reset", name="aresetn", signal="RST")
        + PARAMETER.format(settings="POLARITY ACTIVE_LOW"),
        "irq": INTERFACE.format(kind="interrupt", name="irq", signal="INTERRUPT")
        + PARAMETER.format(settings="SENSITIVITY LEVEL_HIGH"),
    }
    outer = wrapper_ports(ports)
    values = {"rst": "~aresetn", "clk": "aclk"}
    return TEMPLATE.format(
        name=name,
        top=top,
        ports=",\n".join(
            f"{attributes.get(port.name, '')}  {port.direction} wire {port.range}{port.name}" for port in outer
        ),
        connections=",\n".join(f"    .{port.name}({values.get(port.name, port.name)})" for port in ports),
    )
