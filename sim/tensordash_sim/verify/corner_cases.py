"""Corner-case operands, generated in the manner of Berkeley TestFloat.

TestFloat draws each operand from every exponent and from fractions with runs of leading or trailing ones and zeros
(J. Hauser, TestFloat release 3, "Test sequences").
"""

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.formats import FloatFormat, Format, IntegerFormat

__all__ = ["corner_fractions", "corner_integers", "corner_values", "pattern_dtype", "with_random_sign"]


def corner_values(
    rng: np.random.Generator, fmt: Format, shape: int | tuple[int, ...], *, zeros: float = 0.1, specials: float = 0.0
) -> NDArray:
    """Return bit patterns with every exponent, and runs of ones and zeros in the fraction.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of all random decisions.
    fmt : Format
        Format of the values. Integers at the limits, around zero and near powers of two are frequent.
    shape : int or tuple of int
        Shape of the result.
    zeros, specials : float
        Shares of zeros (in floating point of both signs), and of infinities and NaN.

    Returns
    -------
    array of uint8, uint16 or uint32, as `fmt` needs

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> rng = np.random.default_rng(0)
    >>> values = corner_values(rng, FORMATS["fp16"], 20_000)
    >>> len(np.unique(values >> 10 & 31)), bool((values & 0x7FFF == 0).any()), bool((values & 0x7C00 == 0x7C00).any())
    (31, True, False)
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if isinstance(fmt, IntegerFormat):
        bits = corner_integers(rng, fmt, shape)
        return np.where(rng.random(shape) < zeros, 0, bits).astype(pattern_dtype(fmt))
    top = fmt.largest >> fmt.fraction_bits
    edges = rng.choice(np.array([0, 1, 2, fmt.bias, top - 1, top]), shape)
    field = np.where(rng.random(shape) < 0.3, edges, rng.integers(0, top + 1, shape))
    magnitude = np.minimum(field << fmt.fraction_bits | corner_fractions(rng, fmt, shape), fmt.largest)
    magnitude = np.where(rng.random(shape) < zeros, 0, magnitude)
    if specials and fmt.nan:
        magnitude = np.where(rng.random(shape) < specials, _specials(rng, fmt, shape), magnitude)
    return with_random_sign(rng, fmt, magnitude)


def pattern_dtype(fmt: Format) -> type[np.unsignedinteger]:
    """Return the type that holds a format's bit patterns."""
    return np.uint8 if fmt.width <= 8 else np.uint16 if fmt.width == 16 else np.uint32


def with_random_sign(rng: np.random.Generator, fmt: FloatFormat, magnitude: NDArray) -> NDArray:
    """Return magnitudes with random sign bits."""
    sign = rng.integers(0, 2, magnitude.shape) << (fmt.width - 1)
    return (magnitude | sign).astype(pattern_dtype(fmt))


def corner_fractions(rng: np.random.Generator, fmt: FloatFormat, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return fraction fields: random, all zeros or ones, a single one or zero, runs at either end."""
    ones = (1 << fmt.fraction_bits) - 1
    anything = rng.integers(0, ones + 1, shape)
    low = (np.int64(1) << rng.integers(0, fmt.fraction_bits + 1, shape)) - 1  # a run of ones at the low end
    bit = np.int64(1) << rng.integers(0, fmt.fraction_bits, shape)
    patterns = [anything, np.zeros_like(anything), bit, low, anything & ~low, anything | low]
    chosen = np.choose(rng.integers(0, len(patterns), shape), patterns)
    return np.where(rng.random(shape) < 0.5, chosen, ones - chosen)


def _specials(rng: np.random.Generator, fmt: FloatFormat, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return magnitudes of infinities and NaN, quiet and signalling."""
    first = fmt.largest + 1  # infinity, if the format has one
    last = (1 << (fmt.width - 1)) - 1
    return np.where(rng.random(shape) < 0.5, first, rng.integers(first, last + 1, shape))


def corner_integers(rng: np.random.Generator, fmt: IntegerFormat, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return two's complement patterns: random, at the limits, around zero, next to powers of two."""
    mask = (1 << fmt.width) - 1
    half = 1 << (fmt.width - 1)
    near = rng.integers(-2, 3, shape)
    power = np.int64(1) << rng.integers(0, fmt.width, shape)
    patterns = [rng.integers(0, mask + 1, shape), half + near, near, power + near, near - power]
    return np.choose(rng.integers(0, len(patterns), shape), patterns) & mask
