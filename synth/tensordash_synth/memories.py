"""Costs of a core's memory from two sources, which bound a range: CACTI, and published macros."""

from collections.abc import Mapping
from dataclasses import dataclass

from .cacti import Array, cacti_array

__all__ = ["MACROS", "MIN_PART_BITS", "PARTS", "SOURCES", "Macro", "MemoryCost", "memory_costs", "side_by_side"]

SOURCES = ("cacti", "macros")
PARTS = (1, 2, 4, 8)
"""Numbers of memories side by side that CACTI models."""
MIN_PART_BITS = 32
"""Smallest width of one of these memories."""


@dataclass(frozen=True, kw_only=True)
class Macro:
    """A memory with one port, with the figures of its Liberty file.

    Parameters
    ----------
    words, bits : int
        Its shape.
    area_um2 : float
        Area.
    access_pj : float
        Energy of an access. The file has it for both edges of the clock; it is counted once.
    leakage_mw : float
        Power at rest.
    access_ns : float
        Time from the clock to the read data.
    """

    words: int
    bits: int
    area_um2: float
    access_pj: float
    leakage_mw: float
    access_ns: float


MACROS = (
    Macro(words=64, bits=124, area_um2=9812.208, access_pj=5.492, leakage_mw=0.415087, access_ns=0.238),
    Macro(words=256, bits=96, area_um2=13701.660, access_pj=5.75655, leakage_mw=0.697753, access_ns=0.292),
    Macro(words=512, bits=64, area_um2=17301.438, access_pj=5.30043, leakage_mw=0.823237, access_ns=0.305),
    Macro(words=128, bits=256, area_um2=23378.740, access_pj=15.6914, leakage_mw=1.02389, access_ns=0.302),
)
"""Macros of fakeram45 for Nangate 45, in OpenROAD-flow-scripts (flow/platforms/nangate45/lib)."""


@dataclass(frozen=True, kw_only=True)
class MemoryCost:
    """A memory with one port to read and one to write, or one for both.

    Parameters
    ----------
    built : str
        The modelled memory: its shape, rounded up if necessary, or macros side by side.
    area_um2 : float
        Area in square micrometres.
    read_pj, write_pj : float
        Energy of an access, in picojoules.
    leakage_mw : float
        Power at rest, in milliwatts.
    access_ns : float
        Time from the clock to the read data, in nanoseconds.
    """

    built: str
    area_um2: float
    read_pj: float
    write_pj: float
    leakage_mw: float
    access_ns: float


def memory_costs(words: int, bits: int, ports: int = 2) -> Mapping[str, MemoryCost]:
    """Return the costs of a memory by each of `SOURCES`.

    CACTI models the memory in one piece, and as 2, 4 and 8 equal pieces side by side that are read and written
    together. The smallest result counts, because CACTI's wide memories are larger and take more energy. The other
    source puts equal macros side by side until they are wide and deep enough, and uses the macro with the least total
    area. Macros have one port. The cost of a second port in area, energy, leakage and time is CACTI's ratio for the
    same shape in one piece.

    Parameters
    ----------
    words, bits : int
        Its shape.
    ports : int
        2, one to read and one to write; or 1 for both.

    Raises
    ------
    CactiError
        As in `cacti_array`.
    """
    one_port, all_ports = _array(words, bits, 1), _array(words, bits, ports)
    cacti = min((side_by_side(words, bits, ports, parts) for parts in _parts(bits)), key=lambda each: each.area_um2)
    macro = min(MACROS, key=lambda each: each.area_um2 * _wide(each, bits) * _deep(each, words))
    wide, deep = _wide(macro, bits), _deep(macro, words)
    macros = MemoryCost(
        built=f"{wide * deep} of {macro.words}x{macro.bits}",
        area_um2=macro.area_um2 * wide * deep * all_ports.area_um2 / one_port.area_um2,
        read_pj=macro.access_pj * wide * all_ports.read_pj / one_port.read_pj,
        write_pj=macro.access_pj * wide * all_ports.write_pj / one_port.write_pj,
        leakage_mw=macro.leakage_mw * wide * deep * all_ports.leakage_mw / one_port.leakage_mw,
        access_ns=macro.access_ns * all_ports.access_ns / one_port.access_ns,
    )
    return dict(zip(SOURCES, (cacti, macros), strict=True))


def side_by_side(words: int, bits: int, ports: int, parts: int) -> MemoryCost:
    """Return CACTI's costs of a memory in equal parts side by side, which are read and written as one.

    Parameters
    ----------
    words, bits : int
        Shape of the memory.
    ports : int
        As in `memory_costs`.
    parts : int
        Number of parts.

    Raises
    ------
    CactiError
        As in `cacti_array`.
    """
    part = _array(words, -(-bits // parts), ports)
    return MemoryCost(
        built=f"{parts} of {part.words}x{part.bits}",
        area_um2=parts * part.area_um2,
        read_pj=parts * part.read_pj,
        write_pj=parts * part.write_pj,
        leakage_mw=parts * part.leakage_mw,
        access_ns=part.access_ns,
    )


def _array(words: int, bits: int, ports: int) -> Array:
    return cacti_array(words, bits, ports=(0, 1, 1) if ports == 2 else (1, 0, 0))


def _parts(bits: int) -> list[int]:
    return [parts for parts in PARTS if parts == 1 or bits >= parts * MIN_PART_BITS]


def _wide(macro: Macro, bits: int) -> int:
    return -(-bits // macro.bits)


def _deep(macro: Macro, words: int) -> int:
    return -(-words // macro.words)
