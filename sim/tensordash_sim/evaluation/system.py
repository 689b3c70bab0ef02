"""Speedup of tiles in a system: effects of shared reads, memory, and measures that need no hardware."""

from typing import Any

from tensordash import TileConfig, load_preset

from ..performance.chip import BANDWIDTHS, ChipConfig, at_bandwidth, sufficient_bandwidth, totals
from ..report.figure import Point
from .experiment import Answers, Experiment, Plan, mean_of
from .job import SimulationJob
from .measure_published import published_step
from .settings import Settings
from .texts import notes

__all__ = ["ROOFLINE", "SYSTEM"]

MEASURES: dict[str, dict[str, Any]] = {
    "none": {},
    "joined samples": {"join_samples": "always"},
    "joined where faster": {"join_samples": "faster"},
    "faster side": {"side": "faster"},
    "density order": {"row_order": "density"},
    "all": {"join_samples": "faster", "side": "faster", "row_order": "density"},
}
"""Parameters of `Machine` by measure."""
WORKLOADS: dict[str, dict[str, Any]] = {
    "gpt": {"zeros": 0.875, "block": 1},
    "gpt-masked": {"zeros": 0.875, "block": 4},
    "vgg16": {"zeros": 0.5, "block": 1},
    "resnet50": {"zeros": 0.5, "block": 1},
    "resnet50-ghost": {"zeros": 0.5, "block": 1, "every": False},
}
"""Parameters of training steps in published shapes.

"gpt" is a block of the 13B GPT. "gpt-masked" masks its weights in blocks, and does not compute masked outputs. The
other steps have 64 images. "resnet50-ghost" normalises the batch part by part.
"""
BATCH: dict[str, Any] = {"images": 64, "simulated": 8, "size": 224, "thin": 1}
TINY = ("gpt", "gpt-masked")
"""Workloads at the smallest scale."""
TINY_BATCH: dict[str, Any] = {"images": 4, "simulated": 2, "size": 32, "thin": 8}
ALONE = "tiles alone"
SHARED = "shared reads"
CLOCK_MHZ = ChipConfig().clock_mhz


def _plan(settings: Settings) -> Plan:
    tile = load_preset("recommended")
    networks: Plan = {
        (name, measure): settings.network_job(name, tile, **how)
        for name in settings.networks
        for measure, how in MEASURES.items()
    }
    return networks | _steps(settings)


def _steps(settings: Settings) -> Plan:
    """Jobs of the published steps."""
    tile = load_preset("recommended").to_mapping()
    more = TINY_BATCH if settings.scale == "tiny" else BATCH
    rates = list(BANDWIDTHS[:1] if settings.scale == "tiny" else BANDWIDTHS)
    return {
        ("step", workload): SimulationJob(
            published_step,
            {"workload": workload, "tile": tile, "gbps": rates, "seed": settings.seed, **what, **more},
        )
        for workload, what in WORKLOADS.items()
        if settings.scale != "tiny" or workload in TINY
    }


def _workloads(answers: Answers) -> list[str]:
    return [workload for workload in WORKLOADS if ("step", workload) in answers]


def _best(answers: Answers, workload: str) -> list[dict[str, Any]]:
    """Return the rows of a step. Since a plan may leave out a measure, no row is slower than a row with fewer."""
    best: dict[tuple[float, str], dict[str, Any]] = {}
    rows = []
    for row in answers["step", workload]["rows"]:
        chosen = {}
        for which in ("dense", "sparse"):
            known = best.get((row["gbps"], which))
            chosen[which] = known if known and known["cycles"] <= row[which]["cycles"] else row[which]
            best[row["gbps"], which] = chosen[which]
        rows.append({"gbps": row["gbps"], "measures": row["measures"], **chosen})
    return rows


def _named(measures: list[str]) -> str:
    """Return the name of a row of measures, which is the last measure's: each row adds one to the row before."""
    return f"+ {measures[-1]}" if measures else "none"


