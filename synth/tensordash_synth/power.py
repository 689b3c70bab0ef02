"""Power from activity: a simulation of the mapped netlist on operands yields the toggles of each pin for OpenSTA."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.formats import FloatFormat, Format

from .gate_simulation import GateSimulation, Toggles, complete
from .gates import GateNetlist, read_netlist
from .hierarchy import PREFIX
from .liberty import Liberty
from .opensta import find_opensta, run_opensta
from .yosys import SynthesisError

__all__ = [
    "Activity",
    "DesignPower",
    "Power",
    "design_power",
    "find_opensta",
    "opensta_power",
    "power_by_instance",
    "random_streams",
    "recorded_streams",
    "simulate",
    "waiting",
]

STREAMS = 4
STEPS = 64
WAITS = 256  # cycles: the period of the lowest eight bits of a counter
RECORDED_LAYER = "CNN.conv2"
RECORDED_PASSES = 2

# OpenSTA propagates activities from inputs through logic and registers. This overwrites the activities of their pins,
# and crashes on gates whose inputs are all constant. Therefore registers drive all inputs, and nothing is propagated.
SOURCE = "TENSORDASH_SOURCE"
SOURCE_LIBRARY = f"""\
library (sources) {{
  delay_model : table_lookup;
  time_unit : "1ns"; voltage_unit : "1V"; current_unit : "1mA"; pulling_resistance_unit : "1kohm";
  capacitive_load_unit (1, ff); leakage_power_unit : "1nW";
  nom_process : 1; nom_voltage : 1; nom_temperature : 25;
  input_threshold_pct_rise : 50; input_threshold_pct_fall : 50;
  output_threshold_pct_rise : 50; output_threshold_pct_fall : 50;
  slew_lower_threshold_pct_rise : 20; slew_lower_threshold_pct_fall : 20;
  slew_upper_threshold_pct_rise : 80; slew_upper_threshold_pct_fall : 80;
  cell ({SOURCE}) {{
    ff (IQ, IQN) {{ clocked_on : "CK"; next_state : "IQ"; }}
    pin (CK) {{ direction : input; clock : true; capacitance : 0; }}
    pin (Q) {{
      direction : output; function : "IQ";
      timing () {{
        related_pin : "CK"; timing_type : rising_edge;
        cell_rise (scalar) {{ values ("0"); }} cell_fall (scalar) {{ values ("0"); }}
        rise_transition (scalar) {{ values ("0"); }} fall_transition (scalar) {{ values ("0"); }}
      }}
    }}
  }}
}}
"""

# A line for each cell: internal, switching, leakage and total power in watts. OpenSTA runs gated clocks in all cycles;
# the second table is the power of their cells for the clock alone.
SCRIPT = """\
set_cmd_units -time ns -capacitance fF -resistance kOhm
read_liberty cells.lib
read_liberty sources.lib
read_verilog flat.v
link_design {top}
create_clock -name clk -period {period} clk
{wires}
set pins {{}}
set file [open pins.txt]
while {{[gets $file name] >= 0}} {{ lappend pins [::sta::find_pin $name] }}
close $file
set cells {{}}
for {{set i 0}} {{$i < {cells}}} {{incr i}} {{ lappend cells [::sta::find_instance g$i] }}
set gated_pins {{}}
set file [open gated_pins.txt]
while {{[gets $file name] >= 0}} {{ lappend gated_pins [::sta::find_pin $name] }}
close $file
set gated_cells {{}}
foreach i {{{gated}}} {{ lappend gated_cells [lindex $cells $i] }}
set corner [::sta::cmd_corner]
for {{set i 0}} {{$i < {runs}}} {{incr i}} {{
  set file [open activity_$i.txt]
  foreach pin $pins {{
    gets $file line
    ::sta::set_power_pin_activity $pin [lindex $line 0] [lindex $line 1]
  }}
  close $file
  set file [open power_$i.txt w]
  foreach cell $cells {{ puts $file [::sta::instance_power $cell $corner] }}
  close $file
  foreach pin $pins {{
    set origin [lindex [get_property $pin activity] 2]
    if {{$origin != "user" && $origin != "clock"}} {{ error "[get_full_name $pin] has an activity that is $origin" }}
  }}
  set file [open duty_$i.txt]
  foreach pin $gated_pins {{ ::sta::set_power_pin_activity $pin 0 [gets $file] }}
  close $file
  set file [open clock_$i.txt w]
  foreach cell $gated_cells {{ puts $file [::sta::instance_power $cell $corner] }}
  close $file
}}
"""


@dataclass(frozen=True, kw_only=True)
class Activity:
    """Operands of a netlist's simulation, back to back from reset, with a wait after them.

    Parameters
    ----------
    name : str
        Name of the operands.
    streams : list of (array of unsigned int, array of unsigned int), (columns, T, lanes) and (rows, T, lanes)
        Bit patterns of the column side and the row side.
    waits : int
        Cycles after the operands in which nothing arrives and no input changes. If not 0, power is measured only in
        these cycles.
    """

    name: str
    streams: list[tuple[NDArray, NDArray]]
    waits: int = 0


@dataclass(frozen=True, kw_only=True)
class Power:
    """Mean power of a part, in watts."""

    internal: float
    switching: float
    leakage: float

    @property
    def total(self) -> float:
        return self.internal + self.switching + self.leakage


@dataclass(frozen=True, kw_only=True)
class DesignPower:
    """Power of a design on some operands.

    Parameters
    ----------
    cycles : int
        Cycles from the first operand to the last result, or the cycles of the wait.
    parts : dict of tuple of str to Power
        Power of every module instance without its submodules, by its path from the top.
    """

    cycles: int
    parts: Mapping[tuple[str, ...], Power]

    @property
    def watts(self) -> float:
        """Power of all parts."""
        return sum(power.total for power in self.parts.values())


def random_streams(config: TileConfig, zeros: float, seed: int = 0) -> Activity:
    """Draw operands from a normal distribution, with random zeros on the row side.

    Parameters
    ----------
    config : TileConfig
        The tile.
    zeros : float
        Probability of a zero, 0 to 1.
    seed : int
        Seed of the random numbers; the values do not depend on `zeros`.
    """
    from tensordash_sim.golden.quantization import quantized

    rng = np.random.default_rng(seed)
    a = rng.standard_normal((STREAMS, config.columns, STEPS, config.lanes), np.float32)
    b = rng.standard_normal((STREAMS, config.rows, STEPS, config.lanes), np.float32)
    zero = rng.random(b.shape) < zeros
    if config.numerics.scale is None:
        a_bits, b_bits = quantized(a, config.a_format), quantized(b, config.b_format)
    else:
        a_bits, b_bits = _scaled(a, config, config.a_format), _scaled(b, config, config.b_format)
    b_bits[..., : config.lanes][zero] = 0
    return Activity(name=f"{zeros:.0%} zeros", streams=list(zip(a_bits, b_bits, strict=True)))


def _scaled(values: NDArray[np.float32], config: TileConfig, fmt: Format) -> NDArray:
    """Quantise values, (..., T, lanes), to steps with scales."""
    from tensordash_sim.golden.block_scales import quantise_blocks, scaled_steps

    scale = config.numerics.scale
    assert scale is not None
    assert isinstance(fmt, FloatFormat)
    values = values.reshape(*values.shape[:-2], -1)
    return scaled_steps(quantise_blocks(values, fmt, scale, scale_rounding=config.scale_rounding), config)


def waiting(config: TileConfig, seed: int = 0) -> Activity:
    """Return the activity of a tile that waits after work: no operand is available, and registers hold their values.

    Parameters
    ----------
    config : TileConfig
        The tile.
    seed : int
        Seed of the operands before the wait, which have no zeros.
    """
    streams = random_streams(config, 0.0, seed).streams[:1]
    return Activity(name="waiting", streams=streams, waits=WAITS)


def recorded_streams(config: TileConfig) -> Activity:
    """Return operands of the package's trace: passes of the three operations of its second convolution."""
    from tensordash_sim.trace import Trace, example_trace
    from tensordash_sim.trace.layer_operands import layer_passes

    streams: list[tuple[NDArray, NDArray]] = []
    for record in Trace.open(example_trace()).records:
        if record.layer == RECORDED_LAYER:
            for passes in layer_passes(record, config, sample=RECORDED_PASSES, seed=0):
                streams += zip(passes.a, passes.b, strict=True)
    return Activity(name="digits trace", streams=streams)


