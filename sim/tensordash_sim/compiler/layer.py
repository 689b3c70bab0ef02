"""Layers of a core's compiler: sizes of a convolution or matrix product, and the phases of its operations."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import gcd

from tensordash.configuration.descriptors import MAX_STRIDE
from tensordash.configuration.parameters import require_int

from ..lowering.geometry import Axis, Geometry, MatrixProduct

__all__ = ["OPERANDS", "RESULTS", "Layer", "Phase", "Walk"]

OPERANDS = {"AxW": ("A", "W"), "WxG": ("G", "W"), "AxG": ("G", "A")}
"""Operands of each operation; the first one's positions are the positions of the result."""
RESULTS = {"AxW": "G", "WxG": "A", "AxG": "W"}
"""The tensor whose shape the result of each operation has."""
MAX_SIZE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Results along one axis that have the same taps, and the operand's positions for them.

    Parameters
    ----------
    first, apart : int
        The first result, and the distance between results.
    taps : int
        Number of taps.
    tap, tap_step : int
        The first tap, and the distance between taps.
    start : int
        The operand's position for the first result and the first tap.
    stride : int
        Distance between the operand's positions for consecutive results.
    step : int
        Distance between the operand's positions for consecutive taps.
    """

    first: int
    apart: int
    taps: int
    tap: int
    tap_step: int
    start: int
    stride: int
    step: int


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Results that have the same taps: all results, except in the input gradient of a strided convolution.

    Parameters
    ----------
    y, x : Walk
        Walks along rows and columns.
    """

    y: Walk
    x: Walk

    @property
    def taps(self) -> int:
        """Taps of a result; without taps, results are zeros."""
        return self.y.taps * self.x.taps


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A convolution, or a matrix product as a 1x1 convolution on one row whose columns are samples.

    Along each axis, output `o` and tap `k` use input ``o * stride + k * dilation - padding``.

    Parameters
    ----------
    samples, channels, filters : int
        N, C and F.
    size : (int, int)
        Rows and columns of A.
    kernel : (int, int)
        Rows and columns of W.
    stride : int or (int, int)
        Strides of rows and columns; 1 to 4 for columns. One number applies to both, here and below.
    padding : int or (int, int)
        Zeros around A, at both ends.
    end_padding : (int, int), optional
        Zeros at the end if they are fewer than `padding`. If negative, no output uses the last positions of A.
    dilation : int or (int, int)
        Distance between taps, in positions.
    products : int
        Number of independent layers of this shape whose tensors are consecutive in memory: groups of a convolution, or
        a batch of matrix products. All other sizes are sizes of one product.

    Raises
    ------
    TypeError, ValueError
        If a field is illegal. The message names the field, what is allowed and its value.

    Examples
    --------
    >>> layer = Layer(samples=2, channels=16, filters=8, size=(9, 9), kernel=(3, 3), stride=2, padding=1)
    >>> layer.output_size, layer.stride
    ((5, 5), (2, 2))
    >>> [(phase.y.taps, phase.x.taps) for phase in layer.phases("WxG")]
    [(1, 1), (1, 2), (2, 1), (2, 2)]
    """

    samples: int
    channels: int
    filters: int
    size: tuple[int, int]
    kernel: tuple[int, int] = (1, 1)
    stride: int | tuple[int, int] = (1, 1)
    padding: int | tuple[int, int] = (0, 0)
    dilation: int | tuple[int, int] = (1, 1)
    products: int = 1
    end_padding: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for name in ("samples", "channels", "filters", "products"):
            require_int(name, getattr(self, name), 1, MAX_SIZE)
        for name in ("size", "kernel", "stride", "padding", "dilation"):
            pair = getattr(self, name)
            if name not in ("size", "kernel") and not isinstance(pair, tuple):
                pair = (pair, pair)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"{name} must be a pair of integers, of rows and columns, not {pair!r}")
            for index, value in enumerate(pair):
                most = MAX_STRIDE if (name, index) == ("stride", 1) else MAX_SIZE if name == "size" else MAX_SIZE >> 6
                require_int(f"{name}[{index}]", value, int(name != "padding"), most)
            object.__setattr__(self, name, pair)
        if self.end_padding is not None:
            for index, axis in enumerate(self.axes):
                require_int(f"end_padding[{index}]", self.end_padding[index], -axis.size, axis.padding)
        for axis in self.axes:
            if axis.outputs < 1:
                reach = axis.dilation * (axis.kernel - 1) + 1
                raise ValueError(
                    f"size + padding at both ends must be at least the kernel's reach of {reach}, not {axis.padded}"
                )

    @classmethod
    @lru_cache(maxsize=1 << 10)
    def of(cls, geometry: Geometry) -> "Layer":
        """Return the layer of a geometry, for instance of a traced layer.

        Groups of a convolution and products of a batch become `products`; `layer_values` reshapes tensors accordingly.

        Raises
        ------
        ValueError
            If a core cannot run the layer. The message contains the reason.
        """
        if isinstance(geometry, MatrixProduct):
            size = (1, geometry.samples)
            channels, filters = geometry.in_features, geometry.out_features
            return cls(samples=1, channels=channels, filters=filters, size=size, products=geometry.batch)
        y, x = geometry.axes
        ends = [axis.padding if axis.end_padding is None else axis.end_padding for axis in (y, x)]
        return cls(
            samples=geometry.batch,
            channels=geometry.in_channels // geometry.groups,
            filters=geometry.out_channels // geometry.groups,
            size=(y.size, x.size),
            kernel=(y.kernel, x.kernel),
            stride=(y.stride, x.stride),
            padding=(y.padding, x.padding),
            dilation=(y.dilation, x.dilation),
            products=geometry.groups,
            end_padding=None if geometry.end_padding is None else (ends[0], ends[1]),
        )

    @cached_property
    def axes(self) -> tuple[Axis, Axis]:
        """Rows and columns."""
        pairs = (self.size, self.kernel, self.stride, self.padding, self.dilation)
        y, x = (Axis(*(pair[k] for pair in pairs if isinstance(pair, tuple))) for k in range(2))
        if self.end_padding is not None:
            y, x = (axis._replace(end_padding=end) for axis, end in zip((y, x), self.end_padding, strict=True))
        return y, x

    @cached_property
    def output_size(self) -> tuple[int, int]:
        """Rows and columns of the output."""
        y, x = self.axes
        return y.outputs, x.outputs

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of one product's tensor: A and G are N, C, Y, X; W is F, C, KY, KX; "bias" is F."""
        return {
            "A": (self.samples, self.channels, *self.size),
            "G": (self.samples, self.filters, *self.output_size),
            "W": (self.filters, self.channels, *self.kernel),
            "bias": (self.filters,),
        }[tensor]

    def whole_shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of a tensor of all products; the leading axis is products if there are more than one."""
        return (*[self.products][: self.products > 1], *self.shape(tensor))

    def phases(self, operation: str) -> Iterator[Phase]:
        """Yield the phases of AxW or WxG, the operations whose results have positions."""
        y, x = self.axes
        if operation == "AxW":
            yield Phase(y=_forward(y), x=_forward(x))
            return
        # The core also writes columns that pad a group, so they need a phase.
        for row, column in product(range(min(y.stride, y.size)), range(x.stride)):
            yield Phase(y=_backward(y, row), x=_backward(x, column))


def _forward(axis: Axis) -> Walk:
    """Return the walk of all outputs."""
    return Walk(
        first=0,
        apart=1,
        taps=axis.kernel,
        tap=0,
        tap_step=1,
        start=-axis.padding,
        stride=axis.stride,
        step=axis.dilation,
    )


def _backward(axis: Axis, first: int) -> Walk:
    """Return the walk of the inputs from `first` on, `stride` apart.

    Input i and tap k use output ``(i + padding - k * dilation) / stride``.
    """
    common = gcd(axis.dilation, axis.stride)
    apart = axis.stride // common  # distance between taps that use the same inputs
    tap = next(
        (k for k in range(min(apart, axis.kernel)) if (first + axis.padding - k * axis.dilation) % axis.stride == 0),
        axis.kernel,
    )
    has_taps = first < axis.size and tap < axis.kernel
    return Walk(
        first=first,
        apart=axis.stride,
        taps=-(-(axis.kernel - tap) // apart) if has_taps else 0,
        tap=tap if has_taps else 0,
        tap_step=apart,
        start=(first + axis.padding - tap * axis.dilation) // axis.stride if has_taps else 0,
        stride=1,
        step=-(axis.dilation // common),
    )
