"""Reference model of a walk through the loops of a descriptor (docs/core.md, "Loops")."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from .harness import Harness

__all__ = ["LOOPS", "Fields", "LoopNest", "advanced", "counts_one_turn_more", "stands_still_in_loop_2"]

LOOPS = 4
COUNT_BITS = 12
FIRST_PLACES: Mapping[str, str] = MappingProxyType({"address": "address", "x": "x", "y": "y"})


class Fields(Protocol):
    """A descriptor's fields, by name."""

    def __getitem__(self, name: str, /) -> Value:
        """Return a field."""
        ...


def advanced(
    fields: Fields, turns: Sequence[Value], places: Mapping[str, Value]
) -> tuple[list[Value], dict[str, Value]]:
    """Advance the loops by one group.

    Parameters
    ----------
    fields : Fields
        Counts of all loops but the outermost, and increments of all loops.
    turns : sequence of Value
        Counters of all loops but the outermost, innermost first, from 0.
    places : mapping of str to Value
        The position: any of address, x and y.
    """
    # The innermost loop with turns left steps. If no loop has turns left, the outermost loop steps.
    left = [turn < fields[f"count_{k}"] - 1 for k, turn in enumerate(turns)]
    after: list[Value] = [Mux(Cat(left[:k]).any(), turn, Mux(left[k], turn + 1, 0)) for k, turn in enumerate(turns)]
    moved: dict[str, Value] = {}
    for name, place in places.items():
        change: Value = fields[f"{name}_{len(turns)}"]
        for k in reversed(range(len(turns))):
            change = Mux(left[k], fields[f"{name}_{k}"], change)
        moved[name] = place + change
    return after, moved


class LoopNest:
    """Tracks the reference position of a walk, with loop counters that start at 0.

    Parameters
    ----------
    m : Module
        Module of the ghost registers.
    fields : Fields
        The descriptor's fields. They must not change between `starts` and the last `step`.
    name : str
        Prefix of the registers' names.
    starts, step : Value
        The walk begins; the walk advances to the next group.
    first : mapping of str to str
        For each place, the field in which it begins.
    """

    def __init__(
        self,
        m: Module,
        fields: Fields,
        name: str,
        *,
        starts: Value,
        step: Value,
        first: Mapping[str, str] = FIRST_PLACES,
    ) -> None:
        self._fields = fields
        self.turns = [Signal(COUNT_BITS, name=f"{name}_turn_{k}", reset_less=True) for k in range(LOOPS - 1)]
        self.place = {each: Signal(16, name=f"{name}_{each}", reset_less=True) for each in first}
        turns, places = advanced(fields, self.turns, self.place)
        with m.If(starts):
            m.d.sync += [each.eq(fields[first[place]]) for place, each in self.place.items()]
            m.d.sync += [turn.eq(0) for turn in self.turns]
        with m.Elif(step):
            m.d.sync += [each.eq(places[place]) for place, each in self.place.items()]
            m.d.sync += [turn.eq(after) for turn, after in zip(self.turns, turns, strict=True)]

    def add_lemmas(self, harness: Harness, walk: str, places: Sequence[str], *, when: Any) -> None:
        """State the lemmas: the hardware counts down the remaining turns and marks the last turn of a loop."""
        ends = harness.probe(f"{walk}.ends", LOOPS - 1)
        for k, turn in enumerate(self.turns):
            left = harness.probe(f"{walk}.left_{k}", COUNT_BITS)
            count = self._fields[f"count_{k}"]
            harness.lemma(turn < count, when=when)
            harness.lemma(left == (count - turn)[:COUNT_BITS], when=when)
            harness.lemma(ends[k] == (turn == count - 1), when=when)
        for name in places:
            harness.lemma(harness.probe(f"{walk}.{name}", 16) == self.place[name], when=when)


def counts_one_turn_more(m: Module, sound: Any, outer: Any) -> None:
    """Let a `Walk` run loop 1 once more."""
    m.d.comb += sound.counts[1].eq(outer.counts[1] + 1)


def stands_still_in_loop_2(m: Module, sound: Any, outer: Any) -> None:
    """Let a `Walk` keep x in loop 2."""
    m.d.comb += sound.x_steps[2].eq(0)
