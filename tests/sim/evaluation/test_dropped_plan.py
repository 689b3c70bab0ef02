"""Compare the plan of a small step with cycles that are counted by hand."""

from pathlib import Path

import pytest
import torch
from torch import nn

from tensordash import TileConfig
from tensordash_sim.evaluation import Figure
from tensordash_sim.evaluation.verdict import verdict
from tensordash_sim.performance.chip import ChipConfig, Memory
from tensordash_sim.trace import Trace, record

SAMPLES, FEATURES = 64, 128
CHIP = ChipConfig(tiles=1, memory=Memory(access_bytes=1 << 20, transposers=1 << 20))


def planned_cycles(figure: Figure, series: str) -> dict[float | str, int]:
    return {point.x: point.more["cycles"] for point in figure.points if point.series == series}


@pytest.mark.parametrize(("features", "saved"), [(1, 64 * (8 - 1) + 127 * (4 - 1)), (FEATURES, 0)])
def test_a_plan_saves_the_cycles_of_dropped_steps(tmp_path: Path, features: int, saved: int) -> None:
    """A tile of one row and four lanes multiplies by one filter. Features after the first ones are zero.

    In AxW, a pass of each sample has 32 steps: eight cycles, or one if all steps but the first are dropped. In AxG, a
    pass of each feature has 16 steps. All are empty if the feature is: four cycles, or one if all steps are dropped.
    """
    x = torch.zeros(SAMPLES, FEATURES)
    x[:, :features] = 1
    model = nn.Linear(FEATURES, 1, bias=False)
    with record(tmp_path / "run.trace", model=model, optimizers=()):
        model(x).sum().backward()
    figures = verdict(
        Trace.open(tmp_path / "run.trace"), TileConfig(rows=1, columns=1), CHIP, plan=True, drop_steps=True
    )
    (plan,) = (figure for figure in figures if figure.name == "plan")
    for gbps in (102.4, 256):
        without = planned_cycles(plan, f"{gbps:g} GB/s")
        dropped = planned_cycles(plan, f"{gbps:g} GB/s, with dropped steps")
        assert set(dropped) == set(without) == {"no plan", "order"}
        assert without["no plan"] - dropped["no plan"] == saved
        assert (without["order"] > dropped["order"]) == bool(saved)
