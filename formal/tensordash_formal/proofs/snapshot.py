"""Snapshot: all counters are copied in one cycle, and the copies stay until the next snapshot."""

from typing import Any

from amaranth.hdl import Module, Value

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.tile.snapshot import Snapshot

from ..harness import Fault, Harness
from ..proof import Proof, make_variants

__all__ = ["PROOF"]


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a tile's copies of its counters.

    Source: docs/tile.md, "Counters and flags"; the docstring of `Snapshot`.
    """
    dut = Snapshot(rows=config.rows)
    harness = Harness(dut, fault=fault)
    taken = harness.past(dut.take)
    for name in dut.copied.signature.members:
        counter, copy = Value.cast(getattr(dut.counted, name)), Value.cast(getattr(dut.copied, name))
        harness.claim("all_counters_are_copied", copy == harness.past(counter), when=taken)
        harness.claim("a_copy_stays_until_the_next", copy == harness.past(copy), when=~taken)
    return harness


def _swaps_two(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [sound.counted.cycles.eq(outer.counted.steps), sound.counted.steps.eq(outer.counted.cycles)]


BROKEN_VARIANTS = make_variants(
    Snapshot,
    {
        "all_counters_are_copied": {
            "the last row's counter is missing": lambda m, sound, outer: sound.counted.row_wait[-1].eq(0),
            "two counters are exchanged": _swaps_two,
        },
        "a_copy_stays_until_the_next": {"the copies follow the counters": lambda m, sound, outer: sound.take.eq(1)},
    },
    depth=6,
)

PROOF = Proof(name="snapshot", build=build, applies=lambda config: config.snapshot, broken_variants=BROKEN_VARIANTS)
