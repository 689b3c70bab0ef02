"""Overlap stages that wait for DRAM with stages that do not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .budget import Budget
from .graph import Graph
from .stages import Stage

__all__ = ["Overlap", "overlap_stages"]


@dataclass(frozen=True)
class Overlap:
    """A stage that runs at the same time as others instead of in its own place.

    Attributes
    ----------
    stage : int
        Index of the stage.
    shares : tuple of (int, float)
        Index of each stage that it overlaps, in order, and the share that runs there. The rest runs in its own
        place. Indices from the number of stages on are stages of the next step: an update may run until the next
        step reads its weights.
    reloaded_bytes : float
        Bytes to load after each pause, for the tensors that the stage holds. It has no space during a pause.
    """

    stage: int
    shares: tuple[tuple[int, float], ...]
    reloaded_bytes: float = 0.0

    @property
    def left(self) -> float:
        """The share that runs in its own place."""
        return 1 - sum(share for _, share in self.shares)

    @property
    def places(self) -> list[int]:
        """The places where it runs, in order."""
        own = [self.stage] if self.left > 1e-9 else []
        return sorted([*own, *(place for place, _ in self.shares)])

    @property
    def span(self) -> range:
        """The range from the first place to the last."""
        return range(self.places[0], self.places[-1] + 1)

    @property
    def resumed(self) -> list[int]:
        """The places where it resumes after a pause."""
        places = self.places
        return [place for before, place in pairwise(places) if place > before + 1]


def _reloaded_bytes(graph: Graph, stage: Stage) -> float | None:
    """Return the bytes of the tensors that a stage holds; None if it holds sums, which have no copy in DRAM."""
    made = {name for node in stage.nodes for name in graph.nodes[node].writes}
    held = {*stage.held, *([stage.around] if stage.around else [])}
    return None if held & made else sum(graph.tensors[name].packed for name in held)


def _window(graph: Graph, stages: Sequence[Stage], number: int, spans: Mapping[int, range]) -> range:
    """Return the places where a stage can run: after its operands are written, before its results are read.

    Parameters
    ----------
    graph, stages : Graph, sequence of Stage
        The step.
    number : int
        Index of the stage.
    spans : mapping of int to range
        The places of stages that overlap others.
    """
    where = {name: place for place, stage in enumerate(stages) for name in stage.nodes}
    nodes = [graph.nodes[name] for name in stages[number].nodes]
    written = [graph.tensors[name] for node in nodes for name in node.writes]
    before = {where[graph.writer[name]] for node in nodes for name in node.reads if name in graph.writer} - {number}
    after = {where[reader] for tensor in written for reader in graph.readers[tensor.name]} - {number}
    phases = [graph.nodes[stage.nodes[0]].phase for stage in stages]
    before |= {place for place, phase in enumerate(phases) if phase < phases[number]}
    after |= {place for place, phase in enumerate(phases) if phase > phases[number]}
    first = max((spans.get(place, range(place, place + 1)).stop for place in before), default=0)
    if after or not all(tensor.becomes for tensor in written if tensor.wanted):
        return range(
            first, min((spans.get(place, range(place, place + 1)).start for place in after), default=len(stages))
        )
    # No stage of this step reads its results; the next step does.
    next_readers = [where[reader] for tensor in written if tensor.becomes for reader in graph.readers[tensor.becomes]]
    return range(
        first,
        len(stages) + min((spans.get(place, range(place, place + 1)).start for place in next_readers), default=0),
    )


def overlap_stages(
    graph: Graph, stages: Sequence[Stage], resident_bytes: Sequence[float], fixed: set[int], budget: Budget
) -> tuple[Overlap, ...]:
    """Overlap stages that DRAM limits with stages that the tiles limit, starting with the longest waits for DRAM.

    Parameters
    ----------
    graph, stages : Graph, sequence of Stage
        The step.
    resident_bytes : sequence of float
        For each stage, the bytes of tensors that stay on the chip for other stages.
    fixed : set of int
        Stages that cannot move, because tensors that they read or write stay on the chip.
    budget : Budget
        Budget of the chip.
    """
    # Idle cycles of DRAM in each stage, and free bytes on the chip.
    slack: list[float] = [budget.on_chip(stage) - budget.dram(stage) for stage in stages]
    room = [budget.capacity - stage.space - taken for stage, taken in zip(stages, resident_bytes, strict=True)]
    found: list[Overlap] = []
    count = len(stages)
    waiting = sorted(
        (each for each in range(len(stages)) if slack[each] < 0 and each not in fixed), key=slack.__getitem__
    )
    for number in waiting:
        allowed, space, lacking = (
            _window(graph, stages, number, {one.stage: one.span for one in found}),
            stages[number].space,
            -slack[number],
        )
        reloaded_bytes = _reloaded_bytes(graph, stages[number])
        taken: dict[int, float] = {}
        for step in (1, -1):  # After its place, then before it.
            place = number + step
            while place in allowed and lacking > 0:
                has_room = room[place % count] >= space
                if not has_room and reloaded_bytes is None:
                    break
                if has_room and slack[place % count] > 0:
                    taken[place] = min(slack[place % count], lacking)
                    lacking -= taken[place]
                elif has_room and reloaded_bytes is None:
                    taken[place] = 0.0  # Its sums stay on the chip.
                place += step
        while taken and not taken[max(taken)]:
            del taken[max(taken)]
        while taken and not taken[min(taken)]:
            del taken[min(taken)]
        if not taken:
            continue
        shares = tuple((place, cycles / -slack[number]) for place, cycles in sorted(taken.items()))
        one = Overlap(number, shares, reloaded_bytes or 0.0)
        for place, cycles in taken.items():
            slack[place % count] -= cycles
            room[place % count] -= space
        slack[number] = -lacking
        found.append(one)
    return tuple(found)
