"""Timeline of stages: loads run ahead of the work, and stores after it."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, inf

from .budget import Budget
from .overlap import Overlap
from .stages import Stage

__all__ = ["alone", "overlapped"]

MIN_SLICES = 8
"""Minimum of slices of a stage; a slice moves at most half of the bytes that may be loaded early or stored late. Work
on a slice begins after its loads, and its stores begin after its work."""


def alone(stages: Sequence[Stage], budget: Budget) -> int:
    """Return the cycles without overlap between stages; within a stage, DRAM and tiles work at the same time.

    Parameters
    ----------
    stages : sequence of Stage
        The stages in order.
    budget : Budget
        Resources of the chip.
    """
    return sum(max(budget.on_chip(stage), budget.dram(stage)) for stage in stages)


def overlapped(stages: Sequence[Stage], budget: Budget, overlaps: Sequence[Overlap] = ()) -> int:
    """Return the cycles if a stage's loads overlap with earlier stages, and its stores with later ones.

    Loaded tensors wait in the space that the working stage and the stages in between leave. Results wait for their
    store in half of the budget's `prefetch`. In both, one slice may exceed the space. DRAM runs one transfer at a time,
    the one that can begin first. The function simulates two steps and counts the second one, whose first loads overlap
    with the first step.

    Parameters
    ----------
    stages, budget
        As for `alone`.
    overlaps : sequence of Overlap
        Stages that run at the same time as others.

    Returns
    -------
    int
        At least the cycles of tiles and element-wise units, and at least the cycles of DRAM.
    """
    slots = _slots(stages, budget, overlaps)
    work = sum(slot.work for slot in slots)
    moved = sum(slot.loads + slot.stores for slot in slots) / budget.dram_bytes_per_cycle
    return round(max(_Timeline([*slots, *slots], budget).run(), work, moved))


@dataclass
class _Slot:
    """Work, transfers and space while a stage is in its place."""

    work: float
    loads: float
    stores: float
    space: float


def _slots(stages: Sequence[Stage], budget: Budget, overlaps: Sequence[Overlap]) -> list[_Slot]:
    def slot(stage: Stage) -> _Slot:
        work = budget.on_chip(stage)
        return _Slot(work, sum(stage.loads.values()), sum(stage.stores.values()), stage.space)

    slots = [slot(stage) for stage in stages]
    for one in overlaps:
        full_slot = slot(stages[one.stage])
        for place, share in (*one.shares, (one.stage, one.left - 1)):
            at = slots[place % len(slots)]
            at.work += share * full_slot.work
            at.loads += share * full_slot.loads
            at.stores += share * full_slot.stores
        for place in one.places:
            slots[place % len(slots)].space += full_slot.space if place != one.stage else 0.0
        for place in one.resumed:
            slots[place % len(slots)].loads += one.reloaded_bytes
    return slots


class _Timeline:
    """The slices of all stages, and the times at which each is loaded, begun, done and stored."""

    def __init__(self, slots: Sequence[_Slot], budget: Budget) -> None:
        self.rate, self.room = budget.dram_bytes_per_cycle, budget.prefetch / 2
        # The space that each stage leaves for loads of later stages, and its first slice.
        self.rooms = [budget.capacity + budget.prefetch - self.room - slot.space for slot in slots]
        self.starts: list[int] = []
        self.stage: list[int] = []
        self.work: list[float] = []
        loads: list[float] = []
        stores: list[float] = []
        for slot in slots:
            slices = max(MIN_SLICES, ceil(2 * max(slot.loads, slot.stores) / self.room))
            self.starts.append(len(self.work))
            self.stage += [len(self.starts) - 1] * slices
            self.work += [slot.work / slices] * slices
            loads += [slot.loads / slices] * slices
            stores += [slot.stores / slices] * slices
        # Bytes of all slices before each.
        self.loads, self.stores = ([0.0, *accumulate(each)] for each in (loads, stores))
        self.loaded: list[float] = []
        self.used = 0  # slices that must have begun before the next one is loaded
        self.begun: list[float] = []
        self.done: list[float] = []
        self.stored: list[float] = []

    def run(self) -> float:
        """Simulate all slices; return the cycles from the end of the first half's work to the end of all work."""
        free = 0.0
        while len(self.stored) < len(self.work):
            self._work()
            load, store = self._can_load(), self._can_store()
            if load <= store:
                number, moved, of = len(self.loaded), self.loads, self.loaded
            else:
                number, moved, of = len(self.stored), self.stores, self.stored
            free = max(free, min(load, store)) + (moved[number + 1] - moved[number]) / self.rate
            of.append(free)
        return self.done[-1] - self.done[len(self.work) // 2 - 1] if self.done else 0.0

    def _work(self) -> None:
        """Begin the slices whose start is determined."""
        for number in range(len(self.begun), len(self.loaded)):
            # Space for results: all earlier results except the last few must be stored.
            gone = min(bisect_left(self.stores, self.stores[number] - self.room), number)
            if gone > len(self.stored):
                return
            room = self.stored[gone - 1] if gone else 0.0
            begin = max(self.loaded[number], room, self.done[-1] if self.done else 0.0)
            self.begun.append(begin)
            self.done.append(begin + self.work[number])

    def _can_load(self) -> float:
        """Return when the next slice's loads have space: all earlier slices except the last few must have begun."""
        number = len(self.loaded)
        if number == len(self.work):
            return inf
        while self.used < number and not self._has_room(number):
            self.used += 1
        if self.used > len(self.begun):
            return inf
        return self.begun[self.used - 1] if self.used else 0.0

    def _has_room(self, number: int) -> bool:
        """Return whether a slice can be loaded once the first `used` slices have begun, and stay until it begins."""
        now, then = self.stage[max(self.used - 1, 0)], self.stage[number]
        until = self.loads[number + 1]
        if until - self.loads[self.used] > self.rooms[now]:
            return False
        return all(until - self.loads[self.starts[stage + 1]] <= self.rooms[stage] for stage in range(now + 1, then))

    def _can_store(self) -> float:
        number = len(self.stored)
        return self.done[number] if number < len(self.done) else inf
