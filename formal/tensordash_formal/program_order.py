"""A program's descriptors in their order: what is wrong with each, and which tokens were given and taken before it.

Written from docs/core.md, "Tokens" and "Errors", as registers beside the hardware. Of the hardware it reads ports.
"""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS, HEADER, OPERATIONS, UNITS, Operation
from tensordash.configuration.registers import ERRORS
from tensordash.movers.unit import COMMAND_BEATS, COMMAND_BITS

from .reference_descriptor import MAX_STRIDE, WORD

__all__ = ["MAX_TOKENS", "ProgramOrder", "has_reserved", "has_unfit", "token_fields"]

MAX_TOKENS = 15
FEATURES = {
    "bias": "bias",
    "scale": "scale",
    "relu": "relu",
    "mask": "mask",
    "stochastic": "stochastic",
    "compressed": "compression",
}
"""Fields that only cores with a feature have."""


def has_reserved(config: CoreConfig, bits: Value, upto: int = BITS) -> Value:
    """Whether a bit below `upto` is set that no field of this core has."""
    return _of_any(bits, lambda operation: Cat(bits[i] for i in _reserved(config, operation) if i < upto).any())


def _reserved(config: CoreConfig, operation: Operation) -> list[int]:
    there = [field for field in operation.fields if getattr(config, FEATURES.get(field.name, ""), True)]
    used = sum(field.mask for field in (*HEADER, *there))
    return [i for i in range(BITS) if not used >> i & 1]


def has_unfit(config: CoreConfig, bits: Value, upto: int = BITS) -> Value:
    """Whether a field that begins below `upto` has a value that is not allowed, for itself or beside the others."""
    return _of_any(bits, lambda operation: Cat(*_unfit(config, operation, bits, upto)).any())


def _unfit(config: CoreConfig, operation: Operation, bits: Value, upto: int) -> list[Value]:
    fields = {each.name: bits[each.low : each.low + each.width] for each in operation.fields if each.low < upto}
    rules = [fields[each.name] < each.least for each in operation.fields if each.least and each.name in fields]
    if "stride" in fields:
        rules.append(fields["stride"] > MAX_STRIDE)
    compressed = fields.get("compressed")
    if "memory" in fields:
        plain = 32 if compressed is None else config.group_bytes
        wrong = _no_multiple(fields["memory"], plain)
        rules.append(wrong if compressed is None else Mux(compressed, _no_multiple(fields["memory"], 16), wrong))
    if "memory_high" in fields:
        rules.append(fields["memory_high"][config.address_bits - WORD :].any())
    if compressed is not None:
        if "table_high" in fields:
            rules.append(compressed & fields["table_high"][config.address_bits - WORD :].any())
        rules += [compressed & (fields[name] != 1) for name in ("count_1", "count_2", "count_3") if name in fields]
        rules += [compressed & (fields[name] == 0) for name in ("segment",) if name in fields]
        rules += [compressed & _no_multiple(fields[name], 4) for name in ("table",) if name in fields]
    return rules


def _no_multiple(value: Value, of: int) -> Value:
    return value[: of.bit_length() - 1].any()


def _of_any(bits: Value, rule: Any) -> Value:
    return Cat(*((bits[:4] == each.code) & rule(each) for each in OPERATIONS.values())).any()


def _units_of(code: Value) -> list[Value]:
    """Of each unit, whether it is given descriptors of an operation."""
    codes = {unit: [each.code for each in OPERATIONS.values() if each.unit == unit] for unit in UNITS}
    codes["output"] = codes["multiply"]
    return [Cat(*(code == each for each in codes[unit])).any() for unit in UNITS]


class Entry:
    """A descriptor, or one of the window: its operation, 0 if it was refused, and its tokens by unit."""

    def __init__(self, code: Value, tokens: dict[str, Value]) -> None:
        self.code = code
        self.tokens = tokens
        self.of = _units_of(code)

    def gives(self, giver: int, taker: Any) -> Value:
        """Whether a token from one unit to another is given when the first one has done its part."""
        field = self.tokens["output_signal" if UNITS[giver] == "output" else "signal"]
        return self.of[giver] & field.bit_select(taker, 1)

    def takes(self, giver: int, taker: int) -> Value:
        """Whether a unit takes a token from another one before it begins."""
        field = self.tokens["output_wait" if UNITS[taker] == "output" else "wait"]
        return self.of[taker] & field[giver]


