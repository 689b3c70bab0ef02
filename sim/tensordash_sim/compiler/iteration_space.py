"""The loops of a problem on a core: streams of both sides, steps of the reduction, and groups to load and store."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd, prod

from tensordash.configuration.core_config import CoreConfig

from ..golden.core.tensors import bias_length
from .layer import OPERANDS, Phase
from .operands import Box, Move, Operand, Positions, Weights, size_of
from .problem import Problem, scales_by_channel
from .program import ProgramError
from .result_layout import ResultLayout, ResultTile
from .weight_gradient import Activations, Gradient

__all__ = ["SIDES", "BufferPlan", "IterationSpace"]

SIDES = {"column": "a", "row": "b"}
"""Sides of the tile, and the letter of each in descriptor fields."""


@dataclass(frozen=True, kw_only=True)
class BufferPlan:
    """A problem's share of the buffer.

    Parameters
    ----------
    groups : int, optional
        Number of groups, from group 0 on, for tiles of operands and results; by default all.
    resident : tuple of (str, int)
        Tensors that are completely in the buffer, "A", "W", "G", "mask" or "result", and their first groups. A result
        overwrites its mask in place, so both are resident or neither.
    loaded : tuple of str
        Resident tensors that the problem loads. The others are in the buffer already, or the problem computes them.
    """

    groups: int | None = None
    resident: tuple[tuple[str, int], ...] = ()
    loaded: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class IterationSpace:
    """A problem in units of a core.

    The ports of the *position side* are positions of the result; the ports of the *channel side* are its channels.

    Parameters
    ----------
    problem : Problem
        The problem.
    core : CoreConfig
        The core.
    buffer : BufferPlan
        The problem's part of the buffer.

    Raises
    ------
    ProgramError
        If the core cannot compute the problem (`Problem.require_core`), or if `turned` is set but not possible.

    Examples
    --------
    >>> from .layer import Layer
    >>> layer = Layer(samples=1, channels=8, filters=8, size=(6, 6), kernel=(3, 3))
    >>> space = IterationSpace(problem=Problem(layer=layer, operation="AxW", rows="A"), core=CoreConfig())
    >>> space.dimensions("row"), space.dimensions("column"), space.reduction
    ((1, 4, 1), (2,), (2,))
    """

    problem: Problem
    core: CoreConfig
    buffer: BufferPlan = BufferPlan()
    _moves: dict[tuple, list[Move]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.problem.require_core(self.core)
        if self.problem.turned and not self.can_turn:
            raise ProgramError(
                "turned must be false except for FP32 results of one group per block, in order, without bias"
            )

    @property
    def can_turn(self) -> bool:
        """Whether results may be turned: FP32, positions in rows, one group per block, all in order, no bias."""
        has_single_groups = all(self.parts(side) == 1 for side in SIDES) and all(
            phase.x.apart == 1 for phase in self.phases
        )
        return self.problem.fp32 and self.position_side == "row" and has_single_groups and not self.problem.bias

    def with_turned_results(self) -> "IterationSpace":
        """Return the space with turned results, or unchanged if they cannot be turned."""
        return replace(self, problem=replace(self.problem, turned=True)) if self.can_turn else self

    @property
    def skips_masked(self) -> bool:
        """Whether multiplies skip passes whose results the mask makes zero: each position is next to the one before."""
        are_adjacent = self.problem.operation == "AxG" or all(phase.x.apart == 1 for phase in self.phases)
        return self.core.skip_masked and self.problem.mask and are_adjacent

    # The buffer

    def with_buffer(self, buffer: BufferPlan) -> "IterationSpace":
        """Return the space with another buffer plan."""
        return replace(self, buffer=buffer)

    @cached_property
    def resident(self) -> dict[str, int]:
        """First groups of resident tensors, by side ("row" or "column"), "mask" and "result"."""
        sides = {operand.name: side for side, operand in self.operands.items()}
        return {sides.get(name, name): address for name, address in self.buffer.resident}

    def can_stay(self, tensor: str) -> bool:
        """Return whether a tensor can be completely in the buffer, in the order of memory."""
        if self.problem.layer.products > 1 or tensor == "bias":
            return False
        if tensor in ("result", "mask"):
            tile = self.full_result_tile
            moves, padding_groups = [tile.move], tile.groups - tile.move.groups
            if padding_groups or self.problem.fp32:
                return False
        else:
            (side,) = (side for side, operand in self.operands.items() if operand.name == tensor)
            numbers = [number for number, phase in enumerate(self.phases) if phase.taps]
            loads = [self.plan_loads(side, self.full_tiles[side], self.full_reduction, number) for number in numbers]
            if any(load != loads[0] for load in loads):
                return False
            moves = loads[0]
        groups = self.product_groups[tensor]
        return [(move.first, move.fields) for move in moves] == [(0, {"count_0": groups} | self.memory_form(tensor))]

    @cached_property
    def full_tiles(self) -> dict[str, Box]:
        """The box of all streams of each side."""
        return {side: tuple((0, size) for size in self.dimensions(side)) for side in SIDES}

    @cached_property
    def full_result_tile(self) -> ResultTile:
        """The tile of all results."""
        return self.plan_result_tile(self.full_tiles)

    # Sides

    @cached_property
    def operands(self) -> dict[str, Operand]:
        """The operand of each side."""
        problem = self.problem
        kinds: dict[str, type[Operand]] = {"A": Positions, "G": Positions, "W": Weights}
        if problem.operation == "AxG":
            kinds = {"A": Activations, "G": Gradient}
        first, second = OPERANDS[problem.operation]
        column = second if problem.rows == first else first
        return {
            side: kinds[name](self.core, problem.layer, problem.operation, name, self.parts(side))
            for side, name in (("row", problem.rows), ("column", column))
        }

    @property
    def position_side(self) -> str:
        """The side whose ports are positions of the result."""
        return "row" if self.problem.rows == OPERANDS[self.problem.operation][0] else "column"

    @property
    def channel_side(self) -> str:
        """The side whose ports are channels of the result."""
        return "column" if self.position_side == "row" else "row"

    def parts(self, side: str) -> int:
        """Return the number of groups in a step of a side."""
        return self.core.parts(SIDES[side])

    # Loops

    @cached_property
    def phases(self) -> list[Phase]:
        """Phases of the result. AxW and AxG have one."""
        operation = self.problem.operation
        return list(self.problem.layer.phases("AxW" if operation == "AxG" else operation))

    def dimensions(self, side: str, phase: int = 0) -> tuple[int, ...]:
        """Return the number of streams of a side in each of its dimensions, in groups of ports."""
        return self._dimensions[phase][side]

    @cached_property
    def _dimensions(self) -> list[dict[str, tuple[int, ...]]]:
        return [{side: operand.dimensions(phase) for side, operand in self.operands.items()} for phase in self.phases]

    @cached_property
    def reduction(self) -> tuple[int, ...]:
        """Sizes of the reduction's dimensions that may be tiled."""
        layer, lanes = self.problem.layer, self.core.tile.lanes
        if self.problem.operation == "AxG":
            rows, columns = layer.output_size
            return -(-columns // lanes), rows, layer.samples
        return (-(-(layer.filters if self.problem.operation == "WxG" else layer.channels) // lanes),)

    @cached_property
    def full_reduction(self) -> Box:
        """The box of the full reduction."""
        return tuple((0, size) for size in self.reduction)

    def steps(self, chunk: tuple[int, ...], phase: int) -> int:
        """Count the steps of a chunk of the reduction. A phase without taps has one step, of zeros."""
        taps = self.phases[phase].taps
        return prod(chunk) * (1 if self.problem.operation == "AxG" else taps) if taps else 1

    def streams(self, side: str, box: Box) -> int:
        """Count the streams of a box of a side."""
        return size_of(box) // self.parts(side)

    @property
    def total_steps(self) -> int:
        """Dense steps of the problem."""
        total = 0
        for number in range(len(self.phases)):
            passes = prod(prod(self.dimensions(side, number)) // self.parts(side) for side in SIDES)
            total += passes * self.steps(self.reduction, number)
        return total * self.problem.layer.products

    def stride(self, side: str, phase: int) -> int:
        """Return the positions from one port or lane of a side's layout to the next."""
        return self.operands[side].stride(self.phases[phase]) if self.phases[phase].taps else 1

    def write_period(self, side: str, phase: int) -> int:
        """Return the cycles from one write of a side's layout to the next."""
        return gcd(self.stride(side, phase), self.core.tile.lanes)

    # Groups

    def plan_loads(self, side: str, tile: Box, span: Box, phase: int) -> list[Move]:
        """Return the loads of a side's tile and a span of the reduction, in order."""
        # The tiling search requests the same moves many times.
        key = side, tile, span, phase
        if key not in self._moves:
            moves = self.operands[side].plan_loads(tile, span, self.phases[phase])
            form = self.memory_form(self.operands[side].name)
            self._moves[key] = [replace(move, fields=move.fields | form) for move in moves] if form else moves
        return self._moves[key]

    def memory_form(self, tensor: str) -> dict[str, int]:
        """Return the fields of a tensor's loads that describe its form in memory: none for a plain tensor."""
        operation = self.problem.operation
        if not self.problem.nvfp4 or tensor not in OPERANDS[operation]:
            return {}
        return {"nvfp4": 1, "by_channel": int(scales_by_channel(operation, tensor))}

    @cached_property
    def result_layout(self) -> ResultLayout:
        """The layout of results."""
        return ResultLayout(
            lanes=self.core.tile.lanes,
            layer=self.problem.layer,
            operation=self.problem.operation,
            width=self.core.fp32_groups if self.problem.fp32 else 1,
            position_operand=self.operands[self.position_side],
            channel_operand=self.operands[self.channel_side],
            transposed=self.position_side == "column",
            turned=self.problem.turned,
        )

    def plan_result_tile(self, tiles: Mapping[str, Box]) -> ResultTile:
        """Return the tile of results for a box of each side."""
        return self.result_layout.plan_tile(tiles[self.position_side], tiles[self.channel_side], self.phases[0])

    def plan_mask_loads(self, tile: ResultTile) -> list[Move]:
        """Return the loads of the mask of a tile of results, with the layout of the results.

        Padding of streams has a mask as well, because results must not depend on the buffer's previous content.
        """
        moves = [replace(tile.move, tensor="mask")]
        if padding_groups := tile.groups - tile.move.groups:
            moves.append(Move.of("mask", 0, [(padding_groups, 0)]))
        return moves

    def plan_bias_load(self, channels: Box) -> tuple[Move, int]:
        """Return the load of the biases of a tile's channels, and its number of channel groups before the first one."""
        lanes, size = self.core.tile.lanes, self.core.group_bytes // 4
        ((first, stop),) = channels
        begin, end = first * lanes // size, -(-stop * lanes // size)
        return Move.of("bias", begin, [(end - begin, 1)]), first - begin * size // lanes

    @cached_property
    def product_groups(self) -> dict[str, int]:
        """Groups in memory of one product of each tensor."""
        sizes = {operand.name: operand.size for operand in self.operands.values()}
        biases = bias_length(self.core, self.problem.layer.filters) * 4 // self.core.group_bytes
        return {**sizes, "result": self.result_layout.size, "mask": self.result_layout.size, "bias": biases}
