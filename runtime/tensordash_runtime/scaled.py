"""Quantisation of float32 tensors to elements and scales (MXFP8, MXFP6, MXFP4, NVFP4).

Blocks extend along the reduced dimension of the tensor: channels, filters or positions of a row.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS, SCALES, FloatFormat, ScaleFormat
from tensordash_sim.compiler.images import geometry_values, layer_values
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.nvfp4_values import block_values
from tensordash_sim.emulator.scaled import drawn
from tensordash_sim.golden.block_scales import Scaled, quantise_blocks
from tensordash_sim.golden.quantization import non_zeros
from tensordash_sim.lowering import Geometry

__all__ = ["nvfp4_operands", "scaled_non_zeros"]

NVFP4_LANES = 16
"""Lanes of the preset `nvfp4`. Both quantise a linear layer with the same random bits."""


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

    The blocks of a convolution's streams also cross taps; their share of zeros is nearly the same.

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
        vectors = _vectors(geometry, operation, name, values[name])
        random = _random_bits(geometry, operation, name, vectors.shape, seed, tile.lanes)
        height = weight_block_height if name == "W" else 1
        quantised = _quantise(vectors, fmt, scale, random, height, tile.scale_rounding)
        positions[name] = _tensor(geometry, operation, name, non_zeros(quantised.bits, fmt))
    return positions


def nvfp4_operands(
    geometry: Geometry,
    operation: str,
    values: Mapping[str, NDArray[np.float32]],
    seed: int | None,
    weight_block_height: int = 1,
) -> dict[str, tuple[NDArray[np.uint16], float]]:
    """Quantise operands to NVFP4, the form in a core's memory.

    The parameters are those of `scaled_non_zeros`.

    Returns
    -------
    dict of str to (array of uint16, float)
        NVFP4 values in the geometry's shapes (`nvfp4_values`), and the scale of the tensor, an FP32 number.
    """
    fmt, made = FORMATS["fp4_e2m1"], {}
    assert isinstance(fmt, FloatFormat)
    for name in OPERANDS[operation]:
        vectors = _vectors(geometry, operation, name, values[name])
        random = _random_bits(geometry, operation, name, vectors.shape, seed, NVFP4_LANES)
        quantised = _quantise(vectors, fmt, SCALES["e4m3"], random, weight_block_height if name == "W" else 1)
        made[name] = _tensor(geometry, operation, name, block_values(quantised)), float(np.float32(quantised.tensor))
    return made


def _reduced_axis(operation: str, name: str) -> int:
    """Return the axis of the reduction. Axes are (products,) samples (W: filters), channels, Y, X."""
    return -1 if operation == "AxG" else -4 if (operation, name) == ("WxG", "W") else -3


def _vectors(geometry: Geometry, operation: str, name: str, values: NDArray) -> NDArray:
    """Return a tensor whose last axis is the reduction."""
    return np.moveaxis(layer_values(geometry, name, values), _reduced_axis(operation, name), -1)


def _tensor(geometry: Geometry, operation: str, name: str, vectors: NDArray) -> NDArray:
    """Return vectors in the geometry's shape, the inverse of `_vectors`."""
    made: NDArray = geometry_values(geometry, name, np.moveaxis(vectors, -1, _reduced_axis(operation, name)))
    return made


def _quantise(
    vectors: NDArray[np.float32],
    fmt: FloatFormat,
    scale: ScaleFormat,
    random: NDArray[np.uint16] | None,
    block_height: int,
    scale_rounding: str = "floor",
) -> Scaled:
    """Quantise vectors; their other axes are one axis for blocks of several vectors."""
    flat = vectors.reshape(-1, vectors.shape[-1]) if block_height > 1 else vectors
    made = quantise_blocks(flat, fmt, scale, random=random, scale_rounding=scale_rounding, block_height=block_height)
    bits, scales = (each.reshape(*vectors.shape[:-1], -1) for each in (made.bits, made.scales))
    return Scaled(bits, scales, made.tensor)


def _random_bits(
    geometry: Geometry, operation: str, name: str, shape: tuple[int, ...], seed: int | None, lanes: int
) -> NDArray[np.uint16] | None:
    """Draw the random bits of a gradient's vectors, product by product, as `contract_scaled` does for linear layers.

    Streams of AxG have full steps of `lanes` positions, and the bits of their padding are drawn, too.
    """
    if name != "G" or seed is None:
        return None
    random, products, length = np.random.Philox(key=seed), Layer.of(geometry).products, shape[-1]
    one = *(shape[1:-1] if products > 1 else shape[:-1]), length + (-length % lanes if operation == "AxG" else 0)
    return np.stack([drawn(random, one) for _ in range(products)])[..., :length].reshape(shape)
