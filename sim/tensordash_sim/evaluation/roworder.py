"""Speedup of grouping vectors of similar density on a tile. Not in the paper."""

from tensordash import load_preset

from ..report.figure import Point
from .experiment import Answers, Experiment, Plan, by_operation, mean, mean_of
from .settings import Settings
from .texts import notes

__all__ = ["ROWORDER"]

ORDERS = ("natural", "density")
ZEROS = 0.5
LENGTH = 100
RANDOM = {"rows": f"random, {ZEROS:.0%} zeros, density differs by row", "none": f"random, {ZEROS:.0%} zeros everywhere"}


def _plan(settings: Settings) -> Plan:
    # The results of all rows leave in one beat, so that the tiles differ only in the waits between rows.
    tile, single = load_preset("paper", ["tile.out_rows=4"]), load_preset("paper", ["tile.rows=1"])
    plan: Plan = {}
    for cluster in RANDOM:
        for order in ORDERS:
            plan[cluster, order] = settings.random_job(tile, ZEROS, length=LENGTH, cluster=cluster, row_order=order)
        plan[cluster, "one row"] = settings.random_job(single, ZEROS, length=LENGTH, cluster=cluster)
    for name in settings.networks:
        for order in ORDERS:
            plan[name, order] = settings.network_job(name, tile, tiles=1, row_order=order)
        plan[name, "one row"] = settings.network_job(name, single, tiles=1)
    return plan


def _points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    points = []
    speedups: dict[tuple[str, str], float] = {}
    for order in (*ORDERS, "one row"):
        networks = {name: by_operation(answers[name, order])["all"]["compute_speedup"] for name in settings.networks}
        randoms = {text: mean(answers[cluster, order]["speedups"]) or 0.0 for cluster, text in RANDOM.items()}
        for place, speedup in {**randoms, **networks, "mean": mean_of(settings, networks) or 0.0}.items():
            speedups[place, order] = speedup
            points.append(Point(metric="speedup", series=order, x=place, ours=speedup))
    gains = {name: speedups[name, "density"] / speedups[name, "natural"] - 1 for name in (*settings.networks, "mean")}
    return points, notes("roworder", gains=gains)


ROWORDER = Experiment.of("roworder", _plan, _points)
