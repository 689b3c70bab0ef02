"""Bursts: how requests are split into bursts, for reads and writes."""

from amaranth.hdl import Module, Mux, Signal, Value

from ..configuration.parameters import require_int
from .axi import PAGE, PAGE_BITS

__all__ = ["next_burst", "require_bursts", "within_bounds"]


def require_bursts(data_bits: int, address_bits: int, count_bits: int, burst: int) -> int:
    """Check a bus, the bits of a request's count, and the longest burst.

    Returns
    -------
    int
        Bits of an address below a beat.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.
    """
    require_int("data_bits", data_bits, 8, 1024)
    require_int("address_bits", address_bits, 13, 64)
    require_int("count_bits", count_bits, 1, 32)
    require_int("burst", burst, 1, min(256, PAGE * 8 // data_bits))
    if burst & (burst - 1):
        raise ValueError(f"burst must be a power of two, not {burst}")
    return (data_bits // 8).bit_length() - 1


def next_burst(m: Module, beat: Signal, left: Signal, burst: int) -> tuple[Signal, Signal]:
    """Compute the length of the burst that begins at a beat, and whether it is the request's last.

    A burst ends where the address is a multiple of the longest burst.
    """
    to_edge = Signal(9)
    closes = Signal()
    length = Signal(9)
    m.d.comb += [
        to_edge.eq(burst - beat[: burst.bit_length() - 1]),
        closes.eq(left <= to_edge),
        length.eq(Mux(closes, left, to_edge)),
    ]
    return length, closes


def within_bounds(bounds, beat: Value, skipped: int) -> Value:
    """Return whether a burst that begins at a beat lies within the bounds. No burst crosses a page.

    Parameters
    ----------
    bounds : view of bounds_layout
        The bounds.
    beat : Value
        As in `request_layout`.
    skipped : int
        Bits of an address below a beat.
    """
    page = beat[PAGE_BITS - skipped :]
    return (page >= bounds.base) & (page <= bounds.limit)
