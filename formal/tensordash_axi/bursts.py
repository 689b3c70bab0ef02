"""Rules of one burst, and the byte lanes of each of its beats."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib.data import StructLayout, View

__all__ = ["FIXED", "INCR", "PAGE_BITS", "WRAP", "burst_layout", "burst_rules", "lanes"]

FIXED, INCR, WRAP = 0, 1, 2
PAGE_BITS = 12
"""Bits of an address within 4 KiB."""
MAX_EXCLUSIVE_BYTES = 128


def burst_layout(bus_bytes: int, id_bits: int) -> StructLayout:
    """Return the layout of a stored burst. `low` is the address modulo the bus width in bytes."""
    low = (bus_bytes - 1).bit_length()
    return StructLayout({"id": id_bits, "len": 8, "size": 3, "burst": 2, "lock": 1, "low": low})


def burst_rules(bus, channel: str, bus_bytes: int) -> dict[str, tuple[Value, Value]]:
    """Map each rule of an address channel to two conditions: the rule applies, and the rule holds.

    Source: ARM IHI 0022E, A3.4.1, A4.4 and A7.2.4.
    """
    addr, length, size, burst, lock, cache = (
        getattr(bus, f"{channel}{name}") for name in ("addr", "len", "size", "burst", "lock", "cache")
    )
    beats = length + 1
    in_page = (addr & (Const(-1, PAGE_BITS) << size))[:PAGE_BITS]
    total = (beats << size)[:16]
    short = (length == 1) | (length == 3) | (length == 7) | (length == 15)
    unaligned = addr & ((Const(1, len(addr)) << size) - 1)[: len(addr)]
    power = (beats & length) == 0
    return {
        "burst_type": (Const(1), burst != 3),
        "size": (Const(1), (Const(1, 8) << size) <= bus_bytes),
        "page": (burst == INCR, in_page + total <= 1 << PAGE_BITS),
        "wrap_length": (burst == WRAP, short),
        "wrap_aligned": (burst == WRAP, unaligned == 0),
        "fixed_length": (burst == FIXED, length <= 15),
        "exclusive_size": (lock, power & (length <= 15) & (total <= MAX_EXCLUSIVE_BYTES)),
        "exclusive_aligned": (lock, (addr & (total - 1)[:16]) == 0),
        "cache": (~cache[1], cache[2:] == 0),
    }


def lanes(m: Module, burst: View, beat: Signal, bus_bytes: int) -> Value:
    """Return the byte lanes that a beat of a burst transfers.

    Source: ARM IHI 0022E, A3.4.1 (equations of addresses) and A3.4.3.
    """
    if bus_bytes == 1:
        return Const(1, 1)
    bits = len(burst.low)
    width = Signal(bits + 1, name="beat_bytes")  # bytes of a beat
    inside = Signal(bits, name="below_beat")  # bits of an address below it
    wraps = Signal(bits, name="wrapping")  # bits of an address that a WRAP burst changes
    begin = Signal(bits, name="beat_address")
    first = Signal(bits, name="first_lane")
    going = burst.low + (beat << burst.size)[:bits]
    m.d.comb += [
        width.eq(1 << burst.size),
        inside.eq(width - 1),
        wraps.eq(((burst.len + 1) << burst.size) - 1),
    ]
    with m.Switch(burst.burst):
        with m.Case(FIXED):
            m.d.comb += begin.eq(burst.low)
        with m.Case(WRAP):
            m.d.comb += begin.eq((burst.low & ~wraps) | (going & wraps))
        with m.Default():
            m.d.comb += begin.eq(going)
    # The first beat starts at the address, later beats at multiples of their size.
    m.d.comb += first.eq(Mux((beat == 0) | (burst.burst == FIXED), begin, begin & ~inside))
    ones = Const((1 << bus_bytes) - 1, bus_bytes)
    end = Signal(bits + 1, name="lane_after")
    m.d.comb += end.eq((begin & ~inside) + width)
    return ((ones << first) & ~(ones << end))[:bus_bytes]
