"""Images of a layer's tensors in a core's memory, and the expected result of a contraction."""

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
from .nvfp4_values import nvfp4_groups
from .problem import scales_by_channel

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
"""Names of formats in NumPy (with ml_dtypes) and PyTorch."""


class TensorImage:
    """The operands of a contraction in memory, and the space for its result.

    Parameters
    ----------
    config : CoreConfig
        The core. The column side's operand has its tile's `a_format`, the row side's operand its `b_format`.
    memory : Memory
        The memory. Tensors are placed one after the other.
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    values : mapping of str to array
        Both operands with PyTorch's axes, as bit patterns or numbers (see `bit_patterns`). The leading axis is products
        if there are more than one. Optional: "bias", float32 (int8: int32) of shape (products,) filters, and "mask",
        with the result's shape and side A's format.
    rows : str
        The operand on the row side; may be left out if both formats are the same.
    fp32, turned : bool
        Whether the result is FP32, and whether channels and positions are swapped in its groups.
    nvfp4 : bool
        Whether both operands are NVFP4 tensors. Their values are then NVFP4 values (`nvfp4_values`), uint16.

    Attributes
    ----------
    tensors : dict of str to int
        Addresses of the operands and of "result"; of "bias" and "mask" if present.
    end : int
        Address of the first byte after all tensors, a multiple of 64.

    Raises
    ------
    TypeError
        If values are neither bit patterns nor numbers of their side's format.
    ValueError
        If memory is too small, if values have the wrong shape, or if `rows` is no operand.
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
        nvfp4: bool = False,
    ) -> None:
        self.config, self.memory, self.layer, self.fp32, self._turned = config, memory, layer, fp32, turned
        self.tensors: dict[str, int] = {}
        self.end = memory.base + BEGIN
        for name, fmt in side_formats(config, operation, rows).items():
            groups = self._grouped(name, bit_patterns(values[name], fmt, name=name), name)
            by_channel = scales_by_channel(operation, name)
            self._put(name, nvfp4_groups(groups, config, by_channel=by_channel) if nvfp4 else groups.tobytes())
        if "bias" in values:
            self._put("bias", self._biases(values["bias"]))
        self._made = RESULTS[operation]
        if "mask" in values:
            mask = bit_patterns(values["mask"], config.tile.a_format, name="mask")
            self._put("mask", self._grouped("mask", mask, self._made).tobytes())
        self._shape = grouped_shape(config, layer, self._made)
        width = config.fp32_groups if fp32 else 1
        self._place("result", int(np.prod(self._shape)) * width * config.group_bytes)
        if self.end > memory.base + len(memory.bytes):
            raise ValueError(f"memory must have room for the result, up to {self.end:#x}")

    def _grouped(self, name: str, bits: NDArray, like: str) -> NDArray:
        """Return the groups of a tensor with the shape and the order of A, W or G."""
        layer = self.layer
        if bits.shape != layer.whole_shape(like):
            raise ValueError(f"{name} must have the shape {layer.whole_shape(like)}, not {bits.shape}")
        return to_groups(bits.reshape(-1, *layer.shape(like)).transpose(_order(like)), self.config)

    def _biases(self, vectors: Any) -> bytes:
        """Return the bytes of each product's bias vector, padded to full groups."""
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
        """Return the result with PyTorch's axes: float32, int32, float16 for fp16, or bits of another format."""
        config, bits = self.config, 32 if self.fp32 else self.config.value_bits
        width = config.fp32_groups if self.fp32 else 1
        data = self.memory.read(self.tensors["result"], int(np.prod(self._shape)) * width * config.group_bytes)
        assert data is not None
        groups = np.frombuffer(data, value_type(config.value_bits)).reshape(*self._shape, -1)
        made = of_groups(groups, config, self.layer, self._made, bits=bits, turned=self._turned)
        return made.view(_wide_type(config)) if self.fp32 else _shown(made, config.tile.a_format)


