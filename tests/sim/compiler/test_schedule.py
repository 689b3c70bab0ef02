"""Test that nothing overwrites a multiply's data before it reads them."""

from random import Random

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.iteration_space import SIDES
from tensordash_sim.compiler.schedule import schedule_tiling
from tensordash_sim.compiler.search import best_schedule
from tensordash_sim.verify.programs.random_layers import random_work

CONFIG = CoreConfig.from_toml("", ["core.buffer=8", "core.stream_buffer=4", "core.partial_sums=32"])
"""This core's memories have room for few tiles."""


class Places:
    """Contents of a memory by place."""

    def __init__(self) -> None:
        self.contents: dict[int, object] = {}
        self.hits = 0

    def use(self, key: object, first: int, count: int, *, is_new: bool) -> None:
        places = range(first, first + count)
        if is_new:
            self.contents.update((place, (key, place)) for place in places)
        else:
            self.hits += 1
            assert all(self.contents.get(place) == (key, place) for place in places), f"{key} is not at {first}"


@pytest.mark.parametrize("seed", range(4, 8))
def test_operands_and_streams_are_not_overwritten_before_use(seed):
    schedule = best_schedule(random_work(Random(seed), CONFIG, (2_000, 30_000)).space(CONFIG))
    buffer, streams = Places(), {side: Places() for side in SIDES}
    results: tuple[int, int] | None = None
    for each in schedule.multiplies:
        multiply = each.multiply
        for side, used in each.sides.items():
            groups = sum(move.groups for move in used.moves)
            key = multiply.product, [(move.first, move.fields) for move in used.moves], side
            buffer.use(key, used.address, groups, is_new=used.is_loaded)
            first, size = schedule.regions[side]
            assert first <= used.address <= used.address + groups <= first + size
            words = -(-each.steps // CONFIG.tile.window_depth) * used.streams
            streams[side].use(multiply.streams_key(side), used.base, words, is_new=used.is_laid_out)
            assert used.base + words <= CONFIG.stream_words(SIDES[side])
        first, size = schedule.regions["result"]
        assert first <= each.address <= each.address + each.tile.groups <= first + size
        assert results in (None, (each.address, each.tile.groups)), "a tile of results moved before its store"
        results = None if multiply.is_last else (each.address, each.tile.groups)
    assert results is None, "the last tile of results has no store"
    assert schedule.counts["operand_hits"] == buffer.hits
    assert schedule.counts["stream_hits"] == sum(each.hits for each in streams.values())


def test_schedules_are_reproducible():
    """A repeated walk gives the same schedule. A walk that ends early gives the start of the schedule."""
    schedule = best_schedule(random_work(Random(2), CONFIG, (20_000, 30_000)).space(CONFIG))
    assert schedule_tiling(schedule.space, schedule.tiling) == schedule
    assert schedule_tiling(schedule.space, schedule.tiling, 3).multiplies == schedule.multiplies[:3]
