"""Test errors of graphs, and nodes that are computed a second time."""

from collections.abc import Sequence
from typing import Any

import pytest

from tensordash_sim.lowering import Geometry, MatrixProduct, Operation
from tensordash_sim.performance.planner import Graph, GraphWriter, Node, Tensor, gpt_block, resnet50, vgg16
from tensordash_sim.performance.planner.published import convolution

GIVEN = Tensor(name="x", values=8, is_input=True)
MADE = Tensor(name="y", values=8)


def node(name: str, reads: Sequence[str], writes: Sequence[str], **more: Any) -> Node:
    return Node(name=name, kind="element-wise", reads=tuple(reads), writes=tuple(writes), **more)


@pytest.mark.parametrize(
    ("tensors", "nodes", "message"),
    [
        ([GIVEN, GIVEN], [], "tensor x must have a name of its own"),
        ([GIVEN, MADE], [node("a", "x", "y"), node("a", "x", "y")], "node a must have a name of its own"),
        ([GIVEN, MADE], [node("a", "x", "z")], "tensors of a must be the graph's, not z"),
        ([GIVEN, MADE], [node("a", "y", "y")], "tensor y must be written before a reads it"),
        ([GIVEN, MADE], [node("a", "x", "y"), node("b", "x", "y")], "tensor y must not be written again by b"),
        ([GIVEN, MADE], [node("a", "x", "x")], "tensor x must not be written again by a"),
        ([GIVEN, MADE], [node("a", "x", "y", axis="rows")], "axis of a must be one of samples, not rows"),
        ([MADE], [], "tensor y must be an input or be written by a node"),
        (
            [GIVEN, Tensor(name="y", values=8, wanted=True, becomes="z")],
            [node("a", "x", "y")],
            "tensor y must become an input of the graph, not z",
        ),
    ],
)
def test_invalid_graphs(tensors: list[Tensor], nodes: list[Node], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Graph(tensors, nodes, {"samples": 4})


def test_kind_of_a_node() -> None:
    with pytest.raises(
        ValueError, match="kind must be one of element-wise, product, row-wise, sums, update, not 'sum'"
    ):
        Node(name="a", kind="sum", reads=(), writes=())


def test_copied_node_gives_a_valid_graph() -> None:
    chain = Graph(
        [GIVEN, MADE, *(Tensor(name=name, values=8, wanted=True) for name in "ab")],
        [node("relu", "x", "y"), node("A", "y", "a"), node("B", "y", "b")],
        {},
    )
    once = chain.with_copy("relu", {"B"})
    assert list(once.nodes) == ["relu", "A", "relu for B", "B"]
    assert once.nodes["B"].reads == ("y for B",)
    copied_both = once.with_copy("relu", {"A"})  # No node reads the first result any more.
    assert list(copied_both.nodes) == ["relu for A", "A", "relu for B", "B"]
    for graph in (once, copied_both):
        copied = Graph(graph.tensors.values(), graph.nodes.values(), graph.axes)
        assert copied.readers == graph.readers
        assert copied.writer == graph.writer


def test_a_step_has_three_products_a_layer() -> None:
    macs: dict[Operation, int] = {}

    def cycles(geometry: Geometry, operation: Operation, _: str) -> tuple[int, int]:
        macs[operation] = macs.get(operation, 0) + geometry.macs
        return geometry.macs, 0

    graph = vgg16(2, 0.5, cycles)
    first = convolution(2, 3, 64, 224, 3).macs  # Images need no gradient.
    assert macs[Operation.FORWARD] == macs[Operation.WEIGHT_GRADIENT] == macs[Operation.INPUT_GRADIENT] + first
    # Simonyan and Zisserman's network D.
    weights = sum(tensor.values for name, tensor in graph.tensors.items() if name.endswith(".W"))
    assert weights == 138_344_128  # Biases are not counted.
    graph = resnet50(1, 0.5, cycles)  # He et al. have 25.6 million with gains and biases.
    assert sum(tensor.values for name, tensor in graph.tensors.items() if name.endswith(".W")) == 25_502_912


def test_a_block_of_gpt() -> None:
    graph = gpt_block(0.875, lambda *_: (1, 0))
    weights = [tensor for name, tensor in graph.tensors.items() if name.endswith(".W")]
    assert sum(tensor.values for tensor in weights) == 12 * 5120**2
    assert {tensor.density for tensor in weights} == {0.125}
    assert {name for name, tensor in graph.tensors.items() if tensor.wanted and not tensor.becomes} == {
        "residual2.Y",
        graph.nodes[list(graph.nodes)[-1]].writes[0],  # The last result is the gradient of the block's input.
    }
    assert {node.phase for node in graph.nodes.values()} == {0, 1}


def test_gradients_of_a_tensor_with_two_readers_are_added() -> None:
    step = GraphWriter({"samples": 4}, lambda *_: (1, 0))
    layer = MatrixProduct(batch=1, samples=4, in_features=8, out_features=8)
    x = step.add_input("x", 32, axes={"samples"}, needs_gradient=True)
    y = step.product("fc", layer, x, axis="samples", density=1.0)
    graph = step.finish(step.add("sum", x, y, axis="samples"), axis="samples", is_block=True)
    assert graph.nodes["loss.gradient + fc.dX"].reads == ("loss.gradient", "fc.dX")
    assert graph.tensors["loss.gradient + fc.dX"].wanted
