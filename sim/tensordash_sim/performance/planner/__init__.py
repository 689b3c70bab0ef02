"""How a training step runs on the chip as a whole: which tensors stay there, and what runs together."""

from .budget import Budget
from .graph import Graph, Node, Tensor
from .plan import MEASURES, Plan, Resident
from .published import gpt_block, resnet50, vgg16
from .recorded import step_graph, unrecorded
from .replay import PlanError, Replayed, replay
from .search import plan_step
from .stages import Stage
from .step import Cycles, GraphWriter, Value

__all__ = [
    "MEASURES",
    "Budget",
    "Cycles",
    "Graph",
    "GraphWriter",
    "Node",
    "Plan",
    "PlanError",
    "Replayed",
    "Resident",
    "Stage",
    "Tensor",
    "Value",
    "gpt_block",
    "plan_step",
    "replay",
    "resnet50",
    "step_graph",
    "unrecorded",
    "vgg16",
]
