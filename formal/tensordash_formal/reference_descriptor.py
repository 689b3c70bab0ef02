"""A unit's descriptor as it was given, beside the hardware: what proofs about units are written in."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tensordash.configuration.descriptors import BITS, Operation
from tensordash.movers.unit import COMMAND_BEATS, COMMAND_BITS

from .harness import Fault, Harness

__all__ = ["MOST_STRIDE", "WORD", "ReferenceDescriptor", "corrupt_word", "next_beat"]

MOST_STRIDE = 4
WORD = 32


class ReferenceDescriptor:
    """Collects the beats that a unit takes at its port, until it says that it is done.

    Parameters
    ----------
    m : Module
        Where it is built.
    command : CommandSignature, as the unit has it
        The port.
    operation : Operation
        Gives the fields.

    Attributes
    ----------
    whole, begun : Signal
        There is a descriptor; it was there a cycle ago.
    loads : Signal
        In the cycle between the two.
    beat : Signal
        Beats that were taken.
    """

    def __init__(self, m: Module, command: Any, operation: Operation) -> None:
        self.m = m
        self._fields = {field.name: field for field in operation.fields}
        self.bits = Signal(BITS, name="given", reset_less=True)
        self.beat = Signal(range(COMMAND_BEATS + 1), name="given_beats")
        self.whole, self.begun = Signal(name="given_whole"), Signal(name="nest_begun")
        self.loads = Signal(name="nest_loads")
        taken = command.descriptor.valid & command.descriptor.ready
        m.d.comb += [self.whole.eq(self.beat == COMMAND_BEATS), self.loads.eq(self.whole & ~self.begun)]
        with m.If(taken):
            m.d.sync += [self.beat.eq(self.beat + 1), *self._kept(command.descriptor.payload)]
        with m.If(self.loads):
            m.d.sync += self.begun.eq(1)
        with m.If(command.done):
            m.d.sync += [self.begun.eq(0), self.beat.eq(0)]

    def _kept(self, payload: Value) -> list[Any]:
        places = [slice(COMMAND_BITS * k, COMMAND_BITS * (k + 1)) for k in range(COMMAND_BEATS)]
        return [self.bits[at].eq(Mux(self.beat == k, payload, self.bits[at])) for k, at in enumerate(places)]

    def legal(self, payload: Value) -> Value:
        """Whether a beat that comes now keeps every field within what is allowed (docs/core.md, "Descriptors")."""
        rules: list[Value] = []
        for field in self._fields.values():
            beat, low = divmod(field.low, COMMAND_BITS)
            value = payload[low : low + field.width]
            if field.least:
                rules.append((self.beat != beat) | (value >= field.least))
            if field.name == "stride":
                rules.append((self.beat != beat) | (value <= MOST_STRIDE))
        return Cat(*rules).all()

    def follow(self, harness: Harness) -> None:
        """The unit's own register of descriptors goes along."""
        harness.lemma(harness.probe("present", 1) == self.whole)
        harness.lemma(self.whole, when=self.begun)
        harness.lemma(self.beat <= COMMAND_BEATS)
        beat = harness.probe("next_beat", COMMAND_BEATS)
        harness.lemma(beat == Mux(self.whole, 1, Const(1, COMMAND_BEATS) << self.beat[:2]))

    def follow_fields(self, harness: Harness) -> None:
        """What the unit keeps of it is what was given, and as it may be."""
        for k in range(COMMAND_BEATS):
            used = self.used() >> COMMAND_BITS * k & ((1 << COMMAND_BITS) - 1)
            if used:
                mine = harness.probe(f"descriptor_{k}", COMMAND_BITS)
                harness.lemma(((mine ^ self.bits.word_select(k, COMMAND_BITS)) & used) == 0, when=self.beat > k)
        for name, field in self._fields.items():
            if field.least:
                harness.lemma(self[name] >= field.least, when=self.beat > field.low // COMMAND_BITS)

    def stepped(self, turns: Sequence[Value], places: Mapping[str, Value]) -> tuple[list[Value], dict[str, Value]]:
        """Where its loops stand a group on (docs/core.md, "Loops").

        Parameters
        ----------
        turns : sequence of Value
            Of each loop but the outermost, from 0 on, the innermost first.
        places : mapping of str to Value
            Of address, x and y those that are wanted.
        """
        # The innermost loop that has turns left, or the outermost.
        left = [turn < self[f"count_{k}"] - 1 for k, turn in enumerate(turns)]
        after: list[Value] = [Mux(Cat(left[:k]).any(), turn, Mux(left[k], turn + 1, 0)) for k, turn in enumerate(turns)]
        moved: dict[str, Value] = {}
        for name, place in places.items():
            change: Value = self[f"{name}_{len(turns)}"]
            for k in reversed(range(len(turns))):
                change = Mux(left[k], self[f"{name}_{k}"], change)
            moved[name] = place + change
        return after, moved

    def used(self) -> int:
        """The bits of a descriptor that have a field."""
        return sum(field.mask for field in self._fields.values())

    def __getitem__(self, name: str) -> Value:
        """A field of the descriptor."""
        field = self._fields[name]
        bits = self.bits[field.low : field.low + field.width]
        return bits.as_signed() if field.signed else bits


def next_beat(m: Module, unit: Any) -> Signal:
    """For faults: which beat of a descriptor a unit takes next."""
    beat = Signal(range(COMMAND_BEATS), name="beat_of_descriptor")
    with m.If(unit.command.descriptor.valid & unit.command.descriptor.ready):
        m.d.sync += beat.eq(beat + 1)
    return beat


def corrupt_word(number: int, change: Callable[[Value], Value]) -> Fault:
    """A fault: a unit gets another word of its descriptors, of 32 bits, than it was given."""
    low = WORD * number % COMMAND_BITS

    def fault(m: Module, sound: Any, outer: Any) -> None:
        payload = outer.command.descriptor.payload
        changed = Cat(payload[:low], change(payload[low : low + WORD])[:WORD], payload[low + WORD :])
        now = next_beat(m, outer) == WORD * number // COMMAND_BITS
        m.d.comb += sound.command.descriptor.payload.eq(Mux(now, changed, payload))

    return fault