def design_power(
    config: TileConfig,
    netlist: str,
    library: Liberty,
    clock_ns: float,
    activities: Sequence[Activity],
    folder: Path,
) -> list[DesignPower]:
    """Measure the power of a mapped tile on operands.

    Results, counters and flags of the netlist are compared with the golden model's in every cycle.

    Parameters
    ----------
    config : TileConfig
        The tile.
    netlist : str
        Its mapped modules, in Verilog.
    library : Liberty
        The library that it was mapped to.
    clock_ns : float
        Clock period in ns.
    activities : sequence of Activity
        Operands; each is a run from reset.
    folder : Path
        An existing, empty folder for temporary files.

    Raises
    ------
    SynthesisError
        If the netlist differs from the golden model, or OpenSTA fails.
    """
    top = f"{PREFIX}tile"
    gates = read_netlist(netlist, top, library, folder)
    simulation = GateSimulation(gates)
    runs = []
    for activity in activities:
        simulation = GateSimulation(gates)
        simulate(simulation, config, activity)
        runs.append(simulation)
    paths = [cell.path for cell in gates.cells]
    return [
        DesignPower(cycles=simulation.cycles, parts=power_by_instance(watts, paths))
        for simulation, watts in zip(runs, opensta_power(gates, runs, top, clock_ns, folder), strict=True)
    ]


