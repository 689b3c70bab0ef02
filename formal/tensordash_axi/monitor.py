"""What both checkers are made of: ports that only look, and rules as a pair of outputs each."""

from collections.abc import Iterable
from typing import Any

from amaranth.hdl import Cat, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

from .rules import CHANNELS, Rule

__all__ = ["Monitor", "require"]


def require(name: str, value: Any, low: int, high: int) -> int:
    """The value, an integer in a range.

    Raises
    ------
    TypeError, ValueError
        Naming the parameter, what is allowed and what was given.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer from {low} to {high}, not {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be an integer from {low} to {high}, not {value}")
    return value


class Monitor(wiring.Component):
    """A component that looks at a bus and says of each rule whether it says something, and whether it is kept.

    Parameters
    ----------
    bus : dict of str to (width, init)
        Signals by name, without those that are 0 bits wide; what is not connected has its init.
    rules : tuple of Rule
        What it looks for.
    within : int
        Cycles that a slave may take; 0: any number.

    Members
    -------
    bus : In
        The signals.
    applies, holds : Out
        A bit for each rule: in this cycle it says something; it is kept (or says nothing).
    """

    # One whose rules are only listed is never elaborated: Amaranth would warn of it.
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
        """The cycle before was one of reset."""

    def state(self, m: Module, name: str, then: Any, *, when: Any = 1, in_reset: bool = False) -> None:
        """Drive a rule's outputs; in reset it says nothing, unless it is about reset."""
        applies = getattr(self.applies, name)
        m.d.comb += applies.eq(Value.cast(when).bool() & (1 if in_reset else ~ResetSignal()))
        m.d.comb += getattr(self.holds, name).eq(~applies | Value.cast(then).bool())

    def handshakes(self, m: Module, payloads: dict[str, Iterable[str]]) -> None:
        """Rules of each channel's VALID, READY and payload."""
        bus = self.bus
        m.d.sync += self.was_reset.eq(ResetSignal())
        for channel in CHANNELS:
            valid, ready = getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")
            payload = Cat(getattr(bus, name) for name in payloads[channel] if hasattr(bus, name))
            waited = Signal(name=f"{channel}_waited")
            before = Signal(len(payload), name=f"{channel}_before", reset_less=True)
            m.d.sync += [waited.eq(valid & ~ready), before.eq(payload)]
            self.state(m, f"{channel}_reset", ~valid, when=self.was_reset, in_reset=True)
            self.state(m, f"{channel}_stays", valid, when=waited)
            self.state(m, f"{channel}_stable", payload == before, when=waited & valid)

    def patience(self, m: Module, due: dict[str, tuple[Any, Any]]) -> None:
        """Of each channel: while something is due, it comes within so many cycles."""
        for channel, (when, comes) in due.items() if self.within else ():
            waits = Signal(range(self.within + 1), name=f"{channel}_waits")
            late = Value.cast(when).bool() & ~Value.cast(comes).bool()
            m.d.sync += waits.eq(Mux(late, Mux(waits == self.within, waits, waits + 1), 0))
            self.state(m, f"{channel}_within", Value.cast(comes).bool() | (waits + 1 < self.within), when=when)
