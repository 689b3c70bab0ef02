"""The tiling search: the chosen tiling fits the core everywhere, not only where the search walked it."""

from dataclasses import replace
from itertools import islice
from math import inf
from random import Random

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler import tiling_search
from tensordash_sim.compiler.blocking import Blocking
from tensordash_sim.compiler.contraction import Contraction
from tensordash_sim.compiler.layer import Layer
from tensordash_sim.compiler.program import ProgramError
from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.programs import random_layers

TILINGS = 152
"""Tilings that the tests examine."""
LAYERS = {
    "AxW": (4, Layer(samples=1, channels=32, filters=4, size=(22, 28), kernel=(3, 3), padding=2)),
    "WxG": (4, Layer(samples=1, channels=4, filters=8, size=(19, 25), kernel=(5, 5), padding=1)),
}
"""By operation: the kibibytes of a buffer, and a layer whose first tile is at an edge and loads less than others."""


def contraction(operation: str, rows: str, monkeypatch: pytest.MonkeyPatch) -> Contraction:
    buffer, layer = LAYERS[operation]
    config = load_any_preset("core", (f"core.buffer={buffer}",))
    assert isinstance(config, CoreConfig)
    monkeypatch.setattr(random_layers, "random_layer", lambda *_: layer)
    for seed in range(1000):
        work = random_layers.random_work(Random(seed), config)
        if (work.operation, work.rows) == (operation, rows):
            return work.contraction(config, work.image(config, Memory(1 << 20)))
    raise AssertionError(f"no {operation} with {rows} on rows")


def fitting_tilings(work: Contraction) -> list[Blocking]:
    """Return tilings whose first multiplies fit."""
    return [
        each for each in islice(tiling_search._tilings(work), TILINGS) if tiling_search._rough_cycles(work, each) < inf
    ]


def makes_a_program(work: Contraction, blocking: Blocking) -> bool:
    try:
        work.program(blocking)
    except ProgramError:
        return False
    return True


@pytest.mark.parametrize(("operation", "rows"), [("AxW", "W"), ("WxG", "W")])
def test_a_tiling_that_fits_makes_a_program(operation, rows, monkeypatch):
    work = contraction(operation, rows, monkeypatch)
    tilings = fitting_tilings(work)
    fits = [tiling_search._fits_everywhere(work, each) for each in tilings]
    assert fits == [makes_a_program(work, each) for each in tilings]
    assert len(set(fits)) == 2, "some do not fit, though their first multiplies do"


@pytest.mark.parametrize(("operation", "rows"), [("AxW", "W"), ("WxG", "W")])
def test_the_chosen_tiling_makes_a_program(operation, rows, monkeypatch):
    """Even where the tiling of the least rough cycles fits only at an edge."""
    work = contraction(operation, rows, monkeypatch)
    tilings = fitting_tilings(work)
    wrong = [each for each in tilings if not makes_a_program(work, each)]
    right = next(each for each in tilings if each not in wrong)
    monkeypatch.setattr(tiling_search, "_tilings", lambda _: iter([*wrong, right]))
    best = tiling_search.best_blocking(work)
    assert replace(best, begin=right.begin) == right
    assert makes_a_program(work, best)
    monkeypatch.setattr(tiling_search, "_tilings", lambda _: iter(wrong))
    with pytest.raises(ProgramError, match="does not fit this core, however it is cut"):
        tiling_search.best_blocking(work)
