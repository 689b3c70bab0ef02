"""Planner of a training step on the chip: chooses the tensors that stay there and the nodes that run together."""

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
