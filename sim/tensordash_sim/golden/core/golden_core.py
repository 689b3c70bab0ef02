"""The golden core: executes a program on a memory image, one descriptor at a time, with bit-accurate results."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES, decode
from tensordash.configuration.formats import RESULT_FORMATS, Format, IntegerFormat
from tensordash.configuration.registers import ERRORS

from ..numbers import fixed_values, is_finite, is_zero
from ..quantization import non_zeros
from ..random_bits import random_bits
from .laid_streams import LaidStreams
from .legal import Sequencer
from .loop_walk import LoopWalk
from .memory import Memory
from .moves import CoreFailure, Mover
from .results import integer_result_bits, result_bits
from .sums import CoreSum, add_bias, add_partial, make_sum
from .tensors import value_type

__all__ = ["CoreFailure", "GoldenCore", "Memory", "Outcome"]

MAX_COUNT = (1 << 32) - 1


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a program.

    Parameters
    ----------
    done : int
        Number of descriptors executed.
    error : str
        One of `ERRORS`; empty without an error.
    index : int
        Index of the descriptor with the error.
    ends : int
        Number of `end` descriptors executed.
    """

    done: int
    error: str = ""
    index: int = 0
    ends: int = 0

    @property
    def code(self) -> int:
        """Content of the error register."""
        return ERRORS[self.error] if self.error else 0


