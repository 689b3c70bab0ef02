"""Operands of a problem: the loads of a part of a tensor, and the layout of its streams.

A *box* is a range for each of an operand's stream dimensions, the innermost first. A *span* is a range for each
dimension of the reduction. The buffer holds loaded groups in the order of memory, without gaps. Positions along X and
rows count from the first loaded one, so that tensors may exceed the range of a descriptor's field.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tensordash.configuration.core_config import CoreConfig

from .layer import Layer, Phase, Walk
from .program import Loop

__all__ = ["NOTHING", "Box", "Layout", "Move", "Operand", "Positions", "Weights", "meeting", "size_of"]

Box = tuple[tuple[int, int], ...]


def size_of(box: Box) -> int:
    """Count the elements of a box."""
    size = 1
    for start, stop in box:
        size *= stop - start
    return size


@dataclass(frozen=True)
class Move:
    """A transfer of groups between a tensor in memory and the buffer.

    Parameters
    ----------
    tensor : str
        The tensor: "A", "W", "G", "result", "bias" or "mask".
    first : int
        The first group to move, for the first product.
    groups : int
        Number of groups.
    fields : dict of str to int
        Counts and strides of a load or a store, and the form of an NVFP4 tensor in memory.
    """

    tensor: str
    first: int
    groups: int
    fields: dict[str, int]

    @property
    def runs(self) -> int:
        """Number of contiguous pieces of memory."""
        return self.groups // self.fields["count_0"]

    @property
    def is_nvfp4(self) -> bool:
        """Whether the tensor in memory is NVFP4."""
        return bool(self.fields.get("nvfp4"))

    @classmethod
    def of(cls, tensor: str, first: int, loops: Sequence[tuple[int, int]]) -> "Move":
        """Return the move of nested loops over a tensor in memory; counts and strides in groups, innermost first."""
        merged: list[tuple[int, int]] = [(1, 1)]
        for count, stride in loops:
            inside, step = merged[-1]
            if count == 1:
                continue
            if inside == 1:
                merged[-1] = count, stride
            elif stride == inside * step:
                merged[-1] = inside * count, step
            else:
                merged.append((count, stride))
        if merged[0][1] != 1:  # the innermost groups are not contiguous
            merged.insert(0, (1, 1))
        fields = {"count_0": 1}
        for k, (count, stride) in enumerate(merged):
            fields |= {f"count_{k}": count} | ({f"stride_{k}": stride} if k else {})
        return cls(tensor, first, prod(count for count, _ in loops), fields)


@dataclass(frozen=True)
class Layout:
    """The layout of an operand's streams.

    Parameters
    ----------
    fields : dict
        Fields of a layout, except `base`, `steps` and `streams`.
    loops : list of Loop
        Its loops.
    """

    fields: dict[str, int]
    loops: list[Loop]


@dataclass(frozen=True)
class Operand(ABC):
    """An operand of a contraction.

    Parameters
    ----------
    config : CoreConfig
        Supplies the lanes.
    layer : Layer
        The layer.
    operation : str
        "AxW", "WxG" or "AxG".
    name : str
        "A", "W" or "G".
    parts : int
        Groups in a step of its side.
    """

    config: CoreConfig
    layer: Layer
    operation: str
    name: str
    parts: int

    def groups(self, values: int) -> int:
        """Return the number of groups for a number of values."""
        return -(-values // self.config.tile.lanes)

    def filled(self, groups: int) -> int:
        """Round a number of groups up to full streams."""
        return -(-groups // self.parts) * self.parts

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The result's dimensions to which the stream dimensions correspond."""

    @abstractmethod
    def dimensions(self, phase: Phase) -> tuple[int, ...]:
        """Return the streams in each dimension, in groups of ports, the first rounded up to full streams."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Groups of one product in memory."""

    def stride(self, phase: Phase) -> int:
        """Return the positions from one port (or lane) to the next."""
        return 1

    @abstractmethod
    def plan_loads(self, tile: Box, span: Box, phase: Phase) -> list[Move]:
        """Return the loads for the streams of a box and a span of the reduction, in the order of the buffer."""

    @abstractmethod
    def plan_layout(self, tile: Box, span: Box, phase: Phase, streams: Box, chunk: Box, at: int) -> Layout:
        """Return the layout of `streams` from the groups that were loaded for `tile` and `span`, from group `at` on."""


