"""Small simulations, runs of small tiles, and a page with both."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.cycles import count
from tensordash_sim.report import ScheduleRun, figure_3_run, layer_runs, read_figure, record_run, write_report
from tensordash_sim.trace import Trace, example_trace

PAPER = {0.2: 1.23, 0.9: 3.7, 0.99: 3.99}


def random_zeros() -> dict[str, Any]:
    """Return a small version of Fig. 15."""
    rng = np.random.default_rng(0)
    points = []
    for rows in (1, 4):
        for zeros in (0.2, 0.5, 0.9, 0.99):
            counts = count([rng.random((rows, 2000, 4)) >= zeros], TileConfig(rows=rows))
            paper = PAPER.get(zeros) if rows == 4 else None
            points.append(
                {"metric": "speedup", "series": f"{rows} rows", "x": zeros, "paper": paper, "ours": counts.speedup}
            )
    return {
        "name": "fig15",
        "title": "Random zeros",
        "source": "paper, Fig. 15",
        "kind": "line",
        "x_label": "share of zeros",
        "y_label": "speedup",
        "points": points,
        "notes": ["The paper's numbers are those of its text."],
        "conditions": {
            "seed": 0,
            "steps": 2000,
            "tile": {"lanes": 4, "depth": 4},
            "data": {"bert": {"digest": "0" * 64}},
        },
    }


def depths() -> dict[str, Any]:
    """Return two metrics over categories as bars, with missing numbers and another column."""
    rng = np.random.default_rng(1)
    points = []
    for depth, paper in (("2-deep", 1.5), ("4-deep", 1.95)):
        small = TileConfig(depth=2, connectivity=((0, 0), (1, 0), (1, 1), (1, -1)))
        config = small if depth == "2-deep" else TileConfig()
        counts = count([rng.random((4, 500, 4)) >= 0.6], config)
        points += [
            {"metric": "speedup", "series": "mean", "x": depth, "paper": paper, "ours": counts.speedup, "zeros": 0.6},
            {"metric": "waits", "series": "mean", "x": depth, "paper": None, "ours": sum(counts.row_wait)},
        ]
    return random_zeros() | {"name": "fig12", "title": "Staging depth", "kind": "bar", "points": points, "notes": []}


def areas() -> dict[str, Any]:
    """Return a table with characters that HTML and JSON must escape."""
    point = {"metric": "area & power", "series": "</script><b>", "x": "<i>unit</i>", "paper": 1.0, "ours": 0.5}
    return random_zeros() | {"name": "table4", "title": 'A "table" <1>', "kind": "table", "points": [point]}


def streams(config: TileConfig, lengths: tuple[int, ...], zeros: float, seed: int) -> list[tuple[Any, Any]]:
    """Draw bit patterns of fp16 numbers from 1 to 2. Most of B's and some of A's are zero."""
    rng = np.random.default_rng(seed)

    def side(ports: int, steps: int, share: float) -> Any:
        shape = (ports, steps, config.lanes)
        return np.where(rng.random(shape) < share, 0, rng.integers(0x3C00, 0x4000, shape)).astype(np.uint16)

    return [(side(config.columns, steps, 0.3), side(config.rows, steps, zeros)) for steps in lengths]


TILES = {
    "rows": TileConfig(rows=3, columns=2),
    "both": TileConfig(rows=2, columns=3, sparsity="both"),
    "none": TileConfig(rows=2, columns=2, sparsity="none"),
    "C input": TileConfig(rows=2, columns=2, initial=True),
    "bf16": TileConfig(rows=4, columns=1, accumulator="volta", format="bf16"),
    "wide": TileConfig(rows=1, columns=1, lanes=16, depth=3, connectivity=((0, 0), (1, 0), (2, 0), (1, -1), (2, 3))),
}


@pytest.fixture(scope="session")
def runs() -> dict[str, ScheduleRun]:
    """Return runs of every kind of tile, and a run of recorded streams."""
    recorded = {name: record_run(streams(tile, (9, 1, 14), 0.6, 5), tile, name) for name, tile in TILES.items()}
    records = [one for one in Trace.open(example_trace()).records if (one.layer, one.operation) == ("CNN.conv2", "AxG")]
    (recorded["real"],) = layer_runs(records, TileConfig(), passes=3, seed=0)
    return recorded | {"figure 3": figure_3_run()}


@pytest.fixture(scope="session")
def page(runs: dict[str, ScheduleRun], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report([read_figure(each) for each in (random_zeros(), depths(), areas())], path, runs=list(runs.values()))
    return path


@pytest.fixture(scope="session")
def schedules_page(runs: dict[str, ScheduleRun], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with only the viewer, which opens immediately."""
    path = tmp_path_factory.mktemp("schedules") / "schedules.html"
    write_report([], path, runs=list(runs.values()))
    return path
