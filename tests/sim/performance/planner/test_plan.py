"""Check plans by replay, and by running them on numbers, part by part."""

from itertools import pairwise, product

import numpy as np
import pytest

from tensordash_sim.performance.chip import ChipConfig
from tensordash_sim.performance.chip.traffic import Operand, dram_traffic
from tensordash_sim.performance.planner import (
    MEASURES,
    Budget,
    Graph,
    GraphWriter,
    Node,
    Tensor,
    gpt_block,
    plan_step,
    replay,
    resnet50,
    vgg16,
)

from .running import Running, full_arrays
from .steps import budget, perceptron


def first_measures(count: int) -> tuple[str, ...]:
    return tuple(MEASURES)[:count]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("count", "kib"), [*product(range(len(MEASURES)), (12, 40, 120, 1000))])
def test_a_plan_computes_the_step(count: int, kib: float) -> None:
    graph = perceptron()
    plan = plan_step(graph, budget(kib), first_measures(count))
    expected = full_arrays(graph)
    running = Running(plan)
    running.run()
    outputs = [name for name, tensor in graph.tensors.items() if tensor.wanted]
    assert len(outputs) == 9
    for name in outputs:
        np.testing.assert_allclose(running.dram[name], expected[name], rtol=1e-9)
    checked = replay(plan)
    assert checked.loads + checked.stores == pytest.approx(running.moved) == pytest.approx(plan.dram)
    assert checked.alone == plan.cycles


@pytest.mark.parametrize(("density", "kib", "rate"), [*product((1.0, 0.4), (12, 40, 120), (4.0, 64.0))])
def test_measures_do_not_add_cycles(density: float, kib: float, rate: float) -> None:
    """Each measure costs at most 5%, where loads have no work to overlap with."""
    cycles = []
    for count in range(len(MEASURES) + 1):
        plan = plan_step(perceptron(density), budget(kib, rate), first_measures(count))
        checked = replay(plan)
        assert checked.fullest <= kib * 1024
        assert plan.cycles >= 0.999 * max(checked.tile_cycles, (checked.loads + checked.stores) / rate)
        cycles.append(plan.cycles)
    assert cycles[-1] < cycles[0]
    assert all(later <= 1.05 * earlier for earlier, later in pairwise(cycles))


GRAPHS = {
    "gpt": lambda: gpt_block(0.875, lambda geometry, *_: (geometry.macs // 40_000, 0)),
    "vgg16": lambda: vgg16(16, 0.5, lambda geometry, *_: (geometry.macs // 28_000, 0), size=64),
    "resnet50": lambda: resnet50(16, 0.5, lambda geometry, *_: (geometry.macs // 28_000, 0), size=32, thin=4),
    "ghost": lambda: resnet50(16, 0.5, lambda geometry, *_: (geometry.macs // 28_000, 0), ghost=True, size=32, thin=4),
}


@pytest.mark.parametrize(
    ("name", "gbps"),
    [
        ("gpt", 25.6),
        ("gpt", 256.0),
        ("vgg16", 25.6),
        ("vgg16", 256.0),
        *(pytest.param(name, gbps, marks=pytest.mark.slow) for name in ("resnet50", "ghost") for gbps in (25.6, 256.0)),
    ],
)
def test_published_steps(name: str, gbps: float) -> None:
    graph = GRAPHS[name]()
    plan = plan_step(graph, Budget.of(ChipConfig(), gbps=gbps, columns=4))
    checked = replay(plan)
    nothing = replay(plan_step(graph, plan.budget, ()))
    assert checked.loads + checked.stores < 0.6 * (nothing.loads + nothing.stores)
    least = max(checked.tile_cycles, (checked.loads + checked.stores) / plan.budget.dram_bytes_per_cycle)
    assert round(least) <= plan.cycles < 1.15 * least


def test_single_product_matches_the_traffic_model() -> None:
    """`chip.traffic` has the least traffic for one operation whose operands have separate memories."""
    step = GraphWriter({"samples": 64}, lambda *_: (1, 0))
    tensors = [
        Tensor(name="A", values=60_000, density=0.5, axes=frozenset({"samples"}), is_input=True),
        Tensor(name="W", values=90_000, is_input=True),
        Tensor(name="Y", values=70_000, axes=frozenset({"samples"}), wanted=True),
    ]
    node = Node(name="AxW", kind="product", reads=("A", "W"), writes=("Y",), axis="samples", max_parts=1)
    for kib in (8, 30, 64, 200):
        plan = plan_step(Graph(tensors, [node], step.axes), budget(kib), ())
        chip = ChipConfig.from_toml(f"[memory]\nbanks = 1\nbank_kib = {kib}")
        weights = Operand(90_000, 90_000, 2)
        most = dram_traffic(Operand(60_000, 30_000, 2), weights, Operand(70_000, 0, 2), chip)
        # The chip's model adds a mask even to tensors without zeros. With little room, sums must stay.
        assert plan.dram <= most
        if kib > 8:
            assert plan.dram == pytest.approx(most - weights.compressed + weights.bytes, rel=0.2)


def test_unknown_measures_and_too_little_room() -> None:
    with pytest.raises(ValueError, match="measures must be among fuse, share, .*, overlap, not magic"):
        plan_step(perceptron(), budget(100), ["fuse", "magic"])
    with pytest.raises(ValueError, match="relu1 must fit on the chip by itself: 100 bytes are too few"):
        plan_step(perceptron(), budget(100 / 1024), ())
