"""Count the exact cycles of a tile for its streams."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash import TileConfig

from .dropping import schedule_without_empty_steps
from .scheduler import Scheduler

__all__ = ["Counts", "count", "count_words", "output_stalls", "pack"]


@dataclass(frozen=True)
class Counts:
    """Values of a tile's counters at the end of the streams (docs/tile.md).

    Attributes
    ----------
    cycles : int
        Cycles in which the tile made a schedule.
    steps : int
        Steps of the dense schedule: the baseline's cycles.
    effectual : int
        Positions consumed, summed over all rows (`both`: over all PEs; `none`: all positions).
    stall_output : int
        Cycles in which the tile waited for results to leave.
    row_wait : tuple of int
        For each row, the sum over cycles of the row's AS minus the tile's AS.
    """

    cycles: int
    steps: int
    effectual: int
    stall_output: int
    row_wait: tuple[int, ...]

    @property
    def speedup(self) -> float:
        """Cycles of the baseline divided by cycles of the tile, without output stalls."""
        return self.steps / self.cycles

    def to_json(self, config: TileConfig) -> dict[str, Any]:
        """Convert the counts to JSON types.

        `ideal_speedup` is the number of positions of the dense schedule divided by the number of effectual positions.
        """
        dense = self.steps * config.lanes * config.rows * (config.columns if config.sparsity == "both" else 1)
        return asdict(self) | {
            "speedup": self.speedup,
            "ideal_speedup": dense / self.effectual if self.effectual else None,
        }


def pack(streams: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Pack steps into words: bit `lane` is the position of that lane.

    >>> pack(np.array([[True, False, True, False], [False, False, False, True]]))
    array([5, 8], dtype=uint32)
    """
    lanes = streams.shape[-1]
    return streams @ (np.uint32(1) << np.arange(lanes, dtype=np.uint32))


def count(
    streams: Sequence[ArrayLike],
    config: TileConfig,
    *,
    a: Sequence[ArrayLike] | None = None,
    drop_steps: bool = False,
) -> Counts:
    """Count the cycles of consecutive streams.

    The tile never waits for input, and the sink takes every result at once.

    Parameters
    ----------
    streams : sequence of array of bool, (rows, T, lanes)
        Row side of each stream: true for nonzero values.
    config : TileConfig
        The tile.
    a : sequence of array of bool, (columns, T, lanes), optional
        Column side of each stream. Required with `sparsity = "both"`; otherwise ignored.
    drop_steps : bool
        As in `count_words`.

    Returns
    -------
    Counts

    Raises
    ------
    ValueError
        If a stream has another shape, no step, or a column side of another length; if there is no stream; if
        `drop_steps` is true and the tile does not skip zeros of the row side only.

    Source
    ------
    Section III-A of the paper; docs/tile.md.

    Examples
    --------
    Half of the positions of every step are zero:

    >>> half = np.tile([True, False, True, False], (4, 1000, 1))
    >>> count([half], TileConfig()).speedup
    2.0
    """
    blocks = [_checked("streams", index, block, config.rows, "rows", config) for index, block in enumerate(streams)]
    if not blocks:
        raise ValueError("streams must hold at least one stream")
    sides: list[NDArray[np.bool_]] = []
    if config.sparsity == "both":
        if a is None or len(a) != len(blocks):
            found = "none" if a is None else len(a)
            wanted = f'{len(blocks)} with tile.sparsity "both"'
            raise ValueError(f"a must have the streams of the column side, {wanted}, not {found}")
        sides = [_checked("a", index, block, config.columns, "columns", config) for index, block in enumerate(a)]
        for index, (block, side) in enumerate(zip(blocks, sides, strict=True)):
            if side.shape[1] != block.shape[1]:
                raise ValueError(f"a[{index}] must have the {block.shape[1]} steps of its stream, not {side.shape[1]}")
    packed, packed_a = ([pack(block)[None] for block in some] for some in (blocks, sides))
    return count_words(packed, config, a=packed_a, drop_steps=drop_steps)


def count_words(
    blocks: Sequence[NDArray[np.uint32]],
    config: TileConfig,
    *,
    a: Sequence[NDArray[np.uint32]] = (),
    drop_steps: bool = False,
) -> Counts:
    """Count the cycles of packed streams, as `count` does.

    Parameters
    ----------
    blocks : sequence of array of uint32, (streams, rows, T)
        Streams in order. All streams of a block have the same number of steps.
    config : TileConfig
        The tile.
    a : sequence of array of uint32, (streams, columns, T)
        Column side. Required with `sparsity = "both"`; otherwise ignored.
    drop_steps : bool
        Count a tile that drops steps which are empty in all rows (`drop_empty_steps`). `row_wait` then refers to the
        remaining steps.

    Returns
    -------
    Counts

    Raises
    ------
    ValueError
        If `drop_steps` is true and the tile does not skip zeros of the row side only.
    """
    scheduler = Scheduler(config)
    both = config.sparsity == "both"
    cycles, waits, effectual, steps = [], np.zeros(config.rows, np.int64), 0, 0
    for index, block in enumerate(blocks):
        side = a[index] if both else None
        if drop_steps:
            scheduled, lengths = schedule_without_empty_steps(scheduler, block)
            left = int(lengths.sum())
        else:
            scheduled = scheduler.schedule(block, side)
            left = block.shape[0] * block.shape[2]
        cycles.append(scheduled.cycles)
        waits += scheduled.advances.sum(axis=0) - left
        steps += block.shape[0] * block.shape[2]
        if config.sparsity == "none":
            effectual += block.size * config.lanes
        elif side is None:
            effectual += int(np.bitwise_count(block).sum(dtype=np.int64))
        else:
            effectual += sum(
                int(np.bitwise_count(block[:, row, None] & side).sum(dtype=np.int64)) for row in range(config.rows)
            )
    every = np.concatenate(cycles)
    return Counts(
        cycles=int(every.sum()),
        steps=steps,
        effectual=effectual,
        stall_output=int(output_stalls(every[1:], config).sum()),
        row_wait=tuple(int(wait) for wait in waits),
    )


def output_stalls(cycles: NDArray[np.int64], config: TileConfig) -> NDArray[np.int64]:
    """Return the cycles that each stream waits until the previous stream's block has left, at one beat per cycle."""
    return np.maximum(config.rows // config.out_rows - cycles, 0)


def _checked(name: str, index: int, block: ArrayLike, ports: int, what: str, config: TileConfig) -> NDArray[np.bool_]:
    array = np.asarray(block)
    if array.dtype != np.bool_:
        raise ValueError(f"{name}[{index}] must be an array of bool, not of {array.dtype}")
    if array.ndim != 3 or array.shape[0] != ports or array.shape[1] < 1 or array.shape[2] != config.lanes:
        raise ValueError(
            f"{name}[{index}] must have the shape ({what} = {ports}, T >= 1, lanes = {config.lanes}), not {array.shape}"
        )
    return array
