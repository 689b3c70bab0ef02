"""Test that replay finds plans that cannot run: each test puts a fault into a valid plan."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tensordash_sim.performance.planner import Graph, Node, Plan, PlanError, Resident, Stage, Tensor, plan_step, replay
from tensordash_sim.performance.planner.overlap import Overlap

from .steps import budget, perceptron

Fault = Callable[[Plan], Plan]


def changed(plan: Plan, place: int, **more: Any) -> Plan:
    """Return the plan with one stage changed."""
    stages = list(plan.stages)
    stages[place] = replace(stages[place], **more)
    return replace(plan, stages=tuple(stages))


def first(plan: Plan, is_match: Callable[[Stage], object]) -> int:
    return next(place for place, stage in enumerate(plan.stages) if is_match(stage))


def less_loaded(plan: Plan) -> Plan:
    place = first(plan, lambda stage: stage.loads)
    loads = dict(plan.stages[place].loads)
    loads[min(loads)] /= 2
    return changed(plan, place, loads=loads)


def not_loaded(plan: Plan) -> Plan:
    place = first(plan, lambda stage: stage.loads)
    loads = dict(plan.stages[place].loads)
    del loads[max(loads)]
    return changed(plan, place, loads=loads)


def not_stored(plan: Plan) -> Plan:
    place = first(plan, lambda stage: stage.stores)
    stores = dict(plan.stages[place].stores)
    del stores[max(stores)]
    return changed(plan, place, stores=stores)


def dropped(plan: Plan) -> Plan:
    return changed(plan, 0, nodes=plan.stages[0].nodes[:-1])


def run_twice(plan: Plan) -> Plan:
    return replace(plan, stages=(*plan.stages, plan.stages[-1]))


def too_early(plan: Plan) -> Plan:
    return replace(plan, stages=(*plan.stages[1:], plan.stages[0]), residents=(), overlaps=())


def too_late(plan: Plan) -> Plan:
    place = first(plan, lambda stage: len(stage.nodes) > 1)
    return changed(plan, place, nodes=plan.stages[place].nodes[::-1])


def less_space(plan: Plan) -> Plan:
    place = first(plan, lambda stage: stage.space > 100)
    return changed(plan, place, space=plan.stages[place].space - 50)


def less_room(plan: Plan) -> Plan:
    fullest = max(stage.space for stage in plan.stages)
    return replace(plan, budget=replace(plan.budget, capacity=fullest - 1))


def nothing_held(plan: Plan) -> Plan:
    place = first(plan, lambda stage: stage.held and stage.parts > 1)
    return changed(plan, place, held=frozenset())


def fewer_parts(plan: Plan) -> Plan:
    place = first(plan, lambda stage: stage.parts > 1 and not stage.around)
    return changed(plan, place, parts=plan.stages[place].parts // 2)


def fewer_pieces(plan: Plan) -> Plan:
    place = first(plan, lambda stage: stage.parts > 1 and stage.around)
    return changed(plan, place, parts=1)


def around_another(plan: Plan) -> Plan:
    place = first(plan, lambda stage: stage.around)
    return changed(plan, place, around="fc3.W")


def too_short_a_stay(plan: Plan) -> Plan:
    one = max(plan.residents, key=lambda each: each.last - each.first)
    return replace(plan, residents=(*(each for each in plan.residents if each != one), replace(one, last=one.first)))


def a_stay_from_nowhere(plan: Plan) -> Plan:
    last = len(plan.stages) - 1
    return replace(plan, residents=(*plan.residents, Resident("fc1.W.new", 0, last)))


FAULTS: dict[Fault, tuple[tuple[str, ...], float, str]] = {
    less_loaded: (("fuse",), 40, "must load .* bytes of"),
    not_loaded: (("fuse",), 40, "must load .* bytes of .*, not 0"),
    not_stored: (("fuse",), 40, "must store .* bytes of .*, not 0"),
    dropped: ((), 40, "each node must run once"),
    run_twice: ((), 40, "each node must run once, not some twice"),
    too_early: ((), 40, "reads .*, which is neither on the chip nor in DRAM"),
    too_late: (("fuse",), 40, "reads .*, which is neither on the chip nor in DRAM"),
    less_space: ((), 40, "needs .* bytes on the chip, not"),
    less_room: ((), 40, "on the chip|more pieces"),
    nothing_held: (("fuse", "depth-first"), 120, "must load .* bytes of"),
    fewer_parts: (("fuse", "depth-first"), 120, "must load|on the chip"),
    fewer_pieces: ((), 12, "must be cut into more pieces than 1"),
    around_another: ((), 12, "must be an operand of"),
    too_short_a_stay: (("fuse", "keep"), 200, "which is neither on the chip nor in DRAM|must store|must load"),
    a_stay_from_nowhere: (("fuse", "keep"), 200, "on the chip|must"),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found(fault: Fault) -> None:
    measures, kib, message = FAULTS[fault]
    plan = plan_step(perceptron(), budget(kib), measures)
    replay(plan)
    with pytest.raises(PlanError, match=message):
        replay(fault(plan))


def chain() -> Graph:
    """Return two products with an operation before them, and an update."""
    axes = frozenset({"samples"})
    tensors = [
        Tensor(name="x", values=4096, axes=axes, is_input=True),
        Tensor(name="W", values=4096, is_input=True),
        Tensor(name="y", values=4096, axes=axes),
        Tensor(name="s", values=4, axes=axes),
        Tensor(name="z", values=4096, axes=axes, wanted=True),
        Tensor(name="dW", values=4096),
        Tensor(name="W.new", values=4096, wanted=True, becomes="W"),
    ]

    def node(name: str, kind: str, reads: str, writes: str, axis: str = "samples") -> Node:
        return Node(name=name, kind=kind, reads=tuple(reads.split()), writes=tuple(writes.split()), axis=axis)

    nodes = [
        node("relu", "element-wise", "x", "y"),
        node("add up", "sums", "y", "s"),
        node("divide", "element-wise", "y s", "z"),
        node("gradient", "product", "x y", "dW"),
        node("update", "update", "dW W", "W.new", ""),
    ]
    return Graph(tensors, nodes, {"samples": 8})


def stage(nodes: str, **more: Any) -> Stage:
    named = tuple(nodes.split(", "))
    fields: dict[str, Any] = {"axis": "samples", "parts": 1, "loads": {}, "stores": {}, "space": 0.0}
    return Stage(nodes=named, cycles=0, element_cycles=0, **(fields | more))


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        # The gradient is a sum over all parts: an update must wait for it.
        ([stage("relu, add up, divide, update, gradient")], "reads dW, which is neither on the chip nor in DRAM"),
        # Sums are complete after all parts.
        (
            [stage("relu, add up, divide, gradient", around="x"), stage("update", axis="")],
            "divide reads sums before everything has passed x",
        ),
        # Sums of a product's parts may stay, element-wise results may not.
        ([stage("relu, add up", around="y"), stage("divide, gradient, update")], "must|needs"),
        ([stage("relu, add up, divide", axis="rows"), stage("gradient, update")], "must have one axis"),
    ],
)
def test_invalid_stages(stages: list[Stage], message: str) -> None:
    plan = Plan(graph=chain(), stages=tuple(stages), residents=(), budget=budget(1000), measures=frozenset())
    with pytest.raises(PlanError, match=message):
        replay(plan)


def sound() -> Plan:
    """Return a valid plan with a stage for each node."""
    plan = plan_step(chain(), budget(1000), ())
    assert [one.nodes for one in plan.stages] == [("relu",), ("add up",), ("divide",), ("gradient",), ("update",)]
    return plan


@pytest.mark.parametrize(
    ("overlap", "message"),
    [
        (Overlap(4, ((5, 1.0),)), "must be complete before the next step reads it|"),
        (Overlap(3, ((4, 1.0),)), "reads dW before it is complete"),
        (Overlap(4, ((3, 1.0),)), "reads dW before it is complete"),
        (Overlap(2, ((1, 0.5),)), "reads s before it is complete"),
        (Overlap(4, ((5, 0.7), (6, 0.7))), "must be from 0 to all of its bytes"),
        (Overlap(4, ((5, -0.1),)), "must be from 0 to all of its bytes"),
    ],
)
def test_impossible_overlaps(overlap: Overlap, message: str) -> None:
    plan = replace(sound(), overlaps=(overlap,))
    if message.endswith("|"):
        replay(plan)  # No other node reads the weights.
    else:
        with pytest.raises(PlanError, match=message):
            replay(plan)


def test_weights_that_are_loaded_too_late() -> None:
    graph = chain()
    nodes = [replace(node, reads=("x", "W")) if node.name == "relu" else node for node in graph.nodes.values()]
    plan = plan_step(Graph(graph.tensors.values(), nodes, graph.axes), budget(1000), ())
    replay(replace(plan, overlaps=()))
    with pytest.raises(PlanError, match="W.new must be complete before the next step reads it"):
        replay(replace(plan, overlaps=(Overlap(4, ((5, 1.0),)),)))


def test_held_tensor_is_reloaded_after_a_pause() -> None:
    plan = sound()
    place = first(plan, lambda each: each.nodes == ("gradient",))
    assert plan.stages[place].around == "x"
    held = plan.graph.tensors["x"].packed
    more = [replace(node, phase=0) for node in plan.graph.nodes.values()]
    graph = Graph([*plan.graph.tensors.values()], more, plan.graph.axes)
    # The gradient's stage comes first, and overlaps the second of two other stages.
    order = [plan.stages[each] for each in (0, 3, 1, 2, 4)]
    for reloaded_bytes, is_right in ((held, True), (held / 2, False)):
        moved = replace(plan, graph=graph, stages=tuple(order), overlaps=(Overlap(1, ((3, 0.5),), reloaded_bytes),))
        if is_right:
            assert replay(moved).loads == pytest.approx(replay(plan).loads + held)
        else:
            with pytest.raises(PlanError, match="must load .* bytes again after a pause"):
                replay(moved)
