"""Compare PyTorch's recorded steps with the graphs that `GraphWriter` derives from separate networks."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.performance.chip import ChipConfig
from tensordash_sim.performance.planner import (
    MEASURES,
    Budget,
    Graph,
    GraphWriter,
    Node,
    plan_step,
    replay,
    resnet50,
    step_graph,
    vgg16,
)
from tensordash_sim.performance.planner.published import STAGES, VGG, VGG_LINEAR, convolution
from tensordash_sim.trace import Step, Trace, record

IMAGES = 4
BUDGET = Budget.of(ChipConfig(), gbps=25.6, columns=4)
FEW = replace(BUDGET, capacity=64 * 1024.0)
"""This budget is too small to hold all tensors on the chip."""


def recorded(path: Path, model: nn.Module, *inputs: torch.Tensor, loss: Callable = lambda y: y.square().sum()) -> Step:
    """Record the second step with momentum."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    with record(path / "run.trace", model=model, steps=[1]):
        for _ in range(2):
            optimizer.zero_grad()
            loss(model(*inputs)).backward()
            optimizer.step()
    (step,) = Trace.open(path / "run.trace").steps
    return step


def cycles(step: Step) -> list[int]:
    return [record.geometry.macs for record in step.records]


def macs_of(geometry, operation, kind) -> tuple[int, int]:
    return geometry.macs, 0


