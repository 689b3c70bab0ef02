"""Schedules: one walk over a problem's multiplies places operands, streams and results in the core's memories.

Estimate and emission read a schedule. Neither walks the loops or places data.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from tensordash.configuration.core_config import CoreConfig

from .iteration_space import SIDES, IterationSpace
from .loop_nest import TiledMultiply, tiled_multiplies
from .operands import Box, Move, Weights
from .program import ProgramError
from .result_layout import ResultTile
from .slots import Slots
from .tiling import Tiling, split

__all__ = ["BiasVector", "Residency", "Schedule", "ScheduledMultiply", "SideStreams", "schedule_tiling"]

REGIONS = 4
"""Number of parts of the buffer: for the column side's operand, the row side's operand, results and biases."""


class SideStreams(NamedTuple):
    """One side of a multiply.

    Attributes
    ----------
    moves : list of Move
        The loads of its groups, in order.
    address : int
        The first of these groups in the buffer.
    is_loaded : bool
        Whether they are loaded now. Otherwise, they are still in the buffer.
    streams : int
        Number of streams.
    base : int
        First word of the streams in the stream buffer.
    is_laid_out : bool
        Whether the streams are laid out now. Otherwise, they are still in the stream buffer.
    """

    moves: list[Move]
    address: int
    is_loaded: bool
    streams: int
    base: int
    is_laid_out: bool


class BiasVector(NamedTuple):
    """Biases of a multiply that writes results.

    Attributes
    ----------
    move : Move
        Their load.
    address : int
        Their first group in the buffer.
    is_loaded : bool
        Whether they are loaded now.
    groups_before : int
        Channel groups of the load before the first one of the tile.
    """

    move: Move
    address: int
    is_loaded: bool
    groups_before: int


class ScheduledMultiply(NamedTuple):
    """A multiply, and the loads, layouts and stores that belong to it.

    Attributes
    ----------
    multiply : TiledMultiply
        The multiply.
    steps : int
        Steps of a stream.
    sides : mapping of str to SideStreams
        Streams of each side.
    tile : ResultTile
        Its tile of results; all results if they are resident.
    address : int
        The tile's first group in the buffer.
    is_stored : bool
        Whether the tile is stored after the multiply.
    loads_mask : bool
        Whether the mask of the tile is loaded now.
    bias : BiasVector, optional
        Its biases.
    """

    multiply: TiledMultiply
    steps: int
    sides: Mapping[str, SideStreams]
    tile: ResultTile
    address: int
    is_stored: bool
    loads_mask: bool
    bias: BiasVector | None


@dataclass(frozen=True)
class Schedule:
    """The multiplies of a problem with a tiling, in order.

    Parameters
    ----------
    space : IterationSpace
        The problem on its core.
    tiling : Tiling
        The tiling.
    regions : mapping of str to (int, int)
        First group of the buffer, and number of groups, of "column", "row", "result" and "bias".
    multiplies : tuple of ScheduledMultiply
        All multiplies, or the first ones.
    """

    space: IterationSpace
    tiling: Tiling
    regions: Mapping[str, tuple[int, int]]
    multiplies: tuple[ScheduledMultiply, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of loads, layouts, hits of operands and of streams, tiles of results, and groups moved."""
        counts = dict.fromkeys(("loads", "operand_hits", "layouts", "stream_hits", "tiles"), 0)
        moved = {"loaded_groups": 0, "stored_groups": 0}
        for each in self.multiplies:
            moves = self._loads(each)
            counts["loads"] += len(moves)
            moved["loaded_groups"] += sum(move.groups for move in moves)
            for side in each.sides.values():
                counts["operand_hits"] += not side.is_loaded
                counts["stream_hits"] += not side.is_laid_out
                counts["layouts"] += side.is_laid_out
            counts["tiles"] += each.is_stored
            moved["stored_groups"] += each.tile.move.groups * each.is_stored
        return counts | moved

    @property
    def descriptors(self) -> int:
        """Number of descriptors to emit."""
        counts = self.counts
        return len(self.multiplies) + sum(counts[name] for name in ("loads", "layouts", "tiles"))

    def _loads(self, each: ScheduledMultiply) -> list[Move]:
        """Return a multiply's loads of groups that are not in the buffer yet."""
        moves = [move for side in each.sides.values() if side.is_loaded for move in side.moves]
        moves += self.space.plan_mask_loads(each.tile) if each.loads_mask else []
        return moves + ([each.bias.move] if each.bias and each.bias.is_loaded else [])


