"""Speedup of other connectivity patterns, relative to the paper's (section IV-D of the paper)."""

import numpy as np

from tensordash import TileConfig, load_preset
from tensordash.configuration.connectivity import PAPER_OPTIONS

from ..report.figure import Point
from .experiment import Answers, Experiment, Plan, by_operation, mean
from .settings import Settings
from .texts import notes

__all__ = ["CONNECTIVITY"]

DRAWN = {"full": 100, "small": 40, "tiny": 4}
OPTIONS = 8
MIN_LOOKASIDE = 3
"""Lookaside options among the seven of a drawn pattern. The paper requires "enough lookaside options"."""
DENSITIES = (0.3, 0.5, 0.7, 0.9)
NAMED = {
    "paper": PAPER_OPTIONS,
    "recommended": load_preset("recommended").options,
    "same offsets in every step": tuple(
        (step, offset) for step in range(4) for offset in (0, 1) if (step, offset) != (0, 1)
    ),
    "lookahead only": tuple((step, 0) for step in range(4)),
}
CLAIM = 0.05


def _patterns(settings: Settings) -> dict[str, TileConfig]:
    rng = np.random.default_rng(settings.seed)
    free = [(step, offset) for step in (1, 2, 3) for offset in (0, 1, -1, 2)]
    found = dict(NAMED)
    while len(found) < len(NAMED) + DRAWN[settings.scale]:
        chosen = sorted(free[index] for index in rng.choice(len(free), OPTIONS - 1, replace=False))
        # Options are in time-major order, lookahead first. Patterns that leave a step of the buffer unused are skipped.
        options = ((0, 0), *sorted(chosen, key=lambda option: (option[0], option[1] != 0)))
        enough = sum(offset != 0 for _, offset in chosen) >= MIN_LOOKASIDE
        if enough and {step for step, _ in chosen} == {1, 2, 3} and options not in found.values():
            found[f"drawn {len(found) - len(NAMED) + 1}"] = options
    return {name: TileConfig(connectivity=options) for name, options in found.items()}


def _plan(settings: Settings) -> Plan:
    plan: Plan = {}
    network = next(iter(settings.networks))
    for name, tile in _patterns(settings).items():
        plan |= {(name, zeros): settings.random_job(tile, zeros) for zeros in DENSITIES}
        plan[name, "network"] = settings.network_job(network, tile, tiles=1)
    return plan


def _points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    patterns = _patterns(settings)
    network = next(iter(settings.networks))
    random = {
        name: mean([mean(answers[name, zeros]["speedups"]) or 0.0 for zeros in DENSITIES]) or 0.0 for name in patterns
    }
    recorded = {name: by_operation(answers[name, "network"])["all"]["compute_speedup"] for name in patterns}
    points, ranges = [], {}
    for series, speedups in (("random zeros", random), (network, recorded)):
        relative = {name: speedup / speedups["paper"] for name, speedup in speedups.items()}
        for name, value in relative.items():
            options = [list(option) for option in patterns[name].options]
            more = {"speedup": speedups[name], "options": options}
            points.append(Point(metric="relative speedup", series=series, x=name, ours=value, more=more))
        drawn = [value for name, value in relative.items() if name.startswith("drawn")]
        inside = sum(abs(value - 1) <= CLAIM for value in drawn)
        ranges[series] = {"drawn": drawn, "inside": inside, "lookahead": relative["lookahead only"]}
    for series, kind in (("lowest", min), ("highest", max)):
        drawn = [value for name, value in random.items() if name.startswith("drawn")]
        claim = 1 - CLAIM if series == "lowest" else 1 + CLAIM
        ours = kind(drawn) / random["paper"]
        points.append(Point(metric="range of drawn patterns", series=series, x="random zeros", paper=claim, ours=ours))
    values = {"options": OPTIONS, "min_lookaside": MIN_LOOKASIDE, "densities": DENSITIES}
    return points, notes("connectivity", ranges=ranges, **values)


CONNECTIVITY = Experiment.of("connectivity", _plan, _points)
