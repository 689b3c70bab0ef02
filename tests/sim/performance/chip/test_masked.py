"""Compare the number of rounds with dealing passes one by one."""

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.performance.chip import ChipConfig, masked_rounds


def deal(mask: np.ndarray, tiles: int, streams: int, broadcast: int) -> int:
    """Count rounds. A round takes passes column by column until tiles or reads are used up."""
    rounds = 0
    for start in range(0, len(mask), streams):
        band = mask[start : start + streams]
        passes = reads = 0
        for column in range(band.shape[1]):
            left = int(np.count_nonzero(band[:, column]))
            while left:
                if passes == tiles or reads == streams:
                    rounds, passes, reads = rounds + 1, 0, 0
                taken = min(left, broadcast, tiles - passes)
                passes, reads, left = passes + taken, reads + 1, left - taken
        rounds += passes > 0
    return rounds


@pytest.mark.parametrize("density", [0.02, 0.125, 0.5, 1.0])
@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (130, 50), (7, 300)])
def test_rounds_match_dealing(density: float, rows: int, columns: int) -> None:
    mask = np.random.default_rng(3).random((rows, columns)) < density
    config, chip = TileConfig(), ChipConfig()
    found = masked_rounds(mask, config, chip)
    assert found >= np.count_nonzero(mask) / chip.tiles
    # Two rounds read a column that both have, which the count ignores.
    assert found <= deal(mask, chip.tiles, 64, chip.memory.broadcast) <= 1.1 * found + 1


def test_narrow_banks_limit() -> None:
    mask = np.eye(256, dtype=bool)  # No passes share a read.
    few = ChipConfig.from_toml("[memory]\nbanks = 8")
    assert masked_rounds(mask, TileConfig(), ChipConfig()) == 4
    assert masked_rounds(mask, TileConfig(), few) == 32
    assert masked_rounds(np.zeros((9, 9), bool), TileConfig(), few) == 0
