"""Operands of the weight gradient, which reduces positions: G by filters, and A by taps and channels."""

from dataclasses import dataclass
from functools import cached_property

from .layer import Phase
from .operands import Box, Layout, Move, Operand, meeting
from .program import Loop

__all__ = ["Activations", "Gradient"]


class Gradient(Operand):
    """G of AxG: streams are filter groups; the reduction is x groups, rows and samples."""

    @property
    def names(self) -> tuple[str, ...]:
        """See `Operand`."""
        return ("filter",)

    def dimensions(self, phase: Phase) -> tuple[int, ...]:
        """See `Operand`."""
        return (self.filled(self.groups(self.layer.filters)),)

    @property
    def size(self) -> int:
        """See `Operand`."""
        rows, columns = self.layer.output_size
        return self.layer.samples * rows * self.groups(self.layer.filters) * self.groups(columns)

    def plan_loads(self, tile: Box, span: Box, phase: Phase) -> list[Move]:
        """See `Operand`."""
        filters, (rows, columns) = self.groups(self.layer.filters), self.layer.output_size
        across = self.groups(columns)
        ((f0, f1),), ((x0, x1), (y0, y1), (n0, n1)) = tile, span
        loops = [(x1 - x0, 1), (min(f1, filters) - f0, across)]
        loops += [(y1 - y0, filters * across), (n1 - n0, rows * filters * across)]
        return [Move.of(self.name, ((n0 * rows + y0) * filters + f0) * across + x0, loops)]

    def plan_layout(self, tile: Box, span: Box, phase: Phase, streams: Box, chunk: Box, at: int) -> Layout:
        """See `Operand`; streams beyond the last one are zeros."""
        columns, lanes = self.layer.output_size[1], self.config.tile.lanes
        ((f0, f1),), ((f2, f3),) = tile, streams
        (x0, x1), (y0, y1), (n0, _) = span
        (x2, x3), (y2, y3), (n2, n3) = chunk
        across, down = x1 - x0, min(f1, self.groups(self.layer.filters)) - f0
        row, sample = down * across, (y1 - y0) * down * across
        fields = {
            "address": at + (n2 - n0) * sample + (y2 - y0) * row + (f2 - f0) * across,
            "x": (x2 - x0) * lanes,
            "x_size": min(columns, x1 * lanes) - x0 * lanes,
            "checked": 1,
            "y": f2 - f0,
            "y_size": down,
            "transposed": 1,
        }
        loops = [
            Loop(count=x3 - x2, x=lanes),
            Loop(count=y3 - y2, address=row),
            Loop(count=n3 - n2, address=sample),
            Loop(count=f3 - f2, address=across, y=1),
        ]
        return Layout(fields, loops)


@dataclass(frozen=True)
class _Loaded:
    """The part of A that is loaded for a weight gradient: its rows and column groups, and distances in groups."""

    low: int
    high: int
    left: int
    right: int
    row: int
    channel: int
    sample: int


