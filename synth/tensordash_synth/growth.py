"""Cells that grow with their wires: stronger drivers, and buffers in front of what no driver is strong enough for."""

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

LOAD_SHARE = 0.35  # of the load that a cell may drive at most by its library: what it drives here
PASSES = 2  # inputs of cells that have grown are larger, too
MAX_BUFFER_LOAD = 0.5  # Load of a group of pins, as a share of what the strongest buffer may drive.


@dataclass(frozen=True, kw_only=True)
class Grown:
    """A netlist with stronger cells and more buffers.

    Parameters
    ----------
    gates : GateNetlist
        The netlist; what is simulated in it is what it was grown from, and its first cells are that one's.
    origins : array of int (nets,)
        For every net, the one of which it has the values.
    near : Placed
        Where its cells were, and those where buffers would best be; not legal.
    sites_before : int
        Sites of all cells before.
    stronger, buffers : int
        How many cells were exchanged and added.
    """

    gates: GateNetlist
    origins: NDArray[np.int64]
    near: Placed
    sites_before: int
    stronger: int
    buffers: int


def ladders(library: Liberty, lef: Lef) -> dict[str, list[Cell]]:
    """For every cell those that do the same, itself among them, the weakest first, and of equal ones the smallest."""
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


def grow(
    gates: GateNetlist, library: Liberty, lef: Lef, placed: Placed, load: WireLoad, share: float = LOAD_SHARE
) -> Grown:
    """Have every driver drive no more than a share of the most that its library allows.

    A driver becomes the smallest cell of its kind that may; where none may, its pins are split into groups that lie
    together, with a buffer each. Clocks are left alone.

    Parameters
    ----------
    gates : GateNetlist
        A mapped netlist.
    library, lef : Liberty, Lef
        Its cells.
    placed : Placed
        Where they are.
    load : WireLoad
        What a micrometre of wire is.
    share : float
        The share, above 0, at most 1.

    Raises
    ------
    LibertyError
        If the library has no buffer with a maximum load.
    """
    growth = _Growth(gates, library, lef, placed, load, share)
    for _ in range(PASSES):
        growth.strengthen()
    growth.add_buffers()
    growth.strengthen()
    return growth.grown(gates, placed)


class _Growth:
    """A netlist that is being changed."""

    def __init__(
        self, gates: GateNetlist, library: Liberty, lef: Lef, placed: Placed, load: WireLoad, share: float
    ) -> None:
        self._library, self._lef, self._load, self._share = library, lef, load, share
        self._ladders = ladders(library, lef)
        self._cells = {cell.name: cell for cell in library.cells}
        driving = library.driving_cell
        if driving.truth_table() != "01" or driving.name not in self._ladders:
            raise LibertyError(f"{library.path}: no buffer with a largest load (max_capacitance)")
        self._buffers = self._ladders[driving.name]
        self._gates, self._placed = gates, placed
        self._origins = list(range(gates.nets))

    def strengthen(self) -> None:
        """Exchange every driver that drives too much for the smallest that may, or the strongest."""
        pins, _, loads = self._measured()
        cells = list(self._gates.cells)
        for net, driver in _drivers(pins, loads, len(cells)):
            cell = cells[driver]
            ladder = self._ladders.get(cell.kind, [])
            if _drive(self._cells[cell.kind]) * self._share >= loads[net] or not ladder:
                continue
            best = next((each for each in ladder if _drive(each) * self._share >= loads[net]), ladder[-1])
            if _drive(best) > _drive(self._cells[cell.kind]):
                cells[driver] = replace(cell, kind=best.name)
        self._gates = replace(self._gates, cells=cells)
        self._placed = replace(self._placed, widths=self._widths(cells))

    def add_buffers(self) -> None:
        """Give groups of pins a buffer each where the strongest driver drives too much."""
        pins, at, loads = self._measured()
        cells = list(self._gates.cells)
        ports = {name: (way, nets.copy()) for name, (way, nets) in self._gates.ports.items()}
        bits = port_bits(self._gates)
        places = [np.stack([self._placed.columns, self._placed.rows], axis=1).astype(float)]
        nets = self._gates.nets
        unit = np.array([self._placed.floor.site_um, self._placed.floor.row_um])
        for net in np.flatnonzero((loads > 0) & ~pins.clocks).tolist():
            here = np.arange(pins.starts[net], pins.starts[net + 1])
            driver = here[pins.drives[here]]
            if len(driver) != 1 or len(here) < 2:
                continue
            place = int(pins.places[driver[0]])
            kind = cells[place].kind if place < len(self._gates.cells) else self._buffers[0].name
            if _drive(self._cells[kind]) * self._share >= loads[net]:
                continue
            path = cells[place].path if place < len(self._gates.cells) else ()
            for group in self._groups(pins, at, here[~pins.drives[here]]):
                need = self._group_load(pins, at, group) / self._share
                buffer = next((each for each in self._buffers if _drive(each) >= need), self._buffers[-1])
                (source,), (result,) = buffer.inputs, buffer.outputs
                cells.append(GateCell(path=path, kind=buffer.name, pins={source: net, result: nets}))
                places.append((at[group].mean(axis=0) / unit)[None])
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
        spots = np.rint(np.concatenate(places)).astype(np.int64)
        floor = self._placed.floor
        added = len(cells) - len(self._placed.widths)
        rows = np.clip(spots[:, 1], 0, floor.rows - 1)
        turned = np.concatenate([self._placed.orientations, (rows[len(rows) - added :] % 2).astype(np.int8)])
        self._placed = replace(
            self._placed,
            widths=self._widths(cells),
            columns=np.clip(spots[:, 0], 0, floor.sites - 1),
            rows=rows,
            orientations=turned,
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

    def _measured(self) -> tuple[PinTable, NDArray[np.float64], NDArray[np.float64]]:
        pins = pin_table(self._gates, self._library, self._lef)
        at = self._placed.pins_um(pins)
        return pins, at, np.where(pins.counts > 1, pins.loads_ff + wires(pins, at, self._load).ff, 0.0)

    def _group_load(self, pins: PinTable, at: NDArray[np.float64], group: NDArray[np.int64]) -> float:
        """Return the load of a buffer in the middle of some pins, in femtofarads."""
        half = float((at[group].max(axis=0) - at[group].min(axis=0)).sum())
        factor = float(length_factors(np.array([len(group) + 1]))[0])
        return half * factor * self._load.ff_per_um + float(pins.loads[group].sum())

    def _groups(self, pins: PinTable, at: NDArray[np.float64], group: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Pins split across their longer side until each group is for one buffer."""
        most = MAX_BUFFER_LOAD * _drive(self._buffers[-1]) * self._share
        if len(group) == 1 or self._group_load(pins, at, group) <= most:
            yield group
            return
        side = int(np.argmax(at[group].max(axis=0) - at[group].min(axis=0)))
        order = group[np.argsort(at[group, side], kind="stable")]
        for half in (order[: len(order) // 2], order[len(order) // 2 :]):
            yield from self._groups(pins, at, half)


def _drivers(pins: PinTable, loads: NDArray[np.float64], cells: int) -> Iterator[tuple[int, int]]:
    """(net, cell that drives it) of every net with a load, but for clocks."""
    counted: Mapping[int, int] = {
        int(net): int(place)
        for net, place in zip(pins.nets[pins.drives], pins.places[pins.drives], strict=True)
        if place < cells
    }
    for net in np.flatnonzero((loads > 0) & ~pins.clocks).tolist():
        if net in counted:
            yield net, counted[net]
