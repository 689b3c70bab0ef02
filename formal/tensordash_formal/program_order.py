"""Reference model of a program: the error of each descriptor, and the tokens produced and consumed before it.

The model follows docs/core.md, "Tokens" and "Errors". It consists of ghost registers and reads only the hardware's
ports.
"""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS, HEADER, OPERATIONS, UNITS, Operation
from tensordash.configuration.registers import ERRORS
from tensordash.movers.unit import COMMAND_BEATS, COMMAND_BITS

from .reference_descriptor import WORD

__all__ = ["MAX_TOKENS", "ProgramOrder", "has_illegal_field", "has_reserved", "token_fields"]

MAX_TOKENS = 15
FEATURES = {
    "bias": "bias",
    "scale": "scale",
    "relu": "relu",
    "mask": "mask",
    "stochastic": "stochastic",
    "compressed": "compression",
    "nvfp4": "nvfp4",
    "by_channel": "nvfp4",
    "skip_masked": "skip_masked",
}
"""Fields that depend on an optional feature of the core."""


def has_reserved(config: CoreConfig, bits: Value, below: int = BITS) -> Value:
    """Return whether a reserved bit below bit `below` is set, for the descriptor's operation and this core."""
    return _for_operation(bits, lambda operation: Cat(bits[i] for i in _reserved(config, operation) if i < below).any())


def _reserved(config: CoreConfig, operation: Operation) -> list[int]:
    present = [field for field in operation.fields if getattr(config, FEATURES.get(field.name, ""), True)]
    used = sum(field.mask for field in (*HEADER, *present))
    return [i for i in range(BITS) if not used >> i & 1]


def has_illegal_field(config: CoreConfig, bits: Value, below: int = BITS) -> Value:
    """Return whether a field that starts below bit `below` has an illegal value, alone or with the other fields."""
    return _for_operation(bits, lambda operation: Cat(*_illegal_fields(config, operation, bits, below)).any())


