"""Values of C near rounding boundaries of a finished sum, for tiles that add C last."""

from collections.abc import Iterator
from random import Random

import numpy as np

from tensordash import TileConfig
from tensordash.configuration.formats import FloatFormat
from tensordash.configuration.numerics import Fused
from tensordash_sim.golden import make_accumulator

from .corner_cases import corner_values

__all__ = ["last_addends"]

Rows = list[list[int]]


def last_addends(random: Random, config: TileConfig, count: int) -> Iterator[tuple[list[int], list[int], Rows]]:
    """Draw one product for each PE, and C such that the sum cancels, rounds from a tie, or leaves the results' range.

    Parameters
    ----------
    random : Random
        Source of all random decisions.
    config : TileConfig
        A tile with a fused accumulator that adds C last. All scales are taken to be 1.
    count : int
        Number of blocks of C.

    Yields
    ------
    a, b : list of int, (columns,) and (rows,)
        Bit patterns of the operands.
    c : list of list of int, (rows, columns)
        FP32 bits.
    """
    assert isinstance(config.a_format, FloatFormat)
    assert isinstance(config.b_format, FloatFormat)
    rng = np.random.default_rng(random.getrandbits(32))
    golden = make_accumulator(config)
    a_values = corner_values(rng, config.a_format, (count, config.columns)).tolist()
    drawn = corner_values(rng, config.b_format, (count, config.rows))
    fraction_bits, fields = config.b_format.fraction_bits, (1 << config.b_format.exponent_bits) - 1
    near_one = drawn & ~drawn.dtype.type(fields << fraction_bits) | drawn.dtype.type(
        config.b_format.bias << fraction_bits
    )
    # Most products are within the range of results.
    b_values = np.where(rng.random(drawn.shape) < 0.8, near_one, drawn).tolist()
    for a, b in zip(a_values, b_values, strict=True):
        c: Rows = []
        for row in b:
            c.append([])
            for column in a:
                golden.accumulate([(column, row)], first=True)
                c[-1].append(_addend(random, float(_fp32(golden.result_bits())), config))
        yield a, b, c


def _fp32(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


def _addend(random: Random, total: float, config: TileConfig) -> int:
    """Return the FP32 bits of C for a sum."""
    accumulator = config.numerics.accumulator
    assert isinstance(accumulator, Fused)
    result_bits, most = accumulator.result_bits, 1 << (accumulator.result_exponent_bits - 1)
    ends = random.choice((2 - most - result_bits + random.randint(-2, 2), 2 - most + random.randint(-2, 1), most - 1))
    exponent = int(np.frexp(total)[1]) - 1 if total and np.isfinite(total) else ends
    fraction = random.choice(
        (0.0, random.random(), 2.0**-result_bits, 2.0**-result_bits, 1 - 2.0**-result_bits, 1 - 2.0**-23)
    )
    last = 2.0 ** max(exponent - result_bits, 2 - most - result_bits)
    beyond = 2.0**most * (1 - 2.0 ** -(result_bits + 2))  # the least magnitude that becomes an infinity
    sign = random.choice((-1.0, 1.0))
    value = random.choice(
        (
            -total,
            float(np.copysign(beyond, total)) - total + sign * last * random.choice((0, 0.5, 1)),
            sign * last / 2 * (1 + fraction),
            sign * last / 2 * (1 + fraction),
            sign * last * random.choice((0.5, 1.5, 2.5)),
            -total + sign * last * random.randint(1, 3),
            sign * 2.0 ** (exponent + random.randint(-2, 2)) * (1 + fraction),
            sign * 2.0 ** (exponent + random.randint(-result_bits - 3, result_bits + 3)) * (1 + fraction),
            sign * 2.0**ends * (1 + fraction),
            sign * 0.0,
        )
    )
    with np.errstate(over="ignore", under="ignore"):
        return int(np.float32(value).view(np.uint32))
