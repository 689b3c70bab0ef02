"""What a memory of a core costs, by two sources that stand for the ends of a range: CACTI, and published macros."""

from collections.abc import Mapping
from dataclasses import dataclass

from .cacti import Array, cacti_array

__all__ = ["MACROS", "MIN_PART_BITS", "PARTS", "SOURCES", "Macro", "MemoryCost", "memory_costs", "side_by_side"]

SOURCES = ("cacti", "macros")
PARTS = (1, 2, 4, 8)
"""Numbers of memories side by side to ask CACTI for."""
MIN_PART_BITS = 32
"""Width of the narrowest of them."""


@dataclass(frozen=True, kw_only=True)
class Macro:
    """A memory with one port as its Liberty file describes it.

    Parameters
    ----------
    words, bits : int
        Its shape.
    area_um2 : float
        Area.
    access_pj : float
        Energy of an access. The file gives it for either edge of the clock; it is counted once.
    leakage_mw : float
        At rest.
    access_ns : float
        From the clock to what is read.
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
"""Of fakeram45, in OpenROAD-flow-scripts (flow/platforms/nangate45/lib): figures for Nangate 45, without contents."""


@dataclass(frozen=True, kw_only=True)
class MemoryCost:
    """A memory with one port to read and one to write, or one for both.

    Parameters
    ----------
    built : str
        What it was taken for: its shape, rounded up where need be, or macros side by side.
    area_um2 : float
        Area in square micrometres.
    read_pj, write_pj : float
        Energy of an access, in picojoules.
    leakage_mw : float
        At rest, in milliwatts.
    access_ns : float
        From the clock to what is read, in nanoseconds.
    """

    built: str
    area_um2: float
    read_pj: float
    write_pj: float
    leakage_mw: float
    access_ns: float


def memory_costs(words: int, bits: int, ports: int = 2) -> Mapping[str, MemoryCost]:
    """Return a memory by each of `SOURCES`.

    CACTI is asked for it in one piece, and for 2, 4 and 8 equal ones side by side that are read and written together;
    the least area counts. (What it makes of one wide memory is larger than that, and takes more energy.) Macros are put
    side by side until they are as wide and as deep; of one kind, the one that takes the least area. They have one port:
    what a second one costs, in area, energy, leakage and time, is CACTI's for the same shape in one piece.

    Parameters
    ----------
    words, bits : int
        Its shape.
    ports : int
        2, one to read and one to write; or 1 for both.

    Raises
    ------
    CactiError
        As of `cacti_array`.
    """
    one, its = _array(words, bits, 1), _array(words, bits, ports)
    cacti = min((side_by_side(words, bits, ports, parts) for parts in _parts(bits)), key=lambda each: each.area_um2)
    macro = min(MACROS, key=lambda each: each.area_um2 * _wide(each, bits) * _deep(each, words))
    wide, deep = _wide(macro, bits), _deep(macro, words)
    macros = MemoryCost(
        built=f"{wide * deep} of {macro.words}x{macro.bits}",
        area_um2=macro.area_um2 * wide * deep * its.area_um2 / one.area_um2,
        read_pj=macro.access_pj * wide * its.read_pj / one.read_pj,
        write_pj=macro.access_pj * wide * its.write_pj / one.write_pj,
        leakage_mw=macro.leakage_mw * wide * deep * its.leakage_mw / one.leakage_mw,
        access_ns=macro.access_ns * its.access_ns / one.access_ns,
    )
    return dict(zip(SOURCES, (cacti, macros), strict=True))


def side_by_side(words: int, bits: int, ports: int, parts: int) -> MemoryCost:
    """Equal memories of CACTI's, as wide together; they are read and written as one.

    Parameters
    ----------
    words, bits : int
        Of all of them.
    ports : int
        As of `memory_costs`.
    parts : int
        How many.

    Raises
    ------
    CactiError
        As of `cacti_array`.
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
