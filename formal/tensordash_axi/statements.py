"""Rules as statements that a solver reads: asserted of one side, assumed of the other; in Verilog, too."""

from collections.abc import Collection
from typing import Any

from amaranth.back import verilog
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module

from .monitor import Monitor

__all__ = ["Statements", "to_verilog"]

SIDES = ("master", "slave", "limit")


class Statements(Elaboratable):
    """A checker whose rules are asserted or assumed; of each one a cover says that it can say something.

    Parameters
    ----------
    checker : Monitor
        Its `bus` is connected by whoever uses it.
    asserted : collection of str
        Sides whose rules are asserted, of "master", "slave" and "limit"; all others are assumed. Beside a master that
        is ("master", "limit"), beside a slave ("slave",), and between two designs ("master", "slave", "limit").

    Raises
    ------
    ValueError
        If there is no such side.
    """

    _MustUse__silence = True

    def __init__(self, checker: Monitor, asserted: Collection[str]) -> None:
        if unknown := sorted(set(asserted) - set(SIDES)):
            raise ValueError(f"asserted must be some of {', '.join(SIDES)}, not {unknown[0]!r}")
        self.checker = checker
        self.asserted = frozenset(asserted)

    def elaborate(self, platform: Any) -> Module:
        """One statement for each rule, and its cover."""
        m = Module()
        m.submodules.rules = checker = self.checker
        for rule in checker.rules:
            holds, applies = getattr(checker.holds, rule.name), getattr(checker.applies, rule.name)
            if rule.side in self.asserted:
                m.d.comb += [Assert(holds, f"{rule.name}: {rule.text}"), Cover(applies, f"{rule.name} says something")]
            else:
                m.d.comb += Assume(holds)
        return m


def to_verilog(checker: Monitor, asserted: Collection[str], name: str = "axi_rules") -> str:
    """A checker as a Verilog module with clk, rst (high: reset) and all signals of the bus as inputs.

    Parameters
    ----------
    checker, asserted
        As of `Statements`.
    name : str
        The module.

    Returns
    -------
    str
        Verilog with immediate assertions, for `read_verilog -formal` or a simulator.
    """
    ports = [getattr(checker.bus, each) for each in checker.bus.signature.members]
    names = checker.bus.signature.members
    design = Statements(checker, asserted)
    return verilog.convert(
        design,
        name=name,
        ports={each: (signal, None) for each, signal in zip(names, ports, strict=True)},
        emit_src=False,
        strip_internal_attrs=True,
    )