class VGG16(nn.Module):
    """The network of `planner.vgg16`, thin, with biases, which no graph contains."""

    def __init__(self, size: int, thin: int):
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width, count in VGG:
            for _ in range(count):
                layers += [nn.Conv2d(channels, width // thin, 3, padding=1), nn.ReLU()]
                channels = width // thin
            layers.append(nn.MaxPool2d(2))
        layers.append(nn.Flatten())
        features = channels * (size // 32) ** 2
        for number, width in enumerate(VGG_LINEAR):
            layers += [nn.Linear(features, width // thin), *([nn.ReLU(inplace=True)] if number < 2 else [])]
            features = width // thin
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int, first: bool):
        super().__init__()

        def convolution(inputs: int, outputs: int, kernel: int, step: int = 1) -> nn.Module:
            layer = nn.Conv2d(inputs, outputs, kernel, step, kernel // 2, bias=False)
            return nn.Sequential(layer, nn.BatchNorm2d(outputs))

        self.body = nn.Sequential(
            convolution(channels, width, 1),
            nn.ReLU(),
            convolution(width, width, 3, stride),
            nn.ReLU(),
            convolution(width, 4 * width, 1),
        )
        self.shortcut = convolution(channels, 4 * width, 1, stride) if first else nn.Identity()

    def forward(self, x):
        return (self.body(x) + self.shortcut(x)).relu()


class ResNet50(nn.Module):
    """The network of `planner.resnet50`, thin."""

    def __init__(self, thin: int):
        super().__init__()
        channels = 64 // thin
        layers: list[nn.Module] = [nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
        layers.append(nn.MaxPool2d(3, 2, 1))
        for stage, (published, blocks) in enumerate(STAGES):
            for block in range(blocks):
                width = published // thin
                layers.append(Bottleneck(channels, width, 2 if stage and not block else 1, not block))
                channels = 4 * width
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000 // thin, bias=False)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


def dense(graph: Graph, pooled: float) -> Graph:
    """Return the step without zeros, with `pooled` bytes per pooling index, which differ in recordings."""
    tensors = [
        replace(each, density=1.0, value_bytes=pooled if 0.2 < each.value_bytes < 1 else each.value_bytes)
        for each in graph.tensors.values()
    ]
    return Graph(tensors, graph.nodes.values(), graph.axes)


def facts(graph: Graph, kinds: tuple[str, ...]) -> Counter:
    """Count nodes by inputs and outputs without names: numbers of values, and whether tensors are divided."""

    def sizes(names: tuple[str, ...]) -> tuple:
        tensors = [graph.tensors[name] for name in names]
        return tuple(sorted((each.values, each.value_bytes, bool(each.axes)) for each in tensors))

    def fact(node: Node) -> tuple:
        return node.kind, sizes(node.reads), sizes(node.writes), node.cycles, node.max_parts, bool(node.axis)

    return Counter(fact(node) for node in graph.nodes.values() if node.kind in kinds)


@pytest.mark.parametrize(
    ("model", "own"),
    [
        (lambda: VGG16(32, 16), lambda: vgg16(IMAGES, 0.0, macs_of, size=32, thin=16)),
        pytest.param(
            lambda: ResNet50(16), lambda: resnet50(IMAGES, 0.0, macs_of, size=64, thin=16), marks=pytest.mark.slow
        ),
    ],
    ids=["vgg16", "resnet50"],
)
def test_recorded_graph_matches_derived_graph(tmp_path, model, own):
    size = 32 if "VGG" in repr(model()) else 64
    step = recorded(tmp_path, model(), torch.rand(IMAGES, 3, size, size))
    found, expected = dense(step_graph(step, cycles(step)), 0.25), dense(own(), 0.25)
    assert found.axes == {"samples": IMAGES}
    assert facts(found, ("product", "update")) == facts(expected, ("product", "update"))
    assert facts(found, ("sums",)) == facts(expected, ("sums",))
    for budget in (BUDGET, FEW):
        for measures in ((), ("fuse", "share"), tuple(MEASURES)):
            plans = [plan_step(graph, budget, measures) for graph in (found, expected)]
            for plan in plans:
                replay(plan)
            # Losses differ, and PyTorch's backward pass reads the input of pooling.
            assert plans[0].dram == pytest.approx(plans[1].dram, rel=0.03)


def test_nodes_between_products(tmp_path):
    """Each node of normalization, ReLU and pooling reads and writes the same as the derived node."""
    layers = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    step = recorded(tmp_path, nn.Sequential(*layers, nn.Linear(128, 5, bias=False)), torch.rand(IMAGES, 3, 8, 8))
    writer = GraphWriter({"samples": IMAGES}, macs_of)
    x = writer.add_input("x", IMAGES * 3 * 64, axes={"samples"})
    x = writer.product("conv", convolution(IMAGES, 3, 8, 8, 3), x, axis="samples", density=1.0, kind="convolution")
    x = writer.norm("norm", x, sums=8, over=set(), axis="samples")
    x = writer.element_wise("relu", [x], axis="samples", mask_bytes=1 / 8)
    x = writer.element_wise("pool", [x], axis="samples", values=IMAGES * 128, mask_bytes=1 / 4)
    linear = MatrixProduct(batch=1, samples=IMAGES, in_features=128, out_features=5)
    expected = writer.finish(writer.product("fc", linear, x, axis="samples", density=1.0), axis="samples")
    found, kinds = dense(step_graph(step, cycles(step)), 0.25), ("product", "update", "sums", "element-wise")
    # Skip the loss, which has the size of the results.
    found_all, expected_all = (
        {fact: count for fact, count in facts(graph, kinds).items() if all(size[0] != 20 for size in fact[1])}
        for graph in (found, expected)
    )
    assert found_all == expected_all


def test_adam_reads_and_writes_two_states(tmp_path):
    """The update reads the gradient, the weights and two states in FP32. It writes the weights in fp16, too."""
    model = nn.Linear(8, 4, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    with record(tmp_path / "run.trace", model=model, steps=[0]):
        model(torch.rand(IMAGES, 8)).sum().backward()
        optimizer.step()
    (step,) = Trace.open(tmp_path / "run.trace").steps
    graph = step_graph(step, cycles(step))
    (update,) = (node for node in graph.nodes.values() if node.kind == "update")
    moved = [
        [graph.tensors[name].values * graph.tensors[name].value_bytes for name in names]
        for names in (update.reads, update.writes)
    ]
    assert moved == [[128, 128, 128, 128], [128, 128, 128, 64]]


class Attention(nn.Module):
    def __init__(self, fused: bool):
        super().__init__()
        self.fused = fused
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16, bias=False) for _ in range(4))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (layer(x).view(batch, length, 2, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v) if self.fused else (q @ k.mT).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def test_fused_attention_equals_its_parts(tmp_path):
    """Fused attention has the products of separate attention, with softmax between them."""
    graphs = []
    for fused in (False, True):
        (tmp_path / str(fused)).mkdir()
        step = recorded(tmp_path / str(fused), Attention(fused), torch.rand(2, 128, 16, requires_grad=True))
        graphs.append(dense(step_graph(step, cycles(step)), 0.25))
    apart, fused = graphs
    assert facts(fused, ("product", "update", "row-wise")) == facts(apart, ("product", "update", "row-wise"))
    assert sum(node.kind == "row-wise" for node in fused.nodes.values()) == 2
    assert replay(plan_step(fused, BUDGET)) is not None


def test_network_without_a_batch_axis(tmp_path):
    """The first dimension of time-major batches is not the batch. Layers of an LSTM run as one."""

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.lstm, self.fc = nn.Embedding(10, 6), nn.LSTM(6, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.fc(self.lstm(self.words(x))[0])

    step = recorded(tmp_path, Recurrent(), torch.arange(10).view(5, 2))
    graph = step_graph(step, cycles(step))
    (forward,) = (node for node in graph.nodes.values() if node.name.endswith(".forward"))
    assert forward.kind == "product"
    of_it = [record.geometry.macs for record in step.records if "lstm" in record.layer and record.operation == "AxW"]
    assert forward.cycles == sum(of_it)
    plan = plan_step(graph, BUDGET)
    replay(plan)
    # Each update of the four matrices reads gradient, weights and momentum.
    assert sum(node.kind == "update" and "update" in node.name for node in graph.nodes.values()) == 4


def test_computed_weights(tmp_path):
    """Operations on weights have no parts. They run before or after all parts of the products."""

    class Normalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.utils.parametrizations.weight_norm(nn.Linear(32, 32)) for _ in range(4))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x).relu()
            return x

    step = recorded(tmp_path, Normalised(), torch.rand(64, 32))
    graph = step_graph(step, cycles(step))
    updates = [node for node in graph.nodes.values() if node.kind == "update" and "update" not in node.name]
    assert updates
    assert not any(node.axis for node in updates)
    for budget in (BUDGET, FEW):
        replay(plan_step(graph, budget))


class Language(nn.Module):
    """Two embeddings, layers with a shortcut, and an output layer that shares the first embedding's weights."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(8, 32)
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(3))
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))

    def forward(self, x):
        y = self.words(x) + self.places(torch.arange(8))
        for norm, layer in zip(self.norms, self.layers, strict=True):
            y = y + nn.functional.gelu(layer(norm(y)))
        return y @ self.words.weight.T


def test_embeddings(tmp_path):
    """Gradients of embeddings are sums over all parts. Gradients of a weight that is used twice are added."""
    step = recorded(tmp_path, Language(), torch.randint(50, (4, 8)))
    graph = step_graph(step, [1] * len(step.records))  # All products wait for DRAM.
    kinds = [node.kind for node in graph.nodes.values() if node.name.startswith("embedding")]
    assert kinds == [
        "element-wise",
        "update",
        "element-wise",
    ]  # A node first adds gradients of positions over the batch.
    sums = [name for name, tensor in graph.tensors.items() if tensor.values == 50 * 32 and not tensor.axes]
    assert any(graph.nodes[node].kind == "update" for name in sums for node in graph.readers[name])
    for budget in (BUDGET, FEW):
        for measures in (("fuse", "share", "depth-first", "overlap"), tuple(MEASURES)):
            replay(plan_step(graph, budget, measures))


def test_dropout_and_host_operations(tmp_path):
    """Masks stay for the backward pass. The host prepares a batch before the first weights."""

    class Prepared(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x):
            return nn.functional.dropout(self.fc((x * 2).relu()), 0.5)

    step = recorded(tmp_path, Prepared(), torch.rand(4, 8))
    graph = step_graph(step, cycles(step))
    first = next(iter(graph.nodes.values()))
    assert first.kind == "product"
    assert all(graph.tensors[name].is_input for name in first.reads)


def test_unread_gradients_are_outputs(tmp_path):
    model = nn.Linear(8, 4)
    with record(tmp_path / "run.trace", model=model, optimizers=()):
        model(torch.rand(4, 8)).sum().backward()
    (step,) = Trace.open(tmp_path / "run.trace").steps
    graph = step_graph(step, cycles(step))
    assert [tensor.values for tensor in graph.tensors.values() if tensor.wanted] == [32]


def test_joined_samples_are_not_divided(tmp_path):
    step = recorded(tmp_path, nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2)), torch.rand(4, 8))
    apart = [record.geometry.macs + (record.operation == "AxG") for record in step.records]
    nodes = step_graph(step, cycles(step), apart).nodes
    assert {node.name: node.apart for node in nodes.values() if node.apart} == {"1.AxG": 33, "0.AxG": 129}


class TestErrors:
    def test_an_older_trace(self, tmp_path):
        step = recorded(tmp_path, nn.Linear(2, 2), torch.rand(4, 2))
        with pytest.raises(ValueError, match=r"step 1 must have its flow recorded: by `tensordash trace` since"):
            step_graph(replace(step, flow=None), cycles(step))

    def test_a_product_is_missing(self, tmp_path):
        step = recorded(tmp_path, nn.Linear(2, 2), torch.rand(4, 2))
        with pytest.raises(ValueError, match=r"all products of step 1 must be recorded, also aten::conv3d of layer x"):
            step_graph(replace(step, uncaptured=("aten::conv3d of layer x",)), cycles(step))
        assert step_graph(replace(step, uncaptured=("aten::mm under torch.no_grad",)), cycles(step)).nodes

    def test_number_of_cycles_must_match(self, tmp_path):
        step = recorded(tmp_path, nn.Linear(2, 2), torch.rand(4, 2))
        with pytest.raises(ValueError, match=r"cycles must have one entry for each of 2 records, not 1"):
            step_graph(step, [1])
