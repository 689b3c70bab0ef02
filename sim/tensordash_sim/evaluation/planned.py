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


def planned(
    step: Step,
    results: Mapping[str, Sequence[dict[str, Any]]],
    config: TileConfig,
    chip: ChipConfig,
    where: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Figure:
    """Return the figure of a step's speedup by the measures of its plan, element-wise work and optimizer included.

    TensorDash and the baseline have the same measures. Each has its own plan, which `planner.replay` checks.

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
    graphs = {
        (which, order): step_graph(
            step, [each[key] for each in (ordered if order else plain)], [each[key] for each in plain]
        )
        for which, key in (("dense", "dense_on_chip"), ("sparse", "on_chip"))
        for order in (False, True)
    }
    own = chip.dram_bytes_per_cycle * chip.clock_mhz / 1e3
    names = list(MEASURES)
    rows = [(own, count) for count in range(len(names) + 2)]
    rows += [(gbps, count) for gbps in BANDWIDTHS if gbps != own for count in (0, len(names) + 1)]
    points, best = [], dict[float, float]()
    for done, (gbps, count) in enumerate(sorted(rows)):
        progress(done, len(rows))
        budget = Budget.of(chip, gbps=gbps, columns=config.columns)
        plans: dict[str, Plan] = {}
        for which in ("dense", "sparse"):
            plans[which] = plan_step(graphs[which, count > len(names)], budget, names[:count])
            replay(plans[which])
        speedup = plans["dense"].cycles / plans["sparse"].cycles
        best[gbps] = speedup
        added = NONE if not count else ORDER if count > len(names) else names[count - 1]
        more = {
            "cycles": plans["sparse"].cycles,
            "dram_bytes": plans["sparse"].dram,
            "stages": len(plans["sparse"].stages),
        }
        points.append(Point(metric="speedup", series=f"{gbps:g} GB/s", x=added, ours=speedup, more=more))
    progress(len(rows), len(rows))
    return verdict_figure("plan", where, points, best=best, graph=graphs["sparse", False])
