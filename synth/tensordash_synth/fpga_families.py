"""FPGA families: Yosys' commands, the resources of cells, and parts for placement."""

import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensordash import ConfigError

__all__ = ["FAMILIES", "FULL", "RESOURCES", "DeviceError", "Family", "Part"]

RESOURCES = {"lut": "LUTs", "ff": "flip-flops", "dsp": "multipliers", "bram": "block memories"}
"""Counted resources and their names."""
FULL = 0.8
"""Largest share of a part's LUTs that a design may fill if the user has not chosen the part."""


class DeviceError(ConfigError):
    """A part is unknown, or a design does not fit on it."""


@dataclass(frozen=True)
class Part:
    """A part of a family.

    Parameters
    ----------
    arguments : tuple of str
        Arguments of nextpnr that select the part, its package and its speed grade.
    holds : dict of str to int
        Number of each of `RESOURCES` on the part.
    pins : str
        Constraints that place the three pins of the shell, if the family's nextpnr requires them.
    """

    arguments: tuple[str, ...]
    holds: Mapping[str, int]
    pins: str = ""

    def lacks(self, needs: Mapping[str, int], full: float = 1.0) -> list[str]:
        """Return the resources that the design needs more of than the part has. `full` is the usable share of LUTs."""
        return [name for name in RESOURCES if needs[name] > self.holds[name] * (full if name == "lut" else 1.0)]


@dataclass(frozen=True)
class Family:
    """A family of FPGAs.

    Parameters
    ----------
    synth : str
        Yosys' command, without the top.
    pads : str
        Yosys' command that puts a pad on each pin, if the family's nextpnr does not.
    carry : tuple of str
        Cell of a carry chain, its carry input, and the cells of constants, if the family's nextpnr requires an open
        carry input on the first cell. Yosys connects a constant that has no effect (YosysHQ/yosys, "CCU2 cells get the
        low order CIN connected to constant 1'b0").
    cells : dict of str to (str, int)
        Resource and number of each cell, by the beginning of its name; the longest match counts.
    package, program : str
        The package on PyPI with the family's nextpnr, and its function.
    pins : tuple of str
        Argument of nextpnr before the name of a file with pins.
    parts : dict of str to Part
        Parts by name, the smallest first.
    dsp : str
        The unit of "dsp".
    """

    synth: str
    cells: Mapping[str, tuple[str, int]]
    package: str
    program: str
    parts: Mapping[str, Part]
    dsp: str
    pads: str = ""
    carry: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()

    def count(self, cells: Mapping[str, int]) -> Counter[str]:
        """Return the number of each of `RESOURCES` that cells take; `cells` has the number of each cell by name."""
        counts: Counter[str] = Counter(dict.fromkeys(RESOURCES, 0))
        for cell, number in cells.items():
            if fitting := [start for start in self.cells if cell.startswith(start)]:
                resource, each = self.cells[max(fitting, key=len)]
                counts[resource] += each * number
        return counts


def _family(fields: dict[str, Any]) -> Family:
    parts = {
        name: Part(tuple(part["arguments"].split()), part["holds"], part.get("pins", ""))
        for name, part in fields.pop("parts").items()
    }
    cells = {cell: (resource, number) for cell, (resource, number) in fields.pop("cells").items()}
    carry, pins = (tuple(fields.pop(name, ())) for name in ("carry", "pins"))
    return Family(parts=parts, cells=cells, carry=carry, pins=pins, **fields)


FAMILIES = {
    name: _family(fields)
    for name, fields in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
