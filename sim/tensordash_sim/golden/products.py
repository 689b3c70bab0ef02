"""Products of floating-point pairs, which fused and binned sums add."""

from collections.abc import Iterable

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FloatFormat

from .numbers import Kind, decode, decode_scale, float_values
from .specials import product_signs

__all__ = ["FloatProducts"]


class FloatProducts:
    """Multiplies the pairs of a configuration's formats and scales; a base of accumulators whose results are FP32."""

    def __init__(self, config: TileConfig) -> None:
        assert isinstance(config.a_format, FloatFormat)
        assert isinstance(config.b_format, FloatFormat)
        self._a_format, self._b_format = config.a_format, config.b_format
        self._a_values, self._b_values = float_values(config.a_format), float_values(config.b_format)
        self._product_fraction = config.a_format.fraction_bits + config.b_format.fraction_bits
        self._scale = config.numerics.scale

    def _multiply(self, pairs: Iterable[tuple[int, ...]]) -> tuple[list[tuple[int, int]], frozenset[int]]:
        """Return the non-zero finite products, and the signs of the infinite ones; a NaN has both.

        A product is (signed significand, weight of its least bit as a power of two), with `_product_fraction` bits
        below the significand's 1.
        """
        products, infinities = list[tuple[int, int]](), frozenset[int]()
        for a, b, *scale_bits in pairs:
            left, right = self._a_values[a], self._b_values[b]
            scales = [decode_scale(each, self._scale) for each in scale_bits if self._scale is not None]
            if left is None or right is None or any(scale.kind is Kind.NAN for scale in scales):
                infinities |= product_signs(decode(a, self._a_format), decode(b, self._b_format), *scales)
            elif left[0] and right[0]:
                products.append((left[0] * right[0], left[1] + right[1] + sum(scale.exponent for scale in scales)))
        return products, infinities

    def result_overflow(self, c: int = 0) -> bool:
        """Return False: FP32 has infinities, so the result never leaves its range."""
        return False
