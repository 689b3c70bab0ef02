"""Descriptor check: finds the error of a descriptor when its last beat arrives."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import HEADER, OPERATIONS, UNITS, Field, Operation
from ..configuration.registers import ERRORS
from ..movers.unit import COMMAND_BEATS, COMMAND_BITS

__all__ = ["MAX_TOKENS", "DescriptorCheck", "allowed_bits"]

MAX_TOKENS = 15
"""Maximum number of tokens from one unit to another, signalled minus waited for, in the program's order."""
WAITS = ("wait", "output_wait")
FLAGS = ("bias", "scale", "relu", "mask", "stochastic", "skip_masked")
"""Fields that have the names of their features."""


def allowed_bits(operation: Operation, config: CoreConfig) -> int:
    """Return the bits that a core allows in an operation's descriptors, without those of features it lacks."""
    missing = {name for name in FLAGS if not getattr(config, name)}
    missing |= set() if config.compression else {"compressed"}
    missing |= set() if config.nvfp4 else {"nvfp4", "by_channel"}
    return operation.mask & ~sum(field.mask for field in operation.fields if field.name in missing)


class DescriptorCheck(Block):
    """Checks every beat of every descriptor in the program's order, and counts tokens in that order.

    Timing: `operation` and `error` are valid in the cycle in which a descriptor's last beat is taken.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Members
    -------
    data : In(128)
        A beat of a descriptor.
    beat : In(0..3)
        The number of the beat.
    take : In(1)
        The beat is taken in this cycle.
    operation : Out(4)
        The descriptor's operation, from its second beat on.
    error : Out(4)
        With its last beat: one of `ERRORS`, or 0 without an error.

    Source: docs/core.md, "Errors" and "Tokens".
    """

    def __init__(self, *, config: CoreConfig) -> None:
        self.config = config
        super().__init__(
            {
                "data": In(COMMAND_BITS),
                "beat": In(range(COMMAND_BEATS)),
                "take": In(1),
                "operation": Out(4),
                "error": Out(4),
            }
        )

    def elaborate(self, platform):
        """Check each beat, keep flags of earlier beats, and count tokens."""
        m = Module()
        code = Signal(4)
        operation = Signal(4, reset_less=True)
        first = Signal()
        last = Signal()
        unknown = Signal()
        m.d.comb += [
            first.eq(self.beat == 0),
            last.eq(self.beat == COMMAND_BEATS - 1),
            code.eq(Mux(first, self.data[:4], operation)),
            self.operation.eq(operation),
            unknown.eq(~self._any(code == each.code for each in OPERATIONS.values())),
        ]
        compressed = Signal(reset_less=True)  # the descriptor is a compressed move
        skips = Signal(reset_less=True)  # the descriptor is a multiply with `skip_masked`
        moves = self._any(code == OPERATIONS[name].code for name in ("load", "store"))
        with m.If(self.take & first):
            m.d.sync += [operation.eq(code), compressed.eq(moves & self.data[24])]
            if self.config.skip_masked:
                m.d.sync += skips.eq(self._skips(code))
        reserved = Signal()
        below = Signal()
        with m.Switch(self.beat):
            for beat in range(COMMAND_BEATS):
                with m.Case(beat):
                    m.d.comb += [
                        reserved.eq(self._reserved(beat, code)),
                        below.eq(
                            self._below(beat, code)
                            | self._unfit(beat, code, moves, compressed)
                            | self._unaligned(beat, skips if beat else self._skips(code))
                        ),
                    ]
        was_reserved = Signal(reset_less=True)
        was_below = Signal(reset_less=True)
        with m.If(self.take):
            m.d.sync += [
                was_reserved.eq(reserved | (was_reserved & ~first)),
                was_below.eq(below | (was_below & ~first)),
            ]
        wrong = self._count_tokens(m, code, first, last)
        m.d.comb += self.error.eq(
            Mux(
                unknown,
                ERRORS["operation"],
                Mux(
                    reserved | was_reserved,
                    ERRORS["reserved"],
                    Mux(below | was_below, ERRORS["field"], Mux(wrong, ERRORS["tokens"], 0)),
                ),
            )
        )
        return m

    @staticmethod
    def _any(bits) -> Value:
        return reduce(or_, bits, Const(0, 1))

    def _reserved(self, beat: int, code: Signal) -> Value:
        places = range(COMMAND_BITS)
        forbidden = []
        for operation in OPERATIONS.values():
            allowed = allowed_bits(operation, self.config) >> (COMMAND_BITS * beat)
            bits = [self.data[i] for i in places if not allowed >> i & 1]
            forbidden.append((code == operation.code) & Cat(*bits).any())
        return self._any(forbidden)

    def _of_beat(self, field: Field, beat: int) -> Value | None:
        """Return a field if it is in a beat. No field spans two beats."""
        low = field.low - COMMAND_BITS * beat
        return self.data[low : low + field.width] if 0 <= low < COMMAND_BITS else None

    def _below(self, beat: int, code: Signal) -> Value:
        """Return whether a field is below its least value."""
        found = []
        for operation in OPERATIONS.values():
            fields = [self._of_beat(field, beat) for field in operation.fields if field.least]
            zero = self._any(field == 0 for field in fields if field is not None)
            found.append((code == operation.code) & zero)
        return self._any(found)

    def _unfit(self, beat: int, code: Signal, moves: Value, compressed: Signal) -> Value:
        """Return whether a field is out of range or fields contradict each other."""
        load = {field.name: field for field in OPERATIONS["load"].fields}
        parts = {name: self._of_beat(field, beat) for name, field in load.items()}
        found = []
        memory = parts["memory"]
        if memory is not None:
            group_bits = self.config.group_bytes.bit_length() - 1
            is_compressed, is_nvfp4 = (self.data[load[name].low] for name in ("compressed", "nvfp4"))
            unaligned = memory[:group_bits].any()
            if self.config.nvfp4:  # half of a group's bytes
                is_nvfp4 &= code == OPERATIONS["load"].code
                unaligned = memory[: group_bits - 1].any() | (~is_nvfp4 & memory[group_bits - 1])
                found.append(is_compressed & is_nvfp4)
            found.append(moves & Mux(is_compressed, memory[:4].any(), unaligned))
            found.append((code == OPERATIONS["record"].code) & memory[:5].any())
        for name, concerned in (("memory", moves | (code == OPERATIONS["record"].code)), ("table", compressed)):
            if (high := parts[f"{name}_high"]) is not None:
                found.append(concerned & high[self.config.address_bits - len(high) :].any())
        for name in ("count_1", "count_2", "count_3"):
            count = parts[name]
            if count is not None:
                found.append(compressed & (count != 1))
        if (segment := parts["segment"]) is not None:
            found.append(compressed & (segment == 0))
        if (table := parts["table"]) is not None:
            found.append(compressed & table[:2].any())
        for operation in OPERATIONS.values():
            for field in operation.fields:
                if field.greatest is not None and (value := self._of_beat(field, beat)) is not None:
                    found.append((code == operation.code) & (value > field.greatest))
        return self._any(found)

    def _skips(self, code: Signal) -> Value:
        """Return whether the first beat belongs to a multiply with `skip_masked`."""
        multiply = OPERATIONS["multiply"]
        flag = next(field for field in multiply.fields if field.name == "skip_masked")
        return (code == multiply.code) & self.data[flag.low]

    def _unaligned(self, beat: int, skips: Value) -> Value:
        """Return whether `skip_masked` contradicts a stride, or a position that is no multiple of the lanes."""
        if not self.config.skip_masked:
            return Const(0, 1)
        bits, found = (self.config.tile.lanes - 1).bit_length(), []
        for field in OPERATIONS["multiply"].fields:
            if (value := self._of_beat(field, beat)) is None:
                continue
            if field.name == "stride":
                found.append(skips & (value != 1))
            elif field.name in ("x", "x_0", "x_1", "x_2", "x_3"):
                found.append(skips & value[:bits].any())
        return self._any(found)

    def _count_tokens(self, m: Module, code: Signal, first: Signal, last: Signal) -> Value:
        """Count a descriptor's tokens with its last beat, and find whether they break the rule."""
        names = {field.name: field for field in (*HEADER, *OPERATIONS["multiply"].fields)}
        fields = {name: names[name] for name in ("wait", "signal", "output_wait", "output_signal")}
        held = {name: Signal(len(UNITS), name=f"{name}_held", reset_less=True) for name in fields}
        with m.If(self.take & first):
            for name, field in fields.items():
                m.d.sync += held[name].eq(self.data[field.low : field.low + field.width])
        own = {unit: Signal(name=f"for_{unit}") for unit in UNITS}  # the descriptor is for this unit
        for unit in UNITS:
            codes = [operation.code for operation in OPERATIONS.values() if operation.unit == unit]
            if unit == "output":
                codes = [OPERATIONS["multiply"].code]
            m.d.comb += own[unit].eq(self._any(code == each for each in codes))
        ends = code == OPERATIONS["end"].code
        wrong, token_flags = [], []
        for i, producer in enumerate(UNITS):
            for j, consumer in enumerate(UNITS):
                count = Signal(range(MAX_TOKENS + 1), name=f"{producer}_to_{consumer}")
                gives = Signal(name=f"{producer}_gives_{consumer}")
                takes = Signal(name=f"{consumer}_takes_{producer}")
                m.d.comb += [
                    gives.eq(own[producer] & held["output_signal" if producer == "output" else "signal"][j]),
                    takes.eq(own[consumer] & held["output_wait" if consumer == "output" else "wait"][i]),
                ]
                with m.If(self.take & last & (gives ^ takes)):
                    m.d.sync += count.eq(count + Mux(gives, 1, -1))
                wrong.append((takes & (count == 0)) | (gives & ~takes & (count == MAX_TOKENS)))
                token_flags.append(count != 0)
        idle = held["wait"].any() | held["signal"].any() | self._any(token_flags)
        return self._any(wrong) | (ends & idle)