class Residency:
    """The content of the buffer and the stream buffers from one problem of a program to the next.

    Consecutive problems use different places as far as possible, so that loads and layouts of a problem overlap with
    the multiplies of the previous one. An operand that the previous problem loaded in the same way is not loaded again.
    No tensor may be written after it is loaded.

    Parameters
    ----------
    core : CoreConfig
        The core.
    """

    def __init__(self, core: CoreConfig) -> None:
        self._buffer: dict[tuple[int, int], Slots] = {}
        self.streams = {side: Slots(0, core.stream_words(key), f"stream buffer {key}") for side, key in SIDES.items()}
        self.problems = 0

    def begin_problem(self, regions: Mapping[str, tuple[int, int]]) -> dict[str, Slots]:
        """Return the slots of a problem's regions of the buffer. A region that did not exist before is empty."""
        self.problems += 1
        slots = {
            name: self._buffer.get(region) or Slots(*region, f"the buffer's room of the {name} side")
            for name, region in regions.items()
        }
        self._buffer = {region: slots[name] for name, region in regions.items()}
        return slots


def schedule_tiling(
    space: IterationSpace,
    tiling: Tiling,
    max_multiplies: int | None = None,
    *,
    residency: Residency | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
) -> Schedule:
    """Walk the multiplies of a problem with a tiling, and place their operands, streams, results and biases.

    Parameters
    ----------
    space : IterationSpace
        The problem on its core.
    tiling : Tiling
        Its tiling.
    max_multiplies : int, optional
        Multiplies after which the walk ends; all if left out.
    residency : Residency, optional
        Memory contents left by the previous problems of a program; none if left out.
    names : mapping of str to str
        With `residency`: names of the problem's tensors that are unique in the program.

    Raises
    ------
    ProgramError
        If operands, streams, results, biases or partial sums do not fit.
    """
    regions = buffer_regions(space, tiling)
    sizes = {name: size for name, (_, size) in regions.items()}
    walk = _Walk(space, regions, residency, names)
    multiplies = islice(tiled_multiplies(space, tiling, sizes), max_multiplies)
    scheduled = [walk.add(each) for each in multiplies]
    if "result" in space.resident and max_multiplies is None:
        scheduled[-1] = scheduled[-1]._replace(is_stored=True)
    return Schedule(space, tiling, regions, tuple(scheduled))


def buffer_regions(space: IterationSpace, tiling: Tiling) -> dict[str, tuple[int, int]]:
    """Return the first group and the number of groups of the buffer for each operand, results and biases.

    Each gets a quarter of the buffer that resident tensors leave. Resident tensors and missing biases need no quarter.
    One operand gets the free quarters, too: the operand that fits only with them, or else the one with larger tiles.
    """
    quarter = (space.core.groups if space.buffer.groups is None else space.buffer.groups) // REGIONS
    quarters = {name: int(name not in space.resident) for name in (*SIDES, "result", "bias")}
    quarters["bias"] = int(space.problem.bias)
    if more := REGIONS - sum(quarters.values()):
        needs = {side: _first_tile_groups(space, tiling, side) for side in SIDES if side not in space.resident}
        largest = max(
            needs, key=lambda side: (quarter < needs[side] <= (1 + more) * quarter, needs[side]), default="result"
        )
        quarters[largest] += more
    regions, first = {}, 0
    for name, count in quarters.items():
        regions[name] = first, count * quarter
        first += count * quarter
    return regions


def _first_tile_groups(space: IterationSpace, tiling: Tiling, side: str) -> int:
    """Count the groups of a side's first tile, over the full reduction."""
    tile = next(split(tuple((0, size) for size in space.dimensions(side)), tiling.tiles[side]))
    return sum(move.groups for move in space.plan_loads(side, tile, space.full_reduction, 0))


