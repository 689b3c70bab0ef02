"""Cycle simulator: counts the cycles that a tile takes for its streams, equal to the golden model's count but fast.

`count` is the entry point. `Scheduler` schedules many packed streams at a time.
"""

from .count import Counts, count, count_words, output_stalls, pack
from .dropping import drop_empty_steps, require_row_side, schedule_without_empty_steps
from .scheduler import Scheduled, Scheduler
from .synthetic import CLUSTERS, random_counts, random_words

__all__ = [
    "CLUSTERS",
    "Counts",
    "Scheduled",
    "Scheduler",
    "count",
    "count_words",
    "drop_empty_steps",
    "output_stalls",
    "pack",
    "random_counts",
    "random_words",
    "require_row_side",
    "schedule_without_empty_steps",
]
