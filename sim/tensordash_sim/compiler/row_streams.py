"""Streams of a program's row side: the places of their values in memory, and the tile's cycles for them."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode

from ..cycles.count import pack
from ..cycles.dropping import schedule_without_empty_steps
from ..cycles.scheduler import Scheduler
from .footprint import walked_groups
from .multiply_cycles import Pace, even_losses, losses_of, pass_cycles

__all__ = ["CountedPaces", "EvenPaces", "Paces", "RowStreams", "loaded_groups"]


Counted = tuple[int, float, NDArray[np.float64]]
"""A stream's dense steps, including padding of its last word, its cycles, and the cycles that it loses per write."""


@dataclass(frozen=True)
class _Batch:
    """Sampled streams of one layout.

    Parameters
    ----------
    streams : list of int
        Numbers of the streams in the program.
    places : array of int32, (streams, parts, steps, L)
        For each port (transposed: lane), the tensor's group times L plus the position in the group; -1 for a zero.
    transposed : bool
        Whether ports are channels.
    """

    streams: list[int]
    places: NDArray[np.int32]
    transposed: bool


class RowStreams:
    """Streams of the row side of a program: all, or a sample that is evenly spread over its passes.

    Parameters
    ----------
    config : CoreConfig
        A core with a sparse tile.
    program : sequence of int
        Legal descriptors; moves are not compressed.
    address : int
        Address of the row side's tensor in memory.
    most : int, optional
        Maximum of streams; all if left out.
    """

    def __init__(self, config: CoreConfig, program: Sequence[int], address: int, most: int | None = None) -> None:
        self._config = config
        self._address = address
        decoded = [decode(bits) for bits in program]
        laid: dict[int, int] = {}  # stream that begins at each word of the stream buffer
        first: dict[int, int] = {}  # the first stream of each layout
        weights: list[int] = []  # steps of the passes of each stream
        self._multiplies: dict[int, list[int]] = {}
        for index, (operation, values) in enumerate(decoded):
            assert operation is not None
            if operation.name == "layout_b":
                first[index] = len(weights)
                words = -(-values["steps"] // config.tile.window_depth)
                laid |= {values["base"] + k * words: len(weights) + k for k in range(values["streams"])}
                weights += [0] * values["streams"]
            elif operation.name == "multiply":
                words = -(-values["steps"] // config.tile.window_depth)
                streams = [laid[values["b_base"] + k * words] for k in range(values["b_streams"])]
                self._multiplies[index] = streams
                for stream in streams:
                    weights[stream] += values["a_streams"] * words
        self._weights = np.array(weights)
        self._chosen = self._choose(most)
        self._batches = list(self._locate(decoded, first))

    def _choose(self, most: int | None) -> list[int]:
        """Return the streams to count, in order."""
        if most is None or len(self._weights) <= most:
            return list(range(len(self._weights)))
        ends = np.cumsum(self._weights)
        # Stratified sampling: a random place in each of `most` equal parts, so that periodic streams do not bias it.
        places = (np.arange(most) + np.random.default_rng(most).random(most)) / most * ends[-1]
        return sorted(set(np.searchsorted(ends, places, side="right").tolist()))

    def _locate(self, decoded: Sequence[tuple[Any, Mapping[str, int]]], first: Mapping[int, int]) -> Iterator[_Batch]:
        """Find the chosen streams' values in memory: loads determine which of its groups the buffer holds."""
        config, lanes = self._config, self._config.tile.lanes
        held = np.full(config.groups, -1, np.int64)
        for index, (operation, values) in enumerate(decoded):
            if operation.name == "load":
                groups = loaded_groups(config, values, self._address)
                held[values["address"] :][: len(groups)] = groups
            elif operation.name == "layout_b":
                begin, count = first[index], values["streams"]
                streams = self._chosen[bisect_left(self._chosen, begin) : bisect_left(self._chosen, begin + count)]
                if not streams:
                    continue
                shape = count, config.parts("b"), values["steps"], lanes
                groups, x = walked_groups(values, int(np.prod(shape[:3])), lanes)
                some = np.array(streams) - begin
                groups, x = (each.reshape(shape)[some] for each in (groups, x))
                source = held[groups % config.groups]
                places = np.where((x >= 0) & (source >= 0), source * lanes + x % lanes, -1).astype(np.int32)
                yield _Batch(streams, places, bool(values["transposed"]))

    def paces(self, non_zeros: NDArray[np.bool_]) -> "CountedPaces":
        """Count the tile's cycles for the streams.

        Parameters
        ----------
        non_zeros : array of bool, (groups, L * L)
            Which values of the row side's tensor are not zero.
        """
        config, tile = self._config, self._config.tile
        lanes, depth = tile.lanes, tile.window_depth
        found = np.zeros((non_zeros.size // lanes + 1, lanes), np.bool_)
        found[:-1] = non_zeros.reshape(-1, lanes)  # channels of each position; the last row represents zeros
        counted: dict[int, Counted] = {}
        scheduler = Scheduler(tile)
        for batch in self._batches:
            count, parts, steps, _ = batch.places.shape
            ports = found[batch.places]  # -1 selects the last row
            words = pack(ports.swapaxes(-1, -2) if batch.transposed else ports)
            size = -(-steps // depth) * depth
            laid = np.zeros((count, parts, lanes, size), np.uint32)
            laid[..., :steps] = words.swapaxes(-1, -2)
            laid = laid.reshape(count, tile.rows, size)
            if config.drop_steps:
                made, _ = schedule_without_empty_steps(scheduler, laid, has_whole_words=True, paces=True)
            else:
                made = scheduler.schedule(laid, paces=True)
            losses = losses_of(made.paces, made.cycles, depth, pairs=config.layout_groups == 2)
            for k, stream in enumerate(batch.streams):
                counted[stream] = size, float(made.cycles[k]), losses[k]
        return CountedPaces(config, self._multiplies, self._weights, counted)


class Paces:
    """The tile's cycles for the row side's streams of each multiply of a program."""

    speedup: float
    """Dense steps over cycles of all passes."""

    def of(self, index: int, values: Mapping[str, int]) -> Pace:
        """Return the pace of a multiply.

        Parameters
        ----------
        index : int
            Index of its descriptor in the program.
        values : mapping of str to int
            Its fields.
        """
        raise NotImplementedError


class EvenPaces(Paces):
    """The same speedup in all passes.

    Parameters
    ----------
    config : CoreConfig
        The core.
    speedup : float
        Dense steps over cycles, without padding of a stream's last word.
    """

    def __init__(self, config: CoreConfig, speedup: float) -> None:
        self._config = config
        self.speedup = speedup if config.tile.sparsity != "none" else 1.0
        self._losses = even_losses(config, self.speedup)
        self._by_steps: dict[int, Pace] = {}

    def of(self, index: int, values: Mapping[str, int]) -> Pace:
        """Return the pace of a multiply."""
        steps = values["steps"]
        if steps not in self._by_steps:
            self._by_steps[steps] = Pace(np.array([pass_cycles(self._config, steps, self.speedup)]), self._losses)
        return self._by_steps[steps]


@dataclass(frozen=True)
class CountedPaces(Paces):
    """Cycles counted from the zeros of an operand.

    Parameters
    ----------
    config : CoreConfig
        The core.
    multiplies : mapping of int to list of int
        For each multiply, by its index in the program, the numbers of its row side's streams.
    weights : array of int
        For each stream, the words of all its passes.
    counted : mapping of int to Counted
        Counts of each sampled stream.
    """

    config: CoreConfig
    multiplies: Mapping[int, Sequence[int]]
    weights: NDArray[np.int64]
    counted: Mapping[int, Counted]
    _by_size: dict[int, Pace] = field(default_factory=dict)

    def of(self, index: int, values: Mapping[str, int]) -> Pace:
        """Return the pace of a multiply, from its own streams, or from all sampled streams if some are missing."""
        depth = self.config.tile.window_depth
        size = -(-values["steps"] // depth) * depth
        streams = self.multiplies[index]
        if all(stream in self.counted for stream in streams):
            return _pace([self.counted[stream] for stream in streams], size)
        if size not in self._by_size:
            alike = [each for each in self.counted.values() if each[0] == size]
            self._by_size[size] = _pace(alike or list(self.counted.values()), size)
        return self._by_size[size]

    @cached_property
    def speedup(self) -> float:  # type: ignore[override]
        """Dense steps over cycles of all passes, including padding of a stream's last word."""
        if len(self.counted) == len(self.weights):
            cycles = sum(self.weights[k] / each[0] * each[1] for k, each in self.counted.items())
            return float(self.weights.sum() / cycles) if cycles else 1.0
        return sum(each[0] for each in self.counted.values()) / sum(each[1] for each in self.counted.values())


def _pace(counted: Sequence[Counted], size: int) -> Pace:
    """Return the pace of streams, scaled to streams of `size` steps."""
    sizes, cycles, losses = (np.array(column, np.float64) for column in zip(*counted, strict=True))
    return Pace(cycles * (size / sizes), losses)


def loaded_groups(config: CoreConfig, values: Mapping[str, int], address: int) -> NDArray[np.int64]:
    """Return the groups that a load moves, in the order of the buffer, counted from a tensor's address on."""
    away = np.zeros(1, np.int64)
    for k in (1, 2, 3):
        away = (away + np.arange(values[f"count_{k}"])[:, None] * values[f"stride_{k}"]).reshape(-1)
    memory = values["memory"] | values["memory_high"] << 32
    first = (memory - address) // (config.group_bytes >> values["nvfp4"])
    return (first + away[:, None] + np.arange(values["count_0"])).ravel()
