"""Changes a program to round results stochastically or toward zero, or to multiply them by a power of two."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.descriptors import OPERATIONS, decode, encode
from tensordash.configuration.parameters import require_int

__all__ = ["MAX_SEED", "multiply_seeds", "scaled", "stochastic", "toward_zero"]

MAX_SEED = 2**32 - 1
ROUNDS = 32
Z0 = "11111010001001010110000111001101111101000100101011000011100110"
"""The constants of SIMON32/64's key schedule."""


def multiply_seeds(seed: int, operation: int, count: int, first: int = 0) -> NDArray[np.uint32]:
    """Return the seeds of an operation's multiplies: their numbers, encrypted with SIMON32/64.

    Parameters
    ----------
    seed, operation : int
        The key's lower and upper half: the user's seed, and the operation's number.
    count, first : int
        The number of multiplies, and the number of the first one.

    Raises
    ------
    ValueError
        If the seed or the operation does not have 32 bits.

    Source: docs/compiler.md, "Seeds"; Beaulieu et al., "The SIMON and SPECK Families of Lightweight Block
    Ciphers", 2013 (IACR ePrint 2013/404).

    Examples
    --------
    >>> [hex(seed) for seed in multiply_seeds(0, 0, 2)]
    ['0x5ae828ec', '0x463722f5']
    """
    require_int("seed", seed, 0, MAX_SEED)
    require_int("operation", operation, 0, MAX_SEED)
    return _simon32(np.arange(first, first + count).astype(np.uint32), operation << 32 | seed)


def _simon32(blocks: NDArray[np.uint32], key: int) -> NDArray[np.uint32]:
    """Encrypt blocks of 32 bits with a key of 64 bits."""
    keys = [key >> 16 * k & 0xFFFF for k in range(4)]
    for k in range(ROUNDS - 4):
        mixed = (keys[-1] >> 3 | keys[-1] << 13) & 0xFFFF ^ keys[-3]
        mixed ^= (mixed >> 1 | mixed << 15) & 0xFFFF
        keys.append(~keys[-4] & 0xFFFF ^ mixed ^ int(Z0[k]) ^ 3)
    left, right = blocks >> np.uint32(16), blocks & np.uint32(0xFFFF)
    for each in keys:
        # Rotate to the left: concatenate a half with itself, so that its upper bits come in from below.
        double = left << np.uint32(16) | left
        by_1, by_8, by_2 = (double >> np.uint32(16 - places) for places in (1, 8, 2))
        left, right = (right ^ by_1 & by_8 ^ by_2 ^ np.uint32(each)) & np.uint32(0xFFFF), left
    return left << np.uint32(16) | right


def stochastic(descriptors: Sequence[int], seed: int, operation: int = 0) -> list[int]:
    """Set the fields of a program so that it rounds all results of the operand format stochastically.

    Parameters
    ----------
    descriptors : sequence of int
        The program.
    seed, operation : int
        32 bits each. The k-th multiply, counted from 0, has seed k of `multiply_seeds`.

    Returns
    -------
    list of int

    Raises
    ------
    ValueError
        If the seed or the operation does not have 32 bits.

    Examples
    --------
    >>> from tensordash_sim.compiler.program import Program
    >>> program = Program()
    >>> _ = program.add("multiply", steps=4, a_streams=1, b_streams=1, emit=1, x_size=4)
    >>> decode(stochastic(program.descriptors, 1)[0])[1]["seed"] == int(multiply_seeds(1, 0, 1)[0])
    True
    """
    seeds = multiply_seeds(seed, operation, len(descriptors)).tolist()
    return _with_fields(descriptors, lambda k: {"stochastic": 1, "seed": seeds[k]})


def toward_zero(descriptors: Sequence[int]) -> list[int]:
    """Return a program that rounds all results of the operand format toward zero.

    Examples
    --------
    >>> from tensordash_sim.compiler.program import Program
    >>> program = Program()
    >>> _ = program.add("multiply", steps=4, a_streams=1, b_streams=1, emit=1, x_size=4)
    >>> decode(toward_zero(program.descriptors)[0])[1]["toward_zero"]
    1
    """
    return _with_fields(descriptors, lambda k: {"toward_zero": 1})


def scaled(descriptors: Sequence[int], scale: int) -> list[int]:
    """Return a program that multiplies its results by ``2**scale``.

    Parameters
    ----------
    descriptors : sequence of int
        The program.
    scale : int
        -128 to 127.

    Returns
    -------
    list of int

    Examples
    --------
    >>> from tensordash_sim.compiler.program import Program
    >>> program = Program()
    >>> _ = program.add("multiply", steps=4, a_streams=1, b_streams=1, emit=1, x_size=4)
    >>> decode(scaled(program.descriptors, -3)[0])[1]["scale"]
    -3
    """
    return _with_fields(descriptors, lambda k: {"scale": scale}, fp32=True)


def _with_fields(
    descriptors: Sequence[int], fields: Callable[[int], dict[str, int]], *, fp32: bool = False
) -> list[int]:
    """Replace fields of each multiply with results in the operand format; with `fp32`, in either format.

    `fields` maps the number of the multiply to the fields.
    """
    made, multiplies = [], 0
    for bits in descriptors:
        operation, values = decode(bits)
        if operation is OPERATIONS["multiply"]:
            if values["emit"] and (fp32 or not values["fp32"]):
                bits = encode(operation, {**values, **fields(multiplies)})
            multiplies += 1
        made.append(bits)
    return made
