"""A mapped design with wires: placed, with cells sized up for their loads, placed a second time, and measured."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .gates import GateNetlist, read_netlist
from .growth import Grown, grow
from .hierarchy import Hierarchy, named, role
from .lef import Lef
from .liberty import Liberty
from .mapping import Mapped
from .pins import PinTable, cell_sites, pin_table
from .placement import DENSITY, Placed, floorplan, place
from .run import Run
from .wire_timing import Timing, measure_timing
from .wires import NO_WIRE, Wires, annotations, wire_load, wires

__all__ = ["PlacedDesign", "place_design"]

MAX_EXCHANGES = 4
MIN_PATH_SHARE = 0.1  # share of a late path's cells from which a module is mapped for speed
UNCHANGED_ROLE = "pe"  # most of the area, in both designs; its own paths meet the clock
NM = 1e-3  # micrometres


@dataclass(frozen=True, kw_only=True)
class PlacedDesign:
    """A placed design.

    Parameters
    ----------
    top : str
        Its module.
    before, gates : GateNetlist
        The mapped netlist, and the netlist with stronger cells and buffers. Its first cells are the cells of `before`.
    grown : Grown
        The changes between them.
    pins : PinTable
        Pins of `gates`.
    placed : Placed
        Places of its cells.
    wires : Wires
        Wires of all nets.
    without, with_wires : Timing
        The longest path of the mapped netlist without wires, and of the placed one with wires.
    faster : tuple of str
        Modules that were mapped for speed, because a path across modules was too long even without wires.
    """

    top: str
    before: GateNetlist
    gates: GateNetlist
    grown: Grown
    pins: PinTable
    placed: Placed
    wires: Wires
    without: Timing
    with_wires: Timing
    faster: tuple[str, ...]

    @property
    def cells_um2(self) -> tuple[float, float]:
        """Area of the mapped cells, and of the cells with wires, in square micrometres."""
        floor = self.placed.floor
        site = floor.site_um * floor.row_um
        return float(self.grown.sites_before) * site, float(self.placed.widths.sum()) * site

    @property
    def density(self) -> float:
        """Share of the rows that cells cover."""
        return self.placed.density

    @property
    def wire_mm(self) -> float:
        """Length of all wires except clocks', in millimetres."""
        return float(self.wires.length_um[~self.pins.clocks].sum()) * NM

    @property
    def half_mm(self) -> float:
        """Half perimeters of all nets except clocks, in millimetres."""
        return float(self.wires.half_um[~self.pins.clocks].sum()) * NM

    @property
    def critical(self) -> tuple[str, str]:
        """Instances in which the longest path with wires begins and ends; "" for the top."""
        ends = [self.gates.cells[i].path for i in self.with_wires.cells] or [()]
        return "/".join(ends[0]), "/".join(ends[-1])

    def commands(self) -> str:
        """Return commands that give OpenSTA the wires for power, gated clocks included."""
        at = self.placed.pins_um(self.pins)
        return _for_power(self.pins, at, self.wires, len(self.gates.cells))

    def no_commands(self, library: Liberty, lef: Lef) -> str:
        """Return commands that give OpenSTA wires of length 0 for the mapped netlist, for power."""
        pins = pin_table(self.before, library, lef)
        return _for_power(pins, pins.offsets, wires(pins, pins.offsets, NO_WIRE), len(self.before.cells))


def _for_power(pins: PinTable, at: NDArray[np.float64], found: Wires, cells: int) -> str:
    unclocked = replace(pins, clocks=np.zeros_like(pins.clocks))
    return annotations(unclocked, at, found, cells, inputs="s{}/Q", outputs=False)


def place_design(
    run: Run,
    hierarchy: Hierarchy,
    modules: Mapping[str, Mapped],
    boxes: Sequence[str],
    lef: Lef,
    label: str,
) -> PlacedDesign:
    """Place a design whose modules were mapped one by one.

    Parameters
    ----------
    run : Run
        The run that mapped them.
    hierarchy : Hierarchy
        Verilog of the design.
    modules : dict of str to Mapped
        Its modules.
    boxes : sequence of str
        Verilog of black boxes: memories, which are placed around the design.
    lef : Lef
        Shapes of cells.
    label : str
        Name of the design in messages.

    Raises
    ------
    SynthesisError
        If placement or timing fails.
    LefError, LibertyError
        If the library lacks required data.
    """
    load = wire_load(run.library)
    timed, gates, faster = _close_timing(run, hierarchy, dict(modules), boxes, lef, label)
    folder = run.room()
    pins = pin_table(gates, run.library, lef)
    widths = cell_sites(gates, lef)
    first = place(pins, widths, floorplan(lef, sum(widths), DENSITY), folder, rough=True)
    grown = grow(gates, run.library, lef, first, load)
    pins = pin_table(grown.gates, run.library, lef)
    sites = grown.near.widths.tolist()
    placed = place(pins, sites, floorplan(lef, sum(sites), DENSITY), folder)
    at = placed.pins_um(pins)
    found = wires(pins, at, load)
    commands = annotations(pins, at, found, len(grown.gates.cells))
    with_wires = measure_timing(grown.gates, run.library, run.clock_ns, folder, commands)
    design = PlacedDesign(
        top=hierarchy.top,
        before=gates,
        gates=grown.gates,
        grown=grown,
        pins=pins,
        placed=placed,
        wires=found,
        without=timed,
        with_wires=with_wires,
        faster=faster,
    )
    run.progress(
        f"{label}: placed at {placed.density:.0%}, {design.wire_mm:,.0f} mm of wires, "
        f"{timed.period_ns:.2f} ns without them, {with_wires.period_ns:.2f} ns with them"
    )
    return design


def _close_timing(
    run: Run,
    hierarchy: Hierarchy,
    modules: dict[str, Mapped],
    boxes: Sequence[str],
    lef: Lef,
    label: str,
) -> tuple[Timing, GateNetlist, tuple[str, ...]]:
    """Map modules of late paths for speed, until all paths meet the clock without wires or no module remains.

    Modules were mapped one by one, as if each had the full period. PEs are equal in both designs and do not change.
    """
    module_of = {place.path: place.module for place in hierarchy.placements if place.module in modules}
    faster: list[str] = []
    best: tuple[Timing, GateNetlist, tuple[str, ...]] | None = None
    for _ in range(MAX_EXCHANGES + 1):
        folder = run.room()
        text = "\n".join([*boxes, *(named(modules[name].netlist, name) for name in sorted(modules))])
        gates = read_netlist(text, hierarchy.top, run.library, folder)
        pins = pin_table(gates, run.library, lef)
        none = annotations(pins, pins.offsets, wires(pins, pins.offsets, NO_WIRE), len(gates.cells))
        timed = measure_timing(gates, run.library, run.clock_ns, folder, none)
        if best is None or timed.period_ns < best[0].period_ns:
            best = timed, gates, tuple(faster)
        on_path = Counter(module_of[gates.cells[i].path] for i in timed.cells)
        late = [name for name, count in on_path.items() if count >= MIN_PATH_SHARE * on_path.total()]
        late = sorted(name for name in late if name not in faster and role(name) != UNCHANGED_ROLE)
        run.progress(f"{label}: {timed.period_ns:.2f} ns without wires, through {', '.join(sorted(on_path))}")
        if timed.period_ns <= run.clock_ns or not late:
            break
        faster += late
        for name in late:
            modules[name] = run.module_fastest(hierarchy, name, f"{label}, {name}")
    assert best is not None
    return best
