"""The HTML report: figures next to the paper's, and schedules to step through, in one file that needs nothing else."""

from .example import LAYER, example_runs, figure_3_run
from .page import write_report
from .results import ReportError, load_results, read_figure
from .schedules import ScheduleRun, layer_runs, record_run

__all__ = [
    "LAYER",
    "ReportError",
    "ScheduleRun",
    "example_runs",
    "figure_3_run",
    "layer_runs",
    "load_results",
    "read_figure",
    "record_run",
    "write_report",
]
