"""Design-space search: finds the fastest connectivity and shape of a tile on recorded training, and its cost."""

from .campaign import Campaign, Point
from .pareto import pareto_front, plot_front, ties
from .search import Found, Structure, climb, search, start_options
from .workload import Workload, random_workload, sample_workload

__all__ = [
    "Campaign",
    "Found",
    "Point",
    "Structure",
    "Workload",
    "climb",
    "pareto_front",
    "plot_front",
    "random_workload",
    "sample_workload",
    "search",
    "start_options",
    "ties",
]
