"""The planner: decides which nodes run together, which are recomputed, and which tensors stay on the chip."""

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count

from .budget import Budget
from .graph import Graph
from .overlap import Overlap, overlap_stages
from .plan import MEASURES, Plan, Resident
from .stages import Stage, best_stage

__all__ = ["plan_step"]

MAX_RECOMPUTED_STAGES = 8
"""Maximum of stages recomputed together for one tensor."""
BOTH = 0.3
"""Weight of a cycle that does not limit the step if DRAM and tiles overlap; it may still limit some stages."""


def plan_step(graph: Graph, budget: Budget, measures: Collection[str] = tuple(MEASURES)) -> Plan:
    """Plan a step greedily: start with each node alone, and repeat the change that saves most cycles.

    A change merges two stages, recomputes a tensor in the stage that reads it, or keeps a tensor on the chip. The order
    of stages follows the graph. The plan minimises TensorDash's cycles; a baseline runs the same plan.

    Parameters
    ----------
    graph : Graph
        The step.
    budget : Budget
        Resources of the chip.
    measures : collection of str
        The allowed `MEASURES`.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If a measure is not in `MEASURES`, or a node does not fit on the chip by itself.
    """
    if unknown := set(measures) - set(MEASURES):
        raise ValueError(f"measures must be among {', '.join(MEASURES)}, not {', '.join(sorted(unknown))}")
    # Without overlap, DRAM or the tiles limit each stage; with overlap, one of the two limits the complete step.
    goals = (False, True) if "overlap" in measures else (False,)
    plans = (_planned(graph, budget, frozenset(measures), per_step) for per_step in goals)
    return min(plans, key=lambda plan: plan.cycles)


def _planned(graph: Graph, budget: Budget, measures: frozenset[str], per_step: bool) -> Plan:
    search = _Search(graph, budget, measures, per_step)
    search.merge()
    while "recompute" in measures and search.recompute():
        search.merge()
    plan = search.plan()
    return _split(search, plan) if "overlap" in measures else plan


