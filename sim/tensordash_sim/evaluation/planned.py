"""Figure of the speedup of a recorded step with a plan."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensordash import TileConfig

from ..performance.chip import BANDWIDTHS, ChipConfig
from ..performance.planner import MEASURES, Budget, Plan, plan_step, replay, step_graph
from ..report.figure import Figure, Point
from ..trace import Step
from .texts import verdict_figure

__all__ = ["planned"]

NONE = "no plan"
ORDER = "order"
DENSE, TENSORDASH, DROPPED = "dense_on_chip", "on_chip", "dropped_on_chip"
"""Cycles without DRAM, by their names in `OperationResult`."""


def planned(
    step: Step,
    results: Mapping[str, Sequence[dict[str, Any]]],
    config: TileConfig,
    chip: ChipConfig,
    where: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Figure:
    """Return the figure of a step's speedup by the measures of its plan, element-wise work and optimizer included.

    TensorDash and the baseline have the same measures. Each has its own plan, which `planner.replay` checks. Tiles that
    drop empty steps have a plan, too, if `results` have their cycles.

    Parameters
    ----------
    step : Step
        The step, with its flow.
    results : mapping
        For "as recorded" and "all of them" of `verdict.MEASURES`, the `OperationResult.to_json` of each record.
    config, chip
        The tile, and the chip around the tiles.
    where : str
        Name of the step in the figure.
    progress : callable
        Called with the number of finished plans and of all plans.

    Raises
    ------
    ValueError
        If the step's flow was not recorded completely.
    """
    plain, ordered = results["as recorded"], results["all of them"]
    series = {TENSORDASH: "{:g} GB/s"}
    if all(DROPPED in each for each in (*plain, *ordered)):
        series[DROPPED] = "{:g} GB/s, with dropped steps"
    graphs = {
        (tile, order): step_graph(
            step, [each[tile] for each in (ordered if order else plain)], [each[tile] for each in plain]
        )
        for tile in (DENSE, *series)
        for order in (False, True)
    }
    own = chip.dram_bytes_per_cycle * chip.clock_mhz / 1e3
    names = list(MEASURES)
    rows = [(own, count) for count in range(len(names) + 2)]
    rows += [(gbps, count) for gbps in BANDWIDTHS if gbps != own for count in (0, len(names) + 1)]
    points: list[Point] = []
    best: dict[str, dict[float, float]] = {tile: {} for tile in series}
    for done, (gbps, count) in enumerate(sorted(rows)):
        progress(done, len(rows))
        budget = Budget.of(chip, gbps=gbps, columns=config.columns)
        plans: dict[str, Plan] = {}
        for tile in (DENSE, *series):
            plans[tile] = plan_step(graphs[tile, count > len(names)], budget, names[:count])
            replay(plans[tile])
        added = NONE if not count else ORDER if count > len(names) else names[count - 1]
        for tile, name in series.items():
            plan = plans[tile]
            speedup = best[tile][gbps] = plans[DENSE].cycles / plan.cycles
            more = {"cycles": plan.cycles, "dram_bytes": plan.dram, "stages": len(plan.stages)}
            points.append(Point(metric="speedup", series=name.format(gbps), x=added, ours=speedup, more=more))
    progress(len(rows), len(rows))
    graph = graphs[TENSORDASH, False]
    return verdict_figure("plan", where, points, best=best[TENSORDASH], dropped=best.get(DROPPED, {}), graph=graph)
