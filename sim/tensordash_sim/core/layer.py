"""A convolution or matrix product as a core's memory has it: sizes in groups, and the phases of its operations."""

from collections.abc import Iterator
from dataclasses import dataclass

from tensordash.configuration.parameters import require_int

from ..lowering.geometry import Geometry, MatrixProduct

__all__ = ["OPERANDS", "Layer", "Phase"]

OPERANDS = {"AxW": ("A", "W"), "WxG": ("G", "W"), "AxG": ("G", "A")}
"""Of each operation: the operand whose positions are those of the result, and the other one."""


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Results that have the same taps: all of them, but for the gradient of a strided convolution.

    Parameters
    ----------
    first : (int, int)
        Row and column of the first result; `Layer.step_of` lie between neighbours.
    taps : (int, int)
        Kernel rows and columns that there are.
    tap : (int, int)
        The first one of each.
    tap_step : int
        Taps from one to the next.
    start : (int, int)
        Row and column of the operand that the first result has with the first tap.
    stride : int
        Of the operand, from one result to the next.
    step : int
        Of the operand, from one tap to the next.
    """

    first: tuple[int, int]
    taps: tuple[int, int]
    tap: tuple[int, int]
    tap_step: int
    start: tuple[int, int]
    stride: int
    step: int


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A convolution; a matrix product is one with a kernel of 1x1 on one row, whose columns are samples.

    Parameters
    ----------
    samples, channels, filters : int
        N, C and F.
    size : (int, int)
        Rows and columns of A.
    kernel : (int, int)
        Rows and columns of W.
    stride : int
        1 to 4, of both directions.
    padding : int
        Zeros around A, on all sides.

    Raises
    ------
    TypeError, ValueError
        Naming the field, what is allowed and what was given.

    Examples
    --------
    >>> layer = Layer(samples=2, channels=16, filters=8, size=(9, 9), kernel=(3, 3), stride=2, padding=1)
    >>> layer.made
    (5, 5)
    >>> [phase.taps for phase in layer.phases("WxG")]
    [(1, 1), (1, 2), (2, 1), (2, 2)]
    """

    samples: int
    channels: int
    filters: int
    size: tuple[int, int]
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1
    padding: int = 0

    def __post_init__(self) -> None:
        for name in ("samples", "channels", "filters"):
            require_int(name, getattr(self, name), 1, 1 << 16)
        require_int("stride", self.stride, 1, 4)
        for name in ("size", "kernel"):
            for value in getattr(self, name):
                require_int(name, value, 1, 1 << 15)
        require_int("padding", self.padding, 0, 1 << 14)
        if any(size + 2 * self.padding < kernel for size, kernel in zip(self.size, self.kernel, strict=True)):
            raise ValueError(f"size must be at least the kernel's with padding, {self.kernel}, not {self.size}")

    @classmethod
    def of(cls, geometry: Geometry) -> "Layer":
        """A layer of a trace, or whatever else has a geometry.

        Raises
        ------
        ValueError
            If a core has no program for it yet: it says why.
        """
        if isinstance(geometry, MatrixProduct):
            if geometry.batch != 1:
                raise ValueError(f"a core's matrix product must have batch = 1, not {geometry.batch}")
            size = (1, geometry.samples)
            return cls(samples=1, channels=geometry.in_features, filters=geometry.out_features, size=size)
        y, x = geometry.axes
        for name, allowed, given in (
            ("groups", "1", (geometry.groups,)),
            ("dilation", "1", (y.dilation, x.dilation)),
            ("stride", "the same in both directions", (y.stride, x.stride)),
            ("padding", "the same in both directions", (y.padding, x.padding)),
        ):
            if len(set(given)) > 1 or (allowed == "1" and given[0] != 1):
                raise ValueError(f"a core's convolution must have {name} {allowed}, not {given}")
        return cls(
            samples=geometry.batch,
            channels=geometry.in_channels,
            filters=geometry.out_channels,
            size=(y.size, x.size),
            kernel=(y.kernel, x.kernel),
            stride=y.stride,
            padding=y.padding,
        )

    @property
    def made(self) -> tuple[int, int]:
        """Rows and columns of the output."""
        rows, columns = (
            (size + 2 * self.padding - kernel) // self.stride + 1
            for size, kernel in zip(self.size, self.kernel, strict=True)
        )
        return rows, columns

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Of a tensor, in the order of PyTorch: A and G (and their like) are N, C, Y, X; W is F, C, KY, KX."""
        return {
            "A": (self.samples, self.channels, *self.size),
            "G": (self.samples, self.filters, *self.made),
            "W": (self.filters, self.channels, *self.kernel),
        }[tensor]

    def step_of(self, operation: str) -> int:
        """Rows and columns from one result of a phase to the next."""
        return self.stride if operation == "WxG" else 1

    def phases(self, operation: str) -> Iterator[Phase]:
        """Of the operations whose results are positions."""
        if operation == "AxW":
            yield Phase(
                first=(0, 0),
                taps=self.kernel,
                tap=(0, 0),
                tap_step=1,
                start=(-self.padding, -self.padding),
                stride=self.stride,
                step=1,
            )
            return
        for row in range(min(self.stride, self.size[0])):
            for column in range(min(self.stride, self.size[1])):
                tap = (row + self.padding) % self.stride, (column + self.padding) % self.stride
                taps = [max(0, -(-(size - t) // self.stride)) for size, t in zip(self.kernel, tap, strict=True)]
                start = [(at + self.padding - t) // self.stride for at, t in zip((row, column), tap, strict=True)]
                yield Phase(
                    first=(row, column),
                    taps=(taps[0], taps[1]),
                    tap=tap,
                    tap_step=self.stride,
                    start=(start[0], start[1]),
                    stride=1,
                    step=-1,
                )
