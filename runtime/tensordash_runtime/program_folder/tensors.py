"""Tensors of a program folder: shape, format, and the order of their values in memory."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FORMATS, FloatFormat
from tensordash_sim.compiler.layer import Layer
from tensordash_sim.emulator import decode, encode
from tensordash_sim.golden.core.tensors import bias_length, from_groups, to_groups, value_type
from tensordash_sim.lowering import Convolution, Geometry

__all__ = ["FORMAT_BITS", "INT32_RANGE", "Groups", "StepTensor", "bias_tensor", "groups_of"]

FORMAT_BITS = {"fp32": 32, "int32": 32} | {
    name: fmt.width for name, fmt in FORMATS.items() if isinstance(fmt, FloatFormat) and fmt.width in (8, 16)
}
"""Bits of a value in each format of tensors in memory."""
INT32_RANGE = -(1 << 31), (1 << 31) - 1
"""Least and greatest value in the format "int32"."""

Dimension = tuple[int, int]
"""Size of a dimension, and its stride in the plain tensor."""


@dataclass(frozen=True, kw_only=True)
class Groups:
    """The order of a tensor in groups (docs/core.md, "Tensors").

    Parameters
    ----------
    outer : tuple of (int, int)
        Sizes and strides of the dimensions outside the groups, the last index fastest.
    channels, positions : (int, int)
        Sizes and strides of both dimensions of a group.
    turned : bool
        Whether channels and positions are swapped in each group.
    """

    outer: tuple[Dimension, ...]
    channels: Dimension
    positions: Dimension
    turned: bool = False

    def indices(self) -> NDArray[np.int64]:
        """Return the index in the plain tensor of each value, with shape (*outer, channels, positions)."""
        index = np.zeros((), np.int64)
        for size, stride in (*self.outer, self.channels, self.positions):
            index = index[..., None] + np.arange(size) * stride
        return index

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Groups":
        """Build from the result of `to_json`, with lists instead of tuples."""
        outer = tuple((int(size), int(stride)) for size, stride in document["outer"])
        (channels, channel_stride), (positions, position_stride) = document["channels"], document["positions"]
        return cls(
            outer=outer,
            channels=(int(channels), int(channel_stride)),
            positions=(int(positions), int(position_stride)),
            turned=bool(document["turned"]),
        )


@dataclass(frozen=True, kw_only=True)
class StepTensor:
    """A tensor in the memory of a core.

    Parameters
    ----------
    name : str
        Its name, unique in a folder.
    shape : tuple of int
        Its shape in PyTorch.
    format : str
        One of `FORMAT_BITS`.
    groups : Groups, optional
        Its order in groups; by default the order is plain, the last index fastest.
    padded : int
        Number of values in memory of a plain tensor with padding by zeros, or 0 without padding.
    """

    name: str
    shape: tuple[int, ...]
    format: str
    groups: Groups | None = None
    padded: int = 0

    @property
    def size(self) -> int:
        """Number of values of the tensor."""
        return prod(self.shape)

    def memory_bytes(self, config: CoreConfig) -> int:
        """Return the tensor's bytes in memory, including padding."""
        width = FORMAT_BITS[self.format] // 8
        if self.groups is None:
            return max(self.size, self.padded) * width
        lanes = config.tile.lanes
        (channels, _), (positions, _) = self.groups.channels, self.groups.positions
        count = prod(size for size, _ in self.groups.outer) * -(-channels // lanes) * -(-positions // lanes)
        return count * lanes**2 * width

    def to_bytes(self, bits: NDArray, config: CoreConfig) -> bytes:
        """Convert bit patterns of the tensor's shape to its bytes in memory."""
        width = FORMAT_BITS[self.format]
        flat = np.ascontiguousarray(bits).reshape(-1).astype(value_type(width), copy=False)
        if flat.size != self.size:
            raise ValueError(f"{self.name} must have {self.size} values, not {flat.size}")
        if self.groups is None:
            filled = np.zeros(max(self.size, self.padded), value_type(width))
            filled[: self.size] = flat
            return filled.tobytes()
        values = flat[self.groups.indices()]
        if self.groups.turned:
            values = _turn(values, config.tile.lanes)
        return to_groups(values, config, bits=width).tobytes()

    def from_bytes(self, data: bytes, config: CoreConfig) -> NDArray:
        """Convert the tensor's bytes in memory to bit patterns of its shape, the inverse of `to_bytes`."""
        width = FORMAT_BITS[self.format]
        if self.groups is None:
            return np.frombuffer(data, value_type(width))[: self.size].reshape(self.shape)
        lanes, groups = config.tile.lanes, self.groups
        outer = [size for size, _ in groups.outer]
        (channels, _), (positions, _) = groups.channels, groups.positions
        cut = np.frombuffer(data, value_type(config.value_bits))
        cut = cut.reshape(*outer, -(-channels // lanes), -(-positions // lanes), -1)
        bits = 32 if width == 32 else 0
        values = from_groups(cut, config, channels, positions, bits=bits, turned=groups.turned)
        flat = np.zeros(self.size, value_type(width))
        flat[groups.indices()] = values
        return flat.reshape(self.shape)

    def numbers(self, bits: NDArray) -> NDArray:
        """Convert bit patterns to float32, or to int32 for an int32 tensor."""
        if self.format == "int32":
            return bits.view(np.int32)
        return bits.view(np.float32) if self.format == "fp32" else decode(bits, FORMATS[self.format])

    def bits(self, numbers: NDArray) -> NDArray:
        """Round float32 to the tensor's format, to nearest, ties to even; return bit patterns."""
        if self.format == "int32":
            return np.ascontiguousarray(numbers, np.int32).view(np.uint32)
        numbers = np.ascontiguousarray(np.where(np.isnan(numbers), np.float32(np.nan), numbers), np.float32)
        return numbers.view(np.uint32) if self.format == "fp32" else encode(numbers, FORMATS[self.format])

    def to_json(self) -> dict[str, Any]:
        order = {"groups": self.groups.to_json()} if self.groups else {"padded": max(self.size, self.padded)}
        return {"name": self.name, "shape": list(self.shape), "format": self.format, **order}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "StepTensor":
        """Build from the result of `to_json`."""
        groups = document.get("groups")
        shape = tuple(int(size) for size in document["shape"])
        padded = int(document.get("padded", 0))
        return cls(
            name=document["name"],
            shape=shape,
            format=document["format"],
            groups=None if groups is None else Groups.from_json(groups),
            padded=padded if padded > prod(shape) else 0,
        )


def _turn(values: NDArray, lanes: int) -> NDArray:
    """Swap channels and positions in each group of (..., channels, positions), padded with zeros to full groups."""
    *outer, channels, positions = values.shape
    shape = -(-channels // lanes) * lanes, -(-positions // lanes) * lanes
    filled = np.zeros((*outer, *shape), values.dtype)
    filled[..., :channels, :positions] = values
    cut = filled.reshape(*outer, shape[0] // lanes, lanes, shape[1] // lanes, lanes)
    return cut.swapaxes(-1, -3).reshape(*outer, *shape)


def groups_of(geometry: Geometry, name: str, *, turned: bool = False) -> Groups:
    """Return the order of a layer's tensor in a core's programs.

    Parameters
    ----------
    geometry : Convolution or MatrixProduct
        The layer.
    name : str
        "A", "W" or "G".
    turned : bool
        Whether the tensor is a turned FP32 result.

    Source: docs/core.md, "Tensors".

    Examples
    --------
    >>> from tensordash_sim.lowering import MatrixProduct
    >>> groups_of(MatrixProduct(batch=1, samples=5, in_features=6, out_features=7), "A")
    Groups(outer=((1, 30), (1, 30), (1, 6)), channels=(6, 1), positions=(5, 6), turned=False)
    """
    layer = Layer.of(geometry)
    first, second, rows, columns = layer.shape(name)
    size = first * second * rows * columns
    if not isinstance(geometry, Convolution):
        # A matrix product's positions are columns, the samples of A and G; features are fastest in their plain order.
        if name == "W":
            return _of_strides(layer.products, size, (second, 1), (first, second), (1, 1), (1, 1), turned)
        return _of_strides(layer.products, size, (second, 1), (columns, second), (1, size), (1, second), turned)
    plane = rows * columns
    if name == "W":
        down, across = (rows, columns), (columns, 1)
        return _of_strides(layer.products, size, (second, plane), (first, second * plane), down, across, turned)
    samples, down = (first, layer.products * second * plane), (rows, columns)
    return _of_strides(layer.products, second * plane, (second, plane), (columns, 1), samples, down, turned)


def _of_strides(
    products: int,
    product_stride: int,
    channels: Dimension,
    positions: Dimension,
    outer: Dimension,
    inner: Dimension,
    turned: bool,
) -> Groups:
    around = ((products, product_stride), outer, inner)
    return Groups(outer=around, channels=channels, positions=positions, turned=turned)


def bias_tensor(config: CoreConfig, name: str, filters: int, products: int = 1) -> StepTensor:
    """Return the tensor of a layer's biases, with the padding that programs load.

    Raises
    ------
    ValueError
        If the layer has more than one product and padding, because its biases are then not plain.
    """
    length = bias_length(config, filters)
    if products > 1 and length != filters:
        allowed = f"a multiple of {length} values for each of {products} groups, not {filters}"
        raise ValueError(f"{name} must have {allowed}; a layer with bias=False has no such limit")
    padded = length * products if length != filters else 0
    return StepTensor(name=name, shape=(products * filters,), format="fp32", padded=padded)
