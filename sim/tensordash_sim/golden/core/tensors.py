"""Layout of tensors in a core's memory: groups, FP32 results, vectors, and the compressed format."""

from math import lcm

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FORMATS, SCALES

from ..block_scales import scale_values
from ..encoding import encode
from ..numbers import to_float

__all__ = ["bias_length", "deflate", "expand_nvfp4", "from_groups", "inflate", "pack_nvfp4", "to_groups", "value_type"]

NVFP4_ELEMENT = FORMATS["fp4_e2m1"]
NVFP4_SCALE = SCALES["e4m3"]


def value_type(bits: int) -> np.dtype:
    """Return the little-endian unsigned type with this number of bits."""
    return np.dtype({8: "<u1", 16: "<u2", 32: "<u4"}[bits])


def bias_length(config: CoreConfig, filters: int) -> int:
    """Return the length of a bias vector: one value for each filter, padded to full groups and passes of the tile.

    >>> bias_length(CoreConfig(), 10)
    16
    """
    unit = lcm(config.tile.rows, config.tile.columns, config.group_bytes // 4)
    return -(-filters // unit) * unit


def to_groups(values: ArrayLike, config: CoreConfig, *, bits: int = 0) -> NDArray:
    """Split an array into groups; zeros pad the last group of each direction.

    Parameters
    ----------
    values : array of int, (..., channels, positions)
        Bit patterns. The leading axes are in the order of the groups in memory.
    config : CoreConfig
        Supplies the lanes.
    bits : int
        Bits of a value: 32, or 0 for the operands' width.

    Returns
    -------
    array of unsigned, (..., channel groups, position groups, L * L * bits // w)
        Each group's values in memory order. FP32 values are words of the operands' width w.

    Source: docs/core.md, "Tensors".

    Examples
    --------
    >>> config = CoreConfig()
    >>> groups = to_groups([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], config)  # two channels of five positions
    >>> groups.shape, groups[0, 0, :6].tolist(), groups[0, 1, :2].tolist()
    ((1, 2, 16), [1, 6, 0, 0, 2, 7], [5, 10])
    """
    lanes, width = config.tile.lanes, bits or config.value_bits
    array = np.asarray(values)
    *outer, channels, positions = array.shape
    shape = [-(-channels // lanes), -(-positions // lanes)]
    filled = np.zeros([*outer, shape[0] * lanes, shape[1] * lanes], value_type(width))
    filled[..., :channels, :positions] = array
    parts = width // config.value_bits
    # (..., channel group, part, channel in it, position group, position)
    cut = filled.reshape(*outer, shape[0], parts, lanes // parts, shape[1], lanes)
    k = len(outer)
    ordered = cut.transpose(*range(k), k, k + 3, k + 1, k + 4, k + 2)
    return np.ascontiguousarray(ordered).reshape(*outer, *shape, -1).view(value_type(config.value_bits))


def from_groups(
    groups: ArrayLike, config: CoreConfig, channels: int, positions: int, *, bits: int = 0, turned: bool = False
) -> NDArray[np.unsignedinteger]:
    """Join groups into an array, the inverse of `to_groups`.

    Parameters
    ----------
    groups : array of int, (..., channel groups, position groups, values of a group)
        As `to_groups` returns them.
    config : CoreConfig
        Supplies the lanes.
    bits : int
        Bits of a value: 32 for FP32 values, or 0 for the array's width.
    channels, positions : int
        Numbers of channels and positions, without padding.
    turned : bool
        Channels and positions are swapped in each group.
    """
    lanes, array = config.tile.lanes, np.asarray(groups)
    parts = bits // config.value_bits if bits else 1
    if bits:
        array = np.ascontiguousarray(array, value_type(config.value_bits)).view(value_type(bits))
    *outer, channel_groups, position_groups, _ = array.shape
    k = len(outer)
    cut = array.reshape(*outer, channel_groups, position_groups, parts, lanes, lanes // parts)
    inside = (k, k + 3, k + 1, k + 2, k + 4) if turned else (k, k + 2, k + 4, k + 1, k + 3)
    ordered = cut.transpose(*range(k), *inside)
    filled = ordered.reshape(*outer, channel_groups * lanes, position_groups * lanes)
    return filled[..., :channels, :positions]


def deflate(groups: ArrayLike, config: CoreConfig, segment: int) -> tuple[bytes, NDArray[np.uint32]]:
    """Compress groups.

    Parameters
    ----------
    groups : array of int, (groups, L * L)
        Values of the operands' width.
    config : CoreConfig
        Supplies the lanes and the width.
    segment : int
        Groups in a segment.

    Returns
    -------
    bytes, array of uint32, (segments + 1,)
        The units, and the index of the unit at which each segment begins, with the end of the last one.

    Source: docs/core.md, "Tensors".

    Examples
    --------
    >>> data, table = deflate([[0] * 15 + [7], [0] * 16], CoreConfig(), segment=1)
    >>> data.hex(), table.tolist()
    ('008007000000', [0, 2, 3])
    """
    lanes, width = config.tile.lanes, config.value_bits
    units: list[int] = []
    table = []
    for index, group in enumerate(np.asarray(groups).tolist()):
        if index % segment == 0:
            table.append(len(units))
        mask = sum((value != 0) << j for j, value in enumerate(group))
        units += [(mask >> (width * k)) % (1 << width) for k in range(lanes * lanes // width)]
        units += [value for value in group if value]
    table.append(len(units))
    return np.array(units, value_type(width)).tobytes(), np.array(table, np.uint32)


def inflate(units: ArrayLike, config: CoreConfig, count: int) -> NDArray[np.unsignedinteger] | None:
    """Decompress groups.

    Parameters
    ----------
    units : array of int
        All units, starting with the first group.
    config : CoreConfig
        Supplies the lanes and the width.
    count : int
        Number of groups.

    Returns
    -------
    array of unsigned, (count, L * L), or None
        None if the units do not make exactly `count` groups.
    """
    lanes, width = config.tile.lanes, config.value_bits
    size, words, place = lanes * lanes, np.asarray(units).tolist(), 0
    groups = np.zeros((count, size), value_type(width))
    for group in groups:
        mask_units = words[place : place + size // width]
        mask = sum(unit << (width * k) for k, unit in enumerate(mask_units))
        place += size // width
        for j in range(size):
            if mask >> j & 1:
                if place >= len(words):
                    return None
                group[j] = words[place]
                place += 1
    return groups if place == len(words) else None


def pack_nvfp4(elements: ArrayLike, scales: ArrayLike) -> bytes:
    """Return the bytes of NVFP4 groups.

    Parameters
    ----------
    elements : array of int, (..., L * L)
        Bit patterns of E2M1, in the order of a group's values.
    scales : array of int, (..., L)
        Bit patterns of E4M3, one for each position, or one for each channel.

    Source: docs/core.md, "Tensors".

    Examples
    --------
    >>> pack_nvfp4([list(range(16))], [[0x38, 0x40, 0x48, 0x50]]).hex()
    '1032547698badcfe3840485000000000'
    """
    digits, factors = np.asarray(elements, np.uint8), np.asarray(scales, np.uint8)
    pairs = digits[..., 0::2] | digits[..., 1::2] << 4
    padding = np.zeros((*factors.shape[:-1], digits.shape[-1] // 2 - factors.shape[-1]), np.uint8)
    return np.concatenate([pairs, factors, padding], axis=-1).tobytes()


def expand_nvfp4(data: bytes, config: CoreConfig, *, by_channel: bool) -> NDArray[np.unsignedinteger]:
    """Multiply the elements of NVFP4 groups by their scales.

    Parameters
    ----------
    data : bytes
        Groups, as `pack_nvfp4` returns them.
    config : CoreConfig
        Supplies the lanes and the format of the results.
    by_channel : bool
        Whether a scale belongs to a channel, not to a position.

    Returns
    -------
    array of unsigned, (groups, L, L)
        Bit patterns of the products, by position and channel.

    Examples
    --------
    >>> groups = expand_nvfp4(bytes.fromhex("1032547698badcfe3840485000000000"), CoreConfig(), by_channel=False)
    >>> groups.view(np.float16)[0, 1].tolist()  # 2, 3, 4 and 6, times 2
    [4.0, 6.0, 8.0, 12.0]
    """
    lanes, fmt = config.tile.lanes, config.tile.a_format
    groups = np.frombuffer(data, np.uint8).reshape(-1, config.group_bytes // 2)
    pairs = groups[:, : lanes * lanes // 2]
    digits = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(-1, lanes, lanes)
    factors = scale_values(groups[:, lanes * lanes // 2 :][:, :lanes], NVFP4_SCALE)
    values = np.array([to_float(k, NVFP4_ELEMENT) for k in range(16)])
    products = values[digits] * (factors[:, None, :] if by_channel else factors[:, :, None])
    return np.asarray(encode(products, fmt), value_type(config.value_bits))
