"""Operands of a contraction: which part of a tensor is loaded, and how streams are laid out from it.

A *box* is a range for each of an operand's stream dimensions, the innermost first; a *span* is a range for each of the
reduction's. What is loaded stands in the buffer in the order of memory, without gaps.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tensordash.configuration.core_config import CoreConfig

from .layer import Layer, Phase
from .program import Loop

__all__ = ["Activations", "Box", "Gradient", "Layout", "Move", "Operand", "Positions", "Weights", "size_of"]

Box = tuple[tuple[int, int], ...]


def size_of(box: Box) -> int:
    """How many there are in a box."""
    return prod(stop - start for start, stop in box)


@dataclass(frozen=True)
class Move:
    """Groups between memory and buffer.

    Parameters
    ----------
    groups : int
        How many.
    fields : dict
        Of a load or a store, but for `address`.
    """

    groups: int
    fields: dict[str, int]

    @property
    def runs(self) -> int:
        """Pieces of memory that stand apart."""
        return self.groups // self.fields["count_0"]

    @classmethod
    def of(cls, config: CoreConfig, tensor: int, first: int, loops: Sequence[tuple[int, int]]) -> "Move":
        """A walk through a tensor in memory: counts and strides in groups, the innermost first."""
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
        if merged[0][1] != 1:  # not even the innermost stand together
            merged.insert(0, (1, 1))
        fields = {"memory": tensor + first * config.group_bytes, "count_0": 1}
        for k, (count, stride) in enumerate(merged):
            fields |= {f"count_{k}": count} | ({f"stride_{k}": stride} if k else {})
        return cls(prod(count for count, _ in loops), fields)


@dataclass(frozen=True)
class Layout:
    """Streams of an operand.

    Parameters
    ----------
    steps : int
        Of each stream.
    fields : dict
        Of a layout, but for `base` and `streams`.
    loops : list of Loop
        Its walk.
    """

    steps: int
    fields: dict[str, int]
    loops: list[Loop]


@dataclass(frozen=True)
class Operand(ABC):
    """An operand of a contraction.

    Parameters
    ----------
    config : CoreConfig
        Gives the lanes.
    layer : Layer
        The layer.
    operation : str
        "AxW", "WxG" or "AxG".
    tensor : int
        Its address in memory.
    """

    config: CoreConfig
    layer: Layer
    operation: str
    tensor: int

    def groups(self, values: int) -> int:
        """Groups that so many values take."""
        return -(-values // self.config.tile.lanes)

    @abstractmethod
    def move(self, tile: Box, span: Box, phase: Phase) -> Move:
        """What is loaded for the streams of a box and a span of the reduction."""

    @abstractmethod
    def layout(self, tile: Box, span: Box, phase: Phase, streams: Box, chunk: Box, at: int) -> Layout:
        """How some streams are laid out from what was loaded for `tile` and `span` to group `at`."""


class Positions(Operand):
    """A of AxW and G of WxG: streams are positions (x group, row, sample); reductions channel groups, then taps."""

    def _sizes(self) -> tuple[int, int, int, int]:
        """Channel groups, rows, columns, column groups."""
        _, channels, rows, columns = self.layer.shape("A" if self.operation == "AxW" else "G")
        return self.groups(channels), rows, columns, self.groups(columns)

    def _rows(self, tile: Box) -> tuple[int, int]:
        """Rows that any phase reads."""
        (first, stop), rows = tile[1], self._sizes()[1]
        ends = []
        for phase in self.layer.phases(self.operation):
            reach = (max(phase.taps[0], 1) - 1) * phase.step
            ends.append(first * phase.stride + phase.start[0] + min(0, reach))
            ends.append((stop - 1) * phase.stride + phase.start[0] + max(0, reach) + 1)
        low = min(max(min(ends), 0), rows - 1)
        return low, max(min(max(ends), rows), low + 1)

    def move(self, tile: Box, span: Box, phase: Phase) -> Move:
        """See `Operand`; all phases read the same."""
        channels, rows, _, across = self._sizes()
        (low, high), (first, stop) = self._rows(tile), tile[2]
        ((begin, end),) = span
        loops = [(across, 1), (end - begin, across), (high - low, channels * across)]
        loops.append((stop - first, rows * channels * across))
        return Move.of(self.config, self.tensor, ((first * rows + low) * channels + begin) * across, loops)

    def layout(self, tile: Box, span: Box, phase: Phase, streams: Box, chunk: Box, at: int) -> Layout:
        """See `Operand`."""
        _, _, columns, across = self._sizes()
        (low, high), lanes = self._rows(tile), self.config.tile.lanes
        ((begin, end),), ((c0, c1),) = span, chunk
        (x0, x1), (y0, y1), (n0, n1) = streams
        row = (end - begin) * across
        y = phase.start[0] + y0 * phase.stride - low
        taps = phase.taps if all(phase.taps) else (1, 1)
        count = c1 - c0 if all(phase.taps) else 1
        fields = {
            "address": (at + (n0 - tile[2][0]) * (high - low) * row + y * row + (c0 - begin) * across) % (1 << 16),
            "x": phase.start[1] + x0 * lanes * phase.stride,
            "y": y,
            "stride": phase.stride,
            "checked": 1,
            "x_size": columns,
            "y_size": high - low if all(phase.taps) else 0,  # without taps: a step of zeros
        }
        loops = [
            Loop(count=count, address=across),
            Loop(count=taps[1], x=phase.step),
            Loop(count=taps[0], address=phase.step * row, y=phase.step),
            Loop(count=x1 - x0, x=lanes * phase.stride),
            Loop(count=y1 - y0, address=phase.stride * row, y=phase.stride),
            Loop(count=n1 - n0, address=(high - low) * row),
        ]
        return Layout(count * taps[0] * taps[1], fields, loops)


class Weights(Operand):
    """W: streams are filter groups (AxW) or channel groups (WxG); reductions the other ones, then taps."""

    def _ranges(self, tile: Box, span: Box) -> tuple[tuple[int, int], tuple[int, int]]:
        """Channel groups and filter groups."""
        return (span[0], tile[0]) if self.operation == "AxW" else (tile[0], span[0])

    def move(self, tile: Box, span: Box, phase: Phase) -> Move:
        """See `Operand`."""
        channels, filters = self.groups(self.layer.channels), self.groups(self.layer.filters)
        (c0, c1), (f0, f1) = self._ranges(tile, span)
        taps = [max(1, count) for count in phase.taps]
        tap = channels * filters
        loops = [(f1 - f0, 1), (c1 - c0, filters), (taps[1], phase.tap_step * tap)]
        loops.append((taps[0], phase.tap_step * self.layer.kernel[1] * tap))
        row, column = (t if count else 0 for t, count in zip(phase.tap, phase.taps, strict=True))
        first = ((row * self.layer.kernel[1] + column) * channels + c0) * filters + f0
        return Move.of(self.config, self.tensor, first, loops)

    def layout(self, tile: Box, span: Box, phase: Phase, streams: Box, chunk: Box, at: int) -> Layout:
        """See `Operand`."""
        lanes = self.config.tile.lanes
        (c0, c1), (f0, f1) = self._ranges(tile, span)
        (c2, c3), (f2, f3) = self._ranges(streams, chunk)
        across, tap = f1 - f0, (f1 - f0) * (c1 - c0)
        taps = phase.taps if all(phase.taps) else (1, 1)
        by_channel, by_filter = Loop(count=c3 - c2, address=across), Loop(count=f3 - f2, x=lanes)
        inner, outer = (by_channel, by_filter) if self.operation == "AxW" else (by_filter, by_channel)
        if not all(phase.taps):
            inner = Loop(count=1)
        fields = {
            "address": at + (c2 - c0) * across + f2 - f0,
            "x_size": min(self.layer.filters - f2 * lanes, (f1 - f2) * lanes),
            "transposed": int(self.operation == "WxG"),
        }
        loops = [inner, Loop(count=taps[1], address=tap), Loop(count=taps[0], address=taps[1] * tap), outer]
        return Layout(inner.count * taps[0] * taps[1], fields, loops)


class Gradient(Operand):
    """G of AxG: streams are filter groups; reductions x groups, rows and samples."""

    def move(self, tile: Box, span: Box, phase: Phase) -> Move:
        """See `Operand`."""
        filters, (rows, columns) = self.groups(self.layer.filters), self.layer.made
        across = self.groups(columns)
        ((f0, f1),), ((y0, y1), (n0, n1)) = tile, span
        loops = [(across, 1), (f1 - f0, across), (y1 - y0, filters * across), (n1 - n0, rows * filters * across)]
        return Move.of(self.config, self.tensor, ((n0 * rows + y0) * filters + f0) * across, loops)

    def layout(self, tile: Box, span: Box, phase: Phase, streams: Box, chunk: Box, at: int) -> Layout:
        """See `Operand`."""
        columns, lanes = self.layer.made[1], self.config.tile.lanes
        across = self.groups(columns)
        ((f0, f1),), ((f2, f3),) = tile, streams
        ((y0, y1), (n0, _)), ((y2, y3), (n2, n3)) = span, chunk
        row, sample = (f1 - f0) * across, (y1 - y0) * (f1 - f0) * across
        fields = {"address": at + (n2 - n0) * sample + (y2 - y0) * row + (f2 - f0) * across, "x_size": columns}
        loops = [Loop(count=across, x=lanes), Loop(count=y3 - y2, address=row), Loop(count=n3 - n2, address=sample)]
        loops.append(Loop(count=f3 - f2, address=across))
        return Layout(across * size_of(chunk), {**fields, "transposed": 1}, loops)


class Activations(Operand):
    """A of AxG: streams are taps and channel groups (column, row, group); reductions as of `Gradient`."""

    def _rows(self, tile: Box, span: Box) -> tuple[int, int]:
        """Rows that are read."""
        (y0, y1), layer = span[0], self.layer
        low = y0 * layer.stride - layer.padding + tile[1][0]
        high = (y1 - 1) * layer.stride - layer.padding + tile[1][1]
        low = min(max(low, 0), layer.size[0] - 1)
        return low, max(min(high, layer.size[0]), low + 1)

    def move(self, tile: Box, span: Box, phase: Phase) -> Move:
        """See `Operand`."""
        channels, (rows, columns) = self.groups(self.layer.channels), self.layer.size
        across = self.groups(columns)
        (low, high), (c0, c1), (n0, n1) = self._rows(tile, span), tile[2], span[1]
        loops = [(across, 1), (c1 - c0, across), (high - low, channels * across)]
        loops.append((n1 - n0, rows * channels * across))
        return Move.of(self.config, self.tensor, ((n0 * rows + low) * channels + c0) * across, loops)

    def layout(self, tile: Box, span: Box, phase: Phase, streams: Box, chunk: Box, at: int) -> Layout:
        """See `Operand`."""
        layer, lanes = self.layer, self.config.tile.lanes
        across, (low, high) = self.groups(layer.size[1]), self._rows(tile, span)
        (i0, i1), (k0, k1), (c0, c1) = streams
        (y0, y1), (n0, n1) = chunk
        row = (tile[2][1] - tile[2][0]) * across
        y = y0 * layer.stride + k0 - layer.padding - low
        first = at + (n0 - span[1][0]) * (high - low) * row + y * row + (c0 - tile[2][0]) * across
        fields = {
            "address": first % (1 << 16),
            "x": i0 - layer.padding,
            "y": y,
            "stride": layer.stride,
            "checked": 1,
            "x_size": layer.size[1],
            "y_size": high - low,
            "transposed": 1,
        }
        made = self.groups(layer.made[1])
        loops = [
            Loop(count=made, x=lanes * layer.stride),
            Loop(count=y1 - y0, address=layer.stride * row, y=layer.stride),
            Loop(count=n1 - n0, address=(high - low) * row),
            Loop(count=i1 - i0, x=1),
            Loop(count=k1 - k0, address=row, y=1),
            Loop(count=c1 - c0, address=across),
        ]
        return Layout(made * size_of(chunk), fields, loops)
