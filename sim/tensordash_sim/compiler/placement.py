"""Where results go: a tile of them in the buffer and in memory, and how a multiply's groups walk through it."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

from tensordash.configuration.core_config import CoreConfig

from .layer import Layer, Phase
from .operands import Box, Move, Operand
from .program import Loop

__all__ = ["Placement", "Stored"]


@dataclass(frozen=True)
class Stored:
    """A tile of results.

    Parameters
    ----------
    move : Move
        How it is stored.
    groups : int
        Room that it takes in the buffer: what only fills up streams comes last, and is not stored.
    steps : dict of str to int
        By dimension, groups from one to the next in the buffer.
    """

    move: Move
    groups: int
    steps: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where results of a contraction go.

    Parameters
    ----------
    config : CoreConfig
        The core.
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    tensor : int
        Address of the result in memory.
    width : int
        Groups of a group of results: more than 1 if they are FP32.
    placed, other : Operand
        The one whose ports are positions of the result, and the one whose ports are its channels.
    transposed : bool
        Positions are the tile's columns.
    turned : bool
        In each group positions and channels have changed places. Only of groups of one block each.
    """

    config: CoreConfig
    layer: Layer
    operation: str
    tensor: int
    width: int
    placed: Operand
    other: Operand
    transposed: bool
    turned: bool = False

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The result's dimensions in the order of memory, the innermost first: groups, and what else there is."""
        layer, groups = self.layer, self.placed.groups
        if self.operation == "AxG":
            rows, columns = layer.kernel
            filters, channels = groups(layer.filters), groups(layer.channels)
            return {"filter": filters, "channel": channels, "column": columns, "row": rows}
        rows, columns = layer.made if self.operation == "AxW" else layer.size
        channels = groups(layer.filters if self.operation == "AxW" else layer.channels)
        return {"x": groups(columns), "channel": channels, "y": rows, "sample": layer.samples}

    @property
    def size(self) -> int:
        """Groups of one product in memory."""
        return self.width * prod(self.sizes.values())

    @property
    def positions(self) -> int:
        """How many positions there are along the innermost dimension."""
        if self.operation == "AxG":
            return self.layer.filters
        return (self.layer.made if self.operation == "AxW" else self.layer.size)[1]

    def _ranges(self, placed: Box, other: Box, phase: Phase) -> dict[str, tuple[int, int]]:
        """A tile in every dimension of the result; beyond the last there is only what fills up streams."""
        apart = {"x": phase.x.apart, "y": phase.y.apart}
        ranges = dict(zip((*self.placed.names, *self.other.names), (*placed, *other), strict=True))
        return {name: (start * apart.get(name, 1), stop * apart.get(name, 1)) for name, (start, stop) in ranges.items()}

    def stored(self, placed: Box, other: Box, phase: Phase) -> Stored:
        """A tile of results that is made of these streams, of all phases."""
        ranges, filling = self._ranges(placed, other, phase), ""
        stride, strides = self.width, {}
        for name, size in self.sizes.items():
            strides[name] = stride
            stride *= size
            if ranges[name][1] > size and name == self.other.names[0]:
                filling = name
        first, groups, steps, loops = 0, self.width, {}, [(self.width, 1)]
        for name in sorted(self.sizes, key=lambda name: name == filling):
            start, stop = ranges[name][0], min(ranges[name][1], self.sizes[name])
            first += start * strides[name]
            loops.append((stop - start, strides[name]))
            steps[name] = groups
            groups *= (ranges[name][1] if name == filling else stop) - start
        return Stored(Move.of(self.config, self.tensor, first, loops), groups, steps)

    def walk(
        self, tile: tuple[Box, Box], streams: tuple[Box, Box], phase: Phase, at: int
    ) -> tuple[dict[str, int], list[Loop]]:
        """How a multiply's groups go to a tile of results.

        Parameters
        ----------
        tile, streams : (Box, Box)
            Of either operand, `placed` first: all of the tile, and what is multiplied.
        phase : Phase
            Its phase.
        at : int
            The tile's first group in the buffer.

        Returns
        -------
        dict of str to int
            Fields; `y` counts channel groups from the tile's first.
        list of Loop
            The walk, innermost first.
        """
        lanes = self.config.tile.lanes
        steps = self.stored(*tile, phase).steps
        turns = {name: Loop(count=1, address=step) for name, step in steps.items()}
        fields = {"address": at, "x": 0, "y": 0, "transposed": int(self.transposed or self.turned)}
        if self.operation == "AxG":
            inner, apart = "filter", 1
        else:
            inner, apart = "x", phase.x.apart
            fields |= {"x": phase.x.first, "address": at + phase.y.first * steps["y"], "stride": apart}
            turns["y"] = Loop(count=1, address=phase.y.apart * steps["y"])
            turns["channel"] = Loop(count=1, address=steps["channel"], y=1)
        # Turned, a group's positions are channels, all of which are written.
        turns[inner] = Loop(count=1, address=steps[inner]) if self.turned else Loop(count=1, x=lanes * apart)
        names = self.placed.names, self.other.names
        loops: list[list[Loop]] = [[], []]
        for side in range(2):
            for name, (start, stop), (begin, _) in zip(names[side], streams[side], tile[side], strict=True):
                turn = turns[name]
                for key in ("address", "x", "y"):
                    fields[key] += (start - begin) * getattr(turn, key)
                loops[side].append(Loop(count=stop - start, address=turn.address, x=turn.x, y=turn.y))
        begin, end = (edge * apart for edge in tile[0][0])
        fields["x_size"] = lanes if self.turned else min(self.positions, end * lanes) - begin * lanes
        return fields, self._nest(loops)

    def _nest(self, loops: list[list[Loop]]) -> list[Loop]:
        """The order of a multiply's groups: columns and rows of a block, streams of A, streams of B."""
        inside: list[Loop] = []
        outside: list[Loop] = []
        sides = ((self.placed, loops[0]), (self.other, loops[1]))
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
