"""Choice of the operand on the row side, whose zeros are skipped."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.formats import FloatFormat
from tensordash.configuration.numerics import Fused
from tensordash_sim.compiler.layer import OPERANDS
from tensordash_sim.lowering import Geometry

from .counting import Counted, counted_sides
from .values import FLOAT32

__all__ = ["chosen_rows", "fixed_rows", "possible_rows", "requested_rows", "share_of_zeros"]


def possible_rows(types: tuple[str, str], kinds: Mapping[str, str], *, scaled: bool) -> list[str]:
    """Return the operands that can be on the row side.

    Parameters
    ----------
    types : (str, str)
        Types of tensors for the column side and the row side.
    kinds : mapping of str to str
        Types of both operands.
    scaled : bool
        Whether the tile has scales.

    Raises
    ------
    TypeError
        If neither operand can.
    """
    a, b = types
    first, second = kinds
    possible = [
        row
        for row, column in ((first, second), (second, first))
        if kinds[row] == kinds[column] == FLOAT32 or (kinds[row], kinds[column]) == (b, a)
    ]
    if not possible:
        dtypes = " and ".join(f"{name} {kind}" for name, kind in kinds.items())
        other = "" if scaled else f", or {a} and {b}"
        raise TypeError(f"operands must both be {FLOAT32}{other}, not {dtypes}")
    return possible


def fixed_rows(tile: TileConfig, operation: str) -> str | None:
    """Return the operand on the row side of a tile whose results depend on the side, whatever the values are.

    It is the gradient, or A in AxW, which has no gradient. If the sides have different formats, the gradient is on the
    side whose format has the wider range.

    Parameters
    ----------
    tile : TileConfig
        The tile.
    operation : str
        "AxW", "WxG" or "AxG".

    Returns
    -------
    str, optional
        None if results do not depend on the side: formats are the same, and sums are exact or binned.

    Examples
    --------
    >>> from tensordash import load_preset
    >>> fixed_rows(load_preset("paper-bf16"), "AxW"), fixed_rows(load_preset("paper-bf16"), "WxG")
    ('A', 'G')
    >>> fixed_rows(load_preset("paper"), "AxW") is None
    True
    """
    first, second = OPERANDS[operation]
    a, b = tile.a_format, tile.b_format
    if a == b:
        dependent = tile.numerics.scale is not None or isinstance(tile.numerics.accumulator, Fused)
        return first if dependent else None
    assert isinstance(a, FloatFormat)
    assert isinstance(b, FloatFormat)
    return second if first == "G" and b.exponent_bits < a.exponent_bits else first


def chosen_rows(
    tile: TileConfig,
    geometry: Geometry,
    operation: str,
    possible: list[str],
    non_zeros: Mapping[str, NDArray[np.bool_]],
) -> tuple[str, Counted]:
    """Return the operand with which the tile takes the fewest cycles; in a tie, the one with more zeros, or the first.

    Parameters
    ----------
    tile : TileConfig
        The tile.
    geometry : Convolution or MatrixProduct
        The layer.
    operation : str
        "AxW", "WxG" or "AxG".
    possible : list of str
        Operands that can be on the row side without changing any result.
    non_zeros : mapping of str to array of bool
        Non-zero positions of both operands before rounding.

    Returns
    -------
    str
        The operand.
    Counted
        Its cycles.
    """
    if len(possible) > 1:
        possible = sorted(possible, key=lambda name: -share_of_zeros(non_zeros[name]))
    counts = counted_sides(geometry, operation, non_zeros, possible, tile)
    rows = min(possible, key=lambda name: round(counts[name].cycles))
    return rows, counts[rows]


def requested_rows(tile: TileConfig, operation: str, possible: list[str], row_side: str | None) -> list[str]:
    """Return operands for the row side: the requested one, else the rule's (`fixed_rows`), else all that types allow.

    Raises
    ------
    ValueError
        If the requested side is not an operand, or an operand of a wrong type.
    """
    if row_side is not None:
        if row_side not in possible:
            raise ValueError(f"row_side must be {' or '.join(possible)} for these operands, not {row_side!r}")
        return [row_side]
    rule = fixed_rows(tile, operation)
    return [rule] if rule in possible else possible


def share_of_zeros(nonzero: NDArray[np.bool_]) -> float:
    """Return the share of values that are zero."""
    return float(nonzero.size - np.count_nonzero(nonzero)) / nonzero.size
