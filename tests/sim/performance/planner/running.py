"""Run a plan of `steps.perceptron` on numbers, stage by stage and part by part, and count moved bytes."""

from itertools import pairwise
from typing import Any

import numpy as np

from tensordash_sim.performance.planner import Graph, Node, Plan, Stage

from .steps import BATCH, WIDTHS

__all__ = ["Running", "full_arrays", "input_arrays"]

Arrays = dict[str, Any]


def node_results(node: Node, operands: list[Any]) -> Arrays:
    """Return the results of a node of `perceptron`."""
    name = node.name.split(" for ")[0]
    if name.endswith(".AxW"):
        results = [operands[0] @ operands[1].T]
    elif name.endswith(".WxG"):
        results = [operands[1] @ operands[0]]
    elif name.endswith(".AxG"):
        results = [operands[1].T @ operands[0]]
    elif name.endswith(".update"):
        gradient, master, state = operands
        state = 0.9 * state + gradient
        results = [master - 0.01 * state, state, master - 0.01 * state]
    elif name.startswith("relu") and ".back" in name:
        results = [operands[0] * operands[1]]
    elif name.startswith("relu"):
        results = [np.maximum(operands[0], 0), operands[0] > 0]
    elif name == "loss":
        results = [2 * operands[0]]
    else:  # a sum of two tensors
        results = [operands[0] + operands[1]]
    if len(node.writes) < len(results):  # A copy returns only the results that other nodes read.
        results = [one for one, kind in zip(results, ("Y", "mask"), strict=True) if f".{kind}" in node.writes[0]]
    return dict(zip(node.writes, results, strict=True))


def input_arrays(graph: Graph) -> Arrays:
    """Return the arrays that exist before the step."""
    rng = np.random.default_rng(0)
    shapes = {"x": (BATCH, WIDTHS[0])}
    for number, (inputs, outputs) in enumerate(pairwise(WIDTHS), start=1):
        shapes |= dict.fromkeys([f"fc{number}.W", f"fc{number}.master", f"fc{number}.state0"], (outputs, inputs))
    return {name: rng.standard_normal(shapes[name]) for name, tensor in graph.tensors.items() if tensor.is_input}


def full_arrays(graph: Graph) -> Arrays:
    """Run each node without parts, in the graph's order."""
    arrays = input_arrays(graph)
    for node in graph.nodes.values():
        arrays |= node_results(node, [arrays[name] for name in node.reads])
    return arrays


class Running:
    """Contents of DRAM and chip while a plan runs, and the number of moved bytes."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.graph = plan, plan.graph
        self.dram, self.moved = input_arrays(plan.graph), 0.0
        self.on_chip: Arrays = {}

    def run(self) -> None:
        """Run all stages."""
        for place, stage in enumerate(self.plan.stages):
            nodes = [self.graph.nodes[name] for name in stage.nodes]
            parts = 1 if stage.around else stage.parts
            results: dict[str, list[Any]] = {}
            loaded: set[str] = set()
            for part in range(parts):
                for node in nodes:
                    if node.axis or part + 1 == parts:  # Updates run after the last part.
                        taken = [self._input(name, node, results, part, parts) for name in node.reads]
                        loaded |= {name for name in node.reads if name not in results and name not in self.on_chip}
                        for name, result in node_results(node, taken).items():
                            results.setdefault(name, []).append(result)
            self.moved += sum(self._times(stage, nodes, name) * self.graph.tensors[name].packed for name in loaded)
            self._store_results(place, stage, nodes, results)

    def _input(self, name: str, node: Node, results: dict[str, list[Any]], part: int, parts: int) -> Any:
        """Return a node's inputs, or a part of them if the node is divided."""
        is_cut = bool(node.axis) and node.axis in self.graph.tensors[name].axes
        if name in results and is_cut:
            return results[name][part]
        if name in results:
            assert len(results[name]) == parts  # A sum needs all parts.
            return sum(results[name])
        array = self.on_chip[name] if name in self.on_chip else self.dram[name]
        return np.array_split(array, parts)[part] if is_cut else array

    def _times(self, stage: Stage, nodes: list[Node], name: str) -> int:
        """Return the number of times that a stage loads a tensor."""
        if stage.around:
            # The plan defines the operand that is loaded again; `replay` checks it.
            is_again = stage.parts > 1 and name in nodes[0].reads and name != stage.around
            return round(stage.loads[name] / self.graph.tensors[name].packed) if is_again else 1
        needs_whole = not self.graph.tensors[name].axes and any(name in node.reads for node in nodes if node.axis)
        return stage.parts if needs_whole and name not in stage.held else 1

    def _store_results(self, place: int, stage: Stage, nodes: list[Node], results: dict[str, list[Any]]) -> None:
        """Keep a stage's result on the chip, store it, or drop it."""
        later = [self.graph.nodes[name] for each in self.plan.stages[place + 1 :] for name in each.nodes]
        for name, each in results.items():
            tensor = self.graph.tensors[name]
            stored = tensor.packed if "compress" in self.plan.measures else tensor.bytes
            result = np.concatenate(each) if tensor.axes else sum(each)
            if any(one.tensor == name and one.first == place for one in self.plan.residents):
                self.on_chip[name] = result
            is_read = any(name in node.reads for node in later)
            if leaves := tensor.wanted or (is_read and name not in self.on_chip):
                self.dram[name] = result
                self.moved += stored
            is_sum = not tensor.axes and any(name in node.writes for node in nodes if node.axis)
            if is_sum and len(each) > 1 and name not in {*stage.held, *self.on_chip}:
                # A sum is stored for each part, and loaded again for each but the first and for an update.
                reads = len(each) - 1 + any(name in node.reads for node in nodes if not node.axis)
                self.moved += (len(each) + reads) * tensor.bytes - leaves * stored
