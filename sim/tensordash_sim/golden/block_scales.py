"""Quantisation to elements and scales, the operands of a tile with scales (MXFP8, MXFP6, MXFP4, NVFP4).

Follows docs/numerics.md, "Quantisation", and shares no code with `block_formats`, which has no bit patterns.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FloatFormat, ScaleFormat

from . import encode, to_float

__all__ = ["Scaled", "quantise_blocks", "scale_values", "scaled_steps"]


@dataclass(frozen=True)
class Scaled:
    """Elements, the scales of their blocks and the scale of the tensor.

    Parameters
    ----------
    bits : array of uint8, (..., K)
        Bit patterns of the elements.
    scales : array of uint8, (..., blocks)
        Bit patterns of the scales of blocks along the last axis. The last block may be shorter.
    tensor : float
        NVFP4: an FP32 factor of all elements. 1 for other formats.
    """

    bits: NDArray[np.uint8]
    scales: NDArray[np.uint8]
    tensor: float = 1.0


def scale_values(bits: ArrayLike, scale: ScaleFormat) -> NDArray[np.float64]:
    """Return the values of scales.

    >>> from tensordash.configuration.formats import SCALES
    >>> scale_values([0x7F, 0x81, 0xFF], SCALES["e8m0"]).tolist(), scale_values([0x38], SCALES["e4m3"]).tolist()
    ([1.0, 4.0, nan], [1.0])
    """
    return np.asarray(_worth(scale)[np.asarray(bits)], np.float64)


@cache
def _worth(scale: ScaleFormat) -> NDArray[np.float64]:
    if scale.number is not None:
        return np.array([to_float(pattern, scale.number) for pattern in range(256)])
    table = np.ldexp(1.0, np.arange(256) - scale.bias)
    table[scale.nan] = np.nan
    return table


def quantise_blocks(
    values: ArrayLike,
    fmt: FloatFormat,
    scale: ScaleFormat,
    *,
    largest: float | None = None,
    random: NDArray[np.uint16] | None = None,
    scale_rounding: str = "floor",
    block_height: int = 1,
) -> Scaled:
    """Round FP32 numbers to elements and scales.

    Parameters
    ----------
    values : array of float32, (..., K)
        Blocks run along the last axis. Subnormal numbers count as zeros.
    fmt : FloatFormat
        Format of the elements.
    scale : ScaleFormat
        "e8m0": the OCP's rule. "e4m3": NVFP4's rule, with a scale for the tensor.
    largest : float, optional
        The tensor's largest magnitude, if the values are only a part of the tensor.
    random : array of uint16, the shape of the values, optional
        Random bits for stochastic rounding of the elements; all-zero bits round toward zero. Scales are never rounded
        stochastically.
    scale_rounding : "floor" or "up"
        Rounding of an "e8m0" scale. "floor": the OCP's rule. "up": the smallest power of two with which no element
        exceeds the largest one.
    block_height : int
        Number of vectors, along the axis before the last, that share the scales of their blocks. If it equals the
        scale's block size, a matrix and its transpose have the same quantised values.

    Returns
    -------
    Scaled
        A block with an infinity or NaN has a NaN scale and elements of +0.

    Source
    ------
    OCP Microscaling Formats (MX) Specification 1.0, section 6.3; "Pretraining Large Language Models with NVFP4" (NVIDIA
    2025, arXiv:2509.25149), appendix on quantisation, and section 4.3 on scales of 16 x 16 blocks. Stochastic rounding:
    docs/core.md. Other rounding is to nearest, ties to even.

    Examples
    --------
    The largest is 7 = 1.75 * 2**2, as is fp4's largest exponent: the scale is 1, and 7 becomes 6.

    >>> from tensordash.configuration.formats import FORMATS, SCALES
    >>> quantised = quantise_blocks(np.array([7.0, 0.3, -2.4, 0.0], np.float32), FORMATS["fp4_e2m1"], SCALES["e8m0"])
    >>> quantised.bits.tolist(), quantised.scales.tolist()
    ([7, 1, 12, 0], [127])
    """
    with np.errstate(invalid="ignore"):  # signalling NaN
        array = np.asarray(values, np.float32).astype(np.float64)
    array = np.where(np.abs(array) < 2.0**-126, np.copysign(0.0, array), array)
    blocks = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, -array.shape[-1] % scale.block)])
    blocks = blocks.reshape(*array.shape[:-1], -1, scale.block)
    sound = np.asarray(np.isfinite(blocks).all(-1))
    if block_height > 1:
        sound = _share(sound, block_height, np.logical_and)
    blocks = np.where(sound[..., np.newaxis], blocks, 0.0)
    magnitudes = np.abs(blocks).max(-1)
    if block_height > 1:
        magnitudes = _share(magnitudes, block_height, np.maximum)
    scales, tensor = _choose_scales(magnitudes, fmt, scale, largest, scale_rounding)
    divisors = (scale_values(scales, scale) * tensor)[..., np.newaxis]
    # A double distinguishes a quotient of FP32 numbers from a tie, so the division does not round twice.
    scaled = np.divide(blocks, divisors, out=np.zeros_like(blocks), where=divisors != 0)
    scaled = scaled.reshape(*array.shape[:-1], -1)[..., : array.shape[-1]]
    if random is not None:
        scaled = _moved(scaled, fmt, random)
    bits = _saturated(scaled, fmt)
    return Scaled(bits, np.where(sound, scales, scale.nan).astype(np.uint8), tensor)


def _choose_scales(
    magnitudes: NDArray, fmt: FloatFormat, scale: ScaleFormat, largest: float | None, scale_rounding: str
) -> tuple[NDArray[np.uint8], float]:
    """Return the scales of blocks from their largest magnitudes, and the scale of the tensor."""
    top = to_float(fmt.largest, fmt)
    if scale.number is None:
        # The exponent of the largest magnitude, minus the largest element's exponent.
        exponents = np.frexp(magnitudes)[1] - np.frexp(top)[1]
        if scale_rounding == "up":
            exponents = exponents + (magnitudes > np.ldexp(top, exponents))
        return np.where(magnitudes > 0, np.clip(exponents + scale.bias, 0, scale.nan - 1), 0).astype(np.uint8), 1.0
    largest = magnitudes.max(initial=0.0) if largest is None else largest
    tensor = float(np.float32(largest / (to_float(scale.number.largest, scale.number) * top))) if largest else 1.0
    return _saturated(magnitudes / (top * tensor), scale.number), tensor


def _share(blocks: NDArray, height: int, combine: np.ufunc) -> NDArray:
    """Combine values of blocks, (..., vectors, blocks), over groups of `height` vectors; repeat the result for each."""
    vectors = blocks.shape[-2]
    combined = combine.reduceat(blocks, np.arange(0, vectors, height), axis=-2)
    return np.repeat(combined, height, axis=-2)[..., :vectors, :]


def _saturated(values: NDArray[np.float64], fmt: FloatFormat) -> NDArray[np.uint8]:
    """Round values to nearest, ties to even, and saturate at the largest magnitude; return bit patterns."""
    top = to_float(fmt.largest, fmt)
    return np.asarray(encode(np.clip(values, -top, top), fmt), np.uint8)


def _moved(values: NDArray[np.float64], fmt: FloatFormat, random: NDArray[np.uint16]) -> NDArray[np.float64]:
    """Round stochastically: the probability of the upper magnitude is the value's relative distance to the lower one.

    The random bits are added below the last place; then the bits below it are cut off.
    """
    exponents = np.frexp(values)[1] - 1
    places = np.maximum(exponents - fmt.fraction_bits, fmt.least_exponent)
    units = np.floor(np.ldexp(np.abs(values), 16 - places)).astype(np.int64)
    return np.copysign(np.ldexp(((units + random) >> 16).astype(np.float64), places), values)


def scaled_steps(made: Scaled, config: TileConfig) -> NDArray[np.uint8]:
    """Arrange elements and scales as steps of a tile, each with its scale after its values.

    Parameters
    ----------
    made : Scaled
        Vectors, (..., K).
    config : TileConfig
        A tile with scales.

    Returns
    -------
    array of uint8, (..., T, lanes + 1)
        The last step is padded with zeros.

    Raises
    ------
    ValueError
        If the tile has no scales.

    Examples
    --------
    >>> config = TileConfig(format="fp4_e2m1", scale="e4m3")
    >>> scaled_steps(Scaled(np.arange(6, dtype=np.uint8), np.array([0x38], np.uint8)), config).tolist()
    [[0, 1, 2, 3, 56], [4, 5, 0, 0, 56]]
    """
    scale = config.numerics.scale
    if scale is None:
        raise ValueError('config must be a tile with scales, not one with tile.scale = "none"')
    bits = np.pad(made.bits, [(0, 0)] * (made.bits.ndim - 1) + [(0, -made.bits.shape[-1] % config.lanes)])
    steps = bits.reshape(*bits.shape[:-1], -1, config.lanes)
    scales = np.repeat(made.scales, scale.block // config.lanes, axis=-1)[..., : steps.shape[-2], np.newaxis]
    return np.concatenate([steps, scales], axis=-1)
