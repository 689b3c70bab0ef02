"""Fig. 15: a tile on random zeros in endless streams, and in SqueezeNet's third convolution."""

from typing import Any

from tensordash import TileConfig, load_preset

from ..lowering import Convolution, Operation
from ..performance.chip import totals
from ..report.figure import Point
from .experiment import Answers, Experiment, Plan, mean
from .job import SimulationJob
from .measure import layer_with_random_zeros
from .power import energy_ratios
from .settings import Settings
from .texts import notes

__all__ = ["FIG15"]

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999)
PAPER = {0.2: 1.23, 0.9: 3.7, 0.99: 3.99}
PAPER_CORE = {0.9999: 3.67}
"""Saturated energy efficiency of the paper's core, by share of zeros."""
PAPER_CHIP = {0.9999: 2.1}
"""Saturated energy efficiency of the paper's chip, by share of zeros."""
LENGTHS = (4, 16, 36, 144, 757)
"""Steps of the streams in the three operations of `LAYERS`."""
EXPLAINED = (0.2, 0.9, 0.99)
BATCH = {"full": 64, "small": 4, "tiny": 1}


def _convolution(kernel: int, batch: int) -> Convolution:
    return Convolution(
        batch=batch,
        in_channels=16,
        out_channels=64,
        size=(55, 55),
        kernel=(kernel, kernel),
        stride=(1, 1),
        padding=(kernel // 2, kernel // 2),
        dilation=(1, 1),
        groups=1,
    )


LAYERS = {"expand1x1": 1, "expand3x3": 3}
"""Kernel sizes of SqueezeNet's third convolution, and of the one parallel to it in the first Fire module."""


def _layer_job(kernel: int, tile: TileConfig, zeros: float, settings: Settings, seed: int) -> SimulationJob:
    parameters: dict[str, Any] = {
        "geometry": _convolution(kernel, BATCH[settings.scale]).to_json(),
        "operations": [str(operation) for operation in Operation],
        "tile": tile.to_mapping(),
        "tiles": 256,
        # In the paper, the random tensors are those whose zeros are skipped. Weights have no zeros.
        "zeros": {"A": zeros, "W": 0.0, "G": zeros},
        "seed": seed,
        "row_order": "natural",
    }
    return SimulationJob(layer_with_random_zeros, parameters)


def _plan(settings: Settings) -> Plan:
    tile = load_preset("paper")
    plan: Plan = {("endless", zeros): settings.random_job(tile, zeros) for zeros in LEVELS}
    for zeros in EXPLAINED:
        plan |= {("length", length, zeros): settings.random_job(tile, zeros, length=length) for length in LENGTHS}
    whole = load_preset("paper", ["tile.out_rows=4"])
    for layer, kernel in LAYERS.items():
        for zeros in LEVELS:
            for seed in settings.samples:
                plan[layer, zeros, seed] = _layer_job(kernel, whole, zeros, settings, seed)
    for zeros in LEVELS:
        plan["drained", zeros] = _layer_job(LAYERS["expand1x1"], tile, zeros, settings, settings.seed)
    return plan


def _points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    points, losses = [], dict[float, dict[int, float]]()
    for zeros in LEVELS:
        speedups = answers["endless", zeros]["speedups"]
        points.append(_point("endless streams", zeros, speedups, PAPER.get(zeros)))
    for zeros in LEVELS:
        points.append(Point(metric="speedup", series="ideal, at most 4", x=zeros, ours=min(1 / (1 - zeros), 4.0)))
    for layer in LAYERS:
        for operation in (*map(str, Operation), "all"):
            for zeros in LEVELS:
                samples = [answers[layer, zeros, seed] for seed in settings.samples]
                added = [totals(_of(sample, operation)) for sample in samples]
                speedups = [each["compute_speedup"] for each in added]
                points.append(_point(f"{layer} {operation}", zeros, speedups))
    for zeros in LEVELS:
        speedups = [totals(answers["drained", zeros].values())["compute_speedup"]]
        points.append(_point("expand1x1 all, one row of results a beat", zeros, speedups))
    for metric, key, paper in (
        ("core energy efficiency", "core", PAPER_CORE),
        ("chip energy efficiency", "chip", PAPER_CHIP),
    ):
        for zeros in LEVELS:
            samples = [energy_ratios(answers["expand1x1", zeros, seed].values(), None) for seed in settings.samples]
            ours = mean([sample[key] for sample in samples])
            points.append(Point(metric=metric, series="expand1x1", x=zeros, paper=paper.get(zeros), ours=ours))
    for zeros in EXPLAINED:
        endless = mean(answers["endless", zeros]["speedups"]) or 0.0
        losses[zeros] = {}
        for length in LENGTHS:
            speedups = answers["length", length, zeros]["speedups"]
            points.append(_point(f"{zeros:.0%} zeros", length, speedups, metric="speedup by steps of a stream"))
            losses[zeros][length] = 1 - (mean(speedups) or 0.0) / endless
    spread = max(point.more["spread"] for point in points if point.series == "endless streams")
    return points, notes("fig15", losses=losses, samples=settings.samples, spread=spread)


def _of(sample: Any, operation: str) -> list[Any]:
    return list(sample.values()) if operation == "all" else [sample[operation]]


def _point(series: str, x: float, speedups: list[float], paper: float | None = None, metric: str = "speedup") -> Point:
    ours = sum(speedups) / len(speedups)
    spread = max(abs(speedup / ours - 1) for speedup in speedups)
    return Point(metric=metric, series=series, x=x, paper=paper, ours=ours, more={"spread": spread})


FIG15 = Experiment.of("fig15", _plan, _points)
