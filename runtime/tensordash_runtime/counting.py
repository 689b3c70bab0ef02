"""Speedup from skipped zeros, by the cycle simulator on the streams of an operation's row side."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.cycles import Scheduler, schedule_without_empty_steps
from tensordash_sim.lowering import Geometry, Operation, Vectors, lower
from tensordash_sim.lowering.groups import grouped

__all__ = ["NOT_COUNTED", "CycleCount", "count_cycles", "count_cycles_by_side"]

MAX_PASSES = 64
"""Maximum number of simulated passes of an operation, evenly spaced. Speedups differ little between passes."""
SPEEDUP_LEVELS = 2
"""Levels per unit of speedup. Operations whose speedups round to the same level get the same tiling."""


class CycleCount(NamedTuple):
    """Cycles of the dense tile for all passes of an operation, and the tile's speedup."""

    dense: int
    speedup: float

    @property
    def tiling_speedup(self) -> float:
        """The speedup for which a device chooses a tiling, rounded to a level."""
        return round(self.speedup * SPEEDUP_LEVELS) / SPEEDUP_LEVELS


NOT_COUNTED = CycleCount(0, math.nan)
"""Value for an operation whose cycles were not counted."""


def count_cycles(
    geometry: Geometry,
    operation: str,
    non_zeros: Mapping[str, NDArray[np.bool_]],
    rows: str,
    config: TileConfig | CoreConfig,
) -> CycleCount:
    """Count the dense tile's cycles and the tile's speedup, from a sample of the operation's passes.

    Parameters
    ----------
    geometry : Convolution or MatrixProduct
        The layer.
    operation : str
        "AxW", "WxG" or "AxG".
    non_zeros : mapping of str to array of bool
        Non-zero positions of both operands, in the geometry's shapes.
    rows : str
        The operand on the row side.
    config : TileConfig or CoreConfig
        The tile, or a core with it. With `core.drop_steps`, cycles leave out dropped steps.

    Examples
    --------
    >>> from tensordash_sim.lowering import MatrixProduct
    >>> layer = MatrixProduct(batch=1, samples=4, in_features=400, out_features=4)
    >>> half = np.tile([True, False], (1, 4, 200))
    >>> count_cycles(layer, "AxW", {"A": half, "W": np.ones((1, 4, 400), bool)}, "A", TileConfig())
    CycleCount(dense=100, speedup=2.0)
    """
    return count_cycles_by_side(geometry, operation, non_zeros, [rows], config)[rows]


def count_cycles_by_side(
    geometry: Geometry,
    operation: str,
    non_zeros: Mapping[str, NDArray[np.bool_]],
    rows: Sequence[str],
    config: TileConfig | CoreConfig,
) -> dict[str, CycleCount]:
    """Count as `count_cycles` for each operand in `rows`, with that operand on the row side."""
    tile, drops = (config.tile, config.drop_steps) if isinstance(config, CoreConfig) else (config, False)
    dense, cycles = dict.fromkeys(rows, 0), dict.fromkeys(rows, 0.0)
    kind = Operation(operation)
    for product in lower(geometry, kind, non_zeros, tile.lanes):
        sides = product.left, product.right
        for name in rows:
            row, column = sides if name == kind.left else sides[::-1]
            all_steps, pace = _sample_passes(row, column, tile, drops)
            dense[name] += all_steps
            cycles[name] += all_steps * pace
    return {name: CycleCount(dense[name], dense[name] / cycles[name] if cycles[name] else 1.0) for name in rows}


def _sample_passes(row: Vectors, column: Vectors, tile: TileConfig, drops: bool) -> tuple[int, float]:
    """Return the dense steps of all passes of a product, and the mean cycles per dense step of a sample."""
    row_groups, column_groups = grouped(row, tile.rows), grouped(column, tile.columns)
    all_steps = len(row_groups) * row_groups.shape[1] * column_groups.shape[1] * row.steps
    if tile.sparsity == "none":
        return all_steps, 1.0
    groups = row_groups.reshape(-1, tile.rows)
    chosen = np.unique(np.linspace(0, len(groups) - 1, MAX_PASSES).astype(int))
    words = _words(row, groups[chosen])
    other = None
    if tile.sparsity == "both":  # Each group of rows meets one group of columns of its batch element.
        element = chosen // row_groups.shape[1]
        other = _words(column, column_groups[element, chosen % column_groups.shape[1]])
    if drops:
        cycles = schedule_without_empty_steps(Scheduler(tile), words, has_whole_words=True)[0].cycles
    else:
        cycles = Scheduler(tile).schedule(words, other).cycles
    return all_steps, float(cycles.sum()) / (len(chosen) * row.steps)


def _words(vectors: Vectors, numbers: NDArray[np.int64]) -> NDArray[np.uint32]:
    return vectors.words(numbers.ravel()).reshape(*numbers.shape, vectors.steps)
