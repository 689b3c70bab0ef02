"""Reference model of a unit's descriptor: ghost registers that proofs about units compare with the hardware."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tensordash.configuration.descriptors import BITS, Operation
from tensordash.movers.unit import COMMAND_BEATS, COMMAND_BITS

from .harness import Fault, Harness

__all__ = ["WORD", "ReferenceDescriptor", "corrupt_word", "next_beat"]

WORD = 32


class ReferenceDescriptor:
    """Collects the beats that a unit takes at its command port, until the unit is done.

    Parameters
    ----------
    m : Module
        Module of the ghost registers.
    command : CommandSignature, the unit's side
        The command port.
    operation : Operation
        Defines the fields.

    Attributes
    ----------
    complete : Signal
        The descriptor is complete.
    active : Signal
        The descriptor has been complete for at least one cycle.
    starting : Signal
        The descriptor is complete and not yet active.
    beat_count : Signal
        Number of beats taken.
    """

    def __init__(self, m: Module, command: Any, operation: Operation) -> None:
        self.m = m
        self._fields = {field.name: field for field in operation.fields}
        self.bits = Signal(BITS, name="descriptor_bits", reset_less=True)
        self.beat_count = Signal(range(COMMAND_BEATS + 1), name="descriptor_beats")
        self.complete, self.active = Signal(name="descriptor_complete"), Signal(name="descriptor_active")
        self.starting = Signal(name="descriptor_starting")
        taken = command.descriptor.valid & command.descriptor.ready
        m.d.comb += [self.complete.eq(self.beat_count == COMMAND_BEATS), self.starting.eq(self.complete & ~self.active)]
        with m.If(taken):
            m.d.sync += [self.beat_count.eq(self.beat_count + 1), *self._store_beat(command.descriptor.payload)]
        with m.If(self.starting):
            m.d.sync += self.active.eq(1)
        with m.If(command.done):
            m.d.sync += [self.active.eq(0), self.beat_count.eq(0)]

    def _store_beat(self, payload: Value) -> list[Any]:
        places = [slice(COMMAND_BITS * k, COMMAND_BITS * (k + 1)) for k in range(COMMAND_BEATS)]
        return [self.bits[at].eq(Mux(self.beat_count == k, payload, self.bits[at])) for k, at in enumerate(places)]

    def is_legal(self, payload: Value) -> Value:
        """Return whether all fields of the next beat have legal values (docs/core.md, "Descriptors")."""
        rules: list[Value] = []
        for field in self._fields.values():
            beat, low = divmod(field.low, COMMAND_BITS)
            value = payload[low : low + field.width]
            if field.least:
                rules.append((self.beat_count != beat) | (value >= field.least))
            if field.greatest is not None:
                rules.append((self.beat_count != beat) | (value <= field.greatest))
        return Cat(*rules).all()

    def add_lemmas(self, harness: Harness) -> None:
        """State the lemmas about the number of beats that the unit has taken."""
        harness.lemma(harness.probe("present", 1) == self.complete)
        harness.lemma(self.complete, when=self.active)
        harness.lemma(self.beat_count <= COMMAND_BEATS)
        beat = harness.probe("next_beat", COMMAND_BEATS)
        harness.lemma(beat == Mux(self.complete, 1, Const(1, COMMAND_BEATS) << self.beat_count[:2]))

    def add_field_lemmas(self, harness: Harness) -> None:
        """State the lemmas about the fields that the unit stores: unchanged and legal."""
        for k in range(COMMAND_BEATS):
            used = self.used_mask() >> COMMAND_BITS * k & ((1 << COMMAND_BITS) - 1)
            if used:
                stored = harness.probe(f"descriptor_{k}", COMMAND_BITS)
                harness.lemma(((stored ^ self.bits.word_select(k, COMMAND_BITS)) & used) == 0, when=self.beat_count > k)
        for name, field in self._fields.items():
            if field.least:
                harness.lemma(self[name] >= field.least, when=self.beat_count > field.low // COMMAND_BITS)

    def used_mask(self) -> int:
        """Return a mask of the bits that belong to a field."""
        return sum(field.mask for field in self._fields.values())

    def __getitem__(self, name: str) -> Value:
        """Return a field of the descriptor."""
        field = self._fields[name]
        bits = self.bits[field.low : field.low + field.width]
        return bits.as_signed() if field.signed else bits


def next_beat(m: Module, unit: Any) -> Signal:
    """Return the index of the next beat of a descriptor, for use in faults."""
    beat = Signal(range(COMMAND_BEATS), name="next_beat")
    with m.If(unit.command.descriptor.valid & unit.command.descriptor.ready):
        m.d.sync += beat.eq(beat + 1)
    return beat


def corrupt_word(number: int, change: Callable[[Value], Value]) -> Fault:
    """Build a fault that changes one 32-bit word of the descriptors that a unit receives."""
    low = WORD * number % COMMAND_BITS

    def fault(m: Module, sound: Any, outer: Any) -> None:
        payload = outer.command.descriptor.payload
        changed = Cat(payload[:low], change(payload[low : low + WORD])[:WORD], payload[low + WORD :])
        now = next_beat(m, outer) == WORD * number // COMMAND_BITS
        m.d.comb += sound.command.descriptor.payload.eq(Mux(now, changed, payload))

    return fault
