"""Test the shapes of cores and the draw of products."""

from collections import Counter
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset, preset_names
from tensordash_sim.performance.explore import CoreShape, draw_products


@dataclass(frozen=True)
class StubTrace:
    """Products with numbers of multiplications."""

    macs: tuple[int, ...]

    @property
    def records(self) -> list[Any]:
        return [SimpleNamespace(number=k, geometry=SimpleNamespace(macs=each)) for k, each in enumerate(self.macs)]


def draw(traces: list[StubTrace], products: int, seed: int = 0) -> list[Any]:
    return draw_products(traces, products, seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", preset_names("core"))
def test_a_shape_has_all_that_differs(name: str) -> None:
    core = load_any_preset(name)
    assert isinstance(core, CoreConfig)
    assert CoreShape.of(core).config(core) == core
    other = replace(core, buffer=core.buffer * 2, axi_bits=core.axi_bits // 2)
    assert CoreShape.of(other).config(core) == other


def test_a_smaller_shape_is_within_a_larger_one() -> None:
    core, wide = (CoreShape.of(load_any_preset(name)) for name in ("core", "core-wide"))  # type: ignore[arg-type]
    assert core.is_within(wide)
    assert core.is_within(core)
    assert not wide.is_within(core)
    assert not replace(wide, axi_bits=64).is_within(core)
    assert not core.is_within(replace(wide, axi_bits=64))


def test_all_products_of_a_small_trace_are_used() -> None:
    drawn = draw([StubTrace((5, 1)), StubTrace((1, 2, 3))], 3)
    assert [(each.trace, each.record.number, each.weight) for each in drawn] == [
        (0, 0, 1),
        (0, 1, 1),
        (1, 0, 1),
        (1, 1, 1),
        (1, 2, 1),
    ]


def test_products_are_drawn_by_their_shares() -> None:
    macs = (400, 100, 50, 25, 25, *[8] * 50)
    counts: Counter[int] = Counter()
    draws = 2000
    for seed in range(draws):
        drawn = draw([StubTrace(macs)], 10, seed)
        assert sum(each.weight * each.record.geometry.macs for each in drawn) == pytest.approx(sum(macs))
        assert len({each.record.number for each in drawn}) == len(drawn)
        assert {0, 1} <= {each.record.number for each in drawn}  # Their shares exceed one of ten places.
        for each in drawn:
            counts[each.record.number] += each.weight
    # The mean weight of each product is 1: sums are unbiased.
    assert counts[0] / draws == pytest.approx(1, abs=0.1)
    assert sum(counts[k] for k in range(5, 55)) / draws == pytest.approx(50, rel=0.03)
    assert draw([StubTrace(macs)], 10, 4) == draw([StubTrace(macs)], 10, 4)
    assert draw([StubTrace(macs)], 10, 4) != draw([StubTrace(macs)], 10, 5)
