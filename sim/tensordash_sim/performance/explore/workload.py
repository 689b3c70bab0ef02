"""A sample of a trace's passes in memory, small enough to try thousands of candidates on."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig

from ...cycles import Scheduler, output_stalls, random_words, schedule_without_empty_steps
from ...lowering import lower
from ...lowering.groups import grouped
from ...trace import Record
from ..chip.operation import scheduled_operand

__all__ = ["Workload", "random_workload", "sample_workload"]


@dataclass(frozen=True)
class Workload:
    """Passes of one trace.

    Attributes
    ----------
    words : list of array of uint32, (passes, rows, T)
        Side B of passes with the same number of steps: bit `lane` of each step is set for a non-zero value.
    weights : list of array of float, (passes,)
        Number of the trace's passes that each pass represents.
    """

    words: list[NDArray[np.uint32]]
    weights: list[NDArray[np.float64]]

    def speedup(self, config: TileConfig, *, drop_steps: bool = False) -> float:
        """Return the baseline's cycles over the cycles of the tile, which drops empty steps if `drop_steps` is true.

        `config` must have the lanes and rows of the words.
        """
        scheduler = Scheduler(config)
        beats = config.rows // config.out_rows
        dense = cycles = 0.0
        for words, weights in zip(self.words, self.weights, strict=True):
            scheduled = schedule_without_empty_steps(scheduler, words)[0] if drop_steps else scheduler.schedule(words)
            made = scheduled.cycles
            dense += float(weights.sum()) * max(words.shape[2], beats)
            cycles += float(weights @ (made + output_stalls(made, config)))
        return dense / cycles


def sample_workload(
    records: Iterable[Record], config: TileConfig, *, row_order: str, row_steps: int, seed: int
) -> Workload:
    """Draw passes of every operation of a trace.

    Parameters
    ----------
    records : iterable of Record
        Operations of the trace; the sparser operand of each is scheduled.
    config : TileConfig
        The tile, whose lanes, rows and columns define a pass; with sparsity `rows`.
    row_order : "natural" or "density"
        The order in which vectors are grouped onto the rows of a tile.
    row_steps : int
        Approximate number of row steps to draw from each product of an operation; at least one pass.
    seed : int
        Seed of the sample.

    Returns
    -------
    Workload
        With all passes of a trace, its speedup equals that computed from `tensordash simulate`'s compute cycles,
        summed over tiles.
    """
    random = np.random.default_rng(seed)
    words: dict[int, list[NDArray[np.uint32]]] = {}
    weights: dict[int, list[NDArray[np.float64]]] = {}
    for record in records:
        operation = record.operation
        masks = {name: record.mask(name) for name in (operation.left, operation.right)}
        scheduled = scheduled_operand(masks, operation)
        for product in lower(record.geometry, operation, masks, config.lanes):
            rows, columns = product.left, product.right
            if scheduled != operation.left:
                rows, columns = columns, rows
            groups = grouped(rows, config.rows, row_order).reshape(-1, config.rows)
            count = min(len(groups), max(1, row_steps // (config.rows * rows.steps)))
            drawn = groups[np.sort(random.choice(len(groups), count, replace=False))]
            block = rows.words(drawn.ravel()).reshape(count, config.rows, rows.steps)
            stands_for = len(groups) / count * -(-columns.count // config.columns)
            words.setdefault(rows.steps, []).append(block)
            weights.setdefault(rows.steps, []).append(np.full(count, stands_for))
    return Workload(
        words=[np.concatenate(blocks) for blocks in words.values()],
        weights=[np.concatenate(each) for each in weights.values()],
    )


def random_workload(lanes: int, rows: int, *, zeros: float, passes: int, steps: int, seed: int) -> Workload:
    """Draw passes with random zeros.

    Parameters
    ----------
    lanes, rows : int
        Lanes and rows of the tile.
    zeros : float
        Probability of a zero.
    passes, steps : int
        Number of passes, and steps of each.
    seed : int
        Seed of the sample.

    >>> random_workload(4, 2, zeros=0.5, passes=3, steps=10, seed=0).words[0].shape
    (3, 2, 10)
    """
    drawn = random_words(np.random.default_rng([seed, round(100 * zeros)]), passes * rows, steps, lanes, zeros)
    return Workload(words=[drawn.reshape(passes, rows, steps)], weights=[np.ones(passes)])
