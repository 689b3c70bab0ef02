"""Base class of both checkers. A checker only observes its bus, and has two outputs for each rule."""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from .rules import CHANNELS, Rule

__all__ = ["Monitor", "check_integer"]


def check_integer(name: str, value: Any, low: int, high: int) -> int:
    """Return the value if it is an integer in a range.

    Raises
    ------
    TypeError, ValueError
        With the parameter, its value and the allowed range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer from {low} to {high}, not {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be an integer from {low} to {high}, not {value}")
    return value


class Monitor(wiring.Component):
    """A component that observes a bus and reports for each rule whether the rule applies and whether it holds.

    Parameters
    ----------
    bus : dict of str to (width, init)
        Signals by name. Zero-width signals are omitted. Unconnected signals have their init value.
    rules : tuple of Rule
        The rules to check.
    within : int
        Maximum response time of a slave in cycles; 0: unbounded.

    Members
    -------
    bus : In
        The signals.
    applies : Out
        One bit for each rule: the rule applies in this cycle.
    holds : Out
        One bit for each rule: the rule holds or does not apply.
    """

    # A caller may only list a checker's rules. Amaranth would warn that the checker is never elaborated.
    _MustUse__silence = True

    def __init__(self, bus: dict[str, tuple[int, int]], rules: tuple[Rule, ...], within: int) -> None:
        self.rules = rules
        self.within = within
        super().__init__(
            {
                "bus": In(Signature({name: In(width, init=init) for name, (width, init) in bus.items() if width})),
                "applies": Out(Signature({rule.name: Out(1) for rule in rules})),
                "holds": Out(Signature({rule.name: Out(1) for rule in rules})),
            }
        )
        self.was_reset = Signal(init=1, reset_less=True)
        """Reset was active in the previous cycle."""

    def define_rule(self, m: Module, name: str, then: Any, *, when: Any = 1, in_reset: bool = False) -> None:
        """Drive the outputs of a rule: `then` holds while `when` is true. In reset, only `in_reset` rules apply."""
        applies = getattr(self.applies, name)
        m.d.comb += applies.eq(Value.cast(when).bool() & (1 if in_reset else ~ResetSignal()))
        m.d.comb += getattr(self.holds, name).eq(~applies | Value.cast(then).bool())

    def add_handshake_rules(self, m: Module, payloads: dict[str, Iterable[str]]) -> None:
        """Add the rules about VALID, READY and payload of each channel."""
        bus = self.bus
        m.d.sync += self.was_reset.eq(ResetSignal())
        for channel in CHANNELS:
            valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
            payload = Cat(getattr(bus, name) for name in payloads[channel] if hasattr(bus, name))
            waited = Signal(name=f"{channel}_waited")
            past_payload = Signal(len(payload), name=f"{channel}_past_payload", reset_less=True)
            m.d.sync += [waited.eq(valid & ~ready), past_payload.eq(payload)]
            self.define_rule(m, f"{channel}_reset", ~valid, when=self.was_reset, in_reset=True)
            self.define_rule(m, f"{channel}_stays", valid, when=waited)
            self.define_rule(m, f"{channel}_stable", payload == past_payload, when=waited & valid)

    def add_response_rules(self, m: Module, pending: dict[str, tuple[Any, Any]]) -> None:
        """Add the rules about response times: a pending transfer completes within the bound.

        `pending` maps each channel to two conditions: a transfer is pending; it completes.
        """
        for channel, (when, completes) in pending.items() if self.within else ():
            waits = Signal(range(self.within + 1), name=f"{channel}_waits")
            late = Value.cast(when).bool() & ~Value.cast(completes).bool()
            m.d.sync += waits.eq(Mux(late, Mux(waits == self.within, waits, waits + 1), 0))
            self.define_rule(
                m, f"{channel}_within", Value.cast(completes).bool() | (waits + 1 < self.within), when=when
            )
