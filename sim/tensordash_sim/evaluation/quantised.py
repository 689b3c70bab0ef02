"""Zeros of recorded values in narrow formats, and the speedup of tiles that skip them."""

from dataclasses import replace
from typing import Any

from tensordash import load_preset

from ..lowering import MatrixProduct
from ..performance.chip import totals
from ..report.figure import Point
from .block_formats import BLOCK_FORMATS
from .experiment import Answers, Experiment, Plan
from .job import SimulationJob
from .measure_formats import quantised_step
from .settings import Network, Settings
from .texts import notes

__all__ = ["QUANTISED"]

RECORDED = "as recorded"
FORMATS = (RECORDED, *BLOCK_FORMATS)
TRANSFORMED = (RECORDED, "mxfp6_e2m3", "mxfp4", "nvfp4")
"""Formats that are also evaluated after a Hadamard transform."""
SIDES = {"rows": "scheduled side", "both": "both sides"}


def _is_transformable(network: Network) -> bool:
    """Return whether all layers are matrix products.

    In AxG of a convolution, each tap shifts A, so the blocks of A and G would not match.
    """
    return all(isinstance(record.geometry, MatrixProduct) for record in network.trace.steps[-1].records)


def _columns(settings: Settings) -> dict[str, tuple[str, bool]]:
    """Return, by name of the column, the network and whether it is transformed."""
    found = {}
    for name, network in settings.with_values.items():
        found[name] = (name, False)
        if _is_transformable(network):
            found[f"{name}, Hadamard"] = (name, True)
    return found


def _plan(settings: Settings) -> Plan:
    tile = load_preset("paper")
    mapping = replace(tile, out_rows=tile.rows).to_mapping()
    plan: Plan = {}
    for column, (name, transformed) in _columns(settings).items():
        network = settings.with_values[name]
        for fmt in TRANSFORMED if transformed else FORMATS:
            parameters: dict[str, Any] = {"digest": network.trace.digest, "step": network.steps[-1], "tile": mapping}
            parameters |= {"fmt": None if fmt == RECORDED else fmt, "seed": settings.seed if transformed else None}
            plan[column, fmt] = SimulationJob(quantised_step, parameters, {"path": str(network.trace.path.resolve())})
    return plan


def _share(operations: list[dict[str, Any]], name: str) -> float | None:
    """Return the share of zeros in an operand, over all operations that read it."""
    counts = [each["operands"][name] for each in operations if name in each["operands"]]
    values = sum(count["values"] for count in counts)
    return sum(count["zeros"] for count in counts) / values if values else None


def _points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    found: dict[str, list[Point]] = {}
    for (column, fmt), answer in answers.items():
        operations = answer["operations"]
        shares = {name: _share(operations, name) for name in "AWG"}
        for name, share in shares.items():
            metric = f"share of zeros in {name}"
            found.setdefault(metric, []).append(Point(metric=metric, series=fmt, x=column, ours=share))
        for key, side in SIDES.items():
            all_of = totals(each[key] for each in operations)
            more = {}
            for operation in dict.fromkeys(each["operation"] for each in operations):
                of_one = totals(each[key] for each in operations if each["operation"] == operation)
                more[operation] = of_one["compute_speedup"]
            for what, value in (("bound", "ideal_speedup"), ("speedup", "compute_speedup")):
                metric = f"{what}, {side}"
                point = Point(
                    metric=metric, series=fmt, x=column, ours=all_of[value], more=more if what == "speedup" else {}
                )
                found.setdefault(metric, []).append(point)
    return [point for points in found.values() for point in points], notes(
        "quantised", values_note=settings.values_note
    )


QUANTISED = Experiment.of("quantised", _plan, _points)
