"""Delay of a flat netlist by OpenSTA, with and without wires: the shortest period that every path meets."""

import re
from dataclasses import dataclass
from math import inf
from pathlib import Path

from .cache import cached_document
from .gates import CLOCK, GateNetlist
from .liberty import Liberty
from .opensta import find_opensta, run_opensta
from .power_report import NO_OPENSTA
from .yosys import SynthesisError

__all__ = ["Timing", "measure_timing"]

TOP = "placed"
SCRIPT = """\
read_liberty cells.lib
set_cmd_units -time ns -capacitance fF -resistance kOhm
read_verilog timing.v
link_design {top}
create_clock -name clk -period {period} {clock}
set inputs {{}}
foreach port [all_inputs] {{ if {{[get_full_name $port] != "{clock}"}} {{ lappend inputs $port }} }}
if {{[llength $inputs]}} {{
  set_input_delay 0 -clock clk $inputs
  set_driving_cell -lib_cell {driver} $inputs
}}
if {{[llength [all_outputs]]}} {{
  set_output_delay 0 -clock clk [all_outputs]
  set_load {load} [all_outputs]
}}
{wires}
set file [open slack.txt w]
puts $file [worst_slack]
close $file
report_checks -path_delay max -format full -digits 4 > path.txt
"""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The longest path of a netlist.

    Parameters
    ----------
    period_ns : float
        Delay from clock to clock, clk-to-q and setup included, with an ideal clock.
    cells : tuple of int
        The netlist's cells on the path, from its first to its last.
    """

    period_ns: float
    cells: tuple[int, ...]


def timing_verilog(gates: GateNetlist) -> str:
    """Return a netlist as one module with cells g0, g1, ..., nets n2, n3, ... and ports i2, ... and o3, ...."""
    names = {net: f"n{net}" for net in range(gates.nets)} | {0: "1'b0", 1: "1'b1", gates.clock: CLOCK}
    inputs = sorted(_bits(gates, "input") - {0, 1, gates.clock})
    outputs = sorted(_bits(gates, "output") - {0, 1, gates.clock})
    lines = [f"module {TOP} ({', '.join([CLOCK, *(f'i{net}' for net in inputs), *(f'o{net}' for net in outputs)])});"]
    lines += [f"  input {name};" for name in (CLOCK, *(f"i{net}" for net in inputs))]
    lines += [f"  output o{net};" for net in outputs]
    lines += [f"  assign n{net} = i{net};" for net in inputs]
    lines += [f"  assign o{net} = n{net};" for net in outputs]
    for i, cell in enumerate(gates.cells):
        pins = ", ".join(f".{name}({names[net]})" for name, net in cell.pins.items())
        lines.append(f"  {cell.kind} g{i} ({pins});")
    return "\n".join([*lines, "endmodule\n"])


def _bits(gates: GateNetlist, direction: str) -> set[int]:
    return {int(net) for port_direction, nets in gates.ports.values() if port_direction == direction for net in nets}


def measure_timing(gates: GateNetlist, library: Liberty, clock_ns: float, folder: Path, wires: str = "") -> Timing:
    """Return the longest path; results are cached.

    Inputs arrive at the clock edge, through the library's smallest buffer. Outputs drive four of these buffers and must
    arrive before the next clock edge. Ports of memories count as inputs and outputs.

    Parameters
    ----------
    gates : GateNetlist
        The netlist.
    library : Liberty
        The library that it was mapped to.
    clock_ns : float
        Clock period of the measurement, which does not change the result.
    folder : Path
        An existing folder for temporary files.
    wires : str
        Commands from `annotations`; for "", OpenSTA uses the library's wire load by fan-out, if there is one.

    Raises
    ------
    SynthesisError
        If OpenSTA is not installed, or fails.
    """
    if find_opensta() is None:
        raise SynthesisError(NO_OPENSTA)
    verilog = timing_verilog(gates)
    script = SCRIPT.format(
        top=TOP,
        clock=CLOCK,
        period=clock_ns,
        driver=library.driving_cell.name,
        load=f"{library.output_load:.4f}",
        wires="source wires.tcl" if wires else "",
    )

    def make() -> list[float]:
        (folder / "timing.v").write_text(verilog, encoding="utf-8")
        (folder / "wires.tcl").write_text(wires, encoding="utf-8")
        (folder / "cells.lib").unlink(missing_ok=True)
        (folder / "cells.lib").symlink_to(library.path.resolve())
        run_opensta(script, folder, "timing")
        return _timing(folder, clock_ns)

    period, *cells = cached_document(["timing", script, verilog, wires, library.digest], make)
    return Timing(period_ns=period, cells=tuple(map(int, cells)))


def _timing(folder: Path, clock_ns: float) -> list[float]:
    """Return the shortest period, and the cells on the longest path."""
    try:
        slack = float((folder / "slack.txt").read_text(encoding="utf-8"))
    except ValueError:
        slack = inf
    if not abs(slack) < 1e3 * clock_ns:
        raise SynthesisError("timing failed: OpenSTA found no path between registers or ports")
    path = (folder / "path.txt").read_text(encoding="utf-8")
    cells = dict.fromkeys(int(name) for name in re.findall(r" g(\d+)/\w+ \(", path))
    return [clock_ns - slack, *cells]