def opensta_power(
    gates: GateNetlist,
    runs: Sequence[GateSimulation | Toggles],
    top: str,
    clock_ns: float,
    folder: Path,
    wires: str = "",
) -> list[NDArray[np.float64]]:
    """Return the power of every cell in simulations of a netlist.

    Parameters
    ----------
    gates : GateNetlist
        The netlist.
    runs : sequence of GateSimulation or Toggles
        Toggles of its nets.
    top : str
        Name of the module that is written.
    clock_ns : float
        Clock period in ns.
    folder : Path
        The folder of `read_netlist`, which has the library.
    wires : str
        Commands that give OpenSTA wires; for "", it uses the library's wire load by fan-out, if there is one.

    Returns
    -------
    list of array of float, (cells, 4)
        Internal, switching, leakage and total power in watts.

    Raises
    ------
    SynthesisError
        If OpenSTA fails.
    """
    pins = [(f"g{i}/{name}", net) for i, cell in enumerate(gates.cells) for name, net in cell.pins.items()]
    pins = [(name, net) for name, net in pins if net != gates.clock]
    nets = np.array([net for _, net in pins])
    gates_of_clocks = {i: net for i, cell in enumerate(gates.cells) for net in cell.pins.values() if net in gates.gated}
    drivers = [i for i in gates_of_clocks if gates.clock in gates.cells[i].pins.values()]
    gated = [i for i in gates_of_clocks if i not in drivers]
    gated_pins = [(f"g{i}/{name}", net) for i in gated for name, net in gates.cells[i].pins.items()]
    for name, listed in (("pins", pins), ("gated_pins", gated_pins)):
        (folder / f"{name}.txt").write_text("".join(f"{pin}\n" for pin, _ in listed), encoding="utf-8")
    (folder / "flat.v").write_text(gates.verilog(top, SOURCE), encoding="utf-8")
    (folder / "sources.lib").write_text(SOURCE_LIBRARY, encoding="utf-8")
    for i, run in enumerate(runs):
        np.savetxt(folder / f"activity_{i}.txt", np.stack([run.activity[nets], run.duty[nets]], axis=1), fmt="%.6g")
        np.savetxt(folder / f"duty_{i}.txt", run.duty[[net for _, net in gated_pins]], fmt="%.6g")
    (folder / "wires.tcl").write_text(wires, encoding="utf-8")
    numbers = {"cells": len(gates.cells), "runs": len(runs), "gated": " ".join(map(str, gated))}
    numbers["wires"] = "source wires.tcl" if wires else ""
    run_opensta(SCRIPT.format(top=top, period=clock_ns, **numbers), folder, f"power of {top}")
    tables = []
    for i, run in enumerate(runs):
        watts = np.loadtxt(folder / f"power_{i}.txt", ndmin=2)
        if watts.shape != (len(gates.cells), 4) or not np.isfinite(watts).all():
            raise SynthesisError(f"power of {top} failed: OpenSTA gave no figure for some of the cells")
        if gated:
            clocked = np.loadtxt(folder / f"clock_{i}.txt", ndmin=2)
            running = run.activity[[gates_of_clocks[cell] for cell in gated]] / 2
            watts[gated, 0] -= (1 - running) * clocked[:, 0]
            watts[drivers, 1] *= run.activity[[gates_of_clocks[cell] for cell in drivers]] / 2
            watts[:, 3] = watts[:, :3].sum(axis=1)
        tables.append(watts)
    return tables


class _Still(Random):
    """Random numbers that are all 0: the bench then sets inputs to 0 while it offers no operand."""

    def getrandbits(self, k: int, /) -> int:
        return 0


def simulate(simulation: GateSimulation, config: TileConfig, activity: Activity) -> None:
    """Simulate a run from reset; count toggles from the first operand to the last result, or in the wait after it.

    Raises
    ------
    SynthesisError
        If the netlist differs from the golden model in any cycle.
    """
    from tensordash_sim.verify.lockstep import Lockstep

    random = _Still(0) if activity.waits else Random(0)
    lockstep = Lockstep(simulation, config, random, compare_every=16)
    a = [[stream[column].tolist() for stream, _ in activity.streams] for column in range(config.columns)]
    b = [[stream[row].tolist() for _, stream in activity.streams] for row in range(config.rows)]
    c = np.zeros((len(activity.streams), config.rows, config.columns), np.int64).tolist() if config.initial else []
    try:
        complete(lockstep.start())
        simulation.forget()
        lockstep.feed(a, b, c)
        complete(lockstep.run())
        if activity.waits:
            complete(lockstep.cycle())  # The inputs change for the last time.
            simulation.forget()
            for _ in range(activity.waits):
                complete(lockstep.cycle())
    except AssertionError as error:
        raise SynthesisError(f"the netlist differs from the golden model on {activity.name}: {error}") from error


def power_by_instance(watts: NDArray[np.float64], paths: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], Power]:
    """Sum the power of cells by instance."""
    names = list(dict.fromkeys(paths))
    index = {name: i for i, name in enumerate(names)}
    sums = np.zeros((len(names), 4))
    np.add.at(sums, [index[path] for path in paths], watts)
    return {
        name: Power(internal=float(row[0]), switching=float(row[1]), leakage=float(row[2]))
        for name, row in zip(names, sums, strict=True)
    }
