"""2:4 sparsity, two zeros in four weights, on tiles that skip them like all other zeros."""

from dataclasses import replace
from typing import Any

from tensordash import TileConfig, load_preset

from ..lowering import MatrixProduct
from ..performance.chip import totals
from ..report.figure import Point
from .experiment import Answers, Experiment, Plan
from .job import SimulationJob
from .measure_formats import PATTERNS, pruned_product, pruned_step
from .settings import Network, Settings
from .texts import notes

__all__ = ["NEXT_STEP", "TWO_OF_FOUR"]

PRESETS = ("paper", "recommended", "paper-depth2", "paper-depth3", "paper-depth5", "paper-16lane")
"""Presets with different tile structures. Other presets differ in format, accumulator or chip."""
NEXT_STEP = ((0, 0), (1, 0), (1, 1), (1, -1), (1, 2))
"""A lane's own value, or any of the next step: the result of `tensordash explore` for these weights with 2 steps."""
EXTRA = "2 steps, all of the next"
CORE = "2:4 tensor core"
EXTENT = {"full": 4096, "small": 1024, "tiny": 64}
"""Extent of the square layer with random weights."""
RANDOM = "random weights"
OPERATIONS = ("AxW", "WxG")


def _tiles() -> dict[str, TileConfig]:
    tiles = {name: load_preset(name) for name in PRESETS}
    tiles[EXTRA] = replace(load_preset("paper-depth2"), connectivity=NEXT_STEP)
    return {name: replace(tile, out_rows=tile.rows) for name, tile in tiles.items()}


def _networks(settings: Settings) -> dict[str, Network]:
    """Return the first recording of each model. Recordings of one model differ in data, which pruning does not use."""
    found: dict[str, str] = {}
    for name, network in settings.with_values.items():
        found.setdefault(network.trace.conditions.get("model", name), name)
    return {name: settings.with_values[name] for name in found.values()}


def _plan(settings: Settings) -> Plan:
    extent = EXTENT[settings.scale]
    layer = MatrixProduct(batch=1, samples=16, in_features=extent, out_features=extent).to_json()
    plan: Plan = {}
    for tile, config in _tiles().items():
        for pattern in PATTERNS:
            parameters: dict[str, Any] = {"tile": config.to_mapping(), "pattern": pattern}
            job = SimulationJob(pruned_product, parameters | {"geometry": layer, "seed": settings.seed})
            plan[RANDOM, tile, pattern] = job
            for name, network in _networks(settings).items():
                recorded = parameters | {"digest": network.trace.digest, "step": network.steps[-1]}
                plan[name, tile, pattern] = SimulationJob(
                    pruned_step, recorded, {"path": str(network.trace.path.resolve())}
                )
    return plan


def _points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    points = []
    for pattern in PATTERNS:
        for operation in OPERATIONS:
            metric = f"{operation}, " + ("2:4" if pattern == "2:4" else "half of all, anywhere")
            for weights in (RANDOM, *_networks(settings)):
                for tile in _tiles():
                    results = answers[weights, tile, pattern]["operations"]
                    found = totals(each for each in results if each["operation"] == operation)
                    points.append(Point(metric=metric, series=tile, x=weights, ours=found["compute_speedup"]))
                core = 2.0 if (pattern, operation) == ("2:4", "AxW") else 1.0
                points.append(Point(metric=metric, series=CORE, x=weights, ours=core))
    values = {"core": CORE, "extra": EXTRA, "next_step": NEXT_STEP, "values_note": settings.values_note}
    return points, notes("two-of-four", **values)


TWO_OF_FOUR = Experiment.of("two-of-four", _plan, _points)
