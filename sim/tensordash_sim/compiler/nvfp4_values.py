"""NVFP4 values: an element and its block's scale in one number of 16 bits.

The low byte has the element (E2M1), and the high byte has the scale (E4M3). An operand in this form has one number for
each of its values, so that the compiler can divide it as any other operand.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FloatFormat, Format

from ..golden.block_scales import Scaled, scale_values
from ..golden.core.tensors import NVFP4_ELEMENT, NVFP4_SCALE, pack_nvfp4
from ..golden.encoding import encode
from ..golden.numbers import to_float

__all__ = ["block_values", "nvfp4_groups", "nvfp4_non_zeros", "nvfp4_products"]

SCALE_SHIFT = 8
"""Bits below the scale."""
ELEMENT_MASK = 0xF
MAGNITUDE_MASK = 0x7
"""Bits of an element without its sign."""


def block_values(blocks: Scaled) -> NDArray[np.uint16]:
    """Return quantised vectors as NVFP4 values.

    Examples
    --------
    >>> blocks = Scaled(np.array([1, 2, 3], np.uint8), np.array([0x38], np.uint8))
    >>> [hex(each) for each in block_values(blocks)]
    ['0x3801', '0x3802', '0x3803']
    """
    scales = np.repeat(blocks.scales, NVFP4_SCALE.block, axis=-1)[..., : blocks.bits.shape[-1]]
    return (scales.astype(np.uint16) << SCALE_SHIFT | blocks.bits).astype(np.uint16)


def nvfp4_products(values: NDArray[np.uint16], fmt: Format) -> NDArray[np.uint16]:
    """Return the products of elements and scales as bit patterns of a format, which holds them exactly.

    Parameters
    ----------
    values : array of uint16
        NVFP4 values.
    fmt : Format
        fp16 or bf16.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> nvfp4_products(np.array([0x3803, 0x400F], np.uint16), FORMATS["fp16"]).view(np.float16).tolist()
    [1.5, -12.0]
    """
    found: NDArray[np.uint16] = _products(fmt)[values]
    return found


@cache
def _products(fmt: Format) -> NDArray[np.uint16]:
    """Return the product of every NVFP4 value."""
    assert isinstance(fmt, FloatFormat)
    values = np.arange(1 << 16, dtype=np.uint16)
    elements = np.array([to_float(bits, NVFP4_ELEMENT) for bits in range(ELEMENT_MASK + 1)])
    products = elements[values & ELEMENT_MASK] * scale_values(values >> SCALE_SHIFT, NVFP4_SCALE)
    return np.asarray(encode(products, fmt), np.uint16)


def nvfp4_non_zeros(values: NDArray[np.uint16]) -> NDArray[np.bool_]:
    """Return which elements are not zero."""
    return values & MAGNITUDE_MASK != 0


def nvfp4_groups(values: NDArray[np.uint16], config: CoreConfig, *, by_channel: bool) -> bytes:
    """Return the bytes of NVFP4 groups.

    Parameters
    ----------
    values : array of uint16, (..., L * L)
        NVFP4 values in the order of a group's values. Padding is 0.
    config : CoreConfig
        Supplies L.
    by_channel : bool
        Whether a scale belongs to a channel, not to a position.

    Raises
    ------
    ValueError
        If non-zero elements of a position (or channel) have different scales.
    """
    lanes = config.tile.lanes
    groups = values.reshape(*values.shape[:-1], lanes, lanes)
    axis = -2 if by_channel else -1
    # Padding follows the values, so that the first scale belongs to a value if any does.
    scales = np.take(groups, 0, axis) >> SCALE_SHIFT
    if (nvfp4_non_zeros(groups) & (groups >> SCALE_SHIFT != np.expand_dims(scales, axis))).any():
        each = "channel" if by_channel else "position"
        raise ValueError(f"NVFP4 values must have one scale for each {each} of a group")
    return pack_nvfp4(values & ELEMENT_MASK, scales)