class _Search:
    """State of the search: stages by number, and their dependencies."""

    def __init__(self, graph: Graph, budget: Budget, measures: frozenset[str], per_step: bool) -> None:
        self.graph, self.budget, self.measures, self.per_step = graph, budget, measures, per_step
        self.numbers = count()
        self.stages: dict[int, Stage] = {}
        self.stage_of: dict[str, int] = {}
        self.place = {name: float(place) for place, name in enumerate(graph.nodes)}
        self.tiles = self.moved = 0.0  # cycles of all stages on the chip, and of DRAM
        for name in graph.nodes:
            stage = self.stage([name])
            if stage is None:
                raise ValueError(f"{name} must fit on the chip by itself: {budget.capacity:.0f} bytes are too few")
            self.put(stage)

    def stage(self, nodes: Iterable[str], *, graph: Graph | None = None, **how) -> Stage | None:
        """Return the best stage of nodes, in the order of the graph."""
        options = {"capacity": self.budget.capacity} | how
        return best_stage(
            graph or self.graph,
            sorted(nodes, key=self.place.__getitem__),
            elements_per_cycle=self.budget.elements_per_cycle,
            packed="compress" in self.measures,
            **options,
        )

    def put(self, stage: Stage) -> int:
        """Replace the stages of a new stage's nodes by it; return its number."""
        number = next(self.numbers)
        for old in {self.stage_of[name] for name in stage.nodes if self.stage_of.get(name) in self.stages}:
            self.remove(old)
        self.stages[number] = stage
        self.stage_of |= dict.fromkeys(stage.nodes, number)
        self.tiles += self.budget.on_chip(stage)
        self.moved += self.budget.dram(stage)
        return number

    def remove(self, number: int) -> None:
        stage = self.stages.pop(number)
        self.tiles -= self.budget.on_chip(stage)
        self.moved -= self.budget.dram(stage)

    def saved(self, old: Iterable[Stage], new: Iterable[Stage]) -> float:
        """Return the cycles that the step saves with new stages instead of old ones."""
        if not self.per_step:
            return self._alone(old) - self._alone(new)
        tiles, moved = self.tiles, self.moved
        for stages, sign in ((old, -1), (new, 1)):
            for stage in stages:
                tiles += sign * self.budget.on_chip(stage)
                moved += sign * self.budget.dram(stage)
        now, then = (max(pair) + BOTH * sum(pair) for pair in ((self.tiles, self.moved), (tiles, moved)))
        return now - then

    def _alone(self, stages: Iterable[Stage]) -> int:
        return sum(max(self.budget.on_chip(stage), self.budget.dram(stage)) for stage in stages)

    def neighbours(self, number: int) -> set[int]:
        """Return the stages that share a tensor with a stage."""
        names = {name for node in self.stages[number].nodes for name in self.tensors_of(node)}
        nodes = {node for name in names for node in self.graph.readers[name]}
        nodes |= {self.graph.writer[name] for name in names if name in self.graph.writer}
        return {self.stage_of[node] for node in nodes} - {number}

    def tensors_of(self, node: str) -> tuple[str, ...]:
        """Return the tensors that a node reads and writes."""
        return (*self.graph.nodes[node].reads, *self.graph.nodes[node].writes)

    def merge(self) -> None:
        """Merge two stages as long as that saves cycles, the largest saving first."""
        heap = [move for number in self.stages for move in self._merges(number, above=number)]
        heapq.heapify(heap)
        while heap:
            gain, first, second, merged = heapq.heappop(heap)
            if first not in self.stages or second not in self.stages:
                continue
            current = -self.saved([self.stages[first], self.stages[second]], [merged])
            if current >= 0:
                continue
            if current > gain and heap and current > heap[0][0]:  # it saves less than when it was queued
                heapq.heappush(heap, (current, first, second, merged))
                continue
            if self._between(first, second):
                continue
            number = self.put(merged)
            for move in self._merges(number):
                heapq.heappush(heap, move)

    def _merges(self, number: int, above: int = -1) -> Iterator[tuple[float, int, int, Stage]]:
        for other in self.neighbours(number):
            if other > above and self._may_merge(number, other):
                merged = self.stage([*self.stages[number].nodes, *self.stages[other].nodes])
                if merged is None:
                    continue
                gain = self.saved([self.stages[number], self.stages[other]], [merged])
                if gain > 0:
                    yield -gain, number, other, merged

    def _may_merge(self, first: int, second: int) -> bool:
        """Return whether the measures allow two stages to merge."""
        nodes = [[self.graph.nodes[name] for name in self.stages[each].nodes] for each in (first, second)]
        products = [any(node.kind == "product" for node in each) for each in nodes]
        if not all(products):
            return "fuse" in self.measures
        written = [{name for node in each for name in node.writes} for each in nodes]
        read = [{name for node in each for name in node.reads} for each in nodes]
        flows = written[0] & read[1] or written[1] & read[0]
        return ("depth-first" if flows else "share") in self.measures

    def _between(self, first: int, second: int) -> bool:
        """Return whether a third stage depends on one of two stages and the other on it, so that they cannot merge."""
        for start, end in ((first, second), (second, first)):
            reached, todo = set[int](), [each for each in self._after(start) if each != end]
            while todo:
                number = todo.pop()
                if number == end:
                    return True
                if number not in reached:
                    reached.add(number)
                    todo += self._after(number)
        return False

    def _after(self, number: int) -> set[int]:
        """Return the stages that read results of a stage."""
        nodes = self.stages[number].nodes
        readers = {
            reader for node in nodes for name in self.graph.nodes[node].writes for reader in self.graph.readers[name]
        }
        return {self.stage_of[reader] for reader in readers} - {number}

    def recompute(self) -> bool:
        """Recompute tensors in the stages that read them if that saves cycles; return whether anything changed."""
        changed = False
        for number in list(self.stages):
            if number in self.stages:
                nodes = self.stages[number].nodes
                for name in dict.fromkeys(name for node in nodes for name in self.graph.nodes[node].reads):
                    writer = self.graph.writer.get(name)
                    if number in self.stages and writer is not None and writer not in nodes:
                        changed |= self._copy(writer, number)
        return changed

    def _copy(self, writer: str, target: int) -> bool:
        """Recompute a node in a stage that reads its results, with all unstored inputs, if that saves cycles."""
        graph, place = self.graph, dict(self.place)
        nodes = list(self.stages[target].nodes)
        touched = {target}
        todo = [writer]
        while todo and len(touched) <= MAX_RECOMPUTED_STAGES:
            source = todo.pop()
            if source not in graph.nodes:
                continue
            readers = {each for name in graph.nodes[source].writes for each in graph.readers[name]} & set(nodes)
            if not readers:
                continue
            copy = f"{source} for {min(readers)}"
            if graph.nodes[source].kind == "update" or copy in graph.nodes:
                break
            touched.add(self.stage_of[source])
            graph = graph.with_copy(source, readers)
            self.place[copy] = min(self.place[each] for each in readers) - 1e-6 * (len(nodes) + 1)
            nodes.append(copy)
            for name in graph.nodes[copy].reads:
                maker = graph.writer.get(name)
                if maker is not None and maker not in nodes and name not in self.stages[self.stage_of[maker]].stores:
                    todo.append(maker)
        else:
            if not todo:
                members = {
                    number: [each for each in self.stages[number].nodes if each in graph.nodes] for number in touched
                }
                members[target] = nodes
                new = [self.stage(each, graph=graph) for each in members.values() if each]
                fitting = [stage for stage in new if stage is not None]
                if len(fitting) == len(new) and self.saved([self.stages[number] for number in touched], fitting) > 0:
                    self.graph = graph
                    for number in touched:
                        self.remove(number)
                    self.stage_of = {name: number for name, number in self.stage_of.items() if number in self.stages}
                    for stage in fitting:
                        self.put(stage)
                    return True
        self.place = place
        return False

    def state(self) -> tuple[dict[int, Stage], dict[str, int], float, float]:
        return dict(self.stages), dict(self.stage_of), self.tiles, self.moved

    def restore(self, state: tuple[dict[int, Stage], dict[str, int], float, float]) -> None:
        stages, stage_of, self.tiles, self.moved = state
        self.stages, self.stage_of = dict(stages), dict(stage_of)

    def plan(self) -> Plan:
        """Return the plan of the current stages, with resident tensors and overlaps.

        A stage that reads or writes a resident tensor cannot overlap others, and resident tensors leave less space for
        overlaps. So the search also tries no resident tensors of stages that wait for DRAM, and none at all.
        """
        if not {"keep", "overlap"} <= self.measures:
            return self._plan(self.graph.tensors if "keep" in self.measures else ())
        waiting = [stage for stage in self.stages.values() if self.budget.dram(stage) > self.budget.on_chip(stage)]
        theirs = {name for stage in waiting for node in stage.nodes for name in self.tensors_of(node)}
        plans = [self._plan(names) for names in (self.graph.tensors, set(self.graph.tensors) - theirs, ())]
        return min(plans, key=lambda plan: plan.cycles)

    def _plan(self, may_stay: Collection[str]) -> Plan:
        state, stages = self.state(), self.in_order()
        stages, residents = _keep_on_chip(self, stages, may_stay)
        overlaps: tuple[Overlap, ...] = ()
        if "overlap" in self.measures:
            sizes = [
                sum(self.graph.tensors[one.tensor].bytes for one in residents if one.first <= place <= one.last)
                for place in range(len(stages))
            ]
            stay = {one.tensor for one in residents}
            fixed = {
                place
                for place, stage in enumerate(stages)
                if any(stay & set(self.tensors_of(node)) for node in stage.nodes)
            }
            overlaps = overlap_stages(self.graph, stages, sizes, fixed, self.budget)
        self.restore(state)
        return Plan(
            graph=self.graph,
            stages=tuple(stages),
            residents=residents,
            budget=self.budget,
            measures=self.measures,
            overlaps=overlaps,
        )

    def in_order(self) -> list[Stage]:
        """Return the stages in topological order; among the ready ones, the one with the earliest node comes first."""
        waits_for = dict.fromkeys(self.stages, 0)
        for number in self.stages:
            for later in self._after(number):
                waits_for[later] += 1
        first = {
            number: (self.graph.nodes[stage.nodes[0]].phase, min(self.place[name] for name in stage.nodes))
            for number, stage in self.stages.items()
        }
        ready = [(first[number], number) for number, left in waits_for.items() if not left]
        heapq.heapify(ready)
        ordered = []
        while ready:
            _, number = heapq.heappop(ready)
            ordered.append(self.stages[number])
            for later in self._after(number):
                waits_for[later] -= 1
                if not waits_for[later]:
                    heapq.heappush(ready, (first[later], later))
        return ordered