def token_fields() -> dict[str, tuple[int, int]]:
    """Fields about tokens, all in the first beat: lowest bit and width. Only multiplies have those of `output`."""
    fields = {field.name: field for field in (*HEADER, *OPERATIONS["multiply"].fields)}
    names = ("wait", "signal", "output_wait", "output_signal")
    return {name: (fields[name].low, fields[name].width) for name in names}


def _tokens_of(bits: Value) -> dict[str, Value]:
    return {name: bits[low : low + width] for name, (low, width) in token_fields().items()}


class ProgramOrder:
    """Follows descriptors as they come, up to the first that is refused.

    Places are numbers of descriptors modulo twice the window's length, slots modulo its length.

    Parameters
    ----------
    m : Module
        Where it is built.
    config : CoreConfig
        The core.
    beats : stream of fetched_layout
        Where they come.
    taker : Signal
        The unit whose tokens are counted before each descriptor of the window: one that may be any.

    Attributes
    ----------
    count : Signal
        The place of the next one.
    refused, refused_at, code : Signal
        One was refused; its place, and why.
    entries : list of Entry
        The window's.
    before : dict of str to list of list of Signal
        `given` and `taken` before the descriptor in a slot: tokens from each unit to the taker.
    total : dict of str to list of Signal
        Likewise, before the next one.
    """

    def __init__(self, m: Module, config: CoreConfig, beats: Any, taker: Signal) -> None:
        self.window, self.taker, self.config = config.window, taker, config
        self.place_bits = config.window.bit_length()
        self.count = self.place("program_count")
        self.refused = Signal(name="program_refused")
        self.refused_at = self.place("program_refused_at")
        self.code = Signal(4, name="program_code")
        self.beat = Signal(range(COMMAND_BEATS), name="program_beat")
        self.unread = Signal(name="program_unread")
        self.bits = Signal(BITS - COMMAND_BITS, name="program_bits", reset_less=True)
        self.entries = [self._entry(slot) for slot in range(config.window)]
        # One bit more than the sequencer's counts need, so that none below 0 looks like one that is allowed.
        self.token_bits = (MAX_TOKENS + config.window).bit_length() + 1
        self.total = {name: [self._tokens(f"{name}_{unit}") for unit in UNITS] for name in ("given", "taken")}
        self.before = {
            name: [[self._tokens(f"{name}_{unit}_before_{k}", True) for k in range(config.window)] for unit in UNITS]
            for name in self.total
        }
        self.counts = [[Signal(range(MAX_TOKENS + 1), name=f"order_{i}_{j}") for j in UNITS] for i in UNITS]
        self.comes, self.arrives = Signal(name="program_comes"), Signal(name="program_arrives")
        m.d.comb += [
            self.comes.eq(beats.valid & ~self.refused),
            self.arrives.eq(self.comes & (self.beat == COMMAND_BEATS - 1)),
        ]
        self.new = Entry(self.bits[:4], _tokens_of(self.bits))
        self.new_code = self._verdict(m, beats.payload)
        self._follow(m, beats)

    def place(self, name: str) -> Signal:
        """A register for a place."""
        return Signal(self.place_bits, name=name)

    def slot(self, place: Value) -> Value:
        """A place's slot."""
        return place[: self.place_bits - 1]

    def _tokens(self, name: str, reset_less: bool = False) -> Signal:
        return Signal(self.token_bits, name=name, reset_less=reset_less)

    def _entry(self, slot: int) -> Entry:
        tokens = {
            name: Signal(len(bits), name=f"{name}_{slot}", reset_less=True)
            for name, bits in _tokens_of(self.bits).items()
        }
        return Entry(Signal(4, name=f"code_{slot}", reset_less=True), dict(tokens))

    def at(self, values: Iterable[Any], place: Value) -> Value:
        """What of each slot's values is a place's."""
        return Array(values)[self.slot(place)]

    def _verdict(self, m: Module, payload: Any) -> Signal:
        """What is wrong with the descriptor that arrives; of several, in this order."""
        bits, new = Cat(self.bits, payload.data), self.new
        known = Cat(*(new.code == each.code for each in OPERATIONS.values())).any()
        wrong = Signal(4, name="program_verdict")
        with m.If(payload.outside):
            m.d.comb += wrong.eq(ERRORS["bounds"])
        with m.Elif(self.unread | payload.error):
            m.d.comb += wrong.eq(ERRORS["fetch"])
        with m.Elif(~known):
            m.d.comb += wrong.eq(ERRORS["operation"])
        with m.Elif(has_reserved(self.config, bits)):
            m.d.comb += wrong.eq(ERRORS["reserved"])
        with m.Elif(has_unfit(self.config, bits)):
            m.d.comb += wrong.eq(ERRORS["field"])
        with m.Elif(self.breaks_the_rule()):
            m.d.comb += wrong.eq(ERRORS["tokens"])
        return wrong

    def breaks_the_rule(self) -> Value:
        """Whether the new descriptor waits for what is not given before it, or gives too much; of an `end`, any."""
        rules: list[Value] = []
        ends = self.new.code == OPERATIONS["end"].code
        for i, _ in enumerate(UNITS):
            for j, _ in enumerate(UNITS):
                count, gives, takes = self.counts[i][j], self.new.gives(i, j), self.new.takes(i, j)
                rules += [takes & (count == 0), count + gives - takes > MAX_TOKENS, ends & (count != 0)]
        rules.append(ends & (self.new.tokens["wait"].any() | self.new.tokens["signal"].any()))
        return Cat(*rules).any()

    def _follow(self, m: Module, beats: Any) -> None:
        arrived = self.arrives & (self.new_code == 0)
        with m.If(beats.valid):
            m.d.sync += self.beat.eq(self.beat + 1)
        with m.If(self.comes):
            m.d.sync += self.unread.eq((self.unread | beats.payload.error) & ~self.arrives)
            for k in range(COMMAND_BEATS - 1):
                with m.If(self.beat == k):
                    m.d.sync += self.bits[COMMAND_BITS * k : COMMAND_BITS * (k + 1)].eq(beats.payload.data)
        with m.If(self.arrives):
            m.d.sync += self.count.eq(self.count + 1)
            with m.If(self.new_code != 0):
                m.d.sync += [self.refused.eq(1), self.refused_at.eq(self.count), self.code.eq(self.new_code)]
        for k, entry in enumerate(self.entries):
            with m.If(self.arrives & (self.slot(self.count) == k)):
                m.d.sync += entry.code.eq(Mux(self.new_code == 0, self.new.code, 0))
                m.d.sync += [kept.eq(self.new.tokens[name]) for name, kept in entry.tokens.items()]
                for name, totals in self.total.items():
                    m.d.sync += [before[k].eq(now) for before, now in zip(self.before[name], totals, strict=True)]
        with m.If(arrived):
            for i, _ in enumerate(UNITS):
                m.d.sync += self.total["given"][i].eq(self.total["given"][i] + self.gives(self.new, i))
                m.d.sync += self.total["taken"][i].eq(self.total["taken"][i] + self.takes(self.new, i))
                for j, _ in enumerate(UNITS):
                    count = self.counts[i][j]
                    m.d.sync += count.eq(count + self.new.gives(i, j) - self.new.takes(i, j))

    def gives(self, entry: Entry, giver: int) -> Value:
        """Whether a descriptor gives the taker a token from a unit."""
        return entry.gives(giver, self.taker)

    def takes(self, entry: Entry, giver: int) -> Value:
        """Whether a descriptor is the taker's, and takes a token from a unit."""
        return Array(entry.takes(giver, j) for j, _ in enumerate(UNITS))[self.taker]
