"""Tensors of a layer in a core's memory, and what a contraction of them must be."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FloatFormat, Format, IntegerFormat

from ..golden import to_float
from ..golden.core.golden_core import Memory
from ..golden.core.tensors import bias_length, from_groups, to_groups, value_type
from ..lowering.geometry import Geometry, MatrixProduct
from .layer import OPERANDS, RESULTS, Layer

__all__ = [
    "TENSOR_TYPES",
    "TensorImage",
    "bit_patterns",
    "expected",
    "geometry_values",
    "grouped_shape",
    "layer_values",
    "non_zero_groups",
    "of_groups",
]

BEGIN = 0x1000
ALIGNED = 64
TENSOR_TYPES = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "int8": "int8",
}
"""What NumPy (with ml_dtypes) and PyTorch call a format."""


class TensorImage:
    """The operands of a contraction, and room for its result, in memory.

    Parameters
    ----------
    config : CoreConfig
        Its tile's formats are those of the operands: the column side's has `a_format`, the row side's `b_format`.
    memory : Memory
        Address of the first; each starts at the end of the one before.
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    values : mapping of str to array
        Both operands, in the order of PyTorch; products lead, if there are more than one. Bit patterns or numbers, as
        `bit_patterns` takes them. With "bias", float32 (int8: int32) of (products,) filters, biases are put there, too;
        with "mask", of the result's shape and side A's format, a mask.
    rows : str
        The operand on the row side; may be left out if both formats are the same.
    fp32, turned : bool
        Of the result.

    Attributes
    ----------
    tensors : dict of str to int
        Addresses of the operands and of "result", and of "bias" and "mask" if there are any.
    end : int
        Of the first byte behind all of them, a multiple of 64.

    Raises
    ------
    TypeError
        If values are neither bit patterns nor numbers of their side's format.
    ValueError
        If memory is too small, values have another shape, or `rows` is no operand.
    """

    def __init__(
        self,
        config: CoreConfig,
        memory: Memory,
        layer: Layer,
        operation: str,
        values: Mapping[str, Any],
        *,
        rows: str = "",
        fp32: bool = False,
        turned: bool = False,
    ) -> None:
        self.config, self.memory, self.layer, self.fp32, self._turned = config, memory, layer, fp32, turned
        self.tensors: dict[str, int] = {}
        self.end = memory.base + BEGIN
        for name, fmt in side_formats(config, operation, rows).items():
            self._put(name, self._grouped(name, bit_patterns(values[name], fmt, name=name), name))
        if "bias" in values:
            self._put("bias", self._biases(values["bias"]))
        self._made = RESULTS[operation]
        if "mask" in values:
            mask = bit_patterns(values["mask"], config.tile.a_format, name="mask")
            self._put("mask", self._grouped("mask", mask, self._made))
        self._shape = grouped_shape(config, layer, self._made)
        width = config.fp32_groups if fp32 else 1
        self._place("result", int(np.prod(self._shape)) * width * config.group_bytes)
        if self.end > memory.base + len(memory.bytes):
            raise ValueError(f"memory must have room for the result, up to {self.end:#x}")

    def _grouped(self, name: str, bits: NDArray, like: str) -> bytes:
        """A tensor shaped and ordered like A, W or G."""
        layer = self.layer
        if bits.shape != layer.whole_shape(like):
            raise ValueError(f"{name} must have the shape {layer.whole_shape(like)}, not {bits.shape}")
        return to_groups(bits.reshape(-1, *layer.shape(like)).transpose(_order(like)), self.config).tobytes()

    def _biases(self, vectors: Any) -> bytes:
        """Return the vector of each product, padded to whole groups."""
        layer, biases = self.layer, np.asarray(vectors)
        wide = _wide_type(self.config)
        if biases.dtype != wide:
            raise TypeError(f"bias must be {wide}, not {biases.dtype}")
        filled = np.zeros((layer.products, bias_length(self.config, layer.filters)), wide.newbyteorder("<"))
        filled[:, : layer.filters] = biases.reshape(layer.products, layer.filters)
        return filled.tobytes()

    def _put(self, name: str, data: bytes) -> None:
        if not self.memory.write(self.end, data):
            raise ValueError(f"memory must have room for {name}, {len(data)} bytes from {self.end:#x} on")
        self._place(name, len(data))

    def _place(self, name: str, size: int) -> None:
        self.tensors[name] = self.end
        self.end = -(-(self.end + size) // ALIGNED) * ALIGNED

    def result(self) -> NDArray:
        """The result in the order of PyTorch: float32, int32 or side A's format, fp16 as float16, others as bits."""
        config, bits = self.config, 32 if self.fp32 else self.config.value_bits
        width = config.fp32_groups if self.fp32 else 1
        data = self.memory.read(self.tensors["result"], int(np.prod(self._shape)) * width * config.group_bytes)
        assert data is not None
        groups = np.frombuffer(data, value_type(config.value_bits)).reshape(*self._shape, -1)
        made = of_groups(groups, config, self.layer, self._made, bits=bits, turned=self._turned)
        return made.view(_wide_type(config)) if self.fp32 else _shown(made, config.tile.a_format)