class _Walk:
    """Places the data of multiplies, one after the other."""

    def __init__(
        self,
        space: IterationSpace,
        regions: Mapping[str, tuple[int, int]],
        residency: Residency | None,
        names: Mapping[str, str],
    ) -> None:
        self.space, self.names = space, names
        self.depth = space.core.tile.window_depth
        residency = residency or Residency(space.core)
        self.buffer, self.streams = residency.begin_problem(regions), residency.streams
        self.problem = residency.problems
        self.tile: ResultTile | None = None  # The tile of results that is not stored yet.
        self.address = 0  # Its first group in the buffer.
        self.tiles, self.masks = 0, 0  # Tiles of results that are stored, and masks that are loaded.
        self.spans: Mapping[str, Box] = {}  # The previous multiply's spans; multiplies of a chunk share the mapping.
        self.steps = 0  # Its steps.
        self.boxes: dict[str, Box] = {}  # By side: its streams.
        self.uses: dict[str, SideStreams] = {}  # By side: these streams for a multiply that uses them again.

    def add(self, each: TiledMultiply) -> ScheduledMultiply:
        """Place the data of the next multiply."""
        space = self.space
        if begins_chunk := each.spans is not self.spans:
            self.spans = each.spans
            self.steps = space.steps(tuple([stop - start for start, stop in each.chunk]), each.phase)
        steps = self.steps
        sides = {
            side: self._place_side(each, side, begins_chunk=begins_chunk)
            if begins_chunk or each.sets[side] is not self.boxes[side]
            else self.uses[side]
            for side in SIDES
        }
        passes = sides["column"].streams * sides["row"].streams
        if not (each.is_first_chunk and each.is_last_chunk) and each.partial + passes > space.core.partial_sums:
            raise ProgramError(f"there are {space.core.partial_sums} partial sums, not {each.partial + passes}")
        is_resident = "result" in space.resident
        if is_resident:
            self.tile, self.address = space.full_result_tile, space.resident["result"]
        elif self.tile is None:
            self.tile = space.plan_result_tile(each.tiles)
            self.address, _ = self.buffer["result"].place((self.problem, self.tiles), self.tile.groups)
        tile = self.tile
        reads_mask = space.skips_masked or (space.problem.mask and each.is_last_chunk)
        loads_mask = reads_mask and not is_resident and self.masks == self.tiles
        self.masks += loads_mask
        bias = self._place_bias(each) if space.problem.bias and each.is_last_chunk else None
        if each.is_last:
            self.tile = None
            self.tiles += 1
        is_stored = each.is_last and not is_resident
        return ScheduledMultiply(each, steps, sides, tile, self.address, is_stored, loads_mask, bias)

    def _place_side(self, each: TiledMultiply, side: str, *, begins_chunk: bool) -> SideStreams:
        # Sets of streams are the innermost loop, so most multiplies find their operands placed.
        if begins_chunk:
            moves, address, is_loaded = self._place_operand(
                side, each.product, each.tiles[side], each.spans[side], each.phase
            )
        else:
            moves, address, is_loaded = self.uses[side].moves, self.uses[side].address, False
        streams, key = each.streams[side], (self.problem, each.streams_key(side))
        base, is_laid_out = self.streams[side].place(key, -(-self.steps // self.depth) * streams)
        self.boxes[side] = each.sets[side]
        self.uses[side] = SideStreams(moves, address, False, streams, base, False)
        return SideStreams(moves, address, is_loaded, streams, base, is_laid_out)

    def _place_operand(self, side: str, product: int, tile: Box, span: Box, phase: int) -> tuple[list[Move], int, bool]:
        """Return the loads of a part of an operand, their first group, and whether it must be loaded."""
        space = self.space
        if side in space.resident:
            return [], space.resident[side], False
        moves = space.plan_loads(side, tile, span, phase)
        # All phases load the same positions, but each phase loads its own taps of the weights.
        part = phase if isinstance(space.operands[side], Weights) else space.phases[phase].taps > 0
        key = self._loaded_data(moves, product) if self.names else (product, tile, span, part)
        return moves, *self.buffer[side].place(key, sum([move.groups for move in moves]))

    def _loaded_data(self, moves: list[Move], product: int) -> tuple:
        """Return a key that is equal for loads of the same groups in the same order, also across problems."""
        return tuple(
            (
                self.names[move.tensor],
                move.first + product * self.space.product_groups[move.tensor],
                tuple(move.fields.items()),
            )
            for move in moves
        )

    def _place_bias(self, each: TiledMultiply) -> BiasVector:
        # The loops over a resident result count channels from the first one of all.
        tiles = self.space.full_tiles if "result" in self.space.resident else each.tiles
        channels = tiles[self.space.channel_side]
        move, before = self.space.plan_bias_load(channels)
        address, is_loaded = self.buffer["bias"].place((self.problem, each.product, channels), move.groups)
        return BiasVector(move, address, is_loaded, before)
