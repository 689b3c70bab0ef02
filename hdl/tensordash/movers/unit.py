"""What every unit of the core has in common: how it gets a descriptor, and says that it is done."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, Signature

from ..configuration.descriptors import BITS, HEADER, Field, Operation

__all__ = ["COMMAND_BEATS", "COMMAND_BITS", "CommandSignature", "DescriptorRegister"]

COMMAND_BITS = 128
COMMAND_BEATS = BITS // COMMAND_BITS
"""A descriptor comes in so many beats, its lowest bits first."""


class CommandSignature(Signature):
    """Descriptors for a unit, as the sequencer sees it.

    Members
    -------
    descriptor : Out(stream of 128 bits)
        The beats of a descriptor. A unit takes them while it has none, and only then.
    done : In(1)
        The unit's descriptor is done in this cycle, once for each; in the next cycle it may take another. Never in the
        cycle in which its last beat is taken.
    error : In(4)
        Where `done`: one of `ERRORS`, 0 if there was none. The first that was found, of several.

    Source: docs/core.md, "Tokens" and "Errors".
    """

    def __init__(self) -> None:
        super().__init__({"descriptor": Out(stream.Signature(COMMAND_BITS)), "done": In(1), "error": In(4)})


class DescriptorRegister:
    """Collects a unit's descriptor. Only what is asked for of it becomes flip-flops.

    Parameters
    ----------
    m : Module
        Where it is built.
    command : CommandSignature, as the unit has it
        Where descriptors come from.
    operation : Operation
        Gives the fields, beside the header's.

    Attributes
    ----------
    present : Signal
        There is a descriptor.

    Examples
    --------
    Inside of `elaborate`: ``descriptor = DescriptorRegister(m, self.command, OPERATIONS["load"])``; then
    ``descriptor["count_0"]`` is its value, and ``descriptor.present`` whether there is one.
    """

    def __init__(self, m: Module, command, operation: Operation) -> None:
        self._fields = {field.name: field for field in (*HEADER, *operation.fields)}
        self._payload = command.descriptor.payload
        self._bits = Signal(BITS, name="descriptor", reset_less=True)
        self.present = Signal(name="present")
        beat = Signal(COMMAND_BEATS, init=1, name="descriptor_beat")
        m.d.comb += command.descriptor.ready.eq(~self.present)
        taken = command.descriptor.valid & ~self.present
        self._takes = [taken & beat[k] for k in range(COMMAND_BEATS)]
        for k, takes in enumerate(self._takes):
            with m.If(takes):
                m.d.sync += self._bits[k * COMMAND_BITS : (k + 1) * COMMAND_BITS].eq(command.descriptor.payload)
        with m.If(taken):
            m.d.sync += beat.eq(Cat(beat[-1], beat[:-1]))
        with m.If(taken & beat[-1]):
            m.d.sync += self.present.eq(1)
        with m.If(command.done):
            m.d.sync += self.present.eq(0)

    def __getitem__(self, name: str):
        """A field's value, signed if it is."""
        field: Field = self._fields[name]
        bits = self._bits[field.low : field.low + field.width]
        return bits.as_signed() if field.signed else bits

    def arriving(self, name: str) -> tuple:
        """Whether a field is in the beat that is taken in this cycle, and its value there: for who keeps it himself."""
        field = self._fields[name]
        beat, low = divmod(field.low, COMMAND_BITS)
        return self._takes[beat], self._payload[low : low + field.width]