def _illegal_fields(config: CoreConfig, operation: Operation, bits: Value, below: int) -> list[Value]:
    fields = {each.name: bits[each.low : each.low + each.width] for each in operation.fields if each.low < below}
    rules = [fields[each.name] < each.least for each in operation.fields if each.least and each.name in fields]
    rules += [fields[each.name] > each.greatest for each in operation.fields if each.greatest and each.name in fields]
    compressed = fields.get("compressed")
    if "memory" in fields:
        plain = 32 if compressed is None else config.group_bytes
        misaligned = _is_misaligned(fields["memory"], plain)
        if config.nvfp4 and "nvfp4" in fields:
            half = _is_misaligned(fields["memory"], plain // 2)
            misaligned = Mux(fields["nvfp4"], half, misaligned)
            rules.append(fields["nvfp4"] & fields["compressed"])
        rules.append(
            misaligned if compressed is None else Mux(compressed, _is_misaligned(fields["memory"], 16), misaligned)
        )
    if "memory_high" in fields:
        rules.append(fields["memory_high"][config.address_bits - WORD :].any())
    if compressed is not None:
        if "table_high" in fields:
            rules.append(compressed & fields["table_high"][config.address_bits - WORD :].any())
        rules += [compressed & (fields[name] != 1) for name in ("count_1", "count_2", "count_3") if name in fields]
        rules += [compressed & (fields[name] == 0) for name in ("segment",) if name in fields]
        rules += [compressed & _is_misaligned(fields[name], 4) for name in ("table",) if name in fields]
    if config.skip_masked and (skips := fields.get("skip_masked")) is not None:
        rules += [skips & (fields[name] != 1) for name in ("stride",) if name in fields]
        positions = [fields[name] for name in ("x", "x_0", "x_1", "x_2", "x_3") if name in fields]
        rules += [skips & _is_misaligned(each, config.tile.lanes) for each in positions]
    return rules


def _is_misaligned(value: Value, alignment: int) -> Value:
    return value[: alignment.bit_length() - 1].any()


def _for_operation(bits: Value, rule: Any) -> Value:
    return Cat(*((bits[:4] == each.code) & rule(each) for each in OPERATIONS.values())).any()


def _units_of(code: Value) -> list[Value]:
    """Return for each unit whether it executes an operation."""
    codes = {unit: [each.code for each in OPERATIONS.values() if each.unit == unit] for unit in UNITS}
    codes["output"] = codes["multiply"]
    return [Cat(*(code == each for each in codes[unit])).any() for unit in UNITS]


class Entry:
    """A descriptor: its operation (0 if the core refused it), its tokens and its units."""

    def __init__(self, code: Value, tokens: dict[str, Value]) -> None:
        self.code = code
        self.tokens = tokens
        self.units = _units_of(code)

    def signals(self, producer: int, consumer: Any) -> Value:
        """Return whether the producer signals a token to the consumer when it has finished the descriptor."""
        field = self.tokens["output_signal" if UNITS[producer] == "output" else "signal"]
        return self.units[producer] & field.bit_select(consumer, 1)

    def waits_for(self, producer: int, consumer: int) -> Value:
        """Return whether the consumer waits for a token from the producer before it begins the descriptor."""
        field = self.tokens["output_wait" if UNITS[consumer] == "output" else "wait"]
        return self.units[consumer] & field[producer]


def token_fields() -> dict[str, tuple[int, int]]:
    """Return the lowest bit and the width of each token field.

    All of them are in the first beat. Only multiplies use `output_*`.
    """
    fields = {field.name: field for field in (*HEADER, *OPERATIONS["multiply"].fields)}
    names = ("wait", "signal", "output_wait", "output_signal")
    return {name: (fields[name].low, fields[name].width) for name in names}


def _tokens_of(bits: Value) -> dict[str, Value]:
    return {name: bits[low : low + width] for name, (low, width) in token_fields().items()}


class ProgramOrder:
    """Tracks received descriptors, up to the first that the core refuses.

    A descriptor's place is its number modulo twice the window's length. Its slot is its number modulo the length.

    Parameters
    ----------
    m : Module
        Module of the ghost registers.
    config : CoreConfig
        The core.
    beats : stream of fetched_layout
        The received beats.
    consumer : Signal
        The unit whose tokens are counted before each descriptor of the window.

    Attributes
    ----------
    count : Signal
        The place of the next descriptor.
    refused, refused_at, code : Signal
        Whether the core refused a descriptor; its place; its error code.
    entries : list of Entry
        The descriptors of the window, by slot.
    before : dict of str to list of list of Signal
        `produced` and `consumed`: tokens from each unit to the consumer before the descriptor in each slot.
    total : dict of str to list of Signal
        The same counts before the next descriptor.
    """

    def __init__(self, m: Module, config: CoreConfig, beats: Any, consumer: Signal) -> None:
        self.window, self.consumer, self.config = config.window, consumer, config
        self.place_bits = config.window.bit_length()
        self.count = self.place("program_count")
        self.refused = Signal(name="program_refused")
        self.refused_at = self.place("program_refused_at")
        self.code = Signal(4, name="program_code")
        self.beat = Signal(range(COMMAND_BEATS), name="program_beat")
        self.fetch_failed = Signal(name="program_fetch_failed")
        self.bits = Signal(BITS - COMMAND_BITS, name="program_bits", reset_less=True)
        self.entries = [self._entry(slot) for slot in range(config.window)]
        # One bit more than the sequencer's counters distinguishes a negative count from a legal one.
        self.token_bits = (MAX_TOKENS + config.window).bit_length() + 1
        self.total = {name: [self._tokens(f"{name}_{unit}") for unit in UNITS] for name in ("produced", "consumed")}
        self.before = {
            name: [[self._tokens(f"{name}_{unit}_before_{k}", True) for k in range(config.window)] for unit in UNITS]
            for name in self.total
        }
        self.counts = [[Signal(range(MAX_TOKENS + 1), name=f"order_{i}_{j}") for j in UNITS] for i in UNITS]
        self.accepts, self.completes = Signal(name="program_accepts"), Signal(name="program_completes")
        m.d.comb += [
            self.accepts.eq(beats.valid & ~self.refused),
            self.completes.eq(self.accepts & (self.beat == COMMAND_BEATS - 1)),
        ]
        self.new = Entry(self.bits[:4], _tokens_of(self.bits))
        self.new_code = self._verdict(m, beats.payload)
        self._track(m, beats)

    def place(self, name: str) -> Signal:
        """Create a register for a place."""
        return Signal(self.place_bits, name=name)

    def slot(self, place: Value) -> Value:
        """Return the slot of a place."""
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
        """Select the value of a place's slot."""
        return Array(values)[self.slot(place)]

    def _verdict(self, m: Module, payload: Any) -> Signal:
        """Return the error code of the completed descriptor. If it has several errors, the first test decides."""
        bits, new = Cat(self.bits, payload.data), self.new
        known = Cat(*(new.code == each.code for each in OPERATIONS.values())).any()
        code = Signal(4, name="program_verdict")
        with m.If(payload.outside):
            m.d.comb += code.eq(ERRORS["bounds"])
        with m.Elif(self.fetch_failed | payload.error):
            m.d.comb += code.eq(ERRORS["fetch"])
        with m.Elif(~known):
            m.d.comb += code.eq(ERRORS["operation"])
        with m.Elif(has_reserved(self.config, bits)):
            m.d.comb += code.eq(ERRORS["reserved"])
        with m.Elif(has_illegal_field(self.config, bits)):
            m.d.comb += code.eq(ERRORS["field"])
        with m.Elif(self.violates_token_rule()):
            m.d.comb += code.eq(ERRORS["tokens"])
        return code

    def violates_token_rule(self) -> Value:
        """Return whether the new descriptor violates the token rule.

        It waits for a missing token, signals too many tokens, or ends the program with tokens left.
        """
        rules: list[Value] = []
        ends = self.new.code == OPERATIONS["end"].code
        for i, _ in enumerate(UNITS):
            for j, _ in enumerate(UNITS):
                count = self.counts[i][j]
                signals, waits = self.new.signals(i, j), self.new.waits_for(i, j)
                rules += [waits & (count == 0), count + signals - waits > MAX_TOKENS, ends & (count != 0)]
        rules.append(ends & (self.new.tokens["wait"].any() | self.new.tokens["signal"].any()))
        return Cat(*rules).any()

    def _track(self, m: Module, beats: Any) -> None:
        accepted = self.completes & (self.new_code == 0)
        with m.If(beats.valid):
            m.d.sync += self.beat.eq(self.beat + 1)
        with m.If(self.accepts):
            m.d.sync += self.fetch_failed.eq((self.fetch_failed | beats.payload.error) & ~self.completes)
            for k in range(COMMAND_BEATS - 1):
                with m.If(self.beat == k):
                    m.d.sync += self.bits[COMMAND_BITS * k : COMMAND_BITS * (k + 1)].eq(beats.payload.data)
        with m.If(self.completes):
            m.d.sync += self.count.eq(self.count + 1)
            with m.If(self.new_code != 0):
                m.d.sync += [self.refused.eq(1), self.refused_at.eq(self.count), self.code.eq(self.new_code)]
        for k, entry in enumerate(self.entries):
            with m.If(self.completes & (self.slot(self.count) == k)):
                m.d.sync += entry.code.eq(Mux(self.new_code == 0, self.new.code, 0))
                m.d.sync += [stored.eq(self.new.tokens[name]) for name, stored in entry.tokens.items()]
                for name, totals in self.total.items():
                    m.d.sync += [before[k].eq(total) for before, total in zip(self.before[name], totals, strict=True)]
        with m.If(accepted):
            for i, _ in enumerate(UNITS):
                m.d.sync += self.total["produced"][i].eq(self.total["produced"][i] + self.signals(self.new, i))
                m.d.sync += self.total["consumed"][i].eq(self.total["consumed"][i] + self.waits_for(self.new, i))
                for j, _ in enumerate(UNITS):
                    count = self.counts[i][j]
                    m.d.sync += count.eq(count + self.new.signals(i, j) - self.new.waits_for(i, j))

    def signals(self, entry: Entry, producer: int) -> Value:
        """Return whether a descriptor signals a token from the producer to the consumer."""
        return entry.signals(producer, self.consumer)

    def waits_for(self, entry: Entry, producer: int) -> Value:
        """Return whether a descriptor makes the consumer wait for a token from the producer."""
        return Array(entry.waits_for(producer, j) for j, _ in enumerate(UNITS))[self.consumer]