def non_zero_groups(config: CoreConfig, layer: Layer, name: str, non_zeros: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which values of a tensor's groups in memory are not zero.

    Parameters
    ----------
    config : CoreConfig
        The core.
    layer : Layer
        Shapes.
    name : str
        "A", "W" or "G".
    non_zeros : array of bool
        Which values of the tensor are not zero, with `Layer.whole_shape`.

    Returns
    -------
    array of bool, (groups, L * L)
    """
    groups = to_groups(non_zeros.reshape(-1, *layer.shape(name)).transpose(_order(name)), config)
    return groups.reshape(-1, groups.shape[-1]) != 0


def _order(name: str) -> tuple[int, ...]:
    """Return the permutation from PyTorch's axes, after the products, to the order of docs/core.md, "Tensors"."""
    return (0, 3, 4, 2, 1) if name == "W" else (0, 1, 3, 2, 4)


def _ordered_shape(layer: Layer, name: str) -> tuple[int, ...]:
    """Return a tensor's shape in the order of memory: leading axes, channels, positions."""
    shape = (layer.products, *layer.shape(name))
    return tuple(shape[axis] for axis in _order(name))


def grouped_shape(config: CoreConfig, layer: Layer, name: str) -> tuple[int, ...]:
    """Return the number of a tensor's groups in each direction, in the order of memory."""
    *outer, channels, positions = _ordered_shape(layer, name)
    return (*outer, -(-channels // config.tile.lanes), -(-positions // config.tile.lanes))


def of_groups(
    groups: NDArray, config: CoreConfig, layer: Layer, name: str, *, bits: int = 0, turned: bool = False
) -> NDArray:
    """Convert groups to a tensor with PyTorch's axes.

    Parameters
    ----------
    groups : array, (*grouped_shape, values of a group)
        Groups in the order of memory.
    config, bits, turned
        As for `from_groups`.
    layer : Layer
        Shapes.
    name : str
        "A", "W" or "G".
    """
    whole = from_groups(groups, config, *_ordered_shape(layer, name)[-2:], bits=bits, turned=turned)
    return whole.transpose(np.argsort(_order(name))).reshape(layer.whole_shape(name))


def _wide_type(config: CoreConfig) -> np.dtype:
    """Return the type of biases and of 32-bit results."""
    return np.dtype(np.int32 if config.tile.numerics.result == "int32" else np.float32)


def _shown(bits: NDArray, fmt: Format) -> NDArray:
    """Return bit patterns; those of fp16 as float16."""
    return bits.view(np.float16) if fmt.name == "fp16" else bits


def side_formats(config: CoreConfig, operation: str, rows: str = "") -> dict[str, Format]:
    """Return the formats of an operation's operands: `b_format` of the tile for the row side, else `a_format`."""
    a, b = config.tile.a_format, config.tile.b_format
    if rows not in OPERANDS[operation] and (rows or a != b):
        raise ValueError(f"rows must be one of {', '.join(OPERANDS[operation])}, not {rows!r}")
    return {name: b if name == rows else a for name in OPERANDS[operation]}


def bit_patterns(values: Any, fmt: Format, *, name: str = "values") -> NDArray[np.unsignedinteger]:
    """Return values of a format as bit patterns, without rounding.

    Parameters
    ----------
    values : array or tensor
        Bit patterns, that is, unsigned integers of the format's width. Or numbers in the format: int8, float16, and
        bfloat16, float8_e4m3fn or float8_e5m2 of ml_dtypes or PyTorch.
    fmt : Format
        The format.
    name : str
        Name of the values in an error message.

    Raises
    ------
    TypeError
        If the values have another type.

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
    """Reshape a tensor from PyTorch's shape to the shape of `Layer.of(geometry)`: groups and batches become products.

    Parameters
    ----------
    geometry : Convolution or MatrixProduct
        The layer.
    name : str
        "A", "W" or "G".
    values : array or tensor
        A tensor with the shape in `geometry.shapes`; for a MatrixProduct A[b, n, c], W[b, f, c] or G[b, n, f].

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
    """Reshape a layer's tensor to PyTorch's shape, the inverse of `layer_values`.

    Parameters
    ----------
    geometry, name
        As for `layer_values`.
    values : array or tensor
        A tensor with the shape `Layer.whole_shape`.
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
    """Compute the result with PyTorch in float64, rounded to FP32 and then to the result format; integers saturate.

    It equals the core's bits if float64 represents all sums exactly, as for values of ordinary size. Binned sums may
    differ if large terms cancel. Integer sums must be within INT32.

    Parameters
    ----------
    layer, operation, values, rows, fp32
        As for `TensorImage`.
    config : CoreConfig, optional
        The core, with the formats of the values; fp16 if left out.
    relu : bool
        Replace negative results by zero.

    Returns
    -------
    array
        As `TensorImage.result` returns it.
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
        # The weight of a sum's least bit; 1 for integers.
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
