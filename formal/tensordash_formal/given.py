"""A unit's descriptor as it was given, beside the hardware: what proofs about units are written in."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from tensordash.configuration.descriptors import BITS, Operation
from tensordash.movers.unit import COMMAND_BEATS, COMMAND_BITS

__all__ = ["MOST_STRIDE", "GivenDescriptor"]

MOST_STRIDE = 4


class GivenDescriptor:
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

    def used(self) -> int:
        """The bits of a descriptor that have a field."""
        return sum(field.mask for field in self._fields.values())

    def __getitem__(self, name: str) -> Value:
        """A field of the descriptor."""
        field = self._fields[name]
        bits = self.bits[field.low : field.low + field.width]
        return bits.as_signed() if field.signed else bits
