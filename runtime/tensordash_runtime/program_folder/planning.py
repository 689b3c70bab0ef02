"""Planner: choose formats, orders in memory and the sequence of a step graph's nodes, for few programs."""

from collections.abc import Iterator

import numpy as np

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.layer import OPERANDS, RESULTS, Layer

from ..errors import ProgramFolderError
from .building import PlanBuilder
from .host_calls import FUNCTIONS
from .plan import Plan
from .step_graph import HostNode, ProductNode, StepGraph, Use
from .tensors import Groups, StepTensor, bias_tensor, groups_of

__all__ = ["plan_step"]

Node = ProductNode | HostNode


def plan_step(graph: StepGraph, config: CoreConfig) -> tuple[Plan, PlanBuilder]:
    """Plan a step, and compute it on its initial values.

    Results of products have the operand format. They are FP32 if only a loss, a normalization or an optimizer reads
    them, or if the sides' operand formats differ. Operands of a product have an operand format, in the order that its
    program loads. Host functions write results for a product in this format and order. Other values are converted.

    Parameters
    ----------
    graph : StepGraph
        The step.
    config : CoreConfig
        The core.

    Raises
    ------
    ProgramFolderError, ValueError
        If the core cannot compute a product, which the message names, or cannot add a layer's biases.
    """
    planner = _Planner(graph, config)
    planner.convert_initial()
    for node in _sequence(graph):
        planner.add(node)
    inputs = tuple(name for name, value in graph.values.items() if value.kind in ("input", "integer"))
    return planner.builder.build(graph.name, inputs, tuple(graph.outputs)), planner.builder


def _sequence(graph: StepGraph) -> Iterator[Node]:
    """Yield nodes in an order with long runs of products: host functions wait until no product is ready.

    Updates of parameters are last, because products read the old parameters.
    """
    available = {name for name, value in graph.values.items() if value.kind != "result"}
    waiting = [node for node in graph.nodes if not _is_update(graph, node)]
    needed_names = {name for node in waiting for name in node.read}
    while waiting:
        ready = [node for node in waiting if available.issuperset(node.read)]
        products = [node for node in ready if isinstance(node, ProductNode)]
        # Sums that only an update reads need not separate two programs.
        needed = [
            node for node in ready if not isinstance(node, ProductNode) and needed_names.intersection(node.written)
        ]
        # Weight gradients come first, so that a product directly follows the activation gradient that it reads.
        products.sort(key=lambda node: node.operation != "AxG")
        node = (products or needed or ready)[0]
        waiting.remove(node)
        available.update(node.written)
        yield node
    yield from (node for node in graph.nodes if _is_update(graph, node))


def _is_update(graph: StepGraph, node: Node) -> bool:
    return any(graph.values[name].kind == "parameter" for name in node.written)


