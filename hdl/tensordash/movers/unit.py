"""Command interface of the core's units: how a unit gets a descriptor and reports its end."""

from collections.abc import Iterator

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature

from ..configuration.descriptors import BITS, HEADER, Operation

__all__ = ["COMMAND_BEATS", "COMMAND_BITS", "CommandSignature", "DescriptorRegister"]

WORD = 32
COMMAND_BITS = 128
COMMAND_BEATS = BITS // COMMAND_BITS
"""Beats of a descriptor. Its lowest bits come first."""
FOLD = 5 * WORD
"""First bit of the part of a descriptor that is folded, up to the end of its beat."""


class CommandSignature(Signature):
    """Descriptors for a unit, with the sequencer's directions.

    Members
    -------
    descriptor : Out(stream of 128 bits)
        The beats of a descriptor. A unit takes them only while it has no descriptor.
    done : In(1)
        The unit's descriptor is done in this cycle, once per descriptor. The unit can take another in the next cycle.
        Never in the cycle in which the descriptor's last beat is taken.
    error : In(4)
        With `done`: one of `ERRORS`, or 0 without an error. Of several errors, the first one found.

    Source: docs/core.md, "Tokens" and "Errors".
    """

    def __init__(self) -> None:
        super().__init__({"descriptor": Out(stream.Signature(COMMAND_BITS)), "done": In(1), "error": In(4)})


class DescriptorRegister:
    """Collects a unit's descriptor. Only the fields that are read become flip-flops.

    Parameters
    ----------
    m : Module
        The module that the register is built in.
    command : CommandSignature, with the unit's directions
        Source of the descriptors.
    operation : Operation
        Defines the fields, besides the header's.
    counts : bool
        The unit may change fields while it has the descriptor, so that a counter needs no copy.
    folded : bool
        Only with `counts`: `table` and `segment`, which only compressed moves have, share the registers of loops 2 and
        3, which only plain moves have.

    Attributes
    ----------
    present : Signal
        The register holds a complete descriptor.

    Examples
    --------
    Inside of `elaborate`: ``descriptor = DescriptorRegister(m, self.command, OPERATIONS["load"])``; then
    ``descriptor["count_0"]`` is its value, and ``descriptor.present`` whether there is one.
    """

    def __init__(self, m: Module, command, operation: Operation, *, counts: bool = False, folded: bool = False) -> None:
        self._fields = {field.name: field for field in (*HEADER, *operation.fields)}
        self._payload = command.descriptor.payload
        self._moved = {name for name, field in self._fields.items() if folded and field.low >= FOLD + COMMAND_BITS}
        self._m = m
        # Fields that change are separate registers, because simulators handle vectors driven in pieces badly.
        self._bits = Cat(self._registers() if counts else (self._beat(k) for k in range(COMMAND_BEATS)))
        self.present = Signal(name="present")
        beat = Signal(COMMAND_BEATS, init=1, name="next_beat")  # one-hot
        m.d.comb += command.descriptor.ready.eq(~self.present)
        taken = command.descriptor.valid & ~self.present
        self._takes = [self._named(taken & beat[k], f"takes_beat_{k}") for k in range(COMMAND_BEATS)]
        if counts:
            self._take_fields()
        else:
            self._take_beats()
        with m.If(taken):
            m.d.sync += beat.eq(Cat(beat[-1], beat[:-1]))
        with m.If(taken & beat[-1]):
            m.d.sync += self.present.eq(1)
        with m.If(command.done):
            m.d.sync += self.present.eq(0)

    def _registers(self) -> Iterator[Signal]:
        """Create a register for each field and for the bits between fields, in the order of their bits."""
        end = 0
        for field in sorted(self._fields.values(), key=lambda each: each.low):
            if field.name in self._moved:
                continue
            if field.low > end:
                yield Signal(field.low - end, name=f"unused_{end}", reset_less=True)
            end = field.low + field.width
            name = f"descriptor_{field.name}"
            if self._moved and FOLD <= field.low < 2 * COMMAND_BITS:
                yield Signal(field.width, name=name, reset_less=True)  # compressed moves: part of `table` or `segment`
            else:
                yield Signal(field.width, name=name, reset_less=True)
        if end < BITS:
            yield Signal(BITS - end, name=f"unused_{end}", reset_less=True)

    def _beat(self, k: int) -> Value:
        """Create the register of a beat. Its layout has the beat's fields."""
        low = k * COMMAND_BITS
        fields = {
            each.name: data.Field(signed(each.width) if each.signed else each.width, each.low - low)
            for each in self._fields.values()
            if low <= each.low and each.low + each.width <= low + COMMAND_BITS
        }
        return Signal(data.FlexibleLayout(COMMAND_BITS, fields), name=f"descriptor_{k}", reset_less=True).as_value()

    def _take_beats(self) -> None:
        for k, takes in enumerate(self._takes):
            with self._m.If(takes):
                self._m.d.sync += self._bits[k * COMMAND_BITS : (k + 1) * COMMAND_BITS].eq(self._payload)

    def _take_fields(self) -> None:
        for name in self._fields:
            takes, bits = self.arriving(name)
            with self._m.If(takes & self["compressed"] if name in self._moved else takes):
                self._m.d.sync += self.stored_bits(name).eq(bits)

    def __getitem__(self, name: str):
        """Return a field's value, signed if the field is."""
        bits = self.stored_bits(name)
        if name in self._moved:
            bits = self._named(bits, f"descriptor_{name}")
        return bits.as_signed() if self._fields[name].signed else bits

    def stored_bits(self, name: str) -> Value:
        """Return the bits of a field's register, for a unit that changes them."""
        field = self._fields[name]
        low = field.low - COMMAND_BITS if name in self._moved else field.low
        return self._bits[low : low + field.width]

    def _named(self, bits: Value, name: str) -> Signal:
        signal = Signal(len(bits), name=name)
        self._m.d.comb += signal.eq(bits)
        return signal

    def arriving(self, name: str) -> tuple:
        """Return whether a field is in the beat taken in this cycle, and its value there, for a unit that copies it."""
        field = self._fields[name]
        beat, low = divmod(field.low, COMMAND_BITS)
        value = self._named(self._payload[low : low + field.width], f"command_descriptor_payload_{name}")
        return self._takes[beat], value
