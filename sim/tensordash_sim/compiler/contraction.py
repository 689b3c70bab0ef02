"""Programs of whole operations: a convolution or a matrix product, forward or one of its gradients."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd, prod
from typing import Any

from tensordash.configuration.core_config import CoreConfig

from ..golden.core.tensors import bias_length
from .blocking import Blocking, Slots, split
from .layer import OPERANDS, Layer, Phase
from .operands import Box, Move, Operand, Positions, Weights, size_of
from .order import hoisted, linked
from .placement import Placement, Stored
from .program import Loop, Program, ProgramError
from .tiled_multiplies import SIDES, TiledMultiply, tiled_multiplies
from .unit_cycles import layout_cycles
from .weight_gradient import Activations, Gradient

__all__ = ["Contraction", "TiledMultiply"]

ASSUMED_SPEEDUP = 2.0
"""Speedup of a tile that skips zeros, as long as they are not counted."""
REGIONS = 4
"""Parts of the buffer: for the column side's operand, the row side's, results and biases."""


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
        Addresses of both operands ("A", "W" or "G") and of "result"; of "bias" if one is added: a vector of FP32 of
        `bias_length` for each product, which only AxW has; and of "mask" if results become zero where it is: a tensor
        like the result, which FP32 results have not.
    rows : str
        The operand on the tile's row side, whose zeros are skipped.
    fp32 : bool
        Results stay FP32.
    relu : bool
        Negative results become zero.
    turned : bool
        In each group of results positions and channels have changed places. So FP32 results whose positions are on the
        row side are written in fewer cycles. `zeros` and `non_finite` count all that fills up groups.
    speedup : float
        Assumed speedup of the tile over the dense one.

    Raises
    ------
    ProgramError
        If there is no such operation, its operand is not on that side, results of this kind have no bias or mask, or
        are not turned, or the core is built without what it needs.

    Source: docs/core.md, "Programs of layers"; paper, section III-A.

    Examples
    --------
    >>> from .tiling_search import best_blocking
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
    turned: bool = False
    speedup: float = ASSUMED_SPEEDUP
    _moves: dict[tuple, list[Move]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.operation not in OPERANDS:
            raise ProgramError(f"operation must be one of {', '.join(OPERANDS)}, not {self.operation!r}")
        if self.rows not in OPERANDS[self.operation]:
            raise ProgramError(f"rows must be one of {', '.join(OPERANDS[self.operation])}, not {self.rows!r}")
        if self.biased and self.operation != "AxW":
            raise ProgramError(f"a bias can be added to results of AxW, not of {self.operation}")
        if self.masked and self.fp32:
            raise ProgramError("a mask must have the format of its results, which is not FP32")
        if self.turned and not self.turnable:
            raise ProgramError("turned must be false but for FP32 results of one group a block, in order, without bias")
        for name, wanted in (("bias", self.biased), ("relu", self.relu), ("mask", self.masked)):
            if wanted and not getattr(self.config, name):
                raise ProgramError(f"core.{name} must be true for that, not false")

    # Sides

    @cached_property
    def operands(self) -> dict[str, Operand]:
        """Of either side."""
        kinds: dict[str, type[Operand]] = {"A": Positions, "G": Positions, "W": Weights}
        if self.operation == "AxG":
            kinds = {"A": Activations, "G": Gradient}
        first, second = OPERANDS[self.operation]
        column = second if self.rows == first else first
        return {
            side: kinds[name](self.config, self.layer, self.operation, self.tensors[name], self.parts(side))
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

    @cached_property
    def phases(self) -> list[Phase]:
        """Of its results; all have the same taps in AxW and AxG."""
        return list(self.layer.phases("AxW" if self.operation == "AxG" else self.operation))

    def dimensions(self, side: str, phase: int = 0) -> tuple[int, ...]:
        """Streams of a side in each of its dimensions, in groups of ports."""
        return self.operands[side].dimensions(self.phases[phase])

    @property
    def reduction(self) -> tuple[int, ...]:
        """Sizes of the reduction's dimensions that may be cut."""
        if self.operation == "AxG":
            rows, columns = self.layer.made
            return self._groups(columns), rows, self.layer.samples
        return (self._groups(self.layer.filters if self.operation == "WxG" else self.layer.channels),)

    def steps(self, chunk: tuple[int, ...], phase: int) -> int:
        """Steps of the streams of a chunk of the reduction."""
        return prod(chunk) * (1 if self.operation == "AxG" else max(1, self.phases[phase].taps))

    def streams(self, side: str, box: Box) -> int:
        """How many streams of a side a box has."""
        return size_of(box) // self.parts(side)

    def loaded(self, each: TiledMultiply, side: str) -> tuple:
        """Return a key: equal for two multiplies that need the same groups in the buffer."""
        taps = self.phases[each.phase].taps
        phase = each.phase if isinstance(self.operands[side], Weights) else taps > 0
        return each.product, each.tiles[side], each.spans[side], phase

    def moves(self, each: TiledMultiply, side: str) -> list[Move]:
        """Return the loads of a multiply in order, with the addresses of the first product."""
        return self.moved(side, each.tiles[side], each.spans[side], each.phase)

    def moved(self, side: str, tile: Box, span: Box, phase: int) -> list[Move]:
        """Return the loads of a side's part, with the addresses of the first product."""
        # The tiling search asks for the same moves many times.
        key = side, tile, span, phase
        if key not in self._moves:
            self._moves[key] = self.operands[side].moves(tile, span, self.phases[phase])
        return self._moves[key]

    # Results

    @cached_property
    def placement(self) -> Placement:
        """Where results go."""
        return Placement(
            config=self.config,
            layer=self.layer,
            operation=self.operation,
            tensor=self.tensors["result"],
            width=self.config.fp32_groups if self.fp32 else 1,
            placed=self.operands[self.placed],
            other=self.operands[self.other],
            transposed=self.placed == "column",
            turned=self.turned,
        )

    def stored(self, tiles: Mapping[str, Box]) -> Stored:
        """A tile of results."""
        return self.placement.stored(tiles[self.placed], tiles[self.other], self.phases[0])

    @property
    def turnable(self) -> bool:
        """Whether results may be turned: FP32 ones with positions in rows, one group a block, all in order."""
        single = all(self.parts(side) == 1 for side in SIDES) and all(phase.x.apart == 1 for phase in self.phases)
        return self.fp32 and self.placed == "row" and single and not self.biased

    @property
    def biased(self) -> bool:
        """Whether a bias is added."""
        return "bias" in self.tensors

    @property
    def masked(self) -> bool:
        """Whether results become zero where a mask is."""
        return "mask" in self.tensors

    def mask(self, stored: Stored) -> list[Move]:
        """The mask of a tile of results of the first product, laid out like them.

        Results that only fill up streams have one, too: what they become must not depend on what the buffer had.
        """
        away = self.tensors["mask"] - self.tensors["result"]
        fields = stored.move.fields
        moves = [Move(stored.move.groups, {**fields, "memory": fields["memory"] + away})]
        if more := stored.groups - stored.move.groups:
            moves.append(Move.of(self.config, self.tensors["mask"], 0, [(more, 0)]))
        return moves

    def bias(self, other: Box) -> tuple[Move, int]:
        """The biases of a tile's channels, of the first product, and how many channel groups of them come before."""
        lanes, size = self.config.tile.lanes, self.config.group_bytes // 4
        ((first, stop),) = other
        begin, end = first * lanes // size, -(-stop * lanes // size)
        return Move.of(self.config, self.tensors["bias"], begin, [(end - begin, 1)]), first - begin * size // lanes

    # How it is cut

    def rooms(self, blocking: Blocking) -> dict[str, tuple[int, int]]:
        """The first group of the buffer, and how many, that each operand, results and biases may take.

        A quarter of it each; where no biases are added, one of the operands has theirs as well: the one that fits then
        and did not before, or else the one whose tiles are larger.
        """
        quarter = self.config.groups // REGIONS
        quarters = dict.fromkeys((*SIDES, "result", "bias"), 1)
        if not self.biased:
            needs = {side: self._needed(side, blocking) for side in SIDES}
            quarters["bias"] -= 1
            quarters[max(SIDES, key=lambda side: (quarter < needs[side] <= 2 * quarter, needs[side]))] += 1
        rooms, first = {}, 0
        for name, count in quarters.items():
            rooms[name] = first, count * quarter
            first += count * quarter
        return rooms

    def _needed(self, side: str, blocking: Blocking) -> int:
        """Groups of a side's first tile, over all of the reduction."""
        tile = next(split(tuple((0, size) for size in self.dimensions(side)), blocking.tiles[side]))
        return _groups(self.moved(side, tile, self.full_reduction, 0))

    @cached_property
    def full_reduction(self) -> Box:
        """Return the box of the full reduction."""
        return tuple((0, size) for size in self.reduction)

    def multiplies(self, blocking: Blocking) -> Iterator[TiledMultiply]:
        """Yield all multiplies in order."""
        return tiled_multiplies(self, blocking)

    def laying(self, each: TiledMultiply, side: str) -> float:
        """Count the cycles of the layout of a side's streams for a multiply."""
        phase = self.phases[each.phase]
        steps = self.steps(tuple(stop - start for start, stop in each.chunk), each.phase) if phase.taps else 1
        stride = self.operands[side].stride(phase) if phase.taps else 1
        return layout_cycles(self.config, size_of(each.sets[side]), steps, stride)

    def write_period(self, each: TiledMultiply, side: str) -> int:
        """Return the cycles from one write of a side's layout to the next."""
        phase = self.phases[each.phase]
        return gcd(self.operands[side].stride(phase), self.config.tile.lanes) if phase.taps else 1

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
        held = {
            name: Slots(*room, f"the buffer's room of the {name} side") for name, room in self.rooms(blocking).items()
        }
        laid = {side: Slots(0, config.stream_words(key), f"stream buffer {key}") for side, key in SIDES.items()}
        results, biases = held["result"], held["bias"]
        tiles, masked = 0, -1
        for each in self.multiplies(blocking):
            phase = self.phases[each.phase]
            bases: dict[str, int] = {}
            steps = 0
            # First whose streams take longer to lay out: the other one's groups are loaded meanwhile.
            for side in sorted(SIDES, key=lambda side: self.laying(each, side), reverse=True):
                key = SIDES[side]
                operand, moves = self.operands[side], self.moves(each, side)
                at, new = held[side].place(self.loaded(each, side), _groups(moves))
                if new:
                    _loads(program, moves, at, each.product * operand.size * config.group_bytes)
                layout = operand.layout(each.tiles[side], each.spans[side], phase, each.sets[side], each.chunk, at)
                steps, count = layout.steps, self.streams(side, each.sets[side])
                words = -(-steps // config.tile.window_depth)
                base, new = laid[side].place(each.laid(side), words * count)
                bases |= {f"{key}_base": base, f"{key}_streams": count}
                if new:
                    fields = {**layout.fields, "base": base, "steps": steps, "streams": count}
                    _add(program, f"layout_{key}", fields, loops=layout.loops)
            stored = self.stored(each.tiles)
            at, _ = results.place(tiles, stored.groups)
            away = each.product * self.placement.size * config.group_bytes
            if self.masked and each.final and masked < tiles:  # where its results go, which come after it
                _loads(program, self.mask(stored), at, away)
                masked = tiles
            made, loops = self._output(each, at, program, biases) if each.final else ({}, None)
            made |= {"add": int(not each.first), "emit": int(each.final), "steps": steps, **bases}
            if not (each.first and each.final):
                made["partial"] = each.partial
            _add(program, "multiply", made, loops=loops)
            if each.last:
                _add(program, "store", stored.move.fields, address=at, memory=stored.move.fields["memory"] + away)
                tiles += 1
        program.descriptors = linked(config, hoisted(config, program.descriptors))
        program.add("end")
        return program

    def _output(
        self, each: TiledMultiply, at: int, program: Program, biases: Slots
    ) -> tuple[dict[str, int], list[Loop]]:
        """Return fields and walk of a multiply that makes results; load biases that the buffer lacks."""
        tile, streams = ((boxes[self.placed], boxes[self.other]) for boxes in (each.tiles, each.sets))
        fields, loops = self.placement.walk(tile, streams, self.phases[each.phase], at)
        fields |= {"fp32": int(self.fp32), "relu": int(self.relu)}
        if self.masked:
            fields |= {"mask": 1, "mask_address": fields["address"]}
        if self.biased:
            move, before = self.bias(tile[1])
            where, new = biases.place((each.product, tile[1]), move.groups)
            if new:
                _loads(program, [move], where, each.product * bias_length(self.config, self.layer.filters) * 4)
            fields |= {"bias": 1, "bias_address": where, "y": fields["y"] + before}
        return fields, loops


def _groups(moves: list[Move]) -> int:
    return sum(move.groups for move in moves)


def _loads(program: Program, moves: list[Move], at: int, away: int) -> None:
    """Loads to groups from one on, of a product so many bytes behind the first."""
    for move in moves:
        _add(program, "load", move.fields, address=at, memory=move.fields["memory"] + away)
        at += move.groups


def _add(
    program: Program, operation: str, fields: Mapping[str, int], loops: list[Loop] | None = None, **more: int
) -> None:
    """A descriptor whose tokens come later."""
    values: dict[str, Any] = {**fields, **more}
    program.add(operation, loops=loops, **values)
