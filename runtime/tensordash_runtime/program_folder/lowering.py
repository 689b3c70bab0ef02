"""Lowering of traced graphs to products and host functions of a step graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import Node

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.lowering import Geometry

from ..errors import ProgramFolderError
from .step_graph import LOSS_SCALE, HostNode, LossScale, ProductNode, StepGraph, Use, Value
from .tensors import INT32_RANGE

__all__ = ["COUNTER", "RESHAPES", "VIEWS", "Lowering", "Symbol"]

ATEN = torch.ops.aten
RESHAPES = (
    *(ATEN.view.default, ATEN._unsafe_view.default),
    *(ATEN.unsqueeze.default, ATEN.squeeze.dim, ATEN.squeeze.dims),
)
"""Operations that change the shape of a value."""
VIEWS = (*RESHAPES, ATEN.detach.default, ATEN.alias.default)
"""Operations that at most change the shape of a value."""

COUNTER = "counter"
"""Symbol of BatchNorm's number of batches, on which no result depends."""


@dataclass(frozen=True)
class Symbol:
    """Meaning of a node of the traced graph: a value with a shape, or a transposed matrix."""

    use: Use
    transposed: bool = False


class Lowering:
    """Builder of a step graph from the nodes of a traced graph, in order."""

    def __init__(self, config: CoreConfig, scale: LossScale) -> None:
        self.config, self.scale = config, scale
        self.graph = StepGraph(name="step")
        self.symbols: dict[str, Any] = {}
        if scale.is_dynamic:
            initial: Any = np.full(1, scale.value, np.float32)
            self.graph.values[LOSS_SCALE] = Value(name=LOSS_SCALE, shape=(1,), kind="parameter", initial=initial)
        self.layers: dict[str, str] = {}  # names of layers, by the value of their weights

    @property
    def has_mask(self) -> bool:
        """Whether products can mask results; FP32 results cannot be masked, and all are FP32 if the formats differ."""
        tile = self.config.tile
        return self.config.mask and tile.a_format == tile.b_format

    @property
    def last_layer(self) -> str | None:
        """The layer of the last product with weights so far, or None."""
        nodes = (node for node in reversed(self.graph.nodes) if isinstance(node, ProductNode))
        return next((self.layers[node.operands["W"].value] for node in nodes if "W" in node.operands), None)

    def add_initial(self, node: Node, name: str, kind: str, tensor: Tensor) -> None:
        """Add a parameter or an input."""
        array = tensor.detach().cpu().numpy()
        if kind == "integer" and array.dtype != np.int64:
            raise ProgramFolderError(f"target must be int64 indices of classes, not {array.dtype}")
        if kind != "integer" and array.dtype != np.float32:
            raise ProgramFolderError(f"{name} must be float32, not {array.dtype}")
        initial = array.clip(*INT32_RANGE).astype(np.int32) if kind == "integer" else array.copy()
        self.graph.values[name] = Value(name=name, shape=tuple(tensor.shape), kind=kind, initial=initial)
        self.symbols[node.name] = Symbol(Use(value=name, shape=tuple(tensor.shape)))

    def add_buffer(self, node: Node, name: str, tensor: Tensor) -> None:
        """Add a buffer that the step updates; a counter becomes `COUNTER`."""
        if tensor.ndim == 0 and tensor.dtype == torch.int64:
            self.symbols[node.name] = COUNTER
        else:
            self.add_initial(node, name, "state", tensor)

    def value_of(self, node: str) -> str:
        """Return the value of a node of the traced graph."""
        symbol = self.symbols[node]
        if symbol.transposed:
            raise ProgramFolderError(f"{node} must not be transposed where it leaves the step")
        return str(symbol.use.value)

    def remove_unused(self, gradients: set[str]) -> None:
        """Remove nodes whose results are unused."""
        graph = self.graph
        needed = {*gradients, *graph.outputs}
        nodes: list[ProductNode | HostNode] = []
        for node in reversed(graph.nodes):
            if needed.intersection(node.written):
                needed.update(node.read)
                nodes.insert(0, node)
        graph.nodes = nodes

    def name_gradients(self, gradients: dict[str, str]) -> dict[str, str]:
        """Name the gradient of each parameter, and the product that computes it, after the parameter."""
        graph = self.graph
        for parameter, old in gradients.items():
            new = f"{parameter}.gradient"
            graph.values[new] = Value(name=new, shape=graph.values.pop(old).shape)
            producer = self.producer(old)
            if isinstance(producer, ProductNode):
                producer.result, producer.name = new, f"{parameter.removesuffix('.weight')} {producer.operation}"
            elif producer is not None:
                producer.results = {role: new if name == old else name for role, name in producer.results.items()}
        return {parameter: f"{parameter}.gradient" for parameter in gradients}

    # Building the step graph

    def result(self, node: Node | str, shape: tuple[int, ...]) -> Symbol:
        """Add the value that a node computes."""
        name = node if isinstance(node, str) else node.name
        self.graph.values[name] = Value(name=name, shape=shape)
        return Symbol(Use(value=name, shape=shape))

    def plain(self, node: Node, symbol: Any) -> Use:
        """Return the use of a symbol, which must not be transposed."""
        if isinstance(symbol, Symbol) and not symbol.transposed:
            return symbol.use
        if isinstance(symbol, dict) and "scores" in symbol:
            use = f"the mean cross entropy without label_smoothing, not for {node.target}"
            raise ProgramFolderError(f"the result of log_softmax must be only for {use}")
        raise ProgramFolderError(f"{node.target} must have operands that are neither transposed nor repeated")

    def product(
        self, node: Node | str, geometry: Geometry, operation: str, operands: Mapping[str, Use], shape: tuple[int, ...]
    ) -> Symbol:
        """Add a product."""
        result = self.result(node, shape)
        weight = operands.get("W")
        if weight is not None:
            self.layers.setdefault(weight.value, weight.value.removesuffix(".weight"))
        layer = result.use.value if weight is None else self.layers[weight.value]
        self.graph.nodes.append(
            ProductNode(
                name=f"{layer} {operation}",
                geometry=geometry,
                operation=operation,
                operands=dict(operands),
                result=result.use.value,
            )
        )
        return result

    def host(
        self, function: str, operands: Mapping[str, Use], results: Mapping[str, str], **parameters: Any
    ) -> HostNode:
        """Add a host function."""
        node = HostNode(function=function, operands=dict(operands), results=dict(results), parameters=parameters)
        self.graph.nodes.append(node)
        return node

    def producer(self, value: str) -> ProductNode | HostNode | None:
        """Return the node that computes a value, or None."""
        return next((node for node in self.graph.nodes if value in node.written), None)

    def fusable(self, node: Node, argument: int, use: Use) -> ProductNode | None:
        """Return the product that computes an argument of a node if nothing else reads its result, else None."""
        source = node.args[argument]
        while isinstance(source, Node) and source.target in VIEWS and len(source.users) == 1:
            source = source.args[0]
        producer = self.producer(use.value)
        alone = isinstance(source, Node) and len(source.users) == 1
        return producer if alone and isinstance(producer, ProductNode) and not self.graph.users(use.value) else None
