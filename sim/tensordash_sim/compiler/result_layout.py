"""The layout of results: tiles in the buffer and in memory, and the loops of a multiply's groups over a tile."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from .layer import Layer, Phase
from .operands import Box, Move, Operand
from .program import Loop

__all__ = ["ResultLayout", "ResultTile"]


@dataclass(frozen=True)
class ResultTile:
    """A tile of results.

    Parameters
    ----------
    move : Move
        The store of the tile.
    groups : int
        Groups of the tile in the buffer. Groups that only pad streams come last, and are not stored.
    steps : dict of str to int
        By dimension, the groups between consecutive results in the buffer.
    """

    move: Move
    groups: int
    steps: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class ResultLayout:
    """The layout of a problem's results.

    Parameters
    ----------
    lanes : int
        Lanes of the tile.
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    width : int
        Groups of memory for a group of results; more than 1 for FP32.
    position_operand, channel_operand : Operand
        The operand whose ports are positions of the result, and the operand whose ports are its channels.
    transposed : bool
        Positions are the tile's columns.
    turned : bool
        Positions and channels are swapped in each group. A group then has one block.
    """

    lanes: int
    layer: Layer
    operation: str
    width: int
    position_operand: Operand
    channel_operand: Operand
    transposed: bool
    turned: bool = False
    _tiles: dict[tuple, ResultTile] = field(default_factory=dict, init=False, repr=False, compare=False)
    _walks: dict[tuple, tuple[dict[str, int], list[Loop]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Sizes of the result's dimensions, in groups for grouped dimensions, the innermost in memory first."""
        layer, groups = self.layer, self.position_operand.groups
        if self.operation == "AxG":
            rows, columns = layer.kernel
            filters, channels = groups(layer.filters), groups(layer.channels)
            return {"filter": filters, "channel": channels, "column": columns, "row": rows}
        rows, columns = layer.output_size if self.operation == "AxW" else layer.size
        channels = groups(layer.filters if self.operation == "AxW" else layer.channels)
        return {"x": groups(columns), "channel": channels, "y": rows, "sample": layer.samples}

    @property
    def size(self) -> int:
        """Groups of one product in memory."""
        return self.width * prod(self.sizes.values())

    @property
    def positions(self) -> int:
        """Positions along the innermost dimension."""
        if self.operation == "AxG":
            return self.layer.filters
        return (self.layer.output_size if self.operation == "AxW" else self.layer.size)[1]

    def _ranges(self, positions: Box, channels: Box, phase: Phase) -> dict[str, tuple[int, int]]:
        """Return a tile's range in every dimension of the result; the part beyond the result's size pads streams."""
        apart = {"x": phase.x.apart, "y": phase.y.apart}
        names = (*self.position_operand.names, *self.channel_operand.names)
        ranges = dict(zip(names, (*positions, *channels), strict=True))
        return {name: (start * apart.get(name, 1), stop * apart.get(name, 1)) for name, (start, stop) in ranges.items()}

    def plan_tile(self, positions: Box, channels: Box, phase: Phase) -> ResultTile:
        """Return the tile of results for boxes of streams, with all phases."""
        # The tiling search requests the same tiles many times.
        key = positions, channels, phase.x.apart, phase.y.apart
        if key not in self._tiles:
            self._tiles[key] = self._plan_tile(positions, channels, phase)
        return self._tiles[key]

    def _plan_tile(self, positions: Box, channels: Box, phase: Phase) -> ResultTile:
        ranges, filling = self._ranges(positions, channels, phase), ""
        stride, strides = self.width, {}
        for name, size in self.sizes.items():
            strides[name] = stride
            stride *= size
            if ranges[name][1] > size and name == self.channel_operand.names[0]:
                filling = name
        first, groups, steps, loops = 0, self.width, {}, [(self.width, 1)]
        for name in sorted(self.sizes, key=lambda name: name == filling):
            start, stop = ranges[name][0], min(ranges[name][1], self.sizes[name])
            first += start * strides[name]
            loops.append((stop - start, strides[name]))
            steps[name] = groups
            groups *= (ranges[name][1] if name == filling else stop) - start
        return ResultTile(Move.of("result", first, loops), groups, steps)

    def plan_walk(
        self, tile: tuple[Box, Box], streams: tuple[Box, Box], phase: Phase, at: int
    ) -> tuple[dict[str, int], list[Loop]]:
        """Return the loops of a multiply's groups over a tile of results.

        Parameters
        ----------
        tile, streams : (Box, Box)
            Boxes of positions and of channels: the complete tile, and the multiply's streams.
        phase : Phase
            The phase of the multiply.
        at : int
            The tile's first group in the buffer.

        Returns
        -------
        dict of str to int
            Fields; `y` counts channel groups from the tile's first.
        list of Loop
            The loops, innermost first.
        """
        apart = 1 if self.operation == "AxG" else phase.x.apart
        begin, end = (edge * apart for edge in tile[0][0])
        # Walks are the same for all tiles of a size.
        steps = tuple(self.plan_tile(*tile, phase).steps.items())
        parts = tuple(
            tuple((start - first, stop - start) for (start, stop), (first, _) in zip(boxes, whole, strict=True))
            for boxes, whole in zip(streams, tile, strict=True)
        )
        key = steps, parts, phase.x.first, phase.y.first, apart, phase.y.apart
        if key not in self._walks:
            self._walks[key] = self._plan_walk(dict(steps), parts, phase)
        fields, loops = self._walks[key]
        size = self.lanes if self.turned else min(self.positions, end * self.lanes) - begin * self.lanes
        return {**fields, "address": at + fields["address"], "x_size": size}, loops

    def _plan_walk(
        self, steps: dict[str, int], parts: Sequence[Sequence[tuple[int, int]]], phase: Phase
    ) -> tuple[dict[str, int], list[Loop]]:
        """Return the fields, except `x_size`, and the loops of a walk over a tile from group 0 on.

        `parts` are the first stream, counted from the tile's first, and the number of streams in each dimension.
        """
        turns = {name: Loop(count=1, address=step) for name, step in steps.items()}
        fields = {"address": 0, "x": 0, "y": 0, "transposed": int(self.transposed or self.turned)}
        if self.operation == "AxG":
            inner, apart = "filter", 1
        else:
            inner, apart = "x", phase.x.apart
            fields |= {"x": phase.x.first, "address": phase.y.first * steps["y"], "stride": apart}
            turns["y"] = Loop(count=1, address=phase.y.apart * steps["y"])
            turns["channel"] = Loop(count=1, address=steps["channel"], y=1)
        # In a turned group, positions are channels, and the output unit writes all of them.
        turns[inner] = Loop(count=1, address=steps[inner]) if self.turned else Loop(count=1, x=self.lanes * apart)
        names = self.position_operand.names, self.channel_operand.names
        loops: list[list[Loop]] = [[], []]
        for side in range(2):
            for name, (start, count) in zip(names[side], parts[side], strict=True):
                turn = turns[name]
                for key in ("address", "x", "y"):
                    fields[key] += start * getattr(turn, key)
                loops[side].append(Loop(count=count, address=turn.address, x=turn.x, y=turn.y))
        return fields, self._nest(loops)

    def _nest(self, loops: list[list[Loop]]) -> list[Loop]:
        """Order the loops over a multiply's groups: columns and rows of a block, streams of A, streams of B."""
        inside: list[Loop] = []
        outside: list[Loop] = []
        sides = ((self.position_operand, loops[0]), (self.channel_operand, loops[1]))
        for operand, (first, *rest) in sides if self.transposed else reversed(sides):
            m = operand.parts
            inside.append(Loop(count=m, address=first.address, x=first.x, y=first.y))
            far = Loop(count=first.count // m, address=m * first.address, x=m * first.x, y=m * first.y)
            outside += [far, *rest]
        nest: list[Loop] = []
        for loop in (*inside, *outside):
            last = nest[-1] if nest else None
            if loop.count == 1:
                continue
            if last and all(getattr(loop, name) == last.count * getattr(last, name) for name in ("address", "x", "y")):
                nest[-1] = Loop(count=last.count * loop.count, address=last.address, x=last.x, y=last.y)
            else:
                nest.append(loop)
        return nest
