"""Programs of whole operations: a convolution or a matrix product, forward or one of its gradients."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from tensordash.configuration.core_config import CoreConfig

from .blocking import Blocking, Slots, split
from .layer import OPERANDS, Layer, Phase
from .operands import Activations, Box, Gradient, Move, Operand, Positions, Weights, size_of
from .order import hoisted, linked
from .program import Loop, Program, ProgramError

__all__ = ["Contraction", "Round"]

SPEEDUP = 2.0
"""What a tile that skips zeros is thought to gain, as long as nobody has counted them."""
SIDES = {"column": "a", "row": "b"}


@dataclass(frozen=True, kw_only=True)
class Round:
    """One multiply, and what has to be there for it; all by side, "row" and "column".

    Parameters
    ----------
    tiles, sets : mapping of str to Box
        The tile of results that it is of, and its streams.
    spans : mapping of str to Box
        What of the reduction is loaded together.
    chunk : Box
        What of it is multiplied.
    phase : int
        Number of its phase.
    first, final : bool
        Of the reduction's chunks: partial sums begin, results are made.
    partial : int
        The first block's place among the partial sums.
    last : bool
        The tile of results is done.
    """

    tiles: Mapping[str, Box]
    sets: Mapping[str, Box]
    spans: Mapping[str, Box]
    chunk: Box
    phase: int
    first: bool
    final: bool
    partial: int
    last: bool

    def laid(self, side: str) -> tuple:
        """What of two rounds is the same if they want the same streams."""
        return self.tiles[side], self.phase, self.chunk, self.sets[side]


@dataclass(frozen=True, kw_only=True)
class Contraction:
    """One of the three operations of a layer, on tensors in memory.

    Parameters
    ----------
    config : CoreConfig
        The core.
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    tensors : mapping of str to int
        Addresses of both operands ("A", "W" or "G") and of "result".
    rows : str
        The operand on the tile's row side, whose zeros are skipped.
    fp32 : bool
        Results stay FP32.
    relu : bool
        Negative results become zero.
    speedup : float
        How much faster than dense the tile is thought to be.

    Raises
    ------
    ProgramError
        If there is no such operation, or its operand is not on that side.

    Source: docs/core.md, "Programs of layers"; paper, section III-A.

    Examples
    --------
    >>> from .choice import best_blocking
    >>> work = Contraction(
    ...     config=CoreConfig(), operation="AxW", rows="A", tensors={"A": 0x10000, "W": 0x20000, "result": 0x30000},
    ...     layer=Layer(samples=1, channels=8, filters=8, size=(6, 6), kernel=(3, 3)),
    ... )
    >>> sorted({line.split()[1] for line in work.program(best_blocking(work)).listing().splitlines()})
    ['end', 'layout_a', 'layout_b', 'load', 'multiply', 'store']
    """

    config: CoreConfig
    layer: Layer
    operation: str
    tensors: Mapping[str, int]
    rows: str
    fp32: bool = False
    relu: bool = False
    speedup: float = SPEEDUP
    _moves: dict[tuple, Move] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.operation not in OPERANDS:
            raise ProgramError(f"operation must be one of {', '.join(OPERANDS)}, not {self.operation!r}")
        if self.rows not in OPERANDS[self.operation]:
            raise ProgramError(f"rows must be one of {', '.join(OPERANDS[self.operation])}, not {self.rows!r}")

    # What is multiplied

    @cached_property
    def operands(self) -> dict[str, Operand]:
        """Of the sides "row" and "column"."""
        kinds: dict[str, type[Operand]] = {"A": Positions, "G": Positions, "W": Weights}
        if self.operation == "AxG":
            kinds = {"A": Activations, "G": Gradient}
        first, second = OPERANDS[self.operation]
        column = second if self.rows == first else first
        return {
            side: kinds[name](self.config, self.layer, self.operation, self.tensors[name])
            for side, name in (("row", self.rows), ("column", column))
        }

    @property
    def placed(self) -> str:
        """The side whose positions are those of the result."""
        return "row" if self.rows == OPERANDS[self.operation][0] else "column"

    @property
    def other(self) -> str:
        """The side whose ports are the result's channels."""
        return "column" if self.placed == "row" else "row"

    def parts(self, side: str) -> int:
        """Groups in a step of a side."""
        return self.config.parts(SIDES[side])

    def _groups(self, values: int) -> int:
        return -(-values // self.config.tile.lanes)

    def _result_shape(self) -> tuple[int, int, int]:
        """Rows, columns and channel groups of a result that has positions."""
        rows, columns = self.layer.made if self.operation == "AxW" else self.layer.size
        return rows, columns, self._groups(self.layer.filters if self.operation == "AxW" else self.layer.channels)

    @cached_property
    def phases(self) -> list[Phase]:
        """Of its results; all have the same taps in AxW and AxG."""
        return list(self.layer.phases("AxW" if self.operation == "AxG" else self.operation))

    def dimensions(self, side: str, phase: int = 0) -> tuple[int, ...]:
        """Streams of a side in each of its dimensions, in groups of ports.

        Raises
        ------
        ProgramError
            If the channels are not enough for all ports of the side.
        """
        operand, parts = self.operands[side], self.parts(side)
        if isinstance(operand, Positions):
            rows, columns, _ = self._result_shape()
            step, (row, column) = self.layer.step_of(self.operation), self.phases[phase].first
            across = self._groups(-(-(columns - column) // step))
            return -(-across // parts) * parts, -(-(rows - row) // step), self.layer.samples
        if isinstance(operand, Gradient):
            return (-(-self._groups(self.layer.filters) // parts) * parts,)
        if isinstance(operand, Weights):
            made: tuple[int, ...] = (self._result_shape()[2],)
        else:
            made = self.layer.kernel[1], self.layer.kernel[0], self._groups(self.layer.channels)
        if made[0] % parts:
            raise ProgramError(f"streams of the {side} side must come in multiples of {parts}, not {made[0]}")
        return made

    @property
    def reduction(self) -> tuple[int, ...]:
        """Sizes of the reduction's dimensions that may be cut."""
        if self.operation == "AxG":
            return self.layer.made[0], self.layer.samples
        return (self._groups(self.layer.filters if self.operation == "WxG" else self.layer.channels),)

    def steps(self, chunk: tuple[int, ...], phase: int) -> int:
        """Steps of the streams of a chunk of the reduction."""
        if self.operation == "AxG":
            return prod(chunk) * self._groups(self.layer.made[1])
        return max(1, prod(chunk) * prod(self.phases[phase].taps))

    def streams(self, side: str, box: Box) -> int:
        """How many streams of a side a box has."""
        return size_of(box) // self.parts(side)

    def loaded(self, each: Round, side: str) -> tuple:
        """What of two rounds is the same if they want the same groups in the buffer."""
        return each.tiles[side], each.spans[side], isinstance(self.operands[side], Weights) and each.phase

    def move(self, each: Round, side: str) -> Move:
        """What is loaded for a round."""
        return self._move(side, each.tiles[side], each.spans[side], each.phase)

    def _move(self, side: str, tile: Box, span: Box, phase: int) -> Move:
        """The same question comes again and again while ways to cut are compared."""
        key = side, tile, span, phase
        if key not in self._moves:
            self._moves[key] = self.operands[side].move(tile, span, self.phases[phase])
        return self._moves[key]

    # How it is cut

    def rounds(self, blocking: Blocking) -> Iterator[Round]:
        """All multiplies in order: tiles of results, phases, chunks of the reduction, sets of streams."""
        boxes = {side: tuple((0, size) for size in self.dimensions(side)) for side in SIDES}
        for placed in split(boxes[self.placed], blocking.tiles[self.placed]):
            for other in split(boxes[self.other], blocking.tiles[self.other]):
                todo = list(self._tile_rounds(blocking, {self.placed: placed, self.other: other}))
                for k, each in enumerate(todo):
                    yield Round(**each, last=k == len(todo) - 1)

    def _tile_rounds(self, blocking: Blocking, tiles: dict[str, Box]) -> Iterator[dict[str, Any]]:
        whole = tuple((0, size) for size in self.reduction)
        for number, phase in enumerate(self.phases[:1] if self.operation == "AxG" else self.phases):
            # What there is of a tile in this phase.
            here = {
                side: tuple(
                    (start, min(stop, size))
                    for (start, stop), size in zip(tiles[side], self.dimensions(side, number), strict=True)
                )
                for side in tiles
            }
            if any(start >= stop for box in here.values() for start, stop in box):
                continue
            chunks = list(split(whole, blocking.chunk)) if all(phase.taps) else [tuple((0, 1) for _ in whole)]
            for c, chunk in enumerate(chunks):
                spans = {side: self._span(side, tiles[side], number, whole, chunk) for side in tiles}
                partial = 0
                for column in split(here["column"], blocking.sets["column"]):
                    for row in split(here["row"], blocking.sets["row"]):
                        yield {
                            "tiles": tiles,
                            "sets": {"column": column, "row": row},
                            "spans": spans,
                            "chunk": chunk,
                            "phase": number,
                            "first": c == 0,
                            "final": c == len(chunks) - 1,
                            "partial": partial,
                        }
                        partial += self.streams("row", row) * self.streams("column", column)

    def _span(self, side: str, tile: Box, phase: int, whole: Box, chunk: Box) -> Box:
        """What of the reduction is loaded together: all of it, if it fits."""
        region = self.config.groups // self.config.regions
        return whole if self._move(side, tile, whole, phase).groups <= region else chunk

    # Where results go

    @property
    def _width(self) -> int:
        """Groups of a group of results."""
        return self.config.fp32_groups if self.fp32 else 1

    def _rows(self, placed: Box) -> tuple[int, int]:
        """Rows of results that a tile has."""
        step = self.layer.step_of(self.operation)
        return placed[1][0] * step, min(placed[1][1] * step, self._result_shape()[0])

    def result_move(self, tiles: Mapping[str, Box]) -> tuple[Move, tuple[int, ...]]:
        """How a tile of results is stored, and what a step of each of its dimensions is in the buffer."""
        placed, other = tiles[self.placed], tiles[self.other]
        width, tensor = self._width, self.tensors["result"]
        if self.operation == "AxG":
            layer = self.layer
            channels, filters = self._groups(layer.channels), self._groups(layer.filters)
            (f0, f1), ((i0, i1), (k0, k1), (c0, c1)) = placed[0], other
            f1 = min(f1, filters)
            row, tap = filters * width, channels * filters * width
            loops = [((f1 - f0) * width, 1), (c1 - c0, row), (i1 - i0, tap), (k1 - k0, layer.kernel[1] * tap)]
            first = ((k0 * layer.kernel[1] + i0) * channels + c0) * row + f0 * width
            here = (f1 - f0) * width
            return Move.of(self.config, tensor, first, loops), (here, here * (c1 - c0), here * (c1 - c0) * (i1 - i0))
        rows, columns, channels = self._result_shape()
        across = self._groups(columns) * width
        (low, high), (n0, n1), (c0, c1) = self._rows(placed), placed[2], other[0]
        loops = [(across, 1), (c1 - c0, across), (high - low, channels * across), (n1 - n0, rows * channels * across)]
        first = ((n0 * rows + low) * channels + c0) * across
        here = (c1 - c0) * across
        return Move.of(self.config, tensor, first, loops), (across, here, here * (high - low))

    def _output(self, each: Round, at: int) -> tuple[dict[str, int], list[Loop]]:
        """Fields of a multiply that makes results of a tile at group `at`."""
        lanes, (placed, other) = self.config.tile.lanes, (each.tiles[self.placed], each.tiles[self.other])
        _, (channel, row, sample) = self.result_move(each.tiles)
        mine, theirs = each.sets[self.placed], each.sets[self.other]
        fields = {"transposed": int(self.placed == "column"), "fp32": int(self.fp32), "relu": int(self.relu)}
        if self.operation == "AxG":
            # A step of `channel` is one channel group, of `row` one kernel column, of `sample` one kernel row.
            ((f0, _),), ((i0, i1), (k0, k1), (c0, c1)) = mine, theirs
            away = (i0 - other[0][0]) * row + (k0 - other[1][0]) * sample + (c0 - other[2][0]) * channel
            fields |= {"address": at + away, "x": (f0 - placed[0][0]) * lanes}
            fields["x_size"] = min(self.layer.filters, placed[0][1] * lanes) - placed[0][0] * lanes
            steps = {
                self.placed: [Loop(count=mine[0][1] - f0, x=lanes)],
                self.other: [
                    Loop(count=i1 - i0, address=row),
                    Loop(count=k1 - k0, address=sample),
                    Loop(count=c1 - c0, address=channel),
                ],
            }
        else:
            step = self.layer.step_of(self.operation)
            (x0, x1), (y0, y1), (n0, n1) = mine
            ((c0, c1),) = theirs
            y = self.phases[each.phase].first[0] + y0 * step - self._rows(placed)[0]
            away = (n0 - placed[2][0]) * sample + y * row + (c0 - other[0][0]) * channel
            fields |= {
                "address": at + away,
                "x": self.phases[each.phase].first[1] + x0 * lanes * step,
                "y": c0,
                "stride": step,
            }
            fields["x_size"] = self._result_shape()[1]
            steps = {
                self.placed: [
                    Loop(count=x1 - x0, x=lanes * step),
                    Loop(count=y1 - y0, address=step * row),
                    Loop(count=n1 - n0, address=sample),
                ],
                self.other: [Loop(count=c1 - c0, address=channel, y=1)],
            }
        return fields, self._nest(steps)

    def _nest(self, steps: Mapping[str, list[Loop]]) -> list[Loop]:
        """The order of a multiply's groups: columns and rows of a block, streams of A, streams of B."""
        parts: dict[str, list[Loop]] = {}
        streams: dict[str, list[Loop]] = {}
        for side, (first, *rest) in steps.items():
            m = self.parts(side)
            parts[side] = [Loop(count=m, address=first.address, x=first.x, y=first.y)]
            far = Loop(count=first.count // m, address=m * first.address, x=m * first.x, y=m * first.y)
            streams[side] = [far, *rest]
        nest: list[Loop] = []
        for loop in (*parts["column"], *parts["row"], *streams["column"], *streams["row"]):
            if loop.count == 1:
                continue
            inside = nest[-1] if nest else None
            if inside and all(
                getattr(loop, name) == inside.count * getattr(inside, name) for name in ("address", "x", "y")
            ):
                nest[-1] = Loop(count=inside.count * loop.count, address=inside.address, x=inside.x, y=inside.y)
            else:
                nest.append(loop)
        return nest

    # The program

    def program(self, blocking: Blocking) -> Program:
        """Descriptors that do it, and an end.

        Parameters
        ----------
        blocking : Blocking
            How it is cut, as `best_blocking` says.

        Raises
        ------
        ProgramError
            If it does not fit.
        """
        config, program = self.config, Program()
        region = config.groups // config.regions
        held = {side: Slots(k * region, region, f"region {k} of the buffer") for k, side in enumerate(SIDES)}
        laid = {side: Slots(0, config.stream_words(key), f"stream buffer {key}") for side, key in SIDES.items()}
        results, tiles = Slots(2 * region, region, "region 2 of the buffer"), 0
        for each in self.rounds(blocking):
            bases: dict[str, int] = {}
            steps = 0
            for side, key in SIDES.items():
                move = self.move(each, side)
                at, new = held[side].place(self.loaded(each, side), move.groups)
                if new:
                    _add(program, "load", move.fields, address=at)
                layout = self.operands[side].layout(
                    each.tiles[side], each.spans[side], self.phases[each.phase], each.sets[side], each.chunk, at
                )
                steps, count = layout.steps, self.streams(side, each.sets[side])
                words = -(-steps // config.tile.window_depth)
                base, new = laid[side].place(each.laid(side), words * count)
                bases |= {f"{key}_base": base, f"{key}_streams": count}
                if new:
                    fields = {**layout.fields, "base": base, "steps": steps, "streams": count}
                    _add(program, f"layout_{key}", fields, loops=layout.loops)
            store, _ = self.result_move(each.tiles)
            at, _ = results.place(tiles, store.groups)
            made, loops = self._output(each, at) if each.final else ({}, None)
            made |= {"add": int(not each.first), "emit": int(each.final), "steps": steps, **bases}
            if not (each.first and each.final):
                made["partial"] = each.partial
            _add(program, "multiply", made, loops=loops)
            if each.last:
                _add(program, "store", store.fields, address=at)
                tiles += 1
        program.descriptors = linked(config, hoisted(config, program.descriptors))
        program.add("end")
        return program


def _add(
    program: Program, operation: str, fields: Mapping[str, int], loops: list[Loop] | None = None, **more: int
) -> None:
    """A descriptor whose tokens come later."""
    values: dict[str, Any] = {**fields, **more}
    program.add(operation, loops=loops, **values)
