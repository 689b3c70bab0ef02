"""Staging rings: a slot holds the value of its line in the cycle in which it was last written.

The proof covers the full width and both sides. It assumes nothing.
"""

from typing import Any

from amaranth.hdl import Module, Signal

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.schedule.staging_ring import StagingRing

from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof
from .staging_buffer import Windows

__all__ = ["PROOF"]


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a tile's rings. The proof `tile` covers which slots are written.

    Source: docs/tile.md, "Ports"; the docstring of `StagingRing`.
    """
    dut = Windows(config, StagingRing, "write")
    harness = Harness(dut, fault=fault)
    running = harness.past(1)
    lane = harness.constant(range(config.lanes), "lane")
    harness.assume(lane < config.lanes)
    for width in dut.buffers:
        steps, window = getattr(dut, f"steps_{width}"), getattr(dut, f"window_{width}")
        for slot in range(config.window_depth):
            value = Signal(width, name=f"value_{width}_{slot}")
            harness.m.d.comb += value.eq(window[slot][lane])
            offered, before = harness.past(steps[slot][lane]), harness.past(value)
            written = harness.past(dut.write[slot])
            harness.claim("takes_the_value_of_its_line", value == offered, when=running & written)
            harness.claim("stays_while_it_is_not_written", value == before, when=running & ~written)
    return harness


def _rotates_window(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [outer.window[slot].eq(sound.window[slot - 1]) for slot in range(outer.depth)]


def _variant(claim: str, title: str, fault: Fault) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=StagingRing, fault=fault, depth=4)


RING = TileConfig(rows=1, columns=1, lanes=2, depth=2, connectivity=((0, 0), (1, 0), (1, 1)), staging="ring")
BROKEN_VARIANTS = (
    _variant("takes_the_value_of_its_line", "each slot shows its neighbour's values", _rotates_window),
    _variant(
        "stays_while_it_is_not_written", "slots are written in every cycle", lambda m, sound, outer: sound.write.eq(~0)
    ),
)

PROOF = Proof(
    name="staging_ring",
    build=build,
    applies=lambda config: config.ring,
    broken_variants=BROKEN_VARIANTS,
    broken_config=RING,
)
