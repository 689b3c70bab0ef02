"""Bounds of addresses at a unit's pins."""

from random import Random

from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.axi_memory import PAGE
from tensordash_sim.verify.pins import PinsLike

__all__ = ["PAGE", "bounds_value", "is_inside", "random_bounds", "random_request", "require_inside"]


def bounds_value(address_bits: int, base: int = 0, limit: int | None = None) -> int:
    """Return the value of the pins `bounds` for a lowest and a highest address; by default, all addresses.

    >>> hex(bounds_value(32, 0x1000, 0x2FFF))
    '0x400001'
    """
    limit = (1 << address_bits) - 1 if limit is None else limit
    return base // PAGE | limit // PAGE << (address_bits - PAGE.bit_length() + 2)


def random_bounds(random: Random, content: Memory) -> tuple[int, int]:
    """Return the lowest and the highest address of a random run of a memory's pages."""
    pages = len(content.bytes) // PAGE
    first = random.randrange(pages)
    base = content.base // PAGE * PAGE
    return base + PAGE * first, base + PAGE * random.randint(first + 1, pages) - 1


def is_inside(bounds: tuple[int, int], address: int) -> bool:
    """Return whether an address is within bounds."""
    return bounds[0] <= address <= bounds[1]


def require_inside(pins: PinsLike, bounds: tuple[int, int], *channels: str) -> None:
    """Check that the addresses offered on these channels are within bounds.

    Raises
    ------
    AssertionError
        If one is outside; the message has the address.
    """
    for channel in channels:
        if pins.read(f"axi_{channel}valid"):
            address = pins.read(f"axi_{channel}addr")
            assert is_inside(bounds, address), f"cycle {pins.cycle}: {channel}addr is {address:#x}, outside of {bounds}"


def random_request(random: Random, bounds: tuple[int, int], content: Memory, size: int, address_bits: int) -> range:
    """Return the beats of a request: inside the bounds, near their ends, anywhere in memory, or above all addresses.

    Parameters
    ----------
    random : Random
        Source of all random decisions.
    bounds : (int, int)
        The lowest and the highest address.
    content : Memory
        The memory.
    size : int
        Bytes of a beat.
    address_bits : int
        Address bits of the bus.
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