class GoldenCore(Mover):
    """A core and the memory at its AXI4 port.

    Parameters
    ----------
    config : CoreConfig
        The core.
    memory : Memory
        Its memory.

    Attributes
    ----------
    buffer : array of unsigned, (groups, L, L)
        The buffer, indexed by group, position and channel.
    streams : dict of str to array, (D * words, ports, L)
        The stream buffers "a" and "b", indexed by step, port and lane. Step t of a stream at `base` is at D * base + t.
    laid_streams : LaidStreams
        Streams of side B as layouts wrote them, for a core that drops steps.
    partial : list of list of CoreSum
        Partial sums, indexed by place and PE, row by row.
    counts : ResultCounts
        `zeros`, `non_finite` and `overflow` since the last record.
    steps : int
        Steps that the tile has consumed. With `drop_steps`: depth times the longest bank's remaining steps, and at
        least depth, for each pass that runs.
    bounds : (int, int)
        The lowest and the highest address that the core may access; the full range after a reset.

    Source: docs/core.md.
    """

    def __init__(self, config: CoreConfig, memory: Memory) -> None:
        super().__init__(config, memory)
        lanes, depth, tile = config.tile.lanes, config.tile.window_depth, config.tile
        self.streams = {
            side: np.zeros((depth * config.stream_words(side), config.parts(side) * lanes, lanes), self.buffer.dtype)
            for side in "ab"
        }
        self.steps = 0
        self.laid_streams = LaidStreams(config)
        size = tile.rows * tile.columns
        self.partial = [[make_sum(tile) for _ in range(size)] for _ in range(config.partial_sums)]

    def run(self, program: Sequence[int]) -> Outcome:
        """Execute descriptors until one has an error.

        Parameters
        ----------
        program : sequence of int
            Descriptors. Indices and tokens start from zero, as after a reset.

        Raises
        ------
        ValueError
            If the core drops steps, and a multiply reads streams of side B otherwise than a layout wrote them: its sums
            are undefined.
        """
        sequencer, ends = Sequencer(self.config), 0
        for index, bits in enumerate(program):
            error = sequencer.refusal(bits)
            if not error:
                try:
                    ends += self._execute(bits)
                except CoreFailure as failure:
                    error = failure.name
            if error:
                return Outcome(done=index, error=error, index=index, ends=ends)
        return Outcome(done=len(program), ends=ends)

    def run_queue(self, base: int, count: int) -> Outcome:
        """Execute `count` descriptors from memory at `base`."""
        program: list[int] = []
        for index in range(count):
            error, address = "", base + BYTES * index
            data = self.memory.read(address, BYTES)
            if not self.is_allowed(address, BYTES):
                error = "bounds"
            elif data is None:
                error = "fetch"
            if data is None or error:
                outcome = self.run(program)
                return outcome if outcome.error else Outcome(done=index, error=error, index=index, ends=outcome.ends)
            program.append(int.from_bytes(data, "little"))
        return self.run(program)

    def _execute(self, bits: int) -> int:
        """Execute a legal descriptor; return 1 for `end`, else 0."""
        operation, values = decode(bits)
        assert operation is not None
        name = operation.name
        if name == "load":
            (self.load_compressed if values["compressed"] else self.load)(values)
        elif name == "store":
            (self.store_compressed if values["compressed"] else self.store)(values)
        elif name in ("layout_a", "layout_b"):
            self._layout(name[-1], values)
        elif name == "multiply":
            self._multiply(values)
        elif name == "record":
            self.record(values)
        return name == "end"

    # Streams

    def _layout(self, side: str, values: Mapping[str, int]) -> None:
        config = self.config
        lanes, depth, parts = config.tile.lanes, config.tile.window_depth, config.parts(side)
        words, failed = -(-values["steps"] // depth), False
        if side == "b":
            self.laid_streams.lay_out(values)
        if values["base"] + values["streams"] * words > config.stream_words(side):
            raise CoreFailure("range")
        walk, streams = LoopWalk(values, loops=6), self.streams[side]
        for stream in range(values["streams"]):
            begin = depth * (values["base"] + stream * words)
            streams[begin : begin + depth * words] = 0
            for part in range(parts):
                for t in range(values["steps"]):
                    step, inside = self._gathered(walk, values)
                    failed |= not inside
                    ports = slice(part * lanes, (part + 1) * lanes)
                    streams[begin + t, ports] = step.T if values["transposed"] else step
                    walk.step()
        if failed:
            raise CoreFailure("address")

    def _gathered(self, walk: LoopWalk, values: Mapping[str, int]) -> tuple[NDArray, bool]:
        """Return L positions, and whether all of them that are not padding lie in the buffer."""
        lanes = self.config.tile.lanes
        step, inside = np.zeros(self.buffer.shape[1:], self.buffer.dtype), True
        if values["checked"] and not 0 <= walk.y < values["y_size"]:
            return step, True
        for i in range(lanes):
            x = walk.x + i * values["stride"]
            if not 0 <= x < values["x_size"]:
                continue
            address = (walk.address + x // lanes) % (1 << 16)
            if address < len(self.buffer):
                step[i] = self.buffer[address, x % lanes]
            else:
                inside = False
        return step, inside

    # Products

    def _multiply(self, values: Mapping[str, int]) -> None:
        config = self.config
        depth = config.tile.window_depth
        words = -(-values["steps"] // depth)
        size, blocks = words * depth, values["a_streams"] * values["b_streams"]
        stored = blocks if values["add"] or not values["emit"] else 0
        if values["partial"] * bool(stored) + stored > config.partial_sums or any(
            values[f"{side}_base"] + values[f"{side}_streams"] * words > config.stream_words(side) for side in "ab"
        ):
            raise CoreFailure("range")
        if config.drop_steps and not self.laid_streams.has(values):
            end = values["b_base"] + values["b_streams"] * words
            raise ValueError(
                f"a multiply with core.drop_steps = true must read streams of side B as a layout wrote them; words "
                f"{values['b_base']} to {end - 1} are not {values['b_streams']} streams of {values['steps']} steps"
            )
        walk, masks = LoopWalk(values, loops=4), LoopWalk(values, loops=4)
        failed, place, beat = False, values["partial"], 0
        for p in range(values["b_streams"]):
            rows = self.streams["b"][depth * values["b_base"] + p * size :][:size]
            consumed = self._remaining_steps(rows) if config.drop_steps else size
            for q in range(values["a_streams"]):
                columns = self.streams["a"][depth * values["a_base"] + q * size :][:size]
                steps = 0 if values["skip_masked"] and self._is_masked(values, masks) else size
                self.steps += consumed if steps else 0
                block = self._block(rows[:steps], columns[:steps])
                if values["add"]:
                    self._add(block, self.partial[place])
                if not values["emit"]:
                    self.partial[place] = block
                else:
                    failed |= not self._emit(block, values, walk, beat)
                beat += config.tile.rows
                place += 1
        if failed:
            raise CoreFailure("address")

    def _remaining_steps(self, rows: NDArray) -> int:
        """Return the steps that the tile takes of a stream without its dropped steps, the same number of each bank."""
        depth = self.config.tile.window_depth
        is_left: NDArray[np.bool_] = np.any(non_zeros(rows, self.config.tile.b_format), axis=(1, 2))
        return depth * max(1, *(int(np.count_nonzero(is_left[bank::depth])) for bank in range(depth)))

    def _is_masked(self, values: Mapping[str, int], walk: LoopWalk) -> bool:
        """Return whether the masks of all results of the next block are zeros; advance the walk by its groups."""
        config, masked = self.config, True
        lanes, width = config.tile.lanes, config.fp32_groups if values["fp32"] else 1
        for _ in range(config.parts("a") * config.parts("b")):
            if 0 <= walk.x < values["x_size"]:
                group = walk.address + walk.x // lanes * width + values["mask_address"] - values["address"]
                mask = self.buffer[group % len(self.buffer)].ravel().tolist()
                masked &= all(is_zero(bits, config.tile.a_format) for bits in mask)
            walk.step()
        return masked

    def _block(self, rows: NDArray, columns: NDArray) -> list[CoreSum]:
        """Return the sums of a pass, row by row. A tile that skips zeros skips pairs whose b is zero."""
        tile = self.config.tile
        block: list[CoreSum] = []
        skips = tile.sparsity != "none"
        a_values = fixed_values(tile.a_format)
        for r in range(tile.rows):
            b = rows[:, r].ravel().tolist()
            multiplied = [k for k, bits in enumerate(b) if not (skips and is_zero(bits, tile.b_format))]
            for c in range(tile.columns):
                a = columns[:, c].ravel().tolist()
                # A zero of a changes the sum only if b is an infinity or NaN, so other pairs with it are left out.
                pairs = [(a[k], b[k]) for k in multiplied if a_values[a[k]] != 0 or not is_finite(b[k], tile.b_format)]
                sums = make_sum(tile)
                sums.accumulate(pairs, first=True)
                block.append(sums)
        return block

    def _add(self, block: Sequence[CoreSum], partial: Sequence[CoreSum]) -> None:
        """Add partial sums to a block."""
        self._count_overflows(sum(add_partial(sums, other) for sums, other in zip(block, partial, strict=True)))

    def _add_biases(self, sums: Sequence[CoreSum], values: Mapping[str, int], first: int) -> None:
        """Add the biases of the channels from `first` on to the sums of a position."""
        self._count_overflows(sum(add_bias(each, self._bias(values, first + c)) for c, each in enumerate(sums)))

    def _count_overflows(self, count: int) -> None:
        """Count sums that left their range."""
        self.counts.overflow = min(MAX_COUNT, self.counts.overflow + count)

    def _emit(self, block: Sequence[CoreSum], values: Mapping[str, int], walk: LoopWalk, first_beat: int) -> bool:
        """Write the results of a block; return whether all of them that are not padding lie in the buffer."""
        tile, transposed, words = self.config.tile, values["transposed"], self.config.fp32_groups
        lanes, inside = tile.lanes, True
        randoms = [[0] * tile.columns] * tile.rows
        if values["stochastic"]:
            randoms = [random_bits(values["seed"], first_beat + row, tile.columns) for row in range(tile.rows)]
        for first_row in range(0, tile.rows, lanes):
            groups = []
            for first_column in range(0, tile.columns, lanes):
                for i in range(lanes):
                    # Position i is a row; with `transposed`, a column.
                    places = [
                        (first_row + c, first_column + i) if transposed else (first_row + i, first_column + c)
                        for c in range(lanes)
                    ]
                    sums = [block[row * tile.columns + column] for row, column in places]
                    if values["bias"]:
                        self._add_biases(sums, values, walk.y * lanes)
                    groups.append((i, sums, [randoms[row][column] for row, column in places], copy(walk)))
                walk.step()
            # FP32 results: write one batch of rows to all groups, then the next batch.
            for batch in range(words if values["fp32"] else 1):
                for i, sums, random, place in groups:
                    if values["fp32"] and not transposed and i * words // lanes != batch:
                        continue
                    written = [batch] if values["fp32"] and transposed else range(words)
                    inside &= self._position(place.x + i * values["stride"], sums, random, values, place, written)
        return inside

    def _position(
        self,
        x: int,
        sums: Sequence[CoreSum],
        random: Sequence[int],
        values: Mapping[str, int],
        walk: LoopWalk,
        words: Iterable[int],
    ) -> bool:
        """Write one position's results, for FP32 only `words`; return whether the position lies in the buffer."""
        config = self.config
        lanes, fmt = config.tile.lanes, config.tile.a_format
        width = config.fp32_groups if values["fp32"] else 1
        address = walk.address + x // lanes * width
        groups = [(address + k) % (1 << 16) for k in range(width)]
        position = x % lanes
        if not 0 <= x < -(-values["x_size"] // lanes) * lanes:
            return True
        results = [0] * lanes
        if x < values["x_size"]:
            mask = self.buffer[(address + values["mask_address"] - values["address"]) % len(self.buffer), position]
            for c in range(lanes):
                masked = is_zero(int(mask[c]), fmt)
                bits = sums[c].result_bits()
                if isinstance(fmt, IntegerFormat):
                    results[c] = integer_result_bits(bits, values, fmt, masked=masked, random=random[c])
                else:
                    results[c] = result_bits(bits, values, fmt, masked=masked, random=random[c])
        wide = RESULT_FORMATS[config.tile.numerics.result]
        result_format, inside = wide if values["fp32"] else fmt, [group < len(self.buffer) for group in groups]
        kind = value_type(32 if values["fp32"] else config.value_bits)
        written = np.array(results, kind).view(self.buffer.dtype).reshape(width, lanes)
        for k in words if values["fp32"] else (0,):
            if inside[k]:
                self.buffer[groups[k], position] = written[k]
                if x < values["x_size"]:
                    self._count(results[k * lanes // width : (k + 1) * lanes // width], result_format)
        return all(inside)

    def _count(self, results: Sequence[int], fmt: Format) -> None:
        """Count results that are written."""
        counts = self.counts
        counts.zeros = min(MAX_COUNT, counts.zeros + sum(is_zero(bits, fmt) for bits in results))
        counts.non_finite = min(MAX_COUNT, counts.non_finite + sum(not is_finite(bits, fmt) for bits in results))

    def _bias(self, values: Mapping[str, int], channel: int) -> int:
        """Return the bits of a channel's bias."""
        size = self.config.group_bytes // 4
        group, place = divmod(channel, size)
        words = self.buffer[(values["bias_address"] + group) % len(self.buffer)].reshape(-1).view("<u4")
        return int(words[place])