class Activations(Operand):
    """A of AxG: streams are taps and channel groups; the reduction is as for `Gradient`.

    If a step has several parts, they are kernel columns or channel groups, whichever need less padding. Copies of the
    first channel groups pad channel groups. Kernel columns beyond the last one read positions further on.
    """

    @cached_property
    def names(self) -> tuple[str, ...]:
        """See `Operand`."""
        channels, columns = self.groups(self.layer.channels), self.layer.kernel[1]
        if self.parts > 1 and self.filled(channels) * columns <= channels * self.filled(columns):
            return "channel", "column", "row"
        return "column", "row", "channel"

    def dimensions(self, phase: Phase) -> tuple[int, ...]:
        """See `Operand`."""
        rows, columns = self.layer.kernel
        sizes = {"column": columns, "row": rows, "channel": self.groups(self.layer.channels)}
        first, *rest = (sizes[name] for name in self.names)
        return self.filled(first), *rest

    @property
    def size(self) -> int:
        """See `Operand`."""
        rows, columns = self.layer.size
        return self.layer.samples * rows * self.groups(self.layer.channels) * self.groups(columns)

    def stride(self, phase: Phase) -> int:
        """See `Operand`."""
        return self.layer.axes[1].stride

    @cached_property
    def _loaded_parts(self) -> dict[tuple[Box, Box], _Loaded]:
        """Parts that were found before, by tile and span."""
        return {}

    def _loaded(self, tile: Box, span: Box) -> _Loaded:
        if (tile, span) not in self._loaded_parts:
            self._loaded_parts[tile, span] = self._find_loaded(tile, span)
        return self._loaded_parts[tile, span]

    def _find_loaded(self, tile: Box, span: Box) -> _Loaded:
        ranges, (y, x), lanes = dict(zip(self.names, tile, strict=True)), self.layer.axes, self.config.tile.lanes
        (x0, x1), (y0, y1), (n0, n1) = span
        (i0, i1), (k0, k1), (c0, c1) = (ranges[name] for name in ("column", "row", "channel"))
        ends = (
            (x0 * lanes * x.stride + i0 * x.dilation, (x1 * lanes - 1) * x.stride + (i1 - 1) * x.dilation),
            (y0 * y.stride + k0 * y.dilation, (y1 - 1) * y.stride + (k1 - 1) * y.dilation),
        )
        left, right = meeting((end - x.padding for end in ends[0]), x.size)
        low, high = meeting((end - y.padding for end in ends[1]), y.size)
        left, right = left // lanes, self.groups(right)
        across = right - left
        if c1 > self.groups(self.layer.channels):  # padding comes last
            sample = (high - low) * across
            return _Loaded(low, high, left, right, row=across, sample=sample, channel=(n1 - n0) * sample)
        row = (c1 - c0) * across
        return _Loaded(low, high, left, right, row=row, sample=(high - low) * row, channel=across)

    def plan_loads(self, tile: Box, span: Box, phase: Phase) -> list[Move]:
        """See `Operand`."""
        channels, (rows, columns) = self.groups(self.layer.channels), self.layer.size
        across, held = self.groups(columns), self._loaded(tile, span)
        (c0, c1), (n0, n1) = tile[self.names.index("channel")], span[2]
        inner = [(held.right - held.left, 1)]
        outer = [(held.high - held.low, channels * across), (n1 - n0, rows * channels * across)]
        first = ((n0 * rows + held.low) * channels + c0) * across + held.left
        filled, more = min(c1, channels) - c0, c1 - min(c1, channels)
        if not more:
            return [Move.of(self.name, first, [*inner, (filled, across), *outer])]
        second = (more, across if more <= filled else 0)
        return [Move.of(self.name, first, [*inner, *outer, last]) for last in ((filled, across), second)]

    def plan_layout(self, tile: Box, span: Box, phase: Phase, streams: Box, chunk: Box, at: int) -> Layout:
        """See `Operand`."""
        (y, x), lanes, held = self.layer.axes, self.config.tile.lanes, self._loaded(tile, span)
        begin = {name: start for name, (start, _) in zip(self.names, streams, strict=True)}
        (x0, x1), (y0, y1), (n0, n1) = chunk
        row = y0 * y.stride + begin["row"] * y.dilation - y.padding - held.low
        channel = begin["channel"] - tile[self.names.index("channel")][0]
        fields = {
            "address": (at + (n0 - span[2][0]) * held.sample + row * held.row + channel * held.channel) % (1 << 16),
            "x": (x0 * x.stride - held.left) * lanes + begin["column"] * x.dilation - x.padding,
            "y": row,
            "stride": self.stride(phase),
            "checked": 1,
            "x_size": min(x.size, held.right * lanes) - held.left * lanes,
            "y_size": held.high - held.low,
            "transposed": 1,
        }
        loops = [
            Loop(count=x1 - x0, x=lanes * x.stride),
            Loop(count=y1 - y0, address=y.stride * held.row, y=y.stride),
            Loop(count=n1 - n0, address=held.sample),
        ]
        steps = {
            "column": {"x": x.dilation},
            "row": {"address": y.dilation * held.row, "y": y.dilation},
            "channel": {"address": held.channel},
        }
        for name, (start, stop) in zip(self.names, streams, strict=True):
            loops.append(Loop(count=stop - start, **steps[name]))
        return Layout(fields, loops)
