"""Tensors of a layer in a core's memory, and what a contraction of them must be."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.configuration.core_config import CoreConfig

from .golden import Memory
from .layer import OPERANDS, Layer
from .tensors import from_groups, to_groups, value_type

__all__ = ["TensorImage", "expected"]

RESULTS = {"AxW": "G", "WxG": "A", "AxG": "W"}
"""The tensor whose shape a result has."""
BEGIN, ALIGNED = 0x1000, 64


class TensorImage:
    """The operands of a contraction, and room for its result, in memory.

    Parameters
    ----------
    config : CoreConfig
        Its operands are fp16.
    memory : Memory
        Where they are put, one behind the other.
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    values : mapping of str to array of float16
        Both operands, in the order of PyTorch.
    fp32 : bool
        Of the result.

    Attributes
    ----------
    tensors : dict of str to int
        Addresses of the operands and of "result".
    end : int
        Of the first byte behind all of them, a multiple of 64.

    Raises
    ------
    ValueError
        If memory is too small.
    """

    def __init__(
        self,
        config: CoreConfig,
        memory: Memory,
        layer: Layer,
        operation: str,
        values: Mapping[str, ArrayLike],
        *,
        fp32: bool = False,
    ) -> None:
        self.config, self.memory, self.layer, self.fp32 = config, memory, layer, fp32
        self.tensors: dict[str, int] = {}
        self.end = memory.base + BEGIN
        for name in OPERANDS[operation]:
            bits = np.ascontiguousarray(values[name], np.float16).view(value_type(16))
            groups = to_groups(bits.transpose(_order(name)), config)
            if not memory.write(self.end, groups.tobytes()):
                raise ValueError(f"memory must have room for {name}, {groups.nbytes} bytes from {self.end:#x} on")
            self._place(name, groups.nbytes)
        self._made = RESULTS[operation]
        *outer, channels, positions = (layer.shape(self._made)[k] for k in _order(self._made))
        lanes = config.tile.lanes
        self._shape = [*outer, -(-channels // lanes), -(-positions // lanes)]
        width = config.fp32_groups if fp32 else 1
        self._place("result", int(np.prod(self._shape)) * width * config.group_bytes)
        if self.end > memory.base + len(memory.bytes):
            raise ValueError(f"memory must have room for the result, up to {self.end:#x}")

    def _place(self, name: str, size: int) -> None:
        self.tensors[name] = self.end
        self.end = -(-(self.end + size) // ALIGNED) * ALIGNED

    def result(self) -> NDArray:
        """The result as float16 or float32, in the order of PyTorch."""
        config, bits = self.config, 32 if self.fp32 else 16
        order = _order(self._made)
        shape = self.layer.shape(self._made)
        width = config.fp32_groups if self.fp32 else 1
        data = self.memory.read(self.tensors["result"], int(np.prod(self._shape)) * width * config.group_bytes)
        assert data is not None
        groups = np.frombuffer(data, value_type(config.value_bits)).reshape(*self._shape, -1)
        made = from_groups(groups, config, shape[order[2]], shape[order[3]], bits=bits)
        return made.view(np.float32 if self.fp32 else np.float16).transpose(np.argsort(order))


def _order(name: str) -> tuple[int, int, int, int]:
    """Axes of a tensor of PyTorch in the order of docs/core.md, "Tensors"."""
    return (2, 3, 1, 0) if name == "W" else (0, 2, 1, 3)


def expected(layer: Layer, operation: str, values: Mapping[str, ArrayLike], *, fp32: bool = False) -> NDArray:
    """What PyTorch makes of it in float64, rounded to FP32 and then to fp16.

    That is what the core's bits are, as long as float64 holds the sums of the products: fp16 of ordinary size.
    """
    import torch
    from torch.nn.functional import conv2d
    from torch.nn.grad import conv2d_input, conv2d_weight

    data = {name: torch.as_tensor(np.asarray(value, np.float64)) for name, value in values.items()}
    stride, padding = layer.stride, layer.padding
    if operation == "AxW":
        made = conv2d(data["A"], data["W"], stride=stride, padding=padding)
    elif operation == "WxG":
        made = conv2d_input(layer.shape("A"), data["W"], data["G"], stride=stride, padding=padding)
    else:
        made = conv2d_weight(data["A"], layer.shape("W"), data["G"], stride=stride, padding=padding)
    rounded = made.numpy().astype(np.float32)
    return rounded if fp32 else rounded.astype(np.float16)
