"""Zeros of float32 tensors after quantisation for tiles with scales (MXFP8, MXFP6, MXFP4, NVFP4)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.formats import FloatFormat
from tensordash_sim.compiler.images import geometry_values, layer_values
from tensordash_sim.compiler.layer import OPERANDS
from tensordash_sim.emulator.scaled import drawn
from tensordash_sim.golden.block_scales import quantise_blocks
from tensordash_sim.golden.quantization import non_zeros
from tensordash_sim.lowering import Geometry

__all__ = ["scaled_non_zeros"]


def scaled_non_zeros(
    tile: TileConfig,
    geometry: Geometry,
    operation: str,
    rows: str,
    values: Mapping[str, NDArray[np.float32]],
    seed: int | None,
    weight_block_height: int = 1,
) -> dict[str, NDArray[np.bool_]]:
    """Return the non-zero positions of quantised operands, in the geometry's shapes.

    Blocks extend along the reduced dimension: channels, filters or positions. The blocks of a convolution's streams
    also cross taps; their share of zeros is nearly the same.

    Parameters
    ----------
    tile : TileConfig
        A tile with scales.
    geometry : Convolution or MatrixProduct
        The layer.
    operation : str
        "AxW", "WxG" or "AxG".
    rows : str
        The operand on the row side.
    values : mapping of str to array of float32
        Both operands, in the geometry's shapes.
    seed : int, optional
        Seed of gradients' stochastic rounding. If None, gradients are rounded to nearest.
    weight_block_height : int
        Number of vectors of a linear layer's weights that share the scales of their blocks.
    """
    scale = tile.numerics.scale
    assert scale is not None
    positions = {}
    for name in OPERANDS[operation]:
        fmt = tile.b_format if name == rows else tile.a_format
        assert isinstance(fmt, FloatFormat)
        # Axes are (products,) samples, channels, Y, X; for W they are filters, channels, Y, X.
        axis = -1 if operation == "AxG" else -4 if (operation, name) == ("WxG", "W") else -3
        last = np.moveaxis(layer_values(geometry, name, values[name]), axis, -1)
        random = drawn(np.random.Philox(key=seed), last.shape) if name == "G" and seed is not None else None
        shape, height = last.shape, weight_block_height if name == "W" else 1
        vectors = last.reshape(-1, shape[-1]) if height > 1 else last
        quantised = quantise_blocks(
            vectors, fmt, scale, random=random, scale_rounding=tile.scale_rounding, block_height=height
        )
        nonzero = non_zeros(quantised.bits, fmt).reshape(shape)
        positions[name] = geometry_values(geometry, name, np.moveaxis(nonzero, -1, axis))
    return positions
