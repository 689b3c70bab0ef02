"""Programs whose results are rounded stochastically, with a seed for each of their descriptors, or toward zero."""

from collections.abc import Callable, Sequence

from tensordash.configuration.descriptors import OPERATIONS, decode, encode

__all__ = ["mixed", "stochastic", "toward_zero"]


def mixed(seed: int) -> int:
    """32 bits that look like chance, another one for every seed of 32 bits.

    Source: docs/core.md, "Programs of layers"; the finalizer of A. Appleby's MurmurHash3 (public domain).

    Examples
    --------
    >>> hex(mixed(1)), hex(mixed(2))
    ('0x514e28b7', '0x30f4c306')
    """
    seed &= 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        seed = (seed ^ seed >> shift) * factor & 0xFFFFFFFF
    return seed


def stochastic(descriptors: Sequence[int], seed: int) -> list[int]:
    """A program with all results of the operand format rounded stochastically.

    Parameters
    ----------
    descriptors : sequence of int
        The program.
    seed : int
        32 bits. The k-th multiply, counted from 0, has the seed `mixed` (`seed` + k).

    Returns
    -------
    list of int

    Examples
    --------
    >>> from tensordash_sim.core.program import Program
    >>> program = Program()
    >>> _ = program.add("multiply", steps=4, a_streams=1, b_streams=1, emit=1, x_size=4)
    >>> decode(stochastic(program.descriptors, 1)[0])[1]["seed"] == mixed(1)
    True
    """
    return _rounded(descriptors, lambda k: {"stochastic": 1, "seed": mixed(seed + k)})


def toward_zero(descriptors: Sequence[int]) -> list[int]:
    """A program with all results of the operand format rounded toward zero.

    Examples
    --------
    >>> from tensordash_sim.core.program import Program
    >>> program = Program()
    >>> _ = program.add("multiply", steps=4, a_streams=1, b_streams=1, emit=1, x_size=4)
    >>> decode(toward_zero(program.descriptors)[0])[1]["toward_zero"]
    1
    """
    return _rounded(descriptors, lambda k: {"toward_zero": 1})


def _rounded(descriptors: Sequence[int], fields: Callable[[int], dict[str, int]]) -> list[int]:
    """A program whose k-th multiply, if it makes results of the operand format, has more fields."""
    made, multiplies = [], 0
    for bits in descriptors:
        operation, values = decode(bits)
        if operation is OPERATIONS["multiply"]:
            if values["emit"] and not values["fp32"]:
                bits = encode(operation, {**values, **fields(multiplies)})
            multiplies += 1
        made.append(bits)
    return made
