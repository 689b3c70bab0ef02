"""Shapes of layers, and the three operations of a training step on a layer."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

from tensordash.configuration.parameters import require_choice, require_int

__all__ = ["Axis", "Convolution", "Geometry", "MatrixProduct", "Operation", "geometry_from_json"]


class Operation(StrEnum):
    """One of the three products of a training step. Its value names the left operand, `x` and the right operand.

    A is a layer's input activations, W its weights, and G the gradient of the loss with respect to its outputs.

    Source
    ------
    Table II of the paper.

    Examples
    --------
    >>> [(str(operation), operation.left, operation.right, operation.output) for operation in Operation]
    [('AxW', 'A', 'W', 'G'), ('WxG', 'W', 'G', 'A'), ('AxG', 'A', 'G', 'W')]
    """

    FORWARD = "AxW"
    INPUT_GRADIENT = "WxG"
    WEIGHT_GRADIENT = "AxG"

    @property
    def left(self) -> str:
        """Name of the left operand."""
        return self.value[0]

    @property
    def right(self) -> str:
        """Name of the right operand."""
        return self.value[2]

    @property
    def output(self) -> str:
        """Name of the tensor whose shape the result has."""
        return next(name for name in "AWG" if name not in self.value)


class Axis(NamedTuple):
    """One spatial dimension of a convolution.

    Output `o` and tap `k` meet at input ``o * stride + k * dilation - padding``. An input below 0 or from `size` on is
    outside the tensor, in the padding. Windows may end `end_padding` positions after the tensor; None means `padding`
    positions. If `end_padding` is negative, windows end before the end of the tensor.
    """

    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    end_padding: int | None = None

    @property
    def outputs(self) -> int:
        """Number of output positions.

        >>> Axis(size=7, kernel=3, stride=2, padding=1, dilation=1).outputs
        4
        """
        return (self.padded - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    @property
    def padded(self) -> int:
        """Number of positions, including the padding at both ends.

        >>> Axis(size=7, kernel=3, stride=2, padding=1, dilation=1, end_padding=-1).padded
        7
        """
        return self.size + self.padding + (self.padding if self.end_padding is None else self.end_padding)

    @property
    def pairs_inside(self) -> int:
        """Number of pairs of an output and a tap that meet inside the tensor.

        >>> Axis(size=7, kernel=3, stride=2, padding=1, dilation=1).pairs_inside  # 4 * 3, minus one at each end
        10
        """
        total = 0
        for tap in range(self.kernel):
            offset = tap * self.dilation - self.padding
            first = max(0, -(offset // self.stride))  # ceil(-offset / stride)
            last = min(self.outputs - 1, (self.size - 1 - offset) // self.stride)
            total += max(0, last - first + 1)
        return total


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """A convolution with one or two spatial dimensions, in PyTorch's terms.

    Parameters
    ----------
    batch : int
        Number of samples, N.
    in_channels, out_channels : int
        Number of channels C and F, summed over all groups.
    size, kernel, stride, padding, dilation : tuple of int
        One entry for each spatial dimension: (x,) or (y, x). `padding` is added at both ends.
    groups : int
        Number of groups, which divides `in_channels` and `out_channels`. A depthwise convolution has `in_channels`
        groups.
    end_padding : tuple of int, optional
        Padding at the end of each dimension if it is less than `padding`. If it is negative, the last positions meet no
        output. Transposed convolutions need it if their `output_padding` is at least their stride.

    Raises
    ------
    TypeError, ValueError
        If a field is invalid. The message has the field, its value and the allowed values.

    Examples
    --------
    >>> layer = Convolution(batch=2, in_channels=3, out_channels=8, size=(5, 7), kernel=(3, 3), stride=(2, 2),
    ...                     padding=(1, 1), dilation=(1, 1), groups=1)
    >>> layer.shapes
    {'A': (2, 3, 5, 7), 'W': (8, 3, 3, 3), 'G': (2, 8, 3, 4)}
    >>> layer.macs == 2 * 3 * 8 * (3 * 3 - 2) * (3 * 4 - 2)
    True
    """

    batch: int
    in_channels: int
    out_channels: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    end_padding: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("batch", "in_channels", "out_channels", "groups"):
            require_int(name, getattr(self, name), 1)
        for name in ("size", "kernel", "stride", "padding", "dilation"):
            self._check_tuple(name, least=0 if name == "padding" else 1)
        if self.end_padding is not None:
            self._check_tuple("end_padding", least=-max(self.size))
            for index, (end, begin) in enumerate(zip(self.end_padding, self.padding, strict=True)):
                require_int(f"end_padding[{index}]", end, -self.size[index], begin)
            if self.end_padding == self.padding:
                object.__setattr__(self, "end_padding", None)
        for name in ("in_channels", "out_channels"):
            if getattr(self, name) % self.groups:
                raise ValueError(f"groups must divide {name} = {getattr(self, name)}, not {self.groups}")
        for axis in self.axes:
            least = axis.dilation * (axis.kernel - 1) + 1
            if axis.outputs < 1:
                raise ValueError(
                    f"size + padding at both ends must be at least the kernel's reach of {least}, not {axis.padded}"
                )

    def _check_tuple(self, name: str, least: int) -> None:
        value = getattr(self, name)
        allowed = f"{name} must be a tuple of 1 or 2 integers"
        if not isinstance(value, tuple):
            raise TypeError(f"{allowed}, not {value!r}")
        if len(value) not in (1, 2):
            raise ValueError(f"{allowed}, not {value!r}")
        if len(value) != len(self.size):
            raise ValueError(f"{name} must have an entry for each dimension of size = {self.size}, not {value!r}")
        for index, entry in enumerate(value):
            require_int(f"{name}[{index}]", entry, least)

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Dimensions y and x. With one spatial dimension, y has size 1."""
        ends = self.end_padding or (None,) * len(self.size)
        by_axis = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, ends, strict=True)
        axes = [Axis(*entries) for entries in by_axis]
        return (axes[0], axes[1]) if len(axes) == 2 else (Axis(1, 1, 1, 0, 1), axes[0])

    @property
    def out_size(self) -> tuple[int, ...]:
        """Number of output positions along each spatial dimension."""
        return tuple(axis.outputs for axis in self.axes[-len(self.size) :])

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of A (N, C, *size), W (F, C / groups, *kernel) and G (N, F, *out_size)."""
        return {
            "A": (self.batch, self.in_channels, *self.size),
            "W": (self.out_channels, self.in_channels // self.groups, *self.kernel),
            "G": (self.batch, self.out_channels, *self.out_size),
        }

    @property
    def macs(self) -> int:
        """Number of multiplications with both operands inside the tensors. It is the same for all three operations.

        Multiplications with spatial padding and fragmentation are excluded; `Product.positions` includes them.
        """
        y, x = self.axes
        channel_pairs = self.in_channels // self.groups * self.out_channels
        return self.batch * channel_pairs * y.pairs_inside * x.pairs_inside

    def to_json(self) -> dict[str, Any]:
        """Return the document from which `geometry_from_json` builds this geometry."""
        return _document(self)


@dataclass(frozen=True, kw_only=True)
class MatrixProduct:
    """A linear layer, or a batch of matrix products: ``O[b, n, f] = sum over c of A[b, n, c] * W[b, f, c]``.

    Parameters
    ----------
    batch : int
        Number of independent products; 1 for a linear layer.
    samples, in_features, out_features : int
        Extents of n, c and f.

    Raises
    ------
    TypeError, ValueError
        If a field is invalid. The message has the field, its value and the allowed values.

    Examples
    --------
    >>> layer = MatrixProduct(batch=1, samples=4, in_features=10, out_features=5)
    >>> layer.shapes, layer.macs
    ({'A': (1, 4, 10), 'W': (1, 5, 10), 'G': (1, 4, 5)}, 200)
    """

    batch: int
    samples: int
    in_features: int
    out_features: int

    def __post_init__(self) -> None:
        for field in fields(self):
            require_int(field.name, getattr(self, field.name), 1)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of A (batch, samples, in_features), W (batch, out_features, in_features) and G.

        G has the shape (batch, samples, out_features).
        """
        return {
            "A": (self.batch, self.samples, self.in_features),
            "W": (self.batch, self.out_features, self.in_features),
            "G": (self.batch, self.samples, self.out_features),
        }

    @property
    def macs(self) -> int:
        """Number of multiplications without fragmentation. It is the same for all three operations."""
        return self.batch * self.samples * self.in_features * self.out_features

    def to_json(self) -> dict[str, Any]:
        """Return the document from which `geometry_from_json` builds this geometry."""
        return _document(self)


