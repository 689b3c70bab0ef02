"""Unit counters: saturating sums that are copied in one cycle, and cleared.

A copy includes all events since the last clear and before its cycle, even if copy and clear coincide.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.core.unit_counters import BITS, UNIT_COUNTERS, UnitCounters

from ..harness import Fault, Harness
from ..proof import Proof, make_variants

__all__ = ["PROOF"]

LARGEST = 2**BITS - 1


def build(config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims: the copies equal the values of reference counters.

    Source: docs/core.md, "Registers" (`snapshot`).
    """
    dut = UnitCounters()
    harness = Harness(dut, fault=fault)
    taken = harness.past(dut.take)
    for name in UNIT_COUNTERS:
        count, copy = Signal(BITS, name=f"expected_{name}"), getattr(dut.counters, name)
        grown = Mux(count == LARGEST, LARGEST, count + getattr(dut.events, name))
        harness.m.d.sync += count.eq(Mux(dut.clear, 0, grown))
        harness.lemma(harness.probe(name, BITS) == count)
        harness.claim("all_counters_are_copied", copy == harness.past(count), when=taken)
        harness.claim("a_copy_stays_until_the_next", copy == harness.past(copy), when=~taken)
    return harness


def _copies_zeros(m: Module, sound: Any, outer: Any) -> None:
    """Copy zero if the counters are cleared in the same cycle."""
    both = Signal()
    m.d.sync += both.eq(outer.take & outer.clear)
    m.d.comb += outer.counters.cycles.eq(Mux(both, 0, sound.counters.cycles))


BROKEN_VARIANTS = make_variants(
    UnitCounters,
    {
        "all_counters_are_copied": {
            "a copy in the cycle of a clear is zero": _copies_zeros,
            "no counter is cleared": lambda m, sound, outer: sound.clear.eq(0),
        },
        "a_copy_stays_until_the_next": {"the copies follow the counters": lambda m, sound, outer: sound.take.eq(1)},
    },
)

PROOF = Proof(
    name="unit_counters",
    build=build,
    applies=lambda config: isinstance(config, CoreConfig),
    broken_variants=BROKEN_VARIANTS,
    broken_config=load_any_preset("core"),
)
