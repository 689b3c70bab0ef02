"""Wires of a placed netlist: capacitance and resistance of each net from half its perimeter, for OpenSTA."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .liberty import Liberty, LibertyError
from .pins import PinTable

__all__ = ["NO_WIRE", "WireLoad", "Wires", "annotations", "length_factors", "wire_load", "wires"]

# Length of the shortest tree of a net over half its perimeter, by its pins: means over random places.
FACTOR_PINS = (3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 35, 40, 45, 50)
FACTORS_TO_10 = (1.0, 1.0828, 1.1536, 1.2206, 1.2823, 1.3385, 1.3991, 1.4493)
FACTORS = (*FACTORS_TO_10, 1.6899, 1.8924, 2.0743, 2.2334, 2.3895, 2.5356, 2.6625, 2.7933)
OHMS = {"ohm": 1.0, "kohm": 1e3, "mohm": 1e6}


@dataclass(frozen=True, kw_only=True)
class WireLoad:
    """A micrometre of wire.

    Parameters
    ----------
    ff_per_um : float
        Capacitance in femtofarads.
    ohm_per_um : float
        Resistance in ohms.
    """

    ff_per_um: float
    ohm_per_um: float


NO_WIRE = WireLoad(ff_per_um=0.0, ohm_per_um=0.0)


@dataclass(frozen=True, kw_only=True)
class Wires:
    """Wires of a placement.

    Parameters
    ----------
    load : WireLoad
        Parameters of a micrometre of wire.
    half_um : array of float (nets,)
        Half the perimeter of the rectangle around each net's pins, in micrometres.
    length_um : array of float (nets,)
        Length of its wire.
    """

    load: WireLoad
    half_um: NDArray[np.float64]
    length_um: NDArray[np.float64]

    @property
    def ff(self) -> NDArray[np.float64]:
        """Capacitance of each net's wire in femtofarads."""
        return self.length_um * self.load.ff_per_um


def wire_load(library: Liberty) -> WireLoad:
    """Return the parameters of a micrometre of wire from the library's default wire load, or from its first one.

    For Nangate 45 that is 0.177 fF and 3.57 ohm, the resistance of metal 2 and 3 at their least width. Wires on
    higher metals have less.

    Raises
    ------
    LibertyError
        If the library has no wire load, or one without a capacitance.

    Source: Liberty Reference Manual: wire_load, default_wire_load.
    """
    text = library.path.read_text(encoding="utf-8")
    default = re.search(r'\bdefault_wire_load\s*:\s*"?([^";\s]+)', text)
    name = re.escape(default[1]) if default else r"[^\")]+"
    found = re.search(rf'\bwire_load\s*\(\s*"?{name}"?\s*\)\s*\{{(.*?)\}}', text, re.DOTALL)
    units = re.search(r'\bpulling_resistance_unit\s*:\s*"?\s*1\s*(\w+)', text)
    farads = re.search(r'\bcapacitive_load_unit\s*\(\s*"?([\d.eE+-]+)"?\s*,\s*"?(\w+)', text)
    if found is None or farads is None:
        raise LibertyError(f"{library.path}: no wire_load, which gives a wire's capacitance and resistance")
    ohms = OHMS.get(units[1].lower(), 1e3) if units else 1e3
    femto = float(farads[1]) * {"ff": 1.0, "pf": 1e3}.get(farads[2].lower(), 1e3)
    per_um = {
        name: float(value[1]) if (value := re.search(rf"\b{name}\s*:\s*([\d.eE+-]+)", found[1])) else 0.0
        for name in ("capacitance", "resistance")
    }
    if not per_um["capacitance"] > 0:
        raise LibertyError(f"{library.path}: its wire_load has no capacitance")
    return WireLoad(ff_per_um=per_um["capacitance"] * femto, ohm_per_um=per_um["resistance"] * ohms)


def length_factors(pins: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the length of a net's wire over half its perimeter, by its number of pins.

    Beyond 50 pins, the length grows with the square root of the number of pins, like the shortest tree of evenly spread
    points.

    Source: C. E. Cheng, "RISA: accurate and efficient placement routability modeling", ICCAD 1994, table 1.

    >>> length_factors(np.array([2, 3, 10, 200])).tolist()
    [1.0, 1.0, 1.4493, 5.5866]
    """
    beyond = np.sqrt(np.maximum(pins, FACTOR_PINS[-1]) / FACTOR_PINS[-1])
    return np.interp(pins, FACTOR_PINS, FACTORS) * beyond


def wires(pins: PinTable, at: NDArray[np.float64], load: WireLoad) -> Wires:
    """Return the wires of all nets from the places of pins, (pins, 2) in micrometres."""
    half = pins.half_perimeters(at)
    return Wires(load=load, half_um=half, length_um=half * length_factors(pins.counts))


def annotations(
    pins: PinTable, at: NDArray[np.float64], found: Wires, cells: int, inputs: str = "i{}", outputs: bool = True
) -> str:
    """Return commands that give OpenSTA the wires of all nets except clocks.

    The load of a driver is a pi model: half of the wire, its resistance over half the perimeter, and the other half
    with the inputs. The Elmore delay of an input at distance d is r d (half of the net's capacitance, plus half of the
    input's own). The model is exact for two pins. For more pins, it assumes that the other inputs lie along the wire.

    Parameters
    ----------
    pins : PinTable
        Pins of the netlist.
    at : array of float (pins, 2)
        Places of the pins in micrometres.
    found : Wires
        Wires of the nets.
    cells : int
        Number of cells, whose names are g0, g1, ....
    inputs : str
        Pin that drives an input of the design, by its net.
    outputs : bool
        Whether the design's outputs have a load.
    """
    lines = []
    at_cell = pins.places < cells
    loads = np.bincount(pins.nets, np.where(at_cell | outputs, pins.loads, 0.0), len(pins.clocks))
    wire = found.ff
    ohms = 1e-3 * found.load.ohm_per_um  # kiloohms: with femtofarads, picoseconds
    for net in np.flatnonzero((pins.counts > 1) & ~pins.clocks).tolist():
        net_pins = range(pins.starts[net], pins.starts[net + 1])
        drivers = [pin for pin in net_pins if pins.drives[pin]]
        if len(drivers) != 1:
            continue
        name = _name(pins, drivers[0]) if at_cell[drivers[0]] else inputs.format(net)
        near, far = wire[net] / 2, wire[net] / 2 + loads[net]
        lines.append(f"::sta::set_pi_model {name} {near:.5g} {ohms * found.half_um[net]:.5g} {far:.5g}")
        for pin in net_pins:
            if pin != drivers[0] and at_cell[pin]:
                distance = float(np.abs(at[pin] - at[drivers[0]]).sum())
                load = (wire[net] + loads[net] + pins.loads[pin]) / 2
                delay = 1e-3 * ohms * distance * load
                lines.append(f"::sta::set_elmore {name} {_name(pins, pin)} {delay:.5g}")
    return "\n".join([*lines, ""])


def _name(pins: PinTable, pin: int) -> str:
    return f"g{pins.places[pin]}/{pins.names[pin]}"