class _Planner:
    """Builder of a plan from the nodes of a graph."""

    def __init__(self, graph: StepGraph, config: CoreConfig) -> None:
        self.graph, self.config, self.builder = graph, config, PlanBuilder(config)
        self._copies: dict[tuple[str, str, Groups], str] = {}
        for value in graph.values.values():
            if value.kind == "result":
                continue
            tensor = self._bias_tensor(value.name)
            if tensor is None:
                integer = value.initial is not None and value.initial.dtype == np.int32
                tensor = StepTensor(name=value.name, shape=value.shape, format="int32" if integer else "fp32")
            self.builder.add_tensor(tensor, value.initial)

    def _bias_tensor(self, name: str) -> StepTensor | None:
        """Return the tensor of a vector of biases, or None if no product uses the value as biases."""
        for node in self.graph.users(name):
            bias = node.operands.get("bias") if isinstance(node, ProductNode) else None
            if isinstance(node, ProductNode) and bias is not None and bias.value == name:
                layer = Layer.of(node.geometry)
                return bias_tensor(self.config, name, layer.filters, layer.products)
        return None

    def convert_initial(self) -> None:
        """Add the conversions of parameters and inputs first, so that they do not separate programs."""
        for node in self.graph.nodes:
            if not isinstance(node, ProductNode):
                continue
            for role in OPERANDS[node.operation]:
                use = node.operands[role]
                if self.graph.values[use.value].kind != "result":
                    kind = self.builder.operand_format(node.operation, role)
                    self._in_groups(use, kind, groups_of(node.geometry, role))

    def add(self, node: Node) -> None:
        """Add a node, with the conversions of its operands; an error names the node."""
        try:
            if isinstance(node, ProductNode):
                self._add_product(node)
            else:
                self._add_host(node)
        except ValueError as error:
            name = node.name if isinstance(node, ProductNode) else f"{node.function} of {', '.join(node.read)}"
            raise ProgramFolderError(f"{name}: {error}") from error

    def _add_product(self, node: ProductNode) -> None:
        geometry, result_role = node.geometry, RESULTS[node.operation]
        tensors = {}
        for role, use in node.operands.items():
            if role == "bias":
                tensors[role] = use.value
            else:
                kind = self.builder.operand_format(node.operation, role)
                tensors[role] = self._in_groups(use, kind, groups_of(geometry, result_role if role == "mask" else role))
        self.builder.add_product(
            node.name,
            geometry,
            node.operation,
            tensors,
            node.result,
            fp32=self._is_fp32(node),
            relu=node.relu,
        )

    def _is_fp32(self, node: ProductNode) -> bool:
        users = self.graph.users(node.result)
        return self.builder.rule(node.operation) is not None or (
            "mask" not in node.operands
            and all(isinstance(user, HostNode) and user.function in FP32_READERS for user in users)
        )

    def _in_groups(self, use: Use, kind: str, groups: Groups) -> str:
        """Return the name of a tensor with a value in an operand format and an order; convert the value if needed."""
        tensor = self.builder.tensors[use.value]
        if tensor.format == kind and tensor.groups == groups:
            return use.value
        key = use.value, kind, groups
        if key not in self._copies:
            copies = sum(name == use.value for name, *_ in self._copies)
            name = f"{use.value}.operand{copies or ''}"
            self.builder.add_tensor(StepTensor(name=name, shape=tensor.shape, format=kind, groups=groups))
            self.builder.add_host_call("convert", {"x": use.value, "result": name})
            self._copies[key] = name
        return self._copies[key]

    def _add_host(self, node: HostNode) -> None:
        for name in node.results.values():
            if name not in self.builder.tensors:
                self.builder.add_tensor(self._host_result(name))
        tensors = {role: use.value for role, use in node.operands.items()} | node.results
        shapes = {role: list(use.shape) for role, use in node.operands.items() if role in FUNCTIONS[node.function].read}
        parameters = {**node.parameters, **({"shapes": shapes} if node.function in SHAPED else {})}
        self.builder.add_host_call(node.function, tensors, **parameters)

    def _host_result(self, name: str) -> StepTensor:
        """Return the tensor of a host function's result: in the order of the first product that reads it, or plain."""
        shape = self.graph.values[name].shape
        for user in self.graph.users(name):
            if not isinstance(user, ProductNode):
                continue
            for role in OPERANDS[user.operation]:
                if user.operands[role].value == name:
                    groups, kind = groups_of(user.geometry, role), self.builder.operand_format(user.operation, role)
                    return StepTensor(name=name, shape=shape, format=kind, groups=groups)
        return StepTensor(name=name, shape=shape, format="fp32")


FP32_READERS = (
    *("softmax_cross_entropy", "compute_statistics", "normalize", "normalize_sums", "normalize_backward"),
    *("sgd", "adamw", "find_overflow"),
)
"""Functions for which products write FP32 results."""
SHAPED = ("sum_channels", "softmax_cross_entropy", "max_pool", "max_pool_backward")
"""Functions that depend on their tensors' shapes, not only on the number of values."""