NOTHING = Layout({"x_size": 1, "checked": 1}, [])
"""Layout for results without taps: a step of zeros."""


def meeting(ends: Iterable[int], size: int) -> tuple[int, int]:
    """Return the range from the least to the greatest position, clipped to 0 to `size`, with at least one position."""
    listed = list(ends) or [0]
    low = min(max(min(listed), 0), size - 1)
    return low, max(min(max(listed) + 1, size), low + 1)


class Positions(Operand):
    """A of AxW and G of WxG: streams are positions (x group, row, sample); the reduction is channel groups and taps."""

    @property
    def names(self) -> tuple[str, ...]:
        """See `Operand`."""
        return "x", "y", "sample"

    def dimensions(self, phase: Phase) -> tuple[int, ...]:
        """See `Operand`; includes columns that pad the result's last group."""
        rows, columns = self.layer.output_size if self.operation == "AxW" else self.layer.size
        columns = self.groups(columns) * self.config.tile.lanes
        across, down = (-(-(size - walk.first) // walk.apart) for size, walk in ((columns, phase.x), (rows, phase.y)))
        return self.filled(self.groups(across)), down, self.layer.samples

    @cached_property
    def _sizes(self) -> tuple[int, int, int, int]:
        """Numbers of channel groups, rows, columns and column groups."""
        _, channels, rows, columns = self.layer.shape("A" if self.operation == "AxW" else "G")
        return self.groups(channels), rows, columns, self.groups(columns)

    @property
    def size(self) -> int:
        """See `Operand`."""
        channels, rows, _, across = self._sizes
        return self.layer.samples * rows * channels * across

    def stride(self, phase: Phase) -> int:
        """See `Operand`."""
        return phase.x.stride

    @cached_property
    def _walks(self) -> tuple[list[Walk], list[Walk]]:
        """Walks of all phases, along rows and columns."""
        phases = list(self.layer.phases(self.operation))
        y, x = ({getattr(phase, axis).first: getattr(phase, axis) for phase in phases} for axis in "yx")
        return list(y.values()), list(x.values())

    @cached_property
    def _read_ranges(self) -> dict[Box, tuple[int, int, int, int]]:
        """Ranges that were found before, by tile."""
        return {}

    def _read(self, tile: Box) -> tuple[int, int, int, int]:
        """Return the ranges of rows and of column groups that any phase reads."""
        if tile not in self._read_ranges:
            self._read_ranges[tile] = self._find_read(tile)
        return self._read_ranges[tile]

    def _find_read(self, tile: Box) -> tuple[int, int, int, int]:
        _, rows, columns, _ = self._sizes
        lanes, (down, across) = self.config.tile.lanes, self._walks
        y = meeting(_ends(tile[1], down), rows)
        x = meeting(_ends((tile[0][0] * lanes, tile[0][1] * lanes), across), columns)
        return *y, x[0] // lanes, self.groups(x[1])

    def plan_loads(self, tile: Box, span: Box, phase: Phase) -> list[Move]:
        """See `Operand`; all phases load the same groups."""
        if not phase.taps:
            return []
        channels, rows, _, across = self._sizes
        (low, high, left, right), (first, stop) = self._read(tile), tile[2]
        ((begin, end),) = span
        loops = [(right - left, 1), (end - begin, across), (high - low, channels * across)]
        loops.append((stop - first, rows * channels * across))
        at = ((first * rows + low) * channels + begin) * across + left
        return [Move.of(self.name, at, loops)]

    def plan_layout(self, tile: Box, span: Box, phase: Phase, streams: Box, chunk: Box, at: int) -> Layout:
        """See `Operand`."""
        if not phase.taps:
            return NOTHING
        columns, lanes = self._sizes[2], self.config.tile.lanes
        low, high, left, right = self._read(tile)
        ((begin, end),), ((c0, c1),) = span, chunk
        (x0, x1), (y0, y1), (n0, n1) = streams
        across = right - left
        row = (end - begin) * across
        y = phase.y.start + y0 * phase.y.stride - low
        fields = {
            "address": (at + (n0 - tile[2][0]) * (high - low) * row + y * row + (c0 - begin) * across) % (1 << 16),
            "x": phase.x.start + (x0 * phase.x.stride - left) * lanes,
            "y": y,
            "stride": self.stride(phase),
            "checked": 1,
            "x_size": min(columns, right * lanes) - left * lanes,
            "y_size": high - low,
        }
        loops = [
            Loop(count=c1 - c0, address=across),
            Loop(count=phase.x.taps, x=phase.x.step),
            Loop(count=phase.y.taps, address=phase.y.step * row, y=phase.y.step),
            Loop(count=x1 - x0, x=lanes * phase.x.stride),
            Loop(count=y1 - y0, address=phase.y.stride * row, y=phase.y.stride),
            Loop(count=n1 - n0, address=(high - low) * row),
        ]
        return Layout(fields, loops)


def _ends(results: tuple[int, int], walks: Sequence[Walk]) -> list[int]:
    """Return the least and the greatest position that the results of each phase read along an axis."""
    first, stop = results
    ends = []
    for walk in walks:
        if walk.taps:
            reach = (walk.taps - 1) * walk.step
            ends.append(walk.start + first * walk.stride + min(0, reach))
            ends.append(walk.start + (stop - 1) * walk.stride + max(0, reach))
    return ends


class Weights(Operand):
    """W: streams are filter groups (AxW) or channel groups (WxG); the reduction is the other groups and taps."""

    @property
    def names(self) -> tuple[str, ...]:
        """See `Operand`."""
        return ("channel",)

    def dimensions(self, phase: Phase) -> tuple[int, ...]:
        """See `Operand`."""
        return (self.filled(self.groups(self.layer.filters if self.operation == "AxW" else self.layer.channels)),)

    @property
    def size(self) -> int:
        """See `Operand`."""
        return prod(self.layer.kernel) * self.groups(self.layer.channels) * self.groups(self.layer.filters)

    def _ranges(self, tile: Box, span: Box) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the ranges of channel groups and filter groups, without padding of streams."""
        (c0, c1), (f0, f1) = (span[0], tile[0]) if self.operation == "AxW" else (tile[0], span[0])
        return (c0, min(c1, self.groups(self.layer.channels))), (f0, min(f1, self.groups(self.layer.filters)))

    def plan_loads(self, tile: Box, span: Box, phase: Phase) -> list[Move]:
        """See `Operand`."""
        if not phase.taps:
            return []
        channels, filters = self.groups(self.layer.channels), self.groups(self.layer.filters)
        (c0, c1), (f0, f1) = self._ranges(tile, span)
        tap, across = channels * filters, self.layer.kernel[1]
        loops = [
            (f1 - f0, 1),
            (c1 - c0, filters),
            (phase.x.taps, phase.x.tap_step * tap),
            (phase.y.taps, phase.y.tap_step * across * tap),
        ]
        first = ((phase.y.tap * across + phase.x.tap) * channels + c0) * filters + f0
        return [Move.of(self.name, first, loops)]

    def plan_layout(self, tile: Box, span: Box, phase: Phase, streams: Box, chunk: Box, at: int) -> Layout:
        """See `Operand`; streams beyond the last one are zeros."""
        if not phase.taps:
            return NOTHING
        lanes = self.config.tile.lanes
        (c0, c1), (f0, f1) = self._ranges(tile, span)
        ((s0, s1),), ((k0, k1),) = streams, chunk
        across, tap = f1 - f0, (f1 - f0) * (c1 - c0)
        if self.operation == "AxW":
            inner, outer = Loop(count=k1 - k0, address=across), Loop(count=s1 - s0, x=lanes)
            fields = {"address": at + (k0 - c0) * across, "x": (s0 - f0) * lanes}
        else:
            inner, outer = Loop(count=k1 - k0, x=lanes), Loop(count=s1 - s0, address=across, y=1)
            fields = {"address": at + (s0 - c0) * across, "x": (k0 - f0) * lanes, "transposed": 1}
            fields |= {"checked": 1, "y": s0 - c0, "y_size": c1 - c0}
        fields["x_size"] = min(self.layer.filters, f1 * lanes) - f0 * lanes
        loops = [
            inner,
            Loop(count=phase.x.taps, address=tap),
            Loop(count=phase.y.taps, address=phase.x.taps * tap),
            outer,
        ]
        return Layout(fields, loops)
