"""Convert rules to statements for a solver: asserted for one side and assumed for the other. Export them as Verilog."""

from collections.abc import Collection
from typing import Any

from amaranth.back import verilog
from amaranth.hdl import Assert, Assume, Cover, Elaboratable, Module

from .monitor import Monitor

__all__ = ["Statements", "to_verilog"]

SIDES = ("master", "slave", "limit")


class Statements(Elaboratable):
    """A checker with an assertion or an assumption for each rule. Each asserted rule has a cover of where it applies.

    Parameters
    ----------
    checker : Monitor
        The checker. The user connects its `bus`.
    asserted : collection of str
        Sides whose rules are asserted, out of "master", "slave" and "limit". Rules of all other sides are assumed. Use
        ("master", "limit") for a master, ("slave",) for a slave, and all three for a bus between two designs.

    Raises
    ------
    ValueError
        If a side is unknown.
    """

    _MustUse__silence = True

    def __init__(self, checker: Monitor, asserted: Collection[str]) -> None:
        if unknown := sorted(set(asserted) - set(SIDES)):
            raise ValueError(f"asserted must be some of {', '.join(SIDES)}, not {unknown[0]!r}")
        self.checker = checker
        self.asserted = frozenset(asserted)

    def elaborate(self, platform: Any) -> Module:
        """Add one statement for each rule, and the covers."""
        m = Module()
        m.submodules.rules = checker = self.checker
        for rule in checker.rules:
            holds, applies = getattr(checker.holds, rule.name), getattr(checker.applies, rule.name)
            if rule.side in self.asserted:
                m.d.comb += [Assert(holds, f"{rule.name}: {rule.text}"), Cover(applies, f"{rule.name} applies")]
            else:
                m.d.comb += Assume(holds)
        return m


def to_verilog(checker: Monitor, asserted: Collection[str], name: str = "axi_rules") -> str:
    """Convert a checker to a Verilog module with inputs clk, rst (active high) and all signals of the bus.

    Parameters
    ----------
    checker, asserted
        As in `Statements`.
    name : str
        Name of the module.

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
