"""Generate dot products that expose numerical errors, in the manner of Berkeley TestFloat.

The terms of a sum depend on each other. Each family provokes one kind of error: see `FLOAT_KINDS` and `INTEGER_KINDS`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.formats import FP32, INT32, FloatFormat, Format, IntegerFormat
from tensordash_sim.verify.corner_cases import (
    corner_fractions,
    corner_integers,
    corner_values,
    pattern_dtype,
    with_random_sign,
)

FLOAT_KINDS = ("random", "cancellation", "gap", "tie", "subnormal", "large_c", "overflow", "special")
"""Families of floating-point dot products.

random: corner values with any density of zeros. cancellation: terms, C included, that cancel entirely or down to a
small remainder. gap: a few terms whose exponents differ by 0 up to the entire range. tie: the sum lies halfway between
two FP32 numbers, or next to that. subnormal: products with subnormal operands. large_c: C's exponent is near or above
the products' exponents. overflow: the largest magnitudes. special: infinities and NaN.
"""

INTEGER_KINDS = ("random", "extreme", "run", "cancellation")
"""Families of integer dot products.

random: corner values with any density of zeros. extreme: the largest magnitudes. run: the same extreme pair
everywhere, so that the sum overflows. cancellation: terms that cancel. C is any INT32 number, often at its ends.
"""


@dataclass(frozen=True)
class DotCases:
    """Dot products to compute, each over several steps.

    Parameters
    ----------
    a, b : array of uint8 or uint16, (count, steps, lanes)
        Bit patterns.
    c : array of uint32, (count,)
        FP32 or INT32 bits.
    kind : array of str, (count,)
        The family of each case.
    """

    a: NDArray
    b: NDArray
    c: NDArray[np.uint32]
    kind: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.c)

    def __iter__(self) -> Iterator[tuple[list[list[tuple[int, int]]], int]]:
        """Yield each case as (steps of pairs of bits, bits of C)."""
        for a, b, c in zip(self.a.tolist(), self.b.tolist(), self.c.tolist(), strict=True):
            yield [list(zip(*step, strict=True)) for step in zip(a, b, strict=True)], c


def dot_cases(
    rng: np.random.Generator,
    a_format: Format,
    b_format: Format,
    count: int,
    *,
    steps: int = 1,
    lanes: int = 4,
    kinds: tuple[str, ...] | None = None,
) -> DotCases:
    """Draw dot products of some families, in random order.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of all draws.
    a_format, b_format : Format
        Both floating-point or both integer.
    count, steps, lanes : int
        Number of cases, and their shape.
    kinds : tuple of str, optional
        Families to draw from; all if None.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> cases = dot_cases(np.random.default_rng(0), FORMATS["fp8_e4m3"], FORMATS["fp8_e5m2"], 1000, steps=3)
    >>> cases.a.shape, cases.a.dtype, sorted(set(cases.kind.tolist())) == sorted(FLOAT_KINDS)
    ((1000, 3, 4), dtype('uint8'), True)
    """
    families: type[_Floats] | type[_Integers] = _Integers if isinstance(a_format, IntegerFormat) else _Floats
    names = np.array(kinds or (INTEGER_KINDS if families is _Integers else FLOAT_KINDS))
    kind = names[rng.integers(0, len(names), count)]
    a = np.zeros((count, steps * lanes), pattern_dtype(a_format))
    b = np.zeros((count, steps * lanes), pattern_dtype(b_format))
    c = np.zeros(count, np.uint32)
    for name in names:
        chosen = kind == name
        family = families(rng, a_format, b_format, (int(chosen.sum()), steps, lanes))  # type: ignore[arg-type]
        a[chosen], b[chosen], c[chosen] = getattr(family, name)()
    return DotCases(a.reshape(count, steps, lanes), b.reshape(count, steps, lanes), c, kind)


def _exponents(fmt: FloatFormat) -> tuple[int, int]:
    """Return the least and the largest exponent of a finite value's leading bit."""
    return fmt.least_exponent, (fmt.largest >> fmt.fraction_bits) - fmt.bias


