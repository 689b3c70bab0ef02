"""Where a bench's memory lies, so that no bit of an address is always the same."""

from random import Random
from typing import Any

__all__ = ["LOW_BITS", "across", "far", "strides_across"]

LOW_BITS = 16


def far(address_bits: int, seed: int, other: bool) -> int:
    """Return a multiple of 2^16; with `other` the one whose bits above these are all different.

    >>> hex(far(32, 1, False) ^ far(32, 1, True))
    '0xffff0000'
    """
    bits = address_bits - LOW_BITS
    high = Random(f"{seed} far").getrandbits(bits)
    return (high ^ ((1 << bits) - 1 if other else 0)) << LOW_BITS


def across(address_bits: int, offset: int) -> int:
    """Return a base from which an offset is 4 GiB, or the middle of all addresses if there are no more than 4 GiB.

    >>> hex(across(40, 0x4000) + 0x4000), hex(across(32, 0x4000) + 0x4000)
    ('0x100000000', '0x80000000')
    """
    return (1 << min(32, address_bits - 1)) - offset


def strides_across(middle: int, size: int) -> list[dict[str, Any]]:
    """Return fields of moves whose two runs lie on both sides of an address: a move for each loop and direction.

    >>> strides_across(0x1000, 32)[0]
    {'memory': 4064, 'address': 1, 'count_1': 2, 'stride_1': 2}
    """
    return [
        {"memory": middle - way * size, "address": loop, f"count_{loop}": 2, f"stride_{loop}": 2 * way}
        for loop in (1, 2, 3)
        for way in (1, -1)
    ]
