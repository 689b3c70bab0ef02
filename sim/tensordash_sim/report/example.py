"""Example schedules that need no input: passes of the packaged trace, and the paper's Fig. 3."""

import numpy as np

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS

from ..golden import encode
from ..trace import Trace, example_trace
from .schedules import ScheduleRun, layer_runs, record_run

__all__ = ["LAYER", "example_runs", "figure_3_run"]

LAYER = "CNN.conv2"
"""The layer of the packaged trace that is shown."""

OPTIONS = ((0, 0), (1, 0), (1, 1), (1, -1))
"""Options of Fig. 3c in a 2-deep window: dense, lookahead, and lookaside to both sides."""

B = ((0, 1, 0, 0), (0, 2, 3, 4), (5, 0, 0, 6), (7, 0, 0, 0))
"""Seven effectual pairs of 16, (T, lanes)."""


def example_runs() -> list[ScheduleRun]:
    """Run passes of each operation of a convolution in the packaged trace, and the example of Fig. 3.

    The tile is the paper's.
    """
    records = [record for record in Trace.open(example_trace()).records if record.layer == LAYER]
    return [*layer_runs(records, TileConfig(), passes=8, seed=0), figure_3_run()]


def figure_3_run() -> ScheduleRun:
    """Run the example of Fig. 3: two cycles instead of the four of the dense schedule.

    Source
    ------
    Fig. 3 of the paper. The paper does not print the values and their positions. We chose them (docs/decisions.md), as
    in the example of `tensordash_sim.golden.schedule`.

    Examples
    --------
    >>> run = figure_3_run()
    >>> run.counters.cycles, run.counters.steps
    (2, 4)
    >>> [made.schedules[0][0].options for made in run.schedules]
    [(2, 0, 1, 1), (0, 3, None, 0)]
    """
    config = TileConfig(rows=1, columns=1, depth=2, connectivity=OPTIONS)
    b = encode(np.array([B], np.float64), FORMATS["fp16"])
    a = encode(np.arange(10.0, 26.0).reshape(1, 4, 4), FORMATS["fp16"])
    about = "Seven effectual pairs of 16 on one PE with a 2-deep window and four options; positions of our choice."
    return record_run([(a, b)], config, "The paper's Fig. 3", about)