def non_zero_groups(config: CoreConfig, layer: Layer, name: str, non_zeros: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where the groups of a tensor in memory are not zero.

    Parameters
    ----------
    config : CoreConfig
        The core.
    layer : Layer
        Shapes.
    name : str
        "A", "W" or "G".
    non_zeros : array of bool
        Where the tensor is not zero, of `Layer.whole_shape`.

    Returns
    -------
    array of bool, (groups, L * L)
    """
    groups = to_groups(non_zeros.reshape(-1, *layer.shape(name)).transpose(_order(name)), config)
    return groups.reshape(-1, groups.shape[-1]) != 0


def _order(name: str) -> tuple[int, ...]:
    """Axes of a tensor of PyTorch, products before them, in the order of docs/core.md, "Tensors"."""
    return (0, 3, 4, 2, 1) if name == "W" else (0, 1, 3, 2, 4)


def _ordered_shape(layer: Layer, name: str) -> tuple[int, ...]:
    """What leads, channels and positions of a tensor in that order."""
    shape = (layer.products, *layer.shape(name))
    return tuple(shape[axis] for axis in _order(name))


def grouped_shape(config: CoreConfig, layer: Layer, name: str) -> tuple[int, ...]:
    """How many groups a tensor has in each direction, in the order in which they stand in memory."""
    *outer, channels, positions = _ordered_shape(layer, name)
    return (*outer, -(-channels // config.tile.lanes), -(-positions // config.tile.lanes))


def of_groups(
    groups: NDArray, config: CoreConfig, layer: Layer, name: str, *, bits: int = 0, turned: bool = False
) -> NDArray:
    """A tensor in the order of PyTorch.

    Parameters
    ----------
    groups : array, (*grouped_shape, values of a group)
        As they stand in memory.
    config, bits, turned
        As `from_groups` takes them.
    layer : Layer
        Its shape.
    name : str
        "A", "W" or "G".
    """
    whole = from_groups(groups, config, *_ordered_shape(layer, name)[-2:], bits=bits, turned=turned)
    return whole.transpose(np.argsort(_order(name))).reshape(layer.whole_shape(name))


def _wide_type(config: CoreConfig) -> np.dtype:
    """Return the type of biases and of results of 32 bits."""
    return np.dtype(np.int32 if config.tile.numerics.result == "int32" else np.float32)


def _shown(bits: NDArray, fmt: Format) -> NDArray:
    """Bit patterns, fp16 as the floats that they are."""
    return bits.view(np.float16) if fmt.name == "fp16" else bits


def side_formats(config: CoreConfig, operation: str, rows: str = "") -> dict[str, Format]:
    """Formats of an operation's operands: the row side's is the tile's `b_format`, the other's its `a_format`."""
    a, b = config.tile.a_format, config.tile.b_format
    if rows not in OPERANDS[operation] and (rows or a != b):
        raise ValueError(f"rows must be one of {', '.join(OPERANDS[operation])}, not {rows!r}")
    return {name: b if name == rows else a for name in OPERANDS[operation]}


def bit_patterns(values: Any, fmt: Format, *, name: str = "values") -> NDArray[np.unsignedinteger]:
    """Values as bit patterns of a format.

    Parameters
    ----------
    values : array or tensor
        Of unsigned integers as wide as the format, which are taken as they are; or of its numbers: int8, float16, and
        bfloat16, float8_e4m3fn or float8_e5m2 of ml_dtypes or PyTorch.
    fmt : Format
        The format.
    name : str
        What an error calls them.

    Raises
    ------
    TypeError
        If they are something else: nothing is rounded.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> bit_patterns(np.array([1.0], np.float16), FORMATS["fp16"]).tolist()
    [15360]
    >>> bit_patterns(np.array([1.0]), FORMATS["fp16"], name="A")
    Traceback (most recent call last):
    TypeError: A must be float16 or uint16, not float64
    """
    dtype = str(getattr(values, "dtype", type(values).__name__)).removeprefix("torch.")
    if dtype not in (TENSOR_TYPES[fmt.name], f"uint{fmt.width}"):
        raise TypeError(f"{name} must be {TENSOR_TYPES[fmt.name]} or uint{fmt.width}, not {dtype}")
    if type(values).__module__.partition(".")[0] == "torch":
        import torch

        values = values.detach().cpu().contiguous().view({8: torch.uint8, 16: torch.int16}[fmt.width]).numpy()
    return np.ascontiguousarray(values).view(value_type(fmt.width))


def layer_values(geometry: Geometry, name: str, values: Any) -> Any:
    """A tensor in PyTorch's shapes as `Layer.of` its geometry has it: groups and batches become products.

    Parameters
    ----------
    geometry : Convolution or MatrixProduct
        Its shapes.
    name : str
        "A", "W" or "G".
    values : array or tensor
        Of the shape `geometry.shapes` gives; of a MatrixProduct A[b, n, c], W[b, f, c] and G[b, n, f].

    Examples
    --------
    >>> from tensordash_sim.lowering.geometry import Convolution
    >>> layer = Convolution(batch=2, in_channels=4, out_channels=6, size=(9,), kernel=(3,), stride=(1,), padding=(0,),
    ...                     dilation=(1,), groups=2)
    >>> layer_values(layer, "A", np.zeros((2, 4, 9))).shape, layer_values(layer, "W", np.zeros((6, 2, 3))).shape
    ((2, 2, 2, 1, 9), (2, 3, 2, 1, 3))
    """
    layer = Layer.of(geometry)
    shape = layer.whole_shape(name)
    if tuple(values.shape) != geometry.shapes[name]:
        raise ValueError(f"{name} must have the shape {geometry.shapes[name]}, not {tuple(values.shape)}")
    if isinstance(geometry, MatrixProduct):
        return (values if name == "W" else values.swapaxes(1, 2)).reshape(shape)
    if name == "W" or layer.products == 1:
        return values.reshape(shape)
    samples, *rest = layer.shape(name)
    return values.reshape(samples, layer.products, *rest).swapaxes(0, 1)


def geometry_values(geometry: Geometry, name: str, values: Any) -> Any:
    """The reverse of `layer_values`: a result of a layer in PyTorch's shapes.

    Parameters
    ----------
    geometry, name
        As there.
    values : array or tensor
        Of the shape that `Layer.whole_shape` gives.
    """
    layer = Layer.of(geometry)
    whole = values.reshape(layer.products, *layer.shape(name))
    if isinstance(geometry, MatrixProduct) and name != "W":
        batch, _, channels, _, samples = whole.shape
        return whole.reshape(batch, channels, samples).swapaxes(1, 2)
    if name != "W":
        whole = whole.swapaxes(0, 1)
    return whole.reshape(geometry.shapes[name])


def _floats(bits: NDArray, fmt: Format) -> NDArray[np.float64]:
    table = np.array([to_float(k, fmt) for k in range(1 << fmt.width)]) if fmt.width == 8 else None
    if table is not None:
        return table[bits]
    found, where = np.unique(bits, return_inverse=True)
    return np.array([to_float(int(k), fmt) for k in found])[where].reshape(bits.shape)


def expected(
    layer: Layer,
    operation: str,
    values: Mapping[str, ArrayLike],
    *,
    config: CoreConfig | None = None,
    rows: str = "",
    fp32: bool = False,
    relu: bool = False,
) -> NDArray:
    """Return the result of PyTorch in float64, rounded to FP32 and then to the format of results; integers saturate.

    That is what the core's bits are, as long as float64 holds the sums of the products: values of ordinary size. Binned
    sums may differ where large terms cancel. Integer sums must be within INT32.

    Parameters
    ----------
    layer, operation, values, rows, fp32
        As `TensorImage` takes them.
    config : CoreConfig, optional
        Whose formats values have; fp16 if left out.
    relu : bool
        Negative results become zero.

    Returns
    -------
    array
        As `TensorImage.result` gives it.
    """
    import torch
    from torch.nn.functional import conv2d
    from torch.nn.grad import conv2d_input, conv2d_weight

    formats = side_formats(config or CoreConfig(), operation, rows)
    data = {}
    for name, fmt in formats.items():
        bits = bit_patterns(values[name], fmt, name=name).reshape(-1, *layer.shape(name))
        data[name] = torch.as_tensor(_floats(bits, fmt))
    y, x = layer.axes
    how: dict[str, Any] = {
        "stride": (y.stride, x.stride),
        "padding": (y.padding, x.padding),
        "dilation": (y.dilation, x.dilation),
    }
    made = []
    for k in range(layer.products):
        each = {name: tensor[k] for name, tensor in data.items()}
        if operation == "AxW":
            made.append(conv2d(each["A"], each["W"], **how))
        elif operation == "WxG":
            made.append(conv2d_input(layer.shape("A"), each["W"], each["G"], **how))
        else:
            made.append(conv2d_weight(each["A"], layer.shape("W"), each["G"], **how))
    sums = torch.stack(made) + 0.0  # a sum that is zero is +0
    if "bias" in values:
        # A sum's least bit, 1 of integers.
        unit = 2.0 ** sum(fmt.least_exponent for fmt in formats.values() if isinstance(fmt, FloatFormat))
        biases = np.trunc(np.asarray(values["bias"], np.float64) / unit) * unit
        sums += torch.as_tensor(biases).reshape(layer.products, 1, -1, 1, 1)
    fmt = (config or CoreConfig()).tile.a_format
    rounded = sums if isinstance(fmt, IntegerFormat) else sums.to(torch.float32)
    if relu:
        rounded = torch.where(torch.signbit(rounded) & ~rounded.isnan(), 0.0, rounded)
    rounded = rounded.reshape(layer.whole_shape(RESULTS[operation]))
    if "mask" in values:
        mask = torch.as_tensor(_floats(bit_patterns(values["mask"], fmt, name="mask"), fmt))
        rounded = torch.where(mask == 0, 0.0, rounded)
    if fp32:
        return rounded.to(torch.int32 if isinstance(fmt, IntegerFormat) else torch.float32).numpy()
    if isinstance(fmt, IntegerFormat):
        half = 1 << (fmt.width - 1)
        rounded = rounded.clamp(-half, half - 1)
    return _shown(bit_patterns(rounded.to(getattr(torch, TENSOR_TYPES[fmt.name])), fmt), fmt)
