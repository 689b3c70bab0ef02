"""Choose the operand on the row side, whose zeros the tile skips."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FloatFormat
from tensordash.configuration.numerics import Fused
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.lowering import Geometry

from .counting import CycleCount, count_cycles_by_side
from .values import FLOAT32

__all__ = ["choose_rows", "fixed_rows", "possible_rows", "requested_rows"]


def possible_rows(types: tuple[str, str], kinds: Mapping[str, str], *, scaled: bool) -> list[str]:
    """Return the operands that can be on the row side.

    Parameters
    ----------
    types : (str, str)
        Tensor types of the column side and of the row side.
    kinds : mapping of str to str
        Types of both operands.
    scaled : bool
        Whether the tile has scales.

    Raises
    ------
    TypeError
        If neither operand can be on the row side.
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
    """Return the operand on the row side of a tile whose results depend on the choice.

    This is the gradient, or A in AxW, which has no gradient. If the sides have different formats, the gradient is on
    the side whose format has the wider range. Values do not influence the choice.

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
        depends_on_side = tile.numerics.scale is not None or isinstance(tile.numerics.accumulator, Fused)
        return first if depends_on_side else None
    assert isinstance(a, FloatFormat)
    assert isinstance(b, FloatFormat)
    return second if first == "G" and b.exponent_bits < a.exponent_bits else first


def choose_rows(
    config: TileConfig | CoreConfig,
    geometry: Geometry,
    operation: str,
    possible: list[str],
    non_zeros: Mapping[str, NDArray[np.bool_]],
) -> tuple[str, CycleCount]:
    """Return the operand that costs the tile the fewest cycles; in a tie, the operand with more zeros, or the first.

    A core's steps are those of its program. No stream continues in the next row of an image, so an image that is
    narrower than the tile leaves ports unused.

    Parameters
    ----------
    config : TileConfig or CoreConfig
        The tile, or a core with it.
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
    CycleCount
        Dense steps and speedup of a tile whose ports are all filled, without the steps that the core drops.
    """
    if len(possible) > 1:
        possible = sorted(possible, key=lambda name: non_zeros[name].mean())
    counts = count_cycles_by_side(geometry, operation, non_zeros, possible, config)

    def cycles(name: str) -> int:
        steps = counts[name].dense
        if isinstance(config, CoreConfig):
            problem = Problem(layer=Layer.of(geometry), operation=operation, rows=name)
            steps = IterationSpace(problem=problem, core=config).total_steps
        return round(steps / counts[name].speedup)

    rows = min(possible, key=cycles)
    return rows, counts[rows]


def requested_rows(tile: TileConfig, operation: str, possible: list[str], row_side: str | None) -> list[str]:
    """Return the candidates for the row side: the requested operand, the operand of `fixed_rows`, or `possible`.

    Raises
    ------
    ValueError
        If the requested operand is not possible.
    """
    if row_side is not None:
        if row_side not in possible:
            raise ValueError(f"row_side must be {' or '.join(possible)} for these operands, not {row_side!r}")
        return [row_side]
    rule = fixed_rows(tile, operation)
    return [rule] if rule in possible else possible
