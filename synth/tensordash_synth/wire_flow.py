"""The flow with wires: both designs are placed, and power is measured with the wires' activity."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tensordash import TileConfig
from tensordash.extras import require

from .gate_simulation import GateSimulation, Toggles
from .gates import GateNetlist
from .hierarchy import Hierarchy
from .lef import Lef, LefError, load_lef
from .mapping import Mapped
from .opensta import find_opensta
from .placed_design import PlacedDesign, place_design
from .placement import PLACER
from .power import Activity, opensta_power, random_streams, recorded_streams, simulate
from .power_report import NO_OPENSTA
from .run import Run
from .wire_report import WirePower, WireReport
from .wires import wire_load
from .yosys import SynthesisError

__all__ = ["check_wires", "place_designs", "wire_powers"]

Parts = tuple[Hierarchy, Mapping[str, Mapped], Sequence[str]]


def check_wires(run: Run, liberty: str | Path | None, lef: Sequence[str | Path] | None) -> Lef:
    """Check everything that placement needs before long work begins, and return the shapes of cells.

    Raises
    ------
    SynthesisError
        If OpenSTA is not installed.
    MissingExtraError
        If the placer is not installed.
    LefError
        If shapes cannot be read, or are missing for a user's library.
    LibertyError
        If the library lacks the capacitance of a micrometre of wire.
    """
    if liberty is not None and lef is None:
        raise LefError(f"{liberty}: wires need shapes of its cells, too (LEF)")
    shapes = load_lef(lef)
    wire_load(run.library)
    require("--wires", PLACER)
    if find_opensta() is None:
        raise SynthesisError(NO_OPENSTA)
    return shapes


def place_designs(run: Run, ours: Parts, theirs: Parts, lef: Lef) -> WireReport:
    """Place TensorDash and the baseline, each from its Verilog, its mapped modules and its black boxes.

    Raises
    ------
    SynthesisError, LefError, LibertyError
        As for `place_design`.
    """
    pending = [
        run.submit(place_design, run, hierarchy, modules, boxes, lef, label)
        for (hierarchy, modules, boxes), label in ((ours, "TensorDash"), (theirs, "baseline"))
    ]
    run.wait()
    return WireReport(designs=(pending[0].result(), pending[1].result()))


def wire_powers(
    run: Run, config: TileConfig, designs: tuple[PlacedDesign, PlacedDesign], lef: Lef
) -> tuple[WirePower, ...]:
    """Measure the power of both placed tiles, without and with wires, on random and recorded operands.

    The mapped netlists are simulated and must equal the golden model. Stronger cells and buffers have the activity of
    the nets that they replace.

    Raises
    ------
    SynthesisError
        If a netlist differs from the golden model, or OpenSTA fails.
    """
    activities = [random_streams(config, 0.0), random_streams(config, 0.5), recorded_streams(config)]
    pending = [
        run.submit(_powers, run, tile, design, activities, lef)
        for tile, design in zip((config, config.baseline), designs, strict=True)
    ]
    run.wait()
    ours, theirs = (future.result() for future in pending)
    return tuple(
        WirePower(name=activity.name, without=(a[0], b[0]), with_wires=(a[1], b[1]), cycles=(a[2], b[2]))
        for activity, a, b in zip(activities, ours, theirs, strict=True)
    )


def _powers(
    run: Run, config: TileConfig, design: PlacedDesign, activities: Sequence[Activity], lef: Lef
) -> list[tuple[float, float, int]]:
    """Return (watts without wires, watts with wires, cycles) for each activity."""
    toggles, cycles = [], []
    for activity in activities:
        simulation = GateSimulation(design.before)
        simulate(simulation, config, activity)
        toggles.append(Toggles(activity=simulation.activity, duty=simulation.duty))
        cycles.append(simulation.cycles)
    origins = design.grown.origins
    on_wires = [Toggles(activity=each.activity[origins], duty=each.duty[origins]) for each in toggles]
    without = _watts(run, design, design.before, toggles, design.no_commands(run.library, lef))
    with_wires = _watts(run, design, design.gates, on_wires, design.commands())
    return list(zip(without, with_wires, cycles, strict=True))


def _watts(run: Run, design: PlacedDesign, gates: GateNetlist, toggles: Sequence[Toggles], wires: str) -> list[float]:
    folder = run.room()
    (folder / "cells.lib").symlink_to(run.library.path.resolve())
    found = opensta_power(gates, toggles, design.top, run.clock_ns, folder, wires)
    return [float(table[:, 3].sum()) for table in found]
