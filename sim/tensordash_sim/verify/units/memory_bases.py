"""Choose base addresses of a bench's memory, so that every bit of an address takes both values."""

from random import Random
from typing import Any

__all__ = ["LOW_BITS", "base_before_boundary", "draw_base", "runs_across"]

LOW_BITS = 16


def draw_base(address_bits: int, seed: int, inverted: bool) -> int:
    """Draw a multiple of 2^16; with `inverted`, invert all its upper bits.

    >>> hex(draw_base(32, 1, False) ^ draw_base(32, 1, True))
    '0xffff0000'
    """
    bits = address_bits - LOW_BITS
    high = Random(f"{seed} far").getrandbits(bits)
    return (high ^ ((1 << bits) - 1 if inverted else 0)) << LOW_BITS


def base_before_boundary(address_bits: int, offset: int) -> int:
    """Return the base at which an offset has the address 4 GiB, or half the address space if that is 4 GiB or less.

    >>> hex(base_before_boundary(40, 0x4000) + 0x4000), hex(base_before_boundary(32, 0x4000) + 0x4000)
    ('0x100000000', '0x80000000')
    """
    return (1 << min(32, address_bits - 1)) - offset


def runs_across(middle: int, size: int) -> list[dict[str, Any]]:
    """Return fields of moves with a run on either side of an address: a move for each loop and direction.

    >>> runs_across(0x1000, 32)[0]
    {'memory': 4064, 'address': 1, 'count_1': 2, 'stride_1': 2}
    """
    return [
        {"memory": middle - sign * size, "address": loop, f"count_{loop}": 2, f"stride_{loop}": 2 * sign}
        for loop in (1, 2, 3)
        for sign in (1, -1)
    ]
