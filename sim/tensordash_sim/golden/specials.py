"""Infinities and NaN in sums (docs/numerics.md, "Products")."""

from collections.abc import Set

from .numbers import Decoded, Kind

__all__ = ["NOT_A_NUMBER", "product_signs", "special_bits", "term_signs"]

NOT_A_NUMBER = frozenset((0, 1))
"""Signs of a NaN: it counts as infinities of both signs, whose sum is a NaN."""

_INFINITY = {sign: (sign << 31) | 0x7F800000 for sign in (0, 1)}


def product_signs(*factors: Decoded) -> frozenset[int]:
    """Return the signs (0: plus) of the infinities that represent a product with an infinite or NaN factor."""
    kinds = {factor.kind for factor in factors}
    if Kind.NAN in kinds or Kind.ZERO in kinds:  # a zero times an infinity is a NaN
        return NOT_A_NUMBER
    return frozenset((sum(factor.sign for factor in factors) % 2,))


def term_signs(number: Decoded) -> frozenset[int]:
    """Return the signs of the infinities that represent a number; empty if it is finite."""
    if number.kind is Kind.NAN:
        return NOT_A_NUMBER
    return frozenset((number.sign,)) if number.kind is Kind.INFINITE else frozenset()


def special_bits(signs: Set[int], nan: int) -> int | None:
    """Return the FP32 bits of a sum with infinities of these signs; None without infinities.

    >>> hex(special_bits({1}, nan=0x7FC00000)), hex(special_bits({0, 1}, nan=0x7FC00000))
    ('0xff800000', '0x7fc00000')
    """
    if len(signs) == 2:
        return nan
    return next((_INFINITY[sign] for sign in signs), None)
