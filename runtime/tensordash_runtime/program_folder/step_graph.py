"""Step graphs: products and host functions on values, before formats, orders in memory and programs are chosen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tensordash_sim.lowering import Geometry

__all__ = ["LOSS_SCALE", "HostNode", "LossScale", "ProductNode", "StepGraph", "Use", "Value"]

LOSS_SCALE = "loss_scale"
"""Name of the value of a dynamic loss scale."""


@dataclass(frozen=True, kw_only=True)
class LossScale:
    """What the loss's gradient is multiplied by until the update.

    Parameters
    ----------
    value : float
        Before the first step; a power of two.
    growth, backoff : float
        Factors after `interval` steps without overflow, and after an overflow.
    interval : int
        0: the scale is constant.
    """

    value: float
    growth: float = 1.0
    backoff: float = 1.0
    interval: int = 0

    @property
    def is_dynamic(self) -> bool:
        return self.interval > 0


@dataclass(frozen=True, kw_only=True)
class Value:
    """A value of a step graph.

    Parameters
    ----------
    name : str
        Its name, unique in a graph.
    shape : tuple of int
        As PyTorch has it. Uses may have other shapes of as many values in the same order.
    kind : str
        "parameter" (kept from step to step, and updated last), "state" (kept, and updated where it is read), "input"
        (set before each step), "integer" (an input of int32), or "result".
    initial : array of float32 or int32, optional
        What parameters and inputs hold before the first step.
    """

    name: str
    shape: tuple[int, ...]
    kind: str = "result"
    initial: NDArray | None = None


@dataclass(frozen=True, kw_only=True)
class Use:
    """A value where a node reads it, with the shape that the node takes."""

    value: str
    shape: tuple[int, ...]


@dataclass(kw_only=True)
class ProductNode:
    """A product.

    Parameters
    ----------
    name : str
        Layer and operation.
    geometry, operation, relu
        As `Product` has them.
    operands : dict of str to Use
        Both operands, and "bias" and "mask" if it has them.
    result : str
        The value that it makes.
    """

    name: str
    geometry: Geometry
    operation: str
    operands: dict[str, Use]
    result: str
    relu: bool = False

    @property
    def read(self) -> list[str]:
        return [use.value for use in self.operands.values()]

    @property
    def written(self) -> list[str]:
        return [self.result]


@dataclass(kw_only=True)
class HostNode:
    """A host function.

    Parameters
    ----------
    function : str
        One of `FUNCTIONS`.
    operands : dict of str to Use
        What it reads.
    results : dict of str to str
        The values that it makes or updates, by role.
    parameters : mapping
        Its constants.
    """

    function: str
    operands: dict[str, Use]
    results: dict[str, str]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def read(self) -> list[str]:
        return [use.value for use in self.operands.values()]

    @property
    def written(self) -> list[str]:
        return list(self.results.values())


@dataclass(kw_only=True)
class StepGraph:
    """A step.

    Parameters
    ----------
    name : str
        What it computes.
    values : dict of str to Value
        By name.
    nodes : list of ProductNode or HostNode
        In an order in which they can be computed.
    outputs : list of str
        Values that the step is run for.
    """

    name: str
    values: dict[str, Value] = field(default_factory=dict)
    nodes: list[ProductNode | HostNode] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def users(self, value: str) -> list[ProductNode | HostNode]:
        """Return the nodes that read a value."""
        return [node for node in self.nodes if value in node.read]
