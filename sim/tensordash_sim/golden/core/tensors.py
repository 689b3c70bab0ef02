"""Tensors as a core's memory has them: groups, FP32 results, vectors, and the compressed format."""

from math import lcm

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.configuration.core_config import CoreConfig

__all__ = ["bias_length", "deflate", "from_groups", "inflate", "to_groups", "value_type"]


def value_type(bits: int) -> np.dtype:
    """Return the type of a value's bits, little-endian."""
    return np.dtype({8: "<u1", 16: "<u2", 32: "<u4"}[bits])


def bias_length(config: CoreConfig, filters: int) -> int:
    """Values in a vector of biases: one for each filter, and as many zeros as fill up groups and steps of the tile.

    >>> bias_length(CoreConfig(), 10)
    16
    """
    unit = lcm(config.tile.rows, config.tile.columns, config.group_bytes // 4)
    return -(-filters // unit) * unit


def to_groups(values: ArrayLike, config: CoreConfig, *, bits: int = 0) -> NDArray:
    """Cut an array into groups; what fills up the last of each direction is zero.

    Parameters
    ----------
    values : array of int, (..., channels, positions)
        Bit patterns. What leads is in the order in which groups shall stand.
    config : CoreConfig
        Gives the lanes.
    bits : int
        Of a value: as an operand's if 0, or 32.

    Returns
    -------
    array of unsigned, (..., channel groups, position groups, L * L * bits // w)
        Each group's values as they stand in memory, FP32 ones as words of the operands' width.

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
    """Return the reverse of `to_groups`.

    Parameters
    ----------
    groups : array of int, (..., channel groups, position groups, values of a group)
        As `to_groups` gives them.
    config : CoreConfig
        Gives the lanes.
    bits : int
        Of a value: 32, of FP32 ones; as wide as the array's if 0.
    channels, positions : int
        How many there are.
    turned : bool
        In each group they have changed places.
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
    """Compress.

    Parameters
    ----------
    groups : array of int, (groups, L * L)
        Values of the operands' width.
    config : CoreConfig
        Gives the lanes and the width.
    segment : int
        Groups in a segment.

    Returns
    -------
    bytes, array of uint32 of the number of segments and one
        The units, and at which of them each segment begins.

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
    """Decompress.

    Parameters
    ----------
    units : array of int
        All units from the first group's on.
    config : CoreConfig
        Gives the lanes and the width.
    count : int
        Groups.

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
