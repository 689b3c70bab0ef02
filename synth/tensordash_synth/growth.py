"""Adapt cells to their wires: stronger drivers, and buffers for loads that are too large for every driver."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .gates import GateCell, GateNetlist
from .lef import Lef
from .liberty import Cell, Liberty, LibertyError
from .pins import PinTable, pin_table, port_bits
from .placement import Placed
from .wires import WireLoad, length_factors, wires

__all__ = ["LOAD_SHARE", "Grown", "grow", "ladders"]

LOAD_SHARE = 0.35  # largest load of a cell, as a share of the maximum in its library
PASSES = 2  # stronger cells have larger inputs, which their own drivers must drive
MAX_BUFFER_LOAD = 0.5  # largest load of a group of pins, as a share of the strongest buffer's


@dataclass(frozen=True, kw_only=True)
class Grown:
    """A netlist with stronger cells and more buffers.

    Parameters
    ----------
    gates : GateNetlist
        The netlist. Its first cells are the original ones, with other drives; simulations run on the original netlist.
    origins : array of int (nets,)
        For every net, the net of the original netlist that has its values.
    near : Placed
        Places of the original cells, and the best places of buffers; not a legal placement.
    sites_before : int
        Sites of all cells before.
    stronger, buffers : int
        Numbers of cells that were replaced and of buffers that were added.
    """

    gates: GateNetlist
    origins: NDArray[np.int64]
    near: Placed
    sites_before: int
    stronger: int
    buffers: int


def ladders(library: Liberty, lef: Lef) -> dict[str, list[Cell]]:
    """Return for every cell the cells of equal function, itself included, sorted by drive strength and area."""
    kinds: dict[object, list[Cell]] = {}
    for cell in library.cells:
        if cell.name in lef.cells and all(drive > 0 for drive in cell.outputs.values()) and cell.outputs:
            key = tuple(sorted(cell.inputs)), tuple(sorted(cell.outputs)), cell.functions, cell.is_flip_flop
            kinds.setdefault((*key, cell.clock_gate), []).append(cell)
    return {
        cell.name: sorted(cells, key=lambda each: (_drive(each), each.area, each.name))
        for cells in kinds.values()
        for cell in cells
    }


def _drive(cell: Cell) -> float:
    return min(cell.outputs.values())


def grow(gates: GateNetlist, library: Liberty, lef: Lef, placed: Placed, load: WireLoad) -> Grown:
    """Limit the load of every driver to `LOAD_SHARE` of its maximum in the library.

    A driver becomes the smallest cell of equal function within the limit. If there is none, its pins are split into
    groups of neighbours, and each group gets a buffer. Clocks do not change.

    Parameters
    ----------
    gates : GateNetlist
        A mapped netlist.
    library, lef : Liberty, Lef
        Its cells.
    placed : Placed
        Their placement.
    load : WireLoad
        Load of a micrometre of wire.

    Raises
    ------
    LibertyError
        If the library has no buffer with a maximum load.
    """
    growth = _Growth(gates, library, lef, placed, load)
    for _ in range(PASSES):
        growth.strengthen()
    growth.add_buffers()
    growth.strengthen()
    return growth.grown(gates, placed)


class _Growth:
    """A netlist whose cells change."""

    def __init__(self, gates: GateNetlist, library: Liberty, lef: Lef, placed: Placed, load: WireLoad) -> None:
        self._library, self._lef, self._load = library, lef, load
        self._ladders = ladders(library, lef)
        self._cells = {cell.name: cell for cell in library.cells}
        driving = library.driving_cell
        if driving.truth_table() != "01" or driving.name not in self._ladders:
            raise LibertyError(f"{library.path}: no buffer with a largest load (max_capacitance)")
        self._buffers = self._ladders[driving.name]
        self._gates, self._placed = gates, placed
        self._origins = list(range(gates.nets))

    def strengthen(self) -> None:
        """Replace every overloaded driver by the smallest cell within the limit, or by the strongest one."""
        pins, _, loads = self._measure()
        cells = list(self._gates.cells)
        for net, driver in _drivers(pins, loads, len(cells)):
            cell = cells[driver]
            ladder = self._ladders.get(cell.kind, [])
            if _drive(self._cells[cell.kind]) * LOAD_SHARE >= loads[net] or not ladder:
                continue
            stronger_cell = next((each for each in ladder if _drive(each) * LOAD_SHARE >= loads[net]), ladder[-1])
            if _drive(stronger_cell) > _drive(self._cells[cell.kind]):
                cells[driver] = replace(cell, kind=stronger_cell.name)
        self._gates = replace(self._gates, cells=cells)
        self._placed = replace(self._placed, widths=self._widths(cells))

    def add_buffers(self) -> None:
        """Add a buffer for each group of pins where the strongest driver is overloaded."""
        pins, at, loads = self._measure()
        cells = list(self._gates.cells)
        ports = {name: (way, nets.copy()) for name, (way, nets) in self._gates.ports.items()}
        bits = port_bits(self._gates)
        positions = [np.stack([self._placed.columns, self._placed.rows], axis=1).astype(float)]
        nets = self._gates.nets
        unit = np.array([self._placed.floor.site_um, self._placed.floor.row_um])
        for net in np.flatnonzero((loads > 0) & ~pins.clocks).tolist():
            net_pins = np.arange(pins.starts[net], pins.starts[net + 1])
            driver = net_pins[pins.drives[net_pins]]
            if len(driver) != 1 or len(net_pins) < 2:
                continue
            index = int(pins.places[driver[0]])
            kind = cells[index].kind if index < len(self._gates.cells) else self._buffers[0].name
            if _drive(self._cells[kind]) * LOAD_SHARE >= loads[net]:
                continue
            path = cells[index].path if index < len(self._gates.cells) else ()
            for group in self._groups(pins, at, net_pins[~pins.drives[net_pins]]):
                required = self._group_load(pins, at, group) / LOAD_SHARE
                buffer = next((each for each in self._buffers if _drive(each) >= required), self._buffers[-1])
                (source,), (result,) = buffer.inputs, buffer.outputs
                cells.append(GateCell(path=path, kind=buffer.name, pins={source: net, result: nets}))
                positions.append((at[group].mean(axis=0) / unit)[None])
                for pin in group:
                    sink = int(pins.places[pin])
                    if sink < len(self._gates.cells):
                        cells[sink] = replace(cells[sink], pins={**cells[sink].pins, pins.names[pin]: nets})
                    else:
                        name, bit = bits[sink - len(self._gates.cells)][:2]
                        ports[name][1][bit] = nets
                self._origins.append(self._origins[net])
                nets += 1
        self._gates = replace(self._gates, cells=cells, ports=ports, nets=nets)
        spots = np.rint(np.concatenate(positions)).astype(np.int64)
        floor = self._placed.floor
        added = len(cells) - len(self._placed.widths)
        rows = np.clip(spots[:, 1], 0, floor.rows - 1)
        orientations = np.concatenate([self._placed.orientations, (rows[len(rows) - added :] % 2).astype(np.int8)])
        self._placed = replace(
            self._placed,
            widths=self._widths(cells),
            columns=np.clip(spots[:, 0], 0, floor.sites - 1),
            rows=rows,
            orientations=orientations,
        )

    def grown(self, before: GateNetlist, placed: Placed) -> Grown:
        """Return a placed netlist with grown cells."""
        return Grown(
            gates=self._gates,
            origins=np.array(self._origins),
            near=self._placed,
            sites_before=int(placed.widths.sum()),
            stronger=sum(new.kind != old.kind for new, old in zip(self._gates.cells, before.cells, strict=False)),
            buffers=len(self._gates.cells) - len(before.cells),
        )

    def _widths(self, cells: Sequence[GateCell]) -> NDArray[np.int64]:
        return np.array([self._lef.cells[cell.kind].sites for cell in cells], np.int64)

    def _measure(self) -> tuple[PinTable, NDArray[np.float64], NDArray[np.float64]]:
        pins = pin_table(self._gates, self._library, self._lef)
        at = self._placed.pins_um(pins)
        return pins, at, np.where(pins.counts > 1, pins.loads_ff + wires(pins, at, self._load).ff, 0.0)

    def _group_load(self, pins: PinTable, at: NDArray[np.float64], group: NDArray[np.int64]) -> float:
        """Return the load of a buffer in the middle of some pins, in femtofarads."""
        half = float((at[group].max(axis=0) - at[group].min(axis=0)).sum())
        factor = float(length_factors(np.array([len(group) + 1]))[0])
        return half * factor * self._load.ff_per_um + float(pins.loads[group].sum())

    def _groups(self, pins: PinTable, at: NDArray[np.float64], group: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yield groups of pins, split across their longer side until one buffer can drive each group."""
        max_load = MAX_BUFFER_LOAD * _drive(self._buffers[-1]) * LOAD_SHARE
        if len(group) == 1 or self._group_load(pins, at, group) <= max_load:
            yield group
            return
        side = int(np.argmax(at[group].max(axis=0) - at[group].min(axis=0)))
        order = group[np.argsort(at[group, side], kind="stable")]
        for half in (order[: len(order) // 2], order[len(order) // 2 :]):
            yield from self._groups(pins, at, half)


def _drivers(pins: PinTable, loads: NDArray[np.float64], cells: int) -> Iterator[tuple[int, int]]:
    """Yield (net, driving cell) of every net with a load, except clocks."""
    counted: Mapping[int, int] = {
        int(net): int(index)
        for net, index in zip(pins.nets[pins.drives], pins.places[pins.drives], strict=True)
        if index < cells
    }
    for net in np.flatnonzero((loads > 0) & ~pins.clocks).tolist():
        if net in counted:
            yield net, counted[net]
