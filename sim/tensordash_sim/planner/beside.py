"""Stages that wait for DRAM run beside stages that do not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .budget import Budget
from .graph import Graph
from .stages import Stage

__all__ = ["Beside", "run_beside"]


@dataclass(frozen=True)
class Beside:
    """A stage that runs beside others instead of in its own place.

    Attributes
    ----------
    stage : int
        Which.
    shares : tuple of (int, float)
        The stages that it runs beside, in order, and how much of it does; what is left runs in its own place. Numbers
        from that of all stages on are of the next step's: steps follow each other, and an update has time until its
        weights are read again.
    again : float
        Bytes to load whenever it goes on after a pause: what it holds. It has no space meanwhile.
    """

    stage: int
    shares: tuple[tuple[int, float], ...]
    again: float = 0.0

    @property
    def left(self) -> float:
        """What runs in its own place."""
        return 1 - sum(share for _, share in self.shares)

    @property
    def places(self) -> list[int]:
        """Where it runs, in order."""
        own = [self.stage] if self.left > 1e-9 else []
        return sorted([*own, *(place for place, _ in self.shares)])

    @property
    def span(self) -> range:
        """From the first to the last."""
        return range(self.places[0], self.places[-1] + 1)

    @property
    def resumed(self) -> list[int]:
        """Where it goes on after a pause."""
        places = self.places
        return [place for before, place in pairwise(places) if place > before + 1]


def _again(graph: Graph, stage: Stage) -> float | None:
    """Bytes of what a stage holds; None if that are sums, which are nowhere else."""
    made = {name for node in stage.nodes for name in graph.nodes[node].writes}
    held = {*stage.held, *([stage.around] if stage.around else [])}
    return None if held & made else sum(graph.tensors[name].packed for name in held)


def _window(graph: Graph, stages: Sequence[Stage], number: int, spans: Mapping[int, range]) -> range:
    """Places from behind the last at which a stage's tensors are made to before the first at which its own are read.

    Parameters
    ----------
    graph, stages : Graph, sequence of Stage
        The step.
    number : int
        Of the stage.
    spans : mapping of int to range
        Where stages run that run beside others.
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
    # Nothing in this step needs it; in the next one, what it writes is given.
    again = [where[reader] for tensor in written if tensor.becomes for reader in graph.readers[tensor.becomes]]
    return range(
        first, len(stages) + min((spans.get(place, range(place, place + 1)).start for place in again), default=0)
    )


def run_beside(
    graph: Graph, stages: Sequence[Stage], kept: Sequence[float], fixed: set[int], budget: Budget
) -> tuple[Beside, ...]:
    """Put stages that need DRAM longer than the tiles beside those that need the tiles longer, the longest first.

    Parameters
    ----------
    graph, stages : Graph, sequence of Stage
        The step.
    kept : sequence of float
        Bytes that are kept on the chip for other stages, during each.
    fixed : set of int
        Stages that stay in their places: what they read or give is kept on the chip.
    budget : Budget
        Of the chip.
    """
    # Cycles that DRAM could be busy and is not, in each stage, and room on the chip.
    slack: list[float] = [budget.on_chip(stage) - budget.dram(stage) for stage in stages]
    room = [budget.capacity - stage.space - taken for stage, taken in zip(stages, kept, strict=True)]
    found: list[Beside] = []
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
        again = _again(graph, stages[number])
        taken: dict[int, float] = {}
        for step in (1, -1):  # behind its place, then before it
            place = number + step
            while place in allowed and lacking > 0:
                has_room = room[place % count] >= space
                if not has_room and again is None:
                    break
                if has_room and slack[place % count] > 0:
                    taken[place] = min(slack[place % count], lacking)
                    lacking -= taken[place]
                elif has_room and again is None:
                    taken[place] = 0.0  # its sums stay
                place += step
        while taken and not taken[max(taken)]:
            del taken[max(taken)]
        while taken and not taken[min(taken)]:
            del taken[min(taken)]
        if not taken:
            continue
        shares = tuple((place, cycles / -slack[number]) for place, cycles in sorted(taken.items()))
        one = Beside(number, shares, again or 0.0)
        for place, cycles in taken.items():
            slack[place % count] -= cycles
            room[place % count] -= space
        slack[number] = -lacking
        found.append(one)
    return tuple(found)
