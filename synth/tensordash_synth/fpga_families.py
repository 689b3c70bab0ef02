"""FPGA families: Yosys' commands for each, what its cells count as, and the parts that a design may be placed on."""

import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensordash import ConfigError

__all__ = ["FAMILIES", "FULL", "RESOURCES", "DeviceError", "Family", "Part"]

RESOURCES = {"lut": "LUTs", "ff": "flip-flops", "dsp": "multipliers", "bram": "block memories"}
"""What is counted, and its name in words."""
FULL = 0.8
"""A design may fill this much of a part's LUTs and still be placed without a part being asked for."""


class DeviceError(ConfigError):
    """A part is not known, or a design does not fit on it."""


@dataclass(frozen=True)
class Part:
    """A part of a family.

    Parameters
    ----------
    arguments : tuple of str
        Of nextpnr: they name it, its package and its speed grade.
    holds : dict of str to int
        How much of each of `RESOURCES` it has.
    pins : str
        Constraints that put the three pins of the shell somewhere, for a nextpnr that asks for it.
    """

    arguments: tuple[str, ...]
    holds: Mapping[str, int]
    pins: str = ""

    def lacks(self, needs: Mapping[str, int], full: float = 1.0) -> list[str]:
        """Resources of which it has too little; of its LUTs no more than the share `full` may be taken."""
        return [name for name in RESOURCES if needs[name] > self.holds[name] * (full if name == "lut" else 1.0)]


@dataclass(frozen=True)
class Family:
    """A family.

    Parameters
    ----------
    synth : str
        Yosys' command, without the top.
    pads : str
        Yosys' command that puts a pad on each pin, for a nextpnr that does not do so.
    carry : tuple of str
        Cell of a carry chain, its port for the carry that comes in, and the cells that give a constant: a nextpnr that
        wants the first one's port open. Yosys connects a constant that has no effect (YosysHQ/yosys, "CCU2 cells get
        the low order CIN connected to constant 1'b0").
    cells : dict of str to (str, int)
        What the name of a cell begins with: its resource, and their number. The longest that fits counts.
    package, program : str
        The package on PyPI whose nextpnr places it, and the function in there.
    pins : str
        What goes in front of the name of a file with pins, in the arguments of nextpnr.
    parts : dict of str to Part
        By name, the smallest first.
    dsp : str
        What is counted as one of "dsp".
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
        """Return how much of each of `RESOURCES` cells take, which are given by name with their numbers."""
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
