"""What is left of the tiles' speedup in a system: shared reads, memory, and what can be had without hardware."""

from typing import Any

from tensordash import load_preset

from ..chip import BANDWIDTHS, ChipConfig, at_bandwidth, sufficient_bandwidth, totals
from .experiment import Answers, Experiment, Plan, mean_of
from .figure import Point
from .settings import Settings

__all__ = ["SYSTEM"]

MEASURES: dict[str, dict[str, Any]] = {
    "none": {},
    "joined samples": {"join_samples": "always"},
    "joined where faster": {"join_samples": "faster"},
    "faster side": {"side": "faster"},
    "density order": {"row_order": "density"},
    "all": {"join_samples": "faster", "side": "faster", "row_order": "density"},
}
"""By name, what differs in the machine."""
ALONE, SHARED = "tiles alone", "shared reads"
CLOCK_MHZ = ChipConfig().clock_mhz


def _plan(settings: Settings) -> Plan:
    tile = load_preset("recommended")
    return {
        (name, measure): settings.network_job(name, tile, **how)
        for name in settings.networks
        for measure, how in MEASURES.items()
    }


def _speedups(operations: list[dict[str, Any]]) -> dict[str, float | None]:
    """Where, and how much is left there, over the baseline with the same measures."""
    added = totals(operations)
    found = {ALONE: added["compute_speedup"], SHARED: added["shared_speedup"]}
    for gbps in BANDWIDTHS:
        found[f"{gbps:g} GB/s"] = at_bandwidth(operations, gbps, CLOCK_MHZ)["speedup"]
    return found


def _points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    points: list[Point] = []
    gbps_of = {f"{gbps:g} GB/s": gbps for gbps in BANDWIDTHS}
    for measure in MEASURES:
        found = {name: _speedups(answers[name, measure]["operations"]) for name in settings.networks}
        for where in (ALONE, SHARED, *gbps_of):
            values = {name: speedups[where] or 0.0 for name, speedups in found.items()}
            for name, ours in (values | {"mean": mean_of(settings, values)}).items():
                more = {"workload": name, "gbps": gbps_of.get(where), "measures": measure}
                metric = f"speedup, {where}"
                points.append(Point(metric=metric, series=measure, x=name, ours=ours, more=more))
    points.sort(key=lambda point: [ALONE, SHARED, *gbps_of].index(point.metric.partition(", ")[2]))
    return points, _notes(settings, answers)


def _notes(settings: Settings, answers: Answers) -> list[str]:
    plain = {name: answers[name, "none"]["operations"] for name in settings.networks}
    sums = {name: totals(operations) for name, operations in plain.items()}
    lost = ", ".join(
        f"{name} {1 - each['shared_speedup'] / each['compute_speedup']:.1%}" for name, each in sums.items()
    )
    padding = ", ".join(
        f"{name} {each['unpadded_speedup']:.2f}"
        for name, each in sums.items()
        if each["dense_unpadded"] != each["dense_compute"]
    )
    enough = ", ".join(f"{name} {sufficient_bandwidth(each, CLOCK_MHZ):g}" for name, each in plain.items())
    joined = ", ".join(
        f"{name} {cycles['shared'] / sums[name]['shared'] - 1:+.1%} ({cycles['dense_shared'] / each - 1:+.1%})"
        for name in settings.networks
        for cycles in [totals(answers[name, "joined samples"]["operations"])]
        for each in [sums[name]["dense_shared"]]
        if cycles["shared"] != sums[name]["shared"]
    )
    return [
        "`recommended`, on the chip of Table III; each speedup is over the baseline with the same measures.",
        f"Waiting for tiles that share reads loses {lost}.",
        f"Cycles with joined samples, and the baseline's: {joined or 'the same'}.",
        f"Over a baseline that skips steps of padding, tiles alone: {padding or 'the same'}.",
        f"GB/s from which DRAM adds no more than 1%: {enough}.",
    ]


SYSTEM = Experiment(
    name="system",
    title="What a system leaves of the speedup",
    source="not in the paper; docs/simulator.md",
    kind="bar",
    x_label="network",
    y_label="speedup",
    plan=_plan,
    points=_points,
    uses_networks=True,
)
