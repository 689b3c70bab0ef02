"""Bounds of addresses at a unit's pins."""

from random import Random

from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.axi_memory import PAGE
from tensordash_sim.verify.pins import PinsLike

__all__ = ["PAGE", "bounds_value", "is_inside", "random_bounds", "random_request", "require_inside"]


def bounds_value(address_bits: int, base: int = 0, limit: int | None = None) -> int:
    """Return the value of the pins `bounds` for a lowest and a highest address; every address by default.

    >>> hex(bounds_value(32, 0x1000, 0x2FFF))
    '0x400001'
    """
    limit = (1 << address_bits) - 1 if limit is None else limit
    return base // PAGE | limit // PAGE << (address_bits - PAGE.bit_length() + 2)


def random_bounds(random: Random, content: Memory) -> tuple[int, int]:
    """Return a lowest and a highest address around some pages of a memory."""
    pages = len(content.bytes) // PAGE
    first = random.randrange(pages)
    base = content.base // PAGE * PAGE
    return base + PAGE * first, base + PAGE * random.randint(first + 1, pages) - 1


def is_inside(bounds: tuple[int, int], address: int) -> bool:
    """Return whether the page of an address is within bounds."""
    return bounds[0] <= address <= bounds[1]


def require_inside(pins: PinsLike, bounds: tuple[int, int], *channels: str) -> None:
    """Fail if an address that is offered on one of these channels is outside.

    Raises
    ------
    AssertionError
        With the address.
    """
    for channel in channels:
        if pins.read(f"axi_{channel}valid"):
            address = pins.read(f"axi_{channel}addr")
            assert is_inside(bounds, address), f"cycle {pins.cycle}: {channel}addr is {address:#x}, outside of {bounds}"


def random_request(random: Random, bounds: tuple[int, int], content: Memory, size: int, address_bits: int) -> range:
    """Beats of a request: inside, or near an end of the bounds, the memory, or all addresses.

    Parameters
    ----------
    random : Random
        Decides everything.
    bounds : (int, int)
        The lowest and the highest address.
    content : Memory
        The memory.
    size : int
        Bytes of a beat.
    address_bits : int
        Of the bus.
    """
    low, end = bounds[0] // size, (bounds[1] + 1) // size
    count = random.choice([1, 2, random.randint(1, 40), random.randint(1, PAGE // size + 9)])
    if count < end - low and random.random() < 0.7:
        first = random.choice([low, end - count, random.randint(low, end - count)])
    else:
        above_all = (1 << address_bits) // size + random.randrange(9)
        near = [max(0, low - random.randint(0, 2)), end - random.randint(0, count), above_all]
        first = random.choice([*near, content.base // size + random.randrange(len(content.bytes) // size)])
    return range(first, first + count)
