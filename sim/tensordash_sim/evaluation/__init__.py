"""The evaluation: the paper's figures and tables next to this project's results.

    settings = Settings(scale="small", traces=Path("build/traces"))
    for figure in evaluate(["fig15"], settings, Path("build/evaluation")):
        write_figure(figure, Path("build/evaluation"))

docs/evaluation-tables.md has the results. This package reads results of synthesis, but does not run synthesis.
"""

from ..report.figure import Figure, Point
from .evaluate import EXPERIMENTS, NAMES, evaluate
from .experiment import Experiment
from .page import page, section
from .settings import PAPER_MODELS, Settings
from .write import write_figure

__all__ = [
    "EXPERIMENTS",
    "NAMES",
    "PAPER_MODELS",
    "Experiment",
    "Figure",
    "Point",
    "Settings",
    "evaluate",
    "page",
    "section",
    "write_figure",
]
