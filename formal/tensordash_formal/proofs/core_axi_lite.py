"""Registers of the core: all rules of an AXI4-Lite slave, and a response to every request.

A request has one response, within 2 cycles if the host is ready. At most one read and one write are outstanding.

Assumes: the host follows every rule of a master.
"""

from typing import Any

from amaranth.hdl import Module, ResetSignal, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.core.core import Core
from tensordash.core.registers import ADDRESS_BITS, Registers
from tensordash_axi import AxiLiteRules

from ..core_stubs import ALL_BUT_REGISTERS
from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF"]

MAX_RESPONSE_CYCLES = 2
"""The bound is two because a read may wait until the host takes the previous response."""


def build(config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a core's register port, with stubs for all other components.

    Source: docs/core.md, "Registers"; ARM IHI 0022E.
    """
    dut = Core(config)
    harness = Harness(dut, stubs=ALL_BUT_REGISTERS, fault=fault, black_box=True)
    rules = AxiLiteRules(address_bits=ADDRESS_BITS, limit=1, within=MAX_RESPONSE_CYCLES)
    harness.m.submodules.rules = rules
    for name in rules.bus.signature.members:
        harness.m.d.comb += getattr(rules.bus, name).eq(Value.cast(getattr(dut.s_axi, name)))
    for rule in rules.rules:
        holds, applies = getattr(rules.holds, rule.name), getattr(rules.applies, rule.name)
        if rule.side == "master":
            harness.assume(holds)
        else:
            harness.claim(rule.name, holds, when=applies)
    reads, addresses, data = (rules.counts[channel] for channel in ("ar", "aw", "w"))
    harness.lemma(dut.s_axi.rvalid == (reads != 0))
    harness.lemma(dut.s_axi.bvalid == (addresses != 0))
    harness.lemma(addresses == data)
    # A write is accepted in the cycle after both address and data were valid, if no response is outstanding.
    taken = dut.s_axi.awready
    harness.lemma(dut.s_axi.awvalid & dut.s_axi.wvalid & (addresses == 0), when=taken & ~ResetSignal())
    return harness


def _was_stalled(m: Module, *, valid: Any, ready: Any) -> Signal:
    """Return whether a transfer was offered and not accepted in the previous cycle."""
    waited = Signal()
    m.d.sync += waited.eq(valid & ~ready)
    return waited


def _withdraws_reads(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.rvalid.eq(sound.axi.rvalid & ~_was_stalled(m, valid=outer.axi.rvalid, ready=outer.axi.rready))


def _withdraws_responses(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.bvalid.eq(sound.axi.bvalid & ~_was_stalled(m, valid=outer.axi.bvalid, ready=outer.axi.bready))


def _responds_twice(m: Module, sound: Any, outer: Any) -> None:
    responded = Signal()
    m.d.sync += responded.eq(sound.axi.bvalid & outer.axi.bready)
    m.d.comb += outer.axi.bvalid.eq(sound.axi.bvalid | responded)


def _variant(claim: str, title: str, fault: Fault, depth: int = 8) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=Registers, fault=fault, depth=depth)


def _in_reset(channel: str) -> Fault:
    def fault(m: Module, sound: Any, outer: Any) -> None:
        valid = getattr(outer.axi, f"{channel}valid")
        m.d.comb += valid.eq(getattr(sound.axi, f"{channel}valid") | ResetSignal())

    return fault


def _changes(channel: str) -> Fault:
    def fault(m: Module, sound: Any, outer: Any) -> None:
        response, valid = getattr(outer.axi, f"{channel}resp"), getattr(outer.axi, f"{channel}valid")
        waited = _was_stalled(m, valid=valid, ready=getattr(outer.axi, f"{channel}ready"))
        m.d.comb += response.eq(waited << 1)

    return fault


def _responds_exokay(channel: str) -> Fault:
    return lambda m, sound, outer: getattr(outer.axi, f"{channel}resp").eq(1)


def _waits_for_ready(channel: str) -> Fault:
    """Build a fault in which VALID waits for READY, a deadlock if READY waits for VALID."""

    def fault(m: Module, sound: Any, outer: Any) -> None:
        valid, ready = f"{channel}valid", f"{channel}ready"
        m.d.comb += getattr(outer.axi, valid).eq(getattr(sound.axi, valid) & getattr(outer.axi, ready))

    return fault


def _never_ready(channel: str) -> Fault:
    def fault(m: Module, sound: Any, outer: Any) -> None:
        m.d.comb += [
            getattr(outer.axi, f"{channel}ready").eq(0),
            getattr(sound.axi, f"{channel}valid").eq(0),
        ]

    return fault


def _always_ready(*channels: str) -> Fault:
    return lambda m, sound, outer: [getattr(outer.axi, f"{channel}ready").eq(1) for channel in channels]


def _responds_always(channel: str) -> Fault:
    return lambda m, sound, outer: getattr(outer.axi, f"{channel}valid").eq(1)


BROKEN_VARIANTS = (
    _variant("r_reset", "RVALID is high in reset", _in_reset("r")),
    _variant("b_reset", "BVALID is high in reset", _in_reset("b")),
    _variant("r_stays", "RVALID falls before RREADY", _withdraws_reads),
    _variant("b_stays", "BVALID falls before BREADY", _withdraws_responses),
    _variant("r_stable", "a waiting read response becomes an error", _changes("r")),
    _variant("b_stable", "a waiting write response becomes an error", _changes("b")),
    _variant("r_requested", "reads have responses without a request", _responds_always("r")),
    _variant("b_requested", "a write has two responses", _responds_twice),
    _variant("b_requested", "writes have responses without a request", _responds_always("b")),
    _variant("r_okay", "reads have the response EXOKAY", _responds_exokay("r")),
    _variant("b_okay", "writes have the response EXOKAY", _responds_exokay("b")),
    _variant("ar_limit", "a read is accepted while a response waits", _always_ready("ar")),
    _variant("aw_limit", "an address is always taken", _always_ready("aw")),
    _variant("w_limit", "data are always taken", _always_ready("w")),
    _variant("ar_within", "reads are never taken", _never_ready("ar")),
    _variant("aw_within", "addresses are never taken", _never_ready("aw")),
    _variant("w_within", "data are never taken", _never_ready("w")),
    _variant("r_within", "RVALID waits for RREADY", _waits_for_ready("r")),
    _variant("b_within", "a write has no response", lambda m, sound, outer: outer.axi.bvalid.eq(0)),
    _variant("b_within", "BVALID waits for BREADY", _waits_for_ready("b")),
)

PROOF = Proof(
    name="core_axi_lite",
    build=build,
    applies=lambda config: isinstance(config, CoreConfig),
    broken_variants=BROKEN_VARIANTS,
    broken_config=load_any_preset("core"),
)