def _with_exponent(fmt: FloatFormat, exponent: NDArray[np.int64], fraction: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return magnitudes whose leading bit has an exponent. Subnormals keep their fraction's upper bits."""
    least_normal = 1 - fmt.bias
    field = np.maximum(exponent - least_normal, 0) << fmt.fraction_bits
    significand = (fraction | 1 << fmt.fraction_bits) >> np.maximum(least_normal - exponent, 0)
    return np.minimum(field + significand, fmt.largest)


def _real(fmt: FloatFormat, bits: NDArray) -> NDArray[np.float64]:
    """Return values of finite patterns."""
    magnitude = bits.astype(np.int64) & ((1 << (fmt.width - 1)) - 1)
    field = magnitude >> fmt.fraction_bits
    significand = magnitude - (np.maximum(field - 1, 0) << fmt.fraction_bits)
    value = np.ldexp(significand.astype(np.float64), np.maximum(field, 1) - 1 + fmt.least_exponent)
    return np.where(bits.astype(np.int64) >> (fmt.width - 1), -value, value)


_Case = tuple[NDArray, NDArray, NDArray]  # a and b, (count, positions), and c, (count,)


class _Floats:
    """Draw cases, with one method for each of `FLOAT_KINDS`. Positions are those of all steps, in order."""

    def __init__(
        self, rng: np.random.Generator, a_format: FloatFormat, b_format: FloatFormat, shape: tuple[int, int, int]
    ) -> None:
        self.rng, self.a_format, self.b_format = rng, a_format, b_format
        self.count, self.steps, self.lanes = shape
        self.positions = self.steps * self.lanes
        (self.a_low, self.a_high), (self.b_low, self.b_high) = _exponents(a_format), _exponents(b_format)
        self.low, self.high = self.a_low + self.b_low, self.a_high + self.b_high

    def random(self) -> _Case:
        shape = self.count, self.positions
        density = self.rng.choice([0.1, 0.3, 0.6, 1.0, 1.0], (self.count, 1))
        a = corner_values(self.rng, self.a_format, shape, zeros=0.05)
        b = corner_values(self.rng, self.b_format, shape, zeros=0.05)
        b = np.where(self.rng.random(shape) < density, b, b & (1 << (self.b_format.width - 1)))
        return a, b, self._any_c()

    def cancellation(self) -> _Case:
        half = (self.positions + 1) // 2
        a = corner_values(self.rng, self.a_format, (self.count, half))
        b = corner_values(self.rng, self.b_format, (self.count, half))
        # Draw a negated product, sometimes slightly different. Sometimes only C cancels the first product.
        nearly = (self.rng.random((self.count, half)) < 0.1) & (a & 1 == 1)
        other = (a ^ nearly) ^ (1 << (self.a_format.width - 1))
        with np.errstate(over="ignore"):
            product = (_real(self.a_format, a[:, 0]) * _real(self.b_format, b[:, 0])).astype(np.float32)
        by_c = (self.rng.random(self.count) < 0.3) & np.isfinite(product)
        other[by_c, 0] = 0
        c = np.where(by_c, (-product).view(np.uint32), np.where(self.rng.random(self.count) < 0.5, 0, self._any_c()))
        a_terms, b_terms = np.concatenate([a, other], axis=1), np.concatenate([b, b], axis=1)
        return *self._place(a_terms, b_terms, together=0.0), c

    def gap(self) -> _Case:
        full_range = self.high - self.low
        largest_gap = self.rng.choice(np.minimum([4, 16, 32, 64, full_range], full_range), (self.count, 1))
        gaps = self.rng.integers(0, largest_gap + 1, (self.count, min(self.positions, 4)))
        gaps[:, 0] = 0
        gaps[:, 2:] = np.minimum(gaps[:, 2:], gaps[:, 1:2])  # The second gap is the widest.
        top = self.rng.integers(self.low + gaps.max(axis=1, keepdims=True), self.high + 1)
        a, b = self._products(top - gaps)
        return *self._place(a, b), self._near_c(top[:, 0] - gaps[:, -1])

    def tie(self) -> _Case:
        """Draw terms of one exponent, a bit at half of the sum's last place, and sometimes smaller terms."""
        terms = 8
        carry = self.rng.integers(0, 3 if self.positions >= 6 else 1, self.count)  # 2**carry equal terms
        lowest = min(max(self.low, FP32.least_exponent) + 26, self.high)
        top = self.rng.integers(lowest, min(self.high, 126) + 1, self.count)
        half = top + carry - 24
        below = half - self.rng.integers(2, 40, self.count)
        odd = np.where(self.rng.random(self.count) < 0.5, half + 1, half - 2)
        exponents = np.stack([half, odd, below] + [top] * (terms - 3), axis=1)
        by_c = (self.rng.random(self.count) < 0.3) | (self.positions < 4)
        used = np.arange(terms) - 3 < np.where(by_c, 0, 1 << carry)[:, None]
        used[:, 1:3] = self.rng.random((self.count, 2)) < 0.4
        a, b = self._products(exponents, plain=self.rng.random((self.count, 1)) < 0.9)
        same_sign = self.rng.random((self.count, 1)) < 0.7  # With both signs, no carry occurs.
        a = np.where(same_sign, a & ((1 << (self.a_format.width - 1)) - 1), a)
        b = np.where(same_sign, b & ((1 << (self.b_format.width - 1)) - 1), b)
        c = np.where(by_c, self._c_with(top + carry), 0)
        return *self._place(np.where(used, a, 0), b, together=0.8), c

    def subnormal(self) -> _Case:
        shape = self.count, self.positions
        which = self.rng.integers(0, 3, (self.count, 1))  # Side a, b or both are subnormal.
        operands = []
        for fmt, other in ((self.a_format, 1), (self.b_format, 0)):
            small = with_random_sign(self.rng, fmt, self.rng.integers(1, 1 << fmt.fraction_bits, shape))
            operands.append(np.where(which != other, small, corner_values(self.rng, fmt, shape)))
        keep = self.rng.random(shape) < self.rng.choice([0.3, 1.0], (self.count, 1))
        c = with_random_sign(self.rng, FP32, self.rng.integers(0, 1 << 23, self.count))
        c = np.where(self.rng.random(self.count) < 0.5, c, self._any_c())
        return operands[0], np.where(keep, operands[1], 0), c

    def large_c(self) -> _Case:
        exponent = self.rng.integers(self.low, self.high + 1, (self.count, 1))
        a, b = self._products(exponent - self.rng.integers(0, 12, (self.count, self.positions)))
        above = exponent[:, 0] + self.rng.integers(-2, 45, self.count)
        b = np.where(self.rng.random(b.shape) < 0.8, b, 0)
        return a, b, self._c_with(above)

    def overflow(self) -> _Case:
        shape = self.count, self.positions
        a, b = self._products(min(self.high, 128) - self.rng.integers(0, 4, shape))
        largest = self.rng.random((self.count, 1)) < 0.3
        alike = self.rng.random((self.count, 1)) < 0.5
        operands = []
        for fmt, bits in ((self.a_format, a), (self.b_format, b)):
            sign = bits & (1 << (fmt.width - 1))
            with_largest = np.where(largest, fmt.largest | sign, bits)
            operands.append(np.where(alike, with_largest & ~sign, with_largest))
        c = with_random_sign(self.rng, FP32, FP32.largest - self.rng.choice([0, 1, 2, 1 << 22, 1 << 23], self.count))
        return operands[0], operands[1], np.where(self.rng.random(self.count) < 0.5, c, self._any_c())

    def special(self) -> _Case:
        shape = self.count, self.positions
        share = 1.0 / self.positions
        a = corner_values(self.rng, self.a_format, shape, zeros=0.3, specials=share)
        b = corner_values(self.rng, self.b_format, shape, zeros=0.3, specials=share)
        c = corner_values(self.rng, FP32, self.count, specials=0.3)
        return a, b, np.where(self.rng.random(self.count) < 0.5, c, 0)

    # Parts

    def _products(self, exponents: NDArray[np.int64], plain: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Draw pairs whose leading bits' exponents add up to `exponents`; `plain` pairs are powers of two."""
        expected = np.clip(exponents, self.low, self.high)
        left = self.rng.integers(
            np.maximum(self.a_low, expected - self.b_high), np.minimum(self.a_high, expected - self.b_low) + 1
        )
        pair = []
        for fmt, exponent in ((self.a_format, left), (self.b_format, expected - left)):
            fraction = corner_fractions(self.rng, fmt, exponents.shape)
            if plain is not None:
                fraction = np.where(plain, 0, fraction)
            pair.append(with_random_sign(self.rng, fmt, _with_exponent(fmt, exponent, fraction)))
        return pair[0], pair[1]

    def _place(self, a: NDArray, b: NDArray, together: float = 0.5) -> tuple[NDArray, NDArray]:
        """Put terms, (count, n), at random positions among zeros of both signs; a share `together` is in one step."""
        a, b = a[:, : self.positions], b[:, : self.positions]
        order = self.rng.random((self.count, self.positions))
        if a.shape[1] <= self.lanes:
            step = self.rng.integers(0, self.steps, (self.count, 1))
            elsewhere = np.arange(self.positions) // self.lanes != step
            order += elsewhere & (self.rng.random((self.count, 1)) < together)
        places = np.argsort(order, axis=1)[:, : a.shape[1]]
        operands = []
        for fmt, terms in ((self.a_format, a), (self.b_format, b)):
            zeros = with_random_sign(self.rng, fmt, np.zeros((self.count, self.positions), np.int64))
            np.put_along_axis(zeros, places, terms.astype(zeros.dtype), axis=1)
            operands.append(zeros)
        # Only one side needs to be zero.
        unpaired = self.rng.random((self.count, self.positions)) < 0.3
        np.put_along_axis(unpaired, places, False, axis=1)
        operands[0] = np.where(unpaired, corner_values(self.rng, self.a_format, unpaired.shape), operands[0])
        return operands[0], operands[1]

    def _c_with(self, exponent: NDArray[np.int64]) -> NDArray:
        exponent = np.clip(exponent, FP32.least_exponent, 127)
        fraction = corner_fractions(self.rng, FP32, exponent.shape)
        return with_random_sign(self.rng, FP32, _with_exponent(FP32, exponent, fraction))

    def _near_c(self, exponent: NDArray[np.int64]) -> NDArray:
        """Draw C: zero in a third of cases, else within 30 binades of an exponent."""
        near = self._c_with(exponent + self.rng.integers(-30, 31, exponent.shape))
        return np.where(self.rng.random(exponent.shape) < 0.33, near & (1 << 31), near)

    def _any_c(self) -> NDArray:
        """Draw C: mostly up to a product's magnitude, else any FP32 number."""
        near = self._near_c(self.rng.integers(self.low, self.high + 1, self.count))
        return np.where(self.rng.random(self.count) < 0.7, near, corner_values(self.rng, FP32, self.count))


class _Integers:
    """Draw cases, with one method for each of `INTEGER_KINDS`."""

    def __init__(
        self, rng: np.random.Generator, a_format: IntegerFormat, b_format: IntegerFormat, shape: tuple[int, int, int]
    ) -> None:
        self.rng, self.a_format, self.b_format = rng, a_format, b_format
        self.count, self.positions = shape[0], shape[1] * shape[2]

    def random(self) -> _Case:
        shape = self.count, self.positions
        a, b = corner_values(self.rng, self.a_format, shape), corner_values(self.rng, self.b_format, shape)
        density = self.rng.choice([0.1, 0.5, 1.0], (self.count, 1))
        return a, np.where(self.rng.random(shape) < density, b, 0), self._c()

    def extreme(self) -> _Case:
        a, b = (self._extremes(fmt, (self.count, self.positions)) for fmt in (self.a_format, self.b_format))
        return a, b, self._c()

    def run(self) -> _Case:
        shape = self.count, self.positions
        a, b = (np.broadcast_to(self._extremes(fmt, (self.count, 1)), shape) for fmt in (self.a_format, self.b_format))
        return a, np.where(self.rng.random(shape) < 0.95, b, 0), self._c()

    def cancellation(self) -> _Case:
        half = (self.positions + 1) // 2
        a = corner_values(self.rng, self.a_format, (self.count, half))
        b = corner_values(self.rng, self.b_format, (self.count, half))
        terms = np.concatenate([a, -a], axis=1)[:, : self.positions]  # The most negative number is its own negative.
        partners = np.concatenate([b, b], axis=1)[:, : self.positions]
        order = np.argsort(self.rng.random(terms.shape), axis=1)
        return np.take_along_axis(terms, order, 1), np.take_along_axis(partners, order, 1), self._c()

    def _extremes(self, fmt: IntegerFormat, shape: tuple[int, ...]) -> NDArray:
        half = 1 << (fmt.width - 1)
        return self.rng.choice(np.array([half, half, half - 1, half + 1]), shape)

    def _c(self) -> NDArray:
        bits = corner_integers(self.rng, INT32, (self.count,))
        near_end = ((1 << 31) + self.rng.integers(-(1 << 20), 1 << 20, self.count)) & 0xFFFFFFFF
        return np.choose(self.rng.integers(0, 3, self.count), [bits, near_end, np.zeros_like(bits)])
