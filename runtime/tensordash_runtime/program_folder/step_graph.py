"""Step graphs: products and host functions on values without formats, orders in memory and programs."""

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
    """Factor of the loss's gradient, which the update removes.

    Parameters
    ----------
    value : float
        Value before the first step, a power of two.
    growth, backoff : float
        Factors after `interval` steps without overflow, and after an overflow.
    interval : int
        Steps without overflow between two growths, or 0 for a constant scale.
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
        Its shape in PyTorch. Uses may have other shapes with the same number of values in the same order.
    kind : str
        "parameter" (persists between steps, updated last), "state" (persists, updated where it is read), "input"
        (set before each step), "integer" (an input of int32), or "result".
    initial : array of float32 or int32, optional
        Values of parameters and inputs before the first step.
    """

    name: str
    shape: tuple[int, ...]
    kind: str = "result"
    initial: NDArray | None = None


@dataclass(frozen=True, kw_only=True)
class Use:
    """An operand of a node: a value, and its shape at the node."""

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
        See `Product`.
    operands : dict of str to Use
        Both operands, and optionally "bias" and "mask".
    result : str
        The value that it computes.
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
        The values that it reads, by role.
    results : dict of str to str
        The values that it computes or updates, by role.
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
    """A step as a graph.

    Parameters
    ----------
    name : str
        Name of the step.
    values : dict of str to Value
        Values by name.
    nodes : list of ProductNode or HostNode
        Nodes in a valid order of computation.
    outputs : list of str
        Values with the step's results for the user.
    """

    name: str
    values: dict[str, Value] = field(default_factory=dict)
    nodes: list[ProductNode | HostNode] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def users(self, value: str) -> list[ProductNode | HostNode]:
        """Return the nodes that read a value."""
        return [node for node in self.nodes if value in node.read]