def _step_points(answers: Answers) -> list[Point]:
    points = []
    for workload in _workloads(answers):
        rows = _best(answers, workload)
        for row, next_row in zip(rows, [*rows[1:], None], strict=True):
            is_last = next_row is None or next_row["gbps"] != row["gbps"]
            speedup = row["dense"]["cycles"] / row["sparse"]["cycles"]
            more = {"workload": workload, "gbps": row["gbps"], "measures": _named(row["measures"])}
            place = f"{workload}, {row['gbps']:g} GB/s"
            points.append(Point(metric="speedup", series=more["measures"], x=place, ours=speedup, more=more))
            cycles = Point(
                metric="million cycles", series=more["measures"], x=place, ours=row["sparse"]["cycles"] / 1e6
            )
            points.append(cycles)
            if is_last:
                more = {"workload": workload, "gbps": row["gbps"], "measures": "all"}
                points.append(Point(metric="speedup", series="all", x=place, ours=speedup, more=more))
    return points


def _speedups(operations: list[dict[str, Any]]) -> dict[str, float | None]:
    """Return the speedup by place: tiles alone, with shared reads, and at each DRAM bandwidth.

    The baseline has the same measures.
    """
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
    steps = sorted(_step_points(answers), key=lambda point: point.metric, reverse=True)
    return [*points, *steps], notes("system", **_networks(settings, answers), **_traffic(answers))


def _networks(settings: Settings, answers: Answers) -> dict[str, Any]:
    """Return the values of the notes by network."""
    plain = {name: answers[name, "none"]["operations"] for name in settings.networks}
    sums = {name: totals(operations) for name, operations in plain.items()}
    joined = {name: totals(answers[name, "joined samples"]["operations"]) for name in settings.networks}
    return {
        "lost": {name: 1 - each["shared_speedup"] / each["compute_speedup"] for name, each in sums.items()},
        "padding": {
            name: each["unpadded_speedup"]
            for name, each in sums.items()
            if each["dense_unpadded"] != each["dense_compute"]
        },
        "enough": {name: sufficient_bandwidth(each, CLOCK_MHZ) for name, each in plain.items()},
        "joined": {
            name: [each[key] / sums[name][key] - 1 for key in ("shared", "dense_shared")]
            for name, each in joined.items()
            if each["shared"] != sums[name]["shared"]
        },
    }


def _traffic(answers: Answers) -> dict[str, Any]:
    """Return the values of the notes by published step."""
    rows = {workload: _best(answers, workload) for workload in _workloads(answers)}
    lowest = next(iter(rows.values()))[0]["gbps"]
    # The last row of a bandwidth has all measures.
    last = {workload: [row for row in each if row["gbps"] == lowest][-1]["sparse"] for workload, each in rows.items()}
    first = {workload: each[0] for workload, each in rows.items()}
    masked = last["gpt-masked"]
    return {
        "lowest": lowest,
        "traffic": {
            workload: (first[workload]["sparse"]["dram_bytes"], last[workload]["dram_bytes"]) for workload in rows
        },
        "on_chip": {workload: row["dense"]["on_chip"] / row["sparse"]["on_chip"] for workload, row in first.items()},
        "dram_share": masked["dram_cycles"] / masked["cycles"],
    }


def _roofline(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    """Return the points of a roofline, MACs per cycle over MACs per byte: steps without measures and with all."""
    points: list[Point] = []
    most = 0.0
    for workload in _workloads(answers):
        macs = answers["step", workload]["macs"]
        rows = _best(answers, workload)
        for gbps in dict.fromkeys(row["gbps"] for row in rows):
            sparse = [row["sparse"] for row in rows if row["gbps"] == gbps]
            for found in (sparse[0], sparse[-1]):
                intensity = macs / found["dram_bytes"]
                most = max(most, intensity)
                more = {"workload": workload, "gbps": gbps}
                series = f"{workload}, {gbps:g} GB/s"
                points.append(
                    Point(metric="roofline", series=series, x=intensity, ours=macs / found["cycles"], more=more)
                )
    rates = dict.fromkeys(row["gbps"] for row in answers["step", "gpt"]["rows"])
    for gbps in rates:
        rate = gbps * 1e3 / CLOCK_MHZ
        peak = ChipConfig().tiles * TileConfig().multipliers
        points += [
            Point(metric="roofline", series=f"dense roof, {gbps:g} GB/s", x=x, ours=min(peak, x * rate))
            for x in sorted({0.0, min(peak / rate, most), most})
        ]
    return points, notes("roofline")


ROOFLINE = Experiment.of("roofline", _steps, _roofline)
SYSTEM = Experiment.of("system", _plan, _points)
