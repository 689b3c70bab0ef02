"""Fig. 12, 13 and 14: depth of the staging buffers, rows and columns of a tile, wider PEs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tensordash import TileConfig, load_preset

from ..report.figure import Point
from .cost import TILES, chip_area_ratio
from .experiment import Answers, Experiment, Plan, by_operation, mean, mean_of
from .settings import Settings
from .texts import notes

__all__ = ["FIG12", "FIG13", "FIG14"]

RANDOM_ZEROS = 0.6
"""Share of random zeros at which the paper's tile has about its mean speedup on the paper's networks."""
RANDOM = f"random, {RANDOM_ZEROS:.0%} zeros"
FAST = 1.9
ONE_TILE = 1
"""Number of tiles. Recorded networks are small: on 256 tiles, many operations would wait for the last few passes."""

DRAIN = (
    "Results of all rows leave in one beat. With one row per beat, short passes would wait for the drain, "
    "above all in tall tiles."
)

Variants = dict[tuple[str, float | str], tuple[TileConfig, float | None]]
"""Tile and the paper's mean speedup, by sweep and value."""


def _depths() -> Variants:
    presets = {2: "paper-depth2", 3: "paper-depth3", 4: "paper", 5: "paper-depth5"}
    paper = {2: 1.5, 4: 1.95, 5: 2.05}
    return {("depth", depth): (load_preset(name), paper.get(depth)) for depth, name in presets.items()}


def _shapes() -> Variants:
    rows = {1: 2.2, 2: None, 4: 1.95, 8: None, 16: 1.8}
    found: Variants = {
        ("rows", count): (load_preset("paper", [f"tile.rows={count}"]), paper) for count, paper in rows.items()
    }
    for count, paper in {4: 1.95, 8: None, 16: None}.items():
        found["columns", count] = (load_preset("paper", [f"tile.columns={count}"]), paper)
    return found


def _lanes() -> Variants:
    names = {"paper": 1.95, "paper-16lane": 1.85}
    return {("preset", name): (load_preset(name), paper) for name, paper in names.items()}


def _plan(settings: Settings, variants: Variants) -> Plan:
    plan: Plan = {}
    for (sweep, value), (tile, _) in variants.items():
        tile = replace(tile, out_rows=tile.rows)
        plan |= {(sweep, value, name): settings.network_job(name, tile, tiles=ONE_TILE) for name in settings.networks}
        plan[sweep, value, RANDOM] = settings.random_job(tile, RANDOM_ZEROS)
    return plan


def _speedups(settings: Settings, answers: Answers, variants: Variants) -> dict[tuple[str, str, float | str], float]:
    """Return speedups by sweep, series and value."""
    found = {}
    for sweep, value in variants:
        networks = {
            name: by_operation(answers[sweep, value, name])["all"]["compute_speedup"] for name in settings.networks
        }
        for name, speedup in networks.items():
            found[sweep, name, value] = speedup
        found[sweep, "mean", value] = mean_of(settings, networks) or 0.0
        found[sweep, RANDOM, value] = mean(answers[sweep, value, RANDOM]["speedups"]) or 0.0
    return found


def _sweep_points(
    settings: Settings, answers: Answers, variants: Variants, reference: float | str
) -> tuple[list[Point], list[str]]:
    speedups = _speedups(settings, answers, variants)
    series = list(dict.fromkeys(name for _, name, _ in speedups))
    sweeps = list(dict.fromkeys(sweep for sweep, _ in variants))
    points = []
    for relative in (False, True):
        for sweep in sweeps:
            metric = f"{f'speedup, relative to {reference},' if relative else 'speedup'} by {sweep}"
            base = {name: speedups[sweep, name, reference] if relative else 1.0 for name in series}
            paper_base = variants[sweep, reference][1] if relative else 1.0
            for name in series:
                for (of, value), (_, paper) in variants.items():
                    if of != sweep:
                        continue
                    paper_ratio = round(paper / paper_base, 3) if name == "mean" and paper and paper_base else None
                    ratio = speedups[sweep, name, value] / base[name]
                    points.append(Point(metric=metric, series=name, x=value, paper=paper_ratio, ours=ratio))
    return points, notes("sweep", drain=DRAIN)


def _depth_points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    points, text = _sweep_points(settings, answers, _depths(), 4)
    speedups = _speedups(settings, answers, _depths())
    steep = [name for name in settings.averaged if speedups["depth", name, 4] >= FAST]
    values: dict[str, Any] = {}
    if steep:
        slopes, means = (
            [mean([speedups["depth", name, x] / speedups["depth", name, 4] for name in names]) or 0.0 for x in (2, 5)]
            for names in (steep, settings.averaged)
        )
        matters = slopes[0] < means[0] and slopes[1] > means[1]
        values = {"slopes": slopes, "matters": matters}
    return points, [*text, *notes("fig12", steep=steep, fast=FAST, **values)]


def _shape_points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    points, text = _sweep_points(settings, answers, _shapes(), 4)
    speedups = _speedups(settings, answers, _shapes())
    losses = {name: 1 - speedups["columns", name, 16] / speedups["columns", name, 4] for name in settings.networks}
    worst = max(losses, key=lambda name: losses[name])
    return points, [*text, *notes("fig13", worst=worst, loss=losses[worst])]


def _lane_points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    speedups = _speedups(settings, answers, _lanes())
    points = [
        Point(metric="speedup", series=str(value), x=name, paper=paper if name == "mean" else None, ours=speedup)
        for (_, value), (_, paper) in _lanes().items()
        for (_, name, of), speedup in speedups.items()
        if of == value
    ]
    for name in settings.networks:
        shares = _padding(answers["preset", "paper-16lane", name])
        points.append(Point(metric="share of padding and spare lanes", series="paper-16lane", x=name, ours=shares))
        shares = _padding(answers["preset", "paper", name])
        points.append(Point(metric="share of padding and spare lanes", series="paper", x=name, ours=shares))
    ratios = [speedups["preset", name, "paper-16lane"] / speedups["preset", name, "paper"] for name in ("mean", RANDOM)]
    spare = {
        preset: mean([_padding(answers["preset", preset, name]) for name in settings.averaged]) or 0.0
        for preset in ("paper-16lane", "paper")
    }
    text = notes("fig14", wide=spare["paper-16lane"], narrow=spare["paper"], ratios=ratios, random=RANDOM, drain=DRAIN)
    if (costs := settings.synthesis.get("paper-16lane")) is not None:
        areas = {
            "compute logic": costs["ratio"]["area"],
            "whole chip": chip_area_ratio(costs, TILES // 4),
        }  # as many multipliers
        for (series, ours), paper in zip(areas.items(), (1.10, 1.035), strict=True):
            points.append(Point(metric="area ratio", series=series, x="paper-16lane", paper=paper, ours=ours))
    return points, text


def _padding(answer: Mapping[str, Any]) -> float:
    """Return the share of a step's dense cycles spent on padding and spare lanes."""
    operations = answer["operations"]
    dense = sum(result["dense_compute"] for result in operations)
    return float(sum(result["padding_share"] * result["dense_compute"] for result in operations) / dense)


FIG12 = Experiment.of("fig12", lambda settings: _plan(settings, _depths()), _depth_points)
FIG13 = Experiment.of("fig13", lambda settings: _plan(settings, _shapes()), _shape_points)
FIG14 = Experiment.of("fig14", lambda settings: _plan(settings, _lanes()), _lane_points)