Geometry = Convolution | MatrixProduct

_KINDS: dict[str, type[Geometry]] = {"convolution": Convolution, "matrix_product": MatrixProduct}


def _document(geometry: Geometry) -> dict[str, Any]:
    kind = next(kind for kind, cls in _KINDS.items() if type(geometry) is cls)
    entries = ((name, value) for name, value in asdict(geometry).items() if value is not None)
    return {"kind": kind} | {name: list(value) if isinstance(value, tuple) else value for name, value in entries}


def geometry_from_json(document: Mapping[str, Any]) -> Geometry:
    """Build a geometry from the document that its `to_json` returned.

    Parameters
    ----------
    document : mapping
        ``kind``, which is "convolution" or "matrix_product", and every field of this geometry, with lists for tuples.
        ``end_padding`` is optional.

    Raises
    ------
    TypeError, ValueError
        If a key is missing or unknown, or the geometry rejects a value.

    Examples
    --------
    >>> document = MatrixProduct(batch=1, samples=4, in_features=10, out_features=5).to_json()
    >>> document
    {'kind': 'matrix_product', 'batch': 1, 'samples': 4, 'in_features': 10, 'out_features': 5}
    >>> geometry_from_json(document)
    MatrixProduct(batch=1, samples=4, in_features=10, out_features=5)
    >>> geometry_from_json(document | {"bias": 1})
    Traceback (most recent call last):
    ValueError: a matrix_product must have the keys kind, batch, samples, in_features, out_features; unknown: bias
    """
    if not isinstance(document, Mapping):
        raise TypeError(f"a geometry must be a JSON object, not {document!r}")
    kind = require_choice("kind", document.get("kind"), _KINDS)
    required = ["kind", *(field.name for field in fields(_KINDS[kind]) if field.default is not None)]
    known = ["kind", *(field.name for field in fields(_KINDS[kind]))]
    wrong = {
        "missing": [name for name in required if name not in document],
        "unknown": [name for name in document if name not in known],
    }
    for what, names in wrong.items():
        if names:
            listed = ", ".join(map(str, names))
            raise ValueError(f"a {kind} must have the keys {', '.join(required)}; {what}: {listed}")
    sizes: dict[str, Any] = {name: document[name] for name in known[1:] if name in document}
    for name, value in sizes.items():
        if isinstance(value, list):
            sizes[name] = tuple(value)
    return _KINDS[kind](**sizes)
