"""Sticky flags: only its own cause sets a flag, which stays high until it is cleared."""

from typing import Any

from amaranth.hdl import Module

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.tile.flags import FLAGS, Flags

from ..harness import Fault, Harness
from ..proof import Proof, make_variants

__all__ = ["PROOF"]


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a tile's flags.

    Source: docs/tile.md, "Counters and flags"; the docstring of `Flags`.
    """
    dut = Flags()
    harness = Harness(dut, fault=fault)
    cleared = harness.past(dut.clear)
    for index, name in enumerate(FLAGS):
        flag = getattr(dut, name)
        raised, past_flag = harness.past(dut.raised[index]), harness.past(flag)
        harness.claim("flags_rise", flag, when=raised & ~cleared)
        harness.claim("flags_stay", flag == past_flag, when=~raised & ~cleared)
        harness.claim("clear_zeroes_flags", ~flag, when=cleared)
    return harness


def _raises_two(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.raised[0].eq(outer.raised[:2].any())


BROKEN_VARIANTS = make_variants(
    Flags,
    {
        "flags_rise": {"the last flag never rises": lambda m, sound, outer: sound.raised[-1].eq(0)},
        "flags_stay": {
            "flags fall without a cause": lambda m, sound, outer: sound.clear.eq(outer.clear | ~outer.raised.any()),
            "a flag rises with the cause of another flag": _raises_two,
        },
        "clear_zeroes_flags": {"no flag is cleared": lambda m, sound, outer: sound.clear.eq(0)},
    },
    depth=6,
)

PROOF = Proof(name="flags", build=build, applies=lambda config: True, broken_variants=BROKEN_VARIANTS)
