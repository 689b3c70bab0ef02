"""The HTML report: one self-contained file with figures beside the paper's, and a viewer of schedules."""

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
