"""Pins of a flat netlist, net by net, with their offsets in cells, to measure a placement."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .gates import GateNetlist
from .lef import Lef, LefError
from .liberty import Liberty

__all__ = ["PinTable", "cell_sites", "pin_table", "port_bits"]

CONSTANTS = 2  # nets 0 and 1


@dataclass(frozen=True, kw_only=True)
class PinTable:
    """All pins of cells and all bits of ports on nets that are not constant, sorted by net.

    Parameters
    ----------
    nets : array of int (pins,)
        The net of each pin.
    places : array of int (pins,)
        Its cell, or the number of cells plus the number of the port bit.
    names : list of str
        Its name in its cell; "" for a port.
    offsets : array of float (pins, 2)
        Micrometres from the cell's lower left corner.
    loads : array of float (pins,)
        Capacitance of inputs in femtofarads, and the load of output ports; 0 for other pins.
    drives : array of bool (pins,)
        Whether the pin drives the net: an output of a cell, or an input of the design.
    clocks : array of bool (nets,)
        Nets of clocks. They do not attract cells, because there is no clock tree.
    ports : int
        Number of bits of ports.
    """

    nets: NDArray[np.int64]
    places: NDArray[np.int64]
    names: list[str]
    offsets: NDArray[np.float64]
    loads: NDArray[np.float64]
    drives: NDArray[np.bool_]
    clocks: NDArray[np.bool_]
    ports: int

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """First pin of each net, and the number of pins."""
        return np.searchsorted(self.nets, np.arange(len(self.clocks) + 1))

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of pins of each net."""
        return np.diff(self.starts)

    @cached_property
    def pulling(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Nets that attract cells, with two or more pins and no clock: (first pin of each net, all pins)."""
        pulls = (self.counts > 1) & ~self.clocks
        order = np.flatnonzero(pulls[self.nets])
        return np.concatenate([[0], np.cumsum(self.counts[pulls])]), order

    @cached_property
    def loads_ff(self) -> NDArray[np.float64]:
        """Capacitance of all pins on each net, in femtofarads."""
        return np.bincount(self.nets, self.loads, len(self.clocks)).astype(float)

    def half_perimeters(self, at: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return half the perimeter of the smallest rectangle around each net's pins, in um, from the pins' places."""
        lengths = np.zeros(len(self.clocks))
        some = np.flatnonzero(self.counts)
        begin = self.starts[:-1][some]
        if len(begin):
            lengths[some] = (np.maximum.reduceat(at, begin) - np.minimum.reduceat(at, begin)).sum(axis=1)
        return lengths


def cell_sites(gates: GateNetlist, lef: Lef) -> list[int]:
    """Return the width of every cell of a netlist, in sites.

    Raises
    ------
    LefError
        If a cell is not in the LEF files.
    """
    try:
        return [lef.cells[cell.kind].sites for cell in gates.cells]
    except KeyError as error:
        raise LefError(f"{', '.join(map(str, lef.paths))}: no cell {error.args[0]} of a row's height") from None


def pin_table(gates: GateNetlist, library: Liberty, lef: Lef) -> PinTable:
    """Collect the pins of a netlist.

    Parameters
    ----------
    gates : GateNetlist
        The netlist; the clock's port has no place.
    library : Liberty
        The library, with the inputs of its cells and their capacitances.
    lef : Lef
        Places of pins in the library's cells.

    Raises
    ------
    LefError
        If a pin is not in the LEF files.
    """
    inputs: Mapping[str, Mapping[str, float]] = {cell.name: cell.inputs for cell in library.cells}
    rows: list[tuple[int, int, str, float, float, float, bool]] = []
    for i, cell in enumerate(gates.cells):
        loads = inputs[cell.kind]
        for name, net in cell.pins.items():
            if net >= CONSTANTS:
                try:
                    x, y = lef.cells[cell.kind].pins[name]
                except KeyError:
                    words = f"no pin {name} of a cell {cell.kind} of a row's height"
                    raise LefError(f"{', '.join(map(str, lef.paths))}: {words}") from None
                rows.append((net, i, name, x, y, loads.get(name, 0.0), name not in loads))
    bits = port_bits(gates)
    load = library.output_load
    rows += [
        (net, len(gates.cells) + i, "", 0.0, 0.0, 0.0 if drives else load, drives)
        for i, (_, _, net, drives) in enumerate(bits)
    ]
    rows.sort(key=lambda row: row[0])
    nets, places, names, xs, ys, loads_, drives_ = (list(column) for column in zip(*rows, strict=True))
    clocks = np.zeros(gates.nets, np.bool_)
    clocks[[gates.clock, *gates.gated]] = True
    return PinTable(
        nets=np.array(nets, np.int64),
        places=np.array(places, np.int64),
        names=names,
        offsets=np.stack([xs, ys], axis=1).astype(float),
        loads=np.array(loads_, float),
        drives=np.array(drives_, np.bool_),
        clocks=clocks,
        ports=len(bits),
    )


def port_bits(gates: GateNetlist) -> list[tuple[str, int, int, bool]]:
    """Return the bits of ports that have a place, without clock and constants: (port, bit, net, is an input).

    Parameters
    ----------
    gates : GateNetlist
        The netlist.
    """
    return [
        (name, bit, int(net), direction == "input")
        for name, (direction, nets) in gates.ports.items()
        for bit, net in enumerate(nets)
        if net >= CONSTANTS and net != gates.clock
    ]
