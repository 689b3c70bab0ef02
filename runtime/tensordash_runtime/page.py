"""The page of a run: speedup and zeros over steps, and what each layer takes."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from tensordash_sim.evaluate.figure import Figure, Point
from tensordash_sim.report import write_report

from .device import Device
from .records import Contracted, Missed, Totals

__all__ = ["Told", "write_page"]


class Told(Protocol):
    """What a page needs of a run."""

    device: Device
    contractions: list[Contracted]
    missed: list[Missed]
    steps: int

    def totals(self, chosen: Iterable[Contracted] | None = None) -> Totals:
        """Sums, of all contractions or of some."""

    def by_layer(self) -> dict[tuple[str, str], Totals]:
        """Sums of each layer and operation."""

    def by_step(self) -> dict[int, Totals]:
        """Sums of each step."""


def write_page(run: Told, path: Path, curves: Mapping[str, Mapping[str, Iterable[float]]]) -> None:
    """Write it, as `Run.page` says."""
    results = [_over_steps(run, curves), _layers(run)]
    if run.missed:
        results.append(_missed(run))
    write_report(results, path, title="TensorDash: a training run", overview=False)


def _over_steps(run: Told, curves: Mapping[str, Mapping[str, Iterable[float]]]) -> Figure:
    steps = run.by_step()
    by_operation: dict[str, list[Point]] = {}
    for name in dict.fromkeys(each.operation for each in run.contractions):
        for step in steps:
            chosen = [each for each in run.contractions if each.step == step and each.operation == name]
            if chosen:
                found = run.totals(chosen)
                points = by_operation.setdefault("speedup", [])
                points.append(Point(metric="speedup", series=name, x=step, ours=found.speedup))
                points = by_operation.setdefault("zeros of the row side", [])
                points.append(Point(metric="zeros of the row side", series=name, x=step, ours=found.zeros))
    drawn = [
        Point(metric=metric, series=name, x=step, ours=value)
        for metric, lines in curves.items()
        for name, values in lines.items()
        for step, value in enumerate(values)
    ]
    all_steps = [Point(metric="speedup", series="all", x=step, ours=each.speedup) for step, each in steps.items()]
    device = run.device
    return Figure(
        name="steps",
        title="Over the steps of training",
        source=f"{device.backend}, {run.steps} steps",
        kind="line",
        x_label="step",
        y_label="",
        points=[*drawn, *all_steps, *(point for points in by_operation.values() for point in points)],
        notes=[
            "`speedup` is the core's over the dense core's; cycles are "
            + ("measured on the Verilog, those of the dense core expected." if _measured(run) else "expected.")
        ],
        conditions={"backend": device.backend, "configuration": device.config.digest, **run.totals().to_json()},
    )


def _layers(run: Told) -> Figure:
    points = [
        Point(
            metric=operation,
            series=layer,
            x="",
            ours=each.speedup,
            more={"MACs": each.macs, "zeros": each.zeros, "cycles": each.cycles, "dense core": each.dense_cycles},
        )
        for (layer, operation), each in run.by_layer().items()
    ]
    return Figure(
        name="layers", title="Speedup by layer", source="all steps", kind="table", x_label="", y_label="", points=points
    )


def _missed(run: Told) -> Figure:
    points = [
        Point(metric=each.operation, series=each.layer, x="", ours=each.macs, more={"reason": each.reason})
        for each in run.missed
    ]
    return Figure(
        name="elsewhere",
        title="What did not run on the device, with its MACs",
        source="all steps",
        kind="table",
        x_label="",
        y_label="",
        points=points,
    )


def _measured(run: Told) -> bool:
    return run.device.backend == "verilator"
