"""Design-space search: finds the fastest connectivity and shape of a tile, or shape of a core, on recorded training."""

from .campaign import Campaign, Point
from .core_shapes import CoreShape, DrawnProduct, draw_products
from .pareto import pareto_front, plot_front, ties
from .search import Found, Structure, climb, search, start_options
from .uniform_zeros import write_uniform_zeros
from .workload import Workload, random_workload, sample_workload

__all__ = [
    "Campaign",
    "CoreShape",
    "DrawnProduct",
    "Found",
    "Point",
    "Structure",
    "Workload",
    "climb",
    "draw_products",
    "pareto_front",
    "plot_front",
    "random_workload",
    "sample_workload",
    "search",
    "start_options",
    "ties",
    "write_uniform_zeros",
]