def _split(search: "_Search", plan: Plan) -> Plan:
    """Move updates, with their gradients, out of stages that wait for DRAM if that shortens the step."""
    budget = search.budget
    waiting = [stage for stage in search.stages.values() if budget.dram(stage) > budget.on_chip(stage)]
    updates = [name for stage in waiting for name in stage.nodes if search.graph.nodes[name].kind == "update"]
    for name in updates:
        stage = search.stages[search.stage_of[name]]
        made = {search.graph.writer.get(tensor) for tensor in search.graph.nodes[name].reads}
        apart = {name, *(each for each in made if each in stage.nodes)}
        left = [each for each in stage.nodes if each not in apart]
        new = [search.stage(each) for each in (apart, left) if each]
        fitting = [each for each in new if each is not None]
        if len(new) < 2 or len(fitting) < len(new):
            continue
        before = search.state()
        search.remove(search.stage_of[name])
        for each in fitting:
            search.put(each)
        # The two stages may depend on each other, because other nodes may also read the update's gradient.
        changed = search.plan() if len(search.in_order()) == len(search.stages) else None
        if changed is not None and changed.cycles < plan.cycles:
            plan = changed
        else:
            search.restore(before)
    return plan


def _keep_on_chip(
    search: _Search, stages: Sequence[Stage], may_stay: Collection[str]
) -> tuple[list[Stage], tuple[Resident, ...]]:
    """Keep tensors on the chip, in the order of bytes saved per byte and stage."""
    graph, chosen = search.graph, list(stages)
    where = {name: number for number, stage in enumerate(stages) for name in stage.nodes}
    taken = [0.0] * len(chosen)
    resident: list[set[str]] = [set() for _ in chosen]
    candidates = []
    touching = {
        name: {where[node] for node in (*graph.readers[name], *([graph.writer[name]] if name in graph.writer else []))}
        for name in graph.tensors
    }
    for name, tensor in graph.tensors.items():
        if name not in may_stay or name not in graph.writer or not graph.readers[name]:
            continue
        first, last = where[graph.writer[name]], max(where[reader] for reader in graph.readers[name])
        moved = sum(stage.loads.get(name, 0.0) + stage.stores.get(name, 0.0) for stage in chosen[first : last + 1])
        if first < last and moved > 0:
            candidates.append((-moved / (tensor.bytes * (last + 1 - first)), Resident(name, first, last)))
    residents = []
    for _, one in sorted(candidates, key=lambda each: (each[0], each[1].first, each[1].tensor)):
        size, span = graph.tensors[one.tensor].bytes, range(one.first, one.last + 1)
        if any(taken[number] + size > search.budget.capacity for number in span):
            continue
        new = [
            chosen[number]
            if number not in touching[one.tensor]
            and chosen[number].space <= search.budget.capacity - taken[number] - size
            else search.stage(
                chosen[number].nodes,
                capacity=search.budget.capacity - taken[number] - size,
                resident=resident[number] | {one.tensor},
            )
            for number in span
        ]
        fitting = [stage for stage in new if stage is not None]
        if len(fitting) < len(new) or search.saved(chosen[one.first : one.last + 1], fitting) <= 0:
            continue
        for number, stage in zip(span, fitting, strict=True):
            search.tiles += search.budget.on_chip(stage) - search.budget.on_chip(chosen[number])
            search.moved += search.budget.dram(stage) - search.budget.dram(chosen[number])
            chosen[number] = stage
            taken[number] += size
            resident[number].add(one.tensor)
        residents.append(one)
    return chosen, tuple(residents)
