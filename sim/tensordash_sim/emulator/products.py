"""Compiled matrix products in a tile's number formats, bit-identical to golden but without cycles."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.configuration.config import TileConfig
from tensordash.configuration.numerics import Exact, Fused

from .binned import binned_products
from .exact import exact_products
from .fused import fused_products
from .tables import ScaledFormat, checked_bits, operand_formats, with_scales

__all__ = ["matrix_product"]


def matrix_product(
    columns: ArrayLike,
    rows: ArrayLike,
    config: TileConfig,
    added: NDArray[np.float32] | NDArray[np.int32] | None = None,
    *,
    scales: tuple[ArrayLike, ArrayLike] | None = None,
) -> NDArray[np.uint32]:
    """Multiply matrices: ``result[n, m]`` is the dot product of row vector n and column vector m.

    Vectors are split into steps of `lanes` values, the last one padded with zeros. Row vectors go to the tile's rows in
    order, `config.rows` at a time, and column vectors to its columns. This mapping decides which products a fused
    accumulator adds together. `config.sparsity` decides which zeros are skipped, so whether a zero meets an infinity.

    Parameters
    ----------
    columns : array of unsigned, (..., M, K)
        Bit patterns of `config.a_format`.
    rows : array of unsigned, (..., N, K)
        Bit patterns of `config.b_format`. The leading axes of both sides broadcast as in NumPy.
    config : TileConfig
        The tile, without a C input.
    added : array of float32, for int8 of int32, optional
        Biases of a core (docs/core.md, "Multiply", 1), broadcast to (..., N, M) and added to the sums before they are
        rounded. Only for exact and binned sums.
    scales : (array of unsigned, (..., M, blocks), array of unsigned, (..., N, blocks)), optional
        Bit patterns of the scales of the columns' and the rows' blocks; the last block may be shorter. Required if the
        tile has scales, and not allowed otherwise.

    Returns
    -------
    array of uint32, (..., N, M)
        FP32 bits, for int8 INT32 bits.

    Raises
    ------
    TypeError, ValueError
        If an operand has the wrong type, shape or values. The message names the operand, what is allowed and its value.

    Source: docs/numerics.md.

    Examples
    --------
    >>> ones, twos = np.full((2, 5), 0x3C00, np.uint16), np.full((3, 5), 0x4000, np.uint16)
    >>> matrix_product(ones, twos, TileConfig()).view(np.float32)
    array([[10., 10.],
           [10., 10.],
           [10., 10.]], dtype=float32)
    """
    if not isinstance(config, TileConfig):
        raise TypeError(f"config must be a TileConfig, not {config!r}")
    if config.initial:
        raise ValueError("config must be a tile without C input (initial = false)")
    a, b = _checked_factors(columns, rows, config, scales)
    try:
        outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(f"rows must go with columns, {a.shape}, but for its last two axes, not {b.shape}") from None
    accumulator = config.numerics.accumulator
    if added is not None and isinstance(accumulator, Fused):
        raise ValueError("added must be none but for exact and binned sums")
    wanted = np.int32 if config.numerics.result == "int32" else np.float32
    if added is not None and added.dtype != wanted:
        raise TypeError(f"added must be {np.dtype(wanted)}, not {added.dtype}")
    lefts, rights = np.broadcast_to(a, outer + a.shape[-2:]), np.broadcast_to(b, outer + b.shape[-2:])
    out = np.empty((*outer, b.shape[-2], a.shape[-2]), np.uint32)
    if out.size == 0:
        return out
    left, right, made = (each.reshape(-1, *each.shape[-2:]) for each in (lefts, rights, out))
    more = None if added is None else np.broadcast_to(added.view(np.uint32), out.shape).reshape(made.shape)
    if isinstance(accumulator, Exact):
        return exact_products(left, right, config, more).reshape(out.shape)
    for index in range(len(made)):
        if isinstance(accumulator, Fused):
            made[index] = fused_products(left[index], right[index], config)
        else:
            made[index] = binned_products(left[index], right[index], config, None if more is None else more[index])
    return out


def _checked_factors(
    columns: ArrayLike, rows: ArrayLike, config: TileConfig, scales: tuple[ArrayLike, ArrayLike] | None
) -> tuple[NDArray, NDArray]:
    a, b = checked_bits("columns", columns, config.a_format), checked_bits("rows", rows, config.b_format)
    for name, array in (("columns", a), ("rows", b)):
        if array.ndim < 2 or array.shape[-1] == 0:
            raise ValueError(f"{name} must have shape (..., vectors, K) with K >= 1, not {array.shape}")
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"rows must have vectors as long as columns has ({a.shape[-1]}), not {b.shape[-1]}")
    if (scales is None) != (config.numerics.scale is None):
        wanted = "left out" if config.numerics.scale is None else "given"
        raise ValueError(f'scales must be {wanted} for a tile with tile.scale = "{config.scale}"')
    if scales is not None:
        a_operand, b_operand = operand_formats(config)
        assert isinstance(a_operand, ScaledFormat)
        assert isinstance(b_operand, ScaledFormat)
        a = with_scales("columns", a, scales[0], a_operand)
        b = with_scales("rows", b, scales[1], b_operand)
    return a, b
