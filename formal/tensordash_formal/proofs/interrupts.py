"""Interrupts: each event raises `irq`, even if software clears its cause in the same cycle.

`irq` is high if and only if an enabled cause is set.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.configuration.registers import named
from tensordash.core.registers import Registers

from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF"]

EVENTS = ("end", "error")


def _written(dut: Any, name: str) -> tuple[Value, Value]:
    """Return whether this cycle writes a register's two bits, and the written data."""
    axi = dut.axi
    here = axi.awready & (axi.awaddr[2:] == named(name).offset >> 2) & axi.wstrb[0]
    return here, axi.wdata[: len(EVENTS)]


def build(config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims: `irq` equals the output of a reference model of causes and enables.

    Source: docs/core.md, "Registers" (`interrupt_enable`, `cause`).
    """
    dut = Registers(config=config)
    harness = Harness(dut, fault=fault)
    m, bits = harness.m, len(EVENTS)
    cause, enable, had_failed = Signal(bits), Signal(bits), Signal()
    happens = Cat(dut.ended, dut.failed & ~had_failed)
    (clears, ones), (enables, mask) = _written(dut, "cause"), _written(dut, "interrupt_enable")
    m.d.sync += [
        had_failed.eq(dut.failed & ~dut.restart),
        cause.eq(Mux(dut.restart, 0, (cause & ~Mux(clears, ones, 0)) | happens)),
        enable.eq(Mux(dut.restart, 0, Mux(enables, mask, enable))),
    ]
    harness.lemma(harness.probe("cause", bits) == cause)
    harness.lemma(harness.probe("interrupt_enable", 32) == enable)
    harness.lemma(harness.probe("was_failed", 1) == had_failed)
    harness.claim("irq_is_an_enabled_cause", dut.irq == (cause & enable).any())
    for k, name in enumerate(EVENTS):
        happened = harness.past(happens[k] & ~dut.restart)
        harness.claim(f"{name}_raises_irq", dut.irq, when=happened & enable[k])
        harness.claim(f"{name}_survives_a_clear", dut.irq, when=happened & harness.past(clears & ones[k]) & enable[k])
    return harness


def _loses(port: str, bit: int) -> Fault:
    """Build a fault that loses an event in the cycle in which its cause is cleared."""

    def fault(m: Module, sound: Any, outer: Any) -> None:
        clears, ones = _written(sound, "cause")
        event = getattr(outer, port)
        before = Signal()
        m.d.sync += before.eq(event)
        # `failed` stays high, and only its first cycle is an event. The fault hides that cycle.
        lost = clears & ones[bit] & ~before
        m.d.comb += getattr(sound, port).eq(event & ~lost)

    return fault


def _never(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.irq.eq(0)


def _variant(claim: str, title: str, fault: Fault) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=Registers, fault=fault, depth=10)


BROKEN_VARIANTS = (
    _variant("irq_is_an_enabled_cause", "no interrupt is raised", _never),
    _variant("end_raises_irq", "no interrupt is raised", _never),
    _variant("error_raises_irq", "no interrupt is raised", _never),
    _variant("end_survives_a_clear", "an `end` in the cycle of the clear is lost", _loses("ended", 0)),
    _variant("error_survives_a_clear", "an error in the cycle of the clear is lost", _loses("failed", 1)),
)

PROOF = Proof(
    name="interrupts",
    build=build,
    applies=lambda config: isinstance(config, CoreConfig),
    broken_variants=BROKEN_VARIANTS,
    broken_config=load_any_preset("core"),
)
