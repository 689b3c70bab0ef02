"""Exponential, logarithm and normal distribution in single precision.

The order of operations is part of the definition. `host_math.c` has the same order and computes equal bits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["EXP_MIN", "LN2_HIGH", "LN2_LOW", "LOG2_E", "exp", "log", "normal"]

Float32 = NDArray[np.float32]

LOG2_E = np.float32(1.44269502162933349609375)
LN2_HIGH = np.float32(0.693145751953125)
"""Leading 15 bits of ln 2, so that products with small integers are exact."""
LN2_LOW = np.float32(1.42860682030941722974e-6)
"""ln 2 less `LN2_HIGH`."""
EXP_MIN = np.float32(-87.0)
"""Least number with a nonzero exponential."""
EXP_COEFFICIENTS = tuple(np.float32(1 / k) for k in (5040, 720, 120, 24, 6, 2, 1, 1))
"""Taylor coefficients of the exponential, the highest power first."""
LOG_COEFFICIENTS = tuple(np.float32(1 / k) for k in (9, 7, 5, 3))
NORMAL_COEFFICIENTS = tuple(
    np.float32(k / 2) for k in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
)
"""Half the coefficients of the error function, the highest power first.

Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26; the error is at most 1.5e-7.
"""
NORMAL_SLOPE = np.float32(0.3275911 / np.sqrt(2.0))
NORMAL_PEAK = np.float32(1 / np.sqrt(2 * np.pi))
"""Density of the normal distribution at 0."""
HALF_SQRT_2_BITS = 0x3F3504F3
"""Bit pattern of sqrt(1/2), the smallest significand in a logarithm."""


def _horner(x: Float32, coefficients: tuple[Any, ...]) -> Float32:
    total = np.broadcast_to(coefficients[0], x.shape).astype(np.float32)
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


def exp(x: Float32) -> Float32:
    """Return the exponentials of numbers that are not positive; the result is 0 below `EXP_MIN`, and NaN for NaN.

    Examples
    --------
    >>> exp(np.array([0.0, -1.0, -88.0], np.float32)).tolist()
    [1.0, 0.3678794503211975, 0.0]
    """
    inside = x >= EXP_MIN
    safe = np.where(inside, x, np.float32(0))
    power = np.floor(safe * LOG2_E + np.float32(0.5))
    rest = (safe - power * LN2_HIGH) - power * LN2_LOW
    scale = ((power.astype(np.int32) + 127) << 23).view(np.float32)
    result: Float32 = _horner(rest, EXP_COEFFICIENTS) * scale
    return np.where(inside, result, np.where(np.isnan(x), x, np.float32(0)))


def log(x: Float32) -> Float32:
    """Return the logarithms of finite numbers of at least 1, and NaN for others.

    Examples
    --------
    >>> log(np.array([1.0, 2.0, 10.0], np.float32)).tolist()
    [0.0, 0.6931471824645996, 2.3025851249694824]
    """
    inside = (x >= np.float32(1)) & (x < np.float32(np.inf))
    bits = np.where(inside, x, np.float32(1)).view(np.int32)
    power = (bits - HALF_SQRT_2_BITS) >> 23
    significand = (bits - (power << 23)).view(np.float32)
    quotient = (significand - np.float32(1)) / (significand + np.float32(1))
    square = quotient * quotient
    series = _horner(square, LOG_COEFFICIENTS) * square * quotient + quotient
    exponent = power.astype(np.float32)
    result = exponent * LN2_HIGH + (exponent * LN2_LOW + np.float32(2) * series)
    return np.where(inside, result, np.float32(np.nan))


def normal(x: Float32) -> tuple[Float32, Float32]:
    """Return the normal distribution and its density.

    Examples
    --------
    >>> [each.tolist() for each in normal(np.array([0.0, -1.0], np.float32))]
    [[0.5, 0.15865527093410492], [0.3989422917366028, 0.2419707328081131]]
    """
    each = exp(x * np.float32(-0.5) * x)
    t = np.float32(1) / (np.float32(1) + NORMAL_SLOPE * np.where(x < 0, -x, x))
    tail = _horner(t, NORMAL_COEFFICIENTS) * t * each
    return np.where(x < 0, tail, np.float32(1) - tail), each * NORMAL_PEAK
