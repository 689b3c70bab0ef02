"""The HTML page of a run: speedup and zeros over steps, and a table of layers."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

from tensordash_sim.report import write_report
from tensordash_sim.report.figure import Figure, Point

from .device import Device
from .records import Contracted, Missed, Totals
from .rounding_summary import operand_sums

__all__ = ["RunSummary", "write_page"]

Key = TypeVar("Key", bound=Hashable)

METRICS: dict[str, Callable[[Totals], float]] = {
    "speedup": lambda each: each.speedup,
    "zeros of the row side": lambda each: each.zeros,
}
"""Metrics that the page draws over the steps for each operation."""


class RunSummary(Protocol):
    """Interface of a run for its page. `run` imports this module, which therefore cannot import `Run`."""

    device: Device
    contractions: list[Contracted]
    missed: list[Missed]
    steps: int

    @property
    def summary(self) -> str:
        """Return a sentence with the share of the multiplications that ran on the device."""

    def totals(self, chosen: Iterable[Contracted] | None = None) -> Totals:
        """Add up all contractions, or the chosen ones."""

    def by_layer(self) -> dict[tuple[str, str], Totals]:
        """Add up each layer and operation."""

    def by_step(self) -> dict[int, Totals]:
        """Add up each step."""

    def warnings(self) -> list[str]:
        """Return warnings on values that rounding lost, and on infinities and NaN in operands."""

    def grouped(self, key: Callable[[Contracted], Key]) -> dict[Key, Totals]:
        """Add up the contractions with the same key."""


def write_page(run: RunSummary, path: Path, curves: Mapping[str, Mapping[str, Iterable[float]]]) -> None:
    """Write the page of a run; `Run.page` describes it."""
    results = [_over_steps(run, curves), _layers(run)]
    if run.warnings():
        results.append(_rounding(run))
    if run.missed:
        results.append(_missed(run))
    write_report(results, path, title="TensorDash: a training run", overview=False)


def _over_steps(run: RunSummary, curves: Mapping[str, Mapping[str, Iterable[float]]]) -> Figure:
    steps = run.by_step()
    sums = run.grouped(lambda each: (each.operation, each.step))
    by_operation = [
        Point(metric=metric, series=name, x=step, ours=value_of(each))
        for metric, value_of in METRICS.items()
        for (name, step), each in sums.items()
        if not (metric == "speedup" and each.uncounted)
    ]
    further = [
        Point(metric=metric, series=name, x=step, ours=value)
        for metric, lines in curves.items()
        for name, values in lines.items()
        for step, value in enumerate(values)
    ]
    all_steps = [
        Point(metric="speedup", series="all", x=step, ours=each.speedup)
        for step, each in steps.items()
        if not each.uncounted
    ]
    device = run.device
    is_measured = device.backend == "verilator"
    cycles = "measured on the Verilog, and expected for the dense core" if is_measured else "expected"
    return Figure(
        name="steps",
        title="Over the steps of training",
        source=f"{device.backend}, {run.steps} steps",
        kind="line",
        x_label="step",
        y_label="",
        points=[*further, *all_steps, *by_operation],
        notes=[
            f"{run.summary}.",
            *run.warnings(),
            f"`speedup` is the core's over the dense core's; cycles are {cycles}."
            + (" Contractions with `count=False` have none." if run.totals().uncounted else ""),
        ],
        conditions={"backend": device.backend, "configuration": device.config.digest, **run.totals().to_json()},
    )


def _layers(run: RunSummary) -> Figure:
    flushed = run.totals().flushed > 0
    points = [
        Point(
            metric=operation,
            series=layer,
            x="",
            ours=None if each.uncounted else each.speedup,
            more={"MACs": each.macs, "zeros": each.zeros} | ({} if each.uncounted else _cycles(each, flushed=flushed)),
        )
        for (layer, operation), each in run.by_layer().items()
    ]
    return Figure(
        name="layers", title="Speedup by layer", source="all steps", kind="table", x_label="", y_label="", points=points
    )


def _cycles(totals: Totals, *, flushed: bool) -> dict[str, float]:
    cycles: dict[str, float] = {"cycles": totals.cycles, "dense core": totals.dense_cycles}
    return cycles | ({"speedup with flushed zeros": totals.flushed_speedup} if flushed else {})


def _rounding(run: RunSummary) -> Figure:
    points = [
        Point(metric=f"{operation}, {operand}", series=layer, x="", ours=each.flushed, more=each._asdict())
        for (layer, operation, operand), each in operand_sums(run.contractions).items()
        if each.flushed or each.saturated or each.non_finite
    ]
    return Figure(
        name="rounding",
        title="Values that rounding flushed to zero or saturated, and infinities and NaN in operands",
        source="all steps",
        kind="table",
        x_label="",
        y_label="",
        points=points,
        notes=[
            "`zeros` are zeros of the tensors, `flushed` zeros from rounding, and `non_finite` infinities and NaN "
            "before rounding."
        ],
    )


def _missed(run: RunSummary) -> Figure:
    points = [
        Point(metric=each.operation, series=each.layer, x="", ours=each.macs, more={"reason": each.reason})
        for each in run.missed
    ]
    return Figure(
        name="elsewhere",
        title="Operations that did not run on the device, and their MACs",
        source="all steps",
        kind="table",
        x_label="",
        y_label="",
        points=points,
    )
