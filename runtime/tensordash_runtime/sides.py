"""Which operand goes on the row side, whose zeros are skipped."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.formats import FloatFormat
from tensordash.configuration.numerics import Exact
from tensordash_sim.core.layer import OPERANDS
from tensordash_sim.lowering import Geometry

from .counting import Counted, counted_sides
from .values import FLOAT32

__all__ = ["chosen_rows", "possible_rows", "share_of_zeros"]


def possible_rows(types: tuple[str, str], kinds: Mapping[str, str], *, scaled: bool) -> list[str]:
    """Which operands can be on the row side.

    Parameters
    ----------
    types : (str, str)
        Of tensors that hold operands of the column side and of the row side.
    kinds : mapping of str to str
        The types of both operands.
    scaled : bool
        Whether the tile has scales.

    Raises
    ------
    TypeError
        If none can.
    """
    a, b = types
    first, second = kinds
    possible = [
        row
        for row, column in ((first, second), (second, first))
        if kinds[row] == kinds[column] == FLOAT32 or (kinds[row], kinds[column]) == (b, a)
    ]
    if not possible:
        given = " and ".join(f"{name} {kind}" for name, kind in kinds.items())
        other = "" if scaled else f", or {a} and {b}"
        raise TypeError(f"operands must both be {FLOAT32}{other}, not {given}")
    return possible


def chosen_rows(
    tile: TileConfig,
    geometry: Geometry,
    operation: str,
    possible: list[str],
    there: Callable[[str], NDArray[np.bool_]],
    masks: Callable[[str], Mapping[str, NDArray[np.bool_]]],
) -> tuple[str, Mapping[str, NDArray[np.bool_]], Counted]:
    """The operand with which the tile takes the fewest cycles; with as many, the one with more zeros, or the first.

    If the sides have different formats, a gradient goes to the one with the wider range. Where results depend on the
    side, as fused accumulators and scales have them, it is the operand with more zeros whatever it gains.

    Parameters
    ----------
    tile : TileConfig
        The tile.
    geometry : Convolution or MatrixProduct
        The layer.
    operation : str
        "AxW", "WxG" or "AxG".
    possible : list of str
        Operands that can be on the row side.
    there : callable
        Where an operand is not zero in the format of the row side.
    masks : callable
        Where both operands are not zero, if one of them is on the row side.

    Returns
    -------
    str
        The operand.
    mapping of str to array of bool
        Its `masks`.
    Counted
        What it takes.
    """
    pair = OPERANDS[operation]
    a, b = tile.a_format, tile.b_format
    if len(possible) > 1 and a != b and "G" in pair:
        assert isinstance(a, FloatFormat)
        assert isinstance(b, FloatFormat)
        other = next(name for name in pair if name != "G")
        possible = ["G" if b.exponent_bits >= a.exponent_bits else other]
    if len(possible) > 1:
        possible = sorted(possible, key=lambda name: -share_of_zeros(there(name)))
        if tile.numerics.scale is not None or not isinstance(tile.numerics.accumulator, Exact):
            possible = possible[:1]
    found: dict[str, tuple[Mapping[str, NDArray[np.bool_]], Counted]] = {}
    together = [possible] if a == b else [[name] for name in possible]
    for names in together:
        mask = masks(names[0])
        for name, each in counted_sides(geometry, operation, mask, names, tile).items():
            found[name] = mask, each
    rows = min(possible, key=lambda name: round(found[name][1].cycles))
    return rows, *found[rows]


def share_of_zeros(there: NDArray[np.bool_]) -> float:
    """The share of values that are not there."""
    return float(there.size - np.count_nonzero(there)) / there.size
