"""Staging buffers: steps leave a window unchanged and in order, at full width and on both sides.

Assumes: the numbers of steps that leave and enter in a cycle are ones that the control allows (`tile_control`).
"""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from tensordash import TileConfig
from tensordash.block import Block, placed
from tensordash.layouts import steps_layout
from tensordash.schedule.staging_buffer import StagingBuffer, refill_layout
from tensordash.schedule.staging_ring import StagingRing

from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF", "Windows"]


class Windows(Block):
    """A tile's staging buffers or rings, one for each operand width, with a common input named `control`."""

    def __init__(self, config: TileConfig, kind: type[StagingBuffer] | type[StagingRing], control: str) -> None:
        lanes, depth = config.lanes, config.window_depth
        widths = sorted({config.a_format.width, config.b_format.width})
        self.control = control
        self.buffers = {width: kind(width=width, lanes=lanes, depth=depth) for width in widths}
        members: dict[str, Any] = {control: self.buffers[widths[0]].signature.members[control]}
        for width in widths:
            layout = steps_layout(width, lanes, depth)
            members |= {f"steps_{width}": In(layout), f"window_{width}": Out(layout)}
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for width, buffer in self.buffers.items():
            m.submodules[f"buffer_{width}"] = placed(buffer, platform)
            m.d.comb += [
                getattr(buffer, self.control).eq(getattr(self, self.control)),
                buffer.steps.eq(getattr(self, f"steps_{width}")),
                getattr(self, f"window_{width}").eq(buffer.window),
            ]
        return m


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a tile's windows.

    Source: docs/tile.md, "One cycle", steps 3 and 5; the docstrings of `refill_layout` and `StagingBuffer`.
    """
    depth = config.window_depth
    dut = Windows(config, StagingBuffer, "refill")
    harness = Harness(dut, fault=fault)
    m = harness.m

    # In each cycle, free numbers of steps leave and enter. Slots that are empty afterwards take free values.
    present = Signal(range(depth + 1))
    remaining = Signal(range(depth + 1))
    leaving = harness.free(range(depth + 1), "leaving")
    entering = harness.free(range(depth + 1), "entering")
    unused = harness.free(refill_layout(depth), "unused")
    refill = Signal(refill_layout(depth))
    harness.assume(leaving <= present)
    harness.assume(remaining + entering <= depth)
    harness.drive(dut.refill, refill)
    m.d.comb += remaining.eq(present - leaving)
    m.d.sync += present.eq(remaining + entering)
    for slot in range(depth):
        with m.If(slot < remaining):
            m.d.comb += refill[slot].eq(1 << leaving)
        with m.Elif(slot < remaining + entering):
            m.d.comb += refill[slot].eq((1 << depth) >> remaining)
        with m.Else():
            m.d.comb += refill[slot].eq(unused[slot])

    # An arbitrary step is watched from its entry until it leaves.
    watched = Signal()
    place = Signal(range(depth + 1))
    begin = harness.free(1, "begin")
    offset = harness.free(range(depth + 1), "offset")
    enters = Signal()
    m.d.comb += enters.eq(begin & ~watched & (offset < entering))
    with m.If(enters):
        m.d.sync += [watched.eq(1), place.eq(remaining + offset)]
    with m.Elif(watched):
        m.d.sync += [watched.eq(place >= leaving), place.eq(place - leaving)]
    harness.lemma(present <= depth)
    harness.lemma(place < present, when=watched)

    running = harness.past(1)
    lane = harness.constant(range(config.lanes), "lane")
    harness.assume(lane < config.lanes)
    for width in dut.buffers:
        steps, window = getattr(dut, f"steps_{width}"), getattr(dut, f"window_{width}")
        value = Signal(width, name=f"value_{width}")
        with m.If(enters):
            m.d.sync += value.eq(steps[offset][lane])
        harness.claim("held_in_order_until_it_leaves", window[place][lane] == value, when=watched)
        for slot in range(depth):
            lines, before = harness.past(refill[slot]), harness.past(window[slot].as_value())
            harness.claim("stays_by_its_first_line", window[slot].as_value() == before, when=running & (lines == 1))
    return harness


def _reverses_lanes(m: Module, sound: Any, outer: Any) -> None:
    for inner, step in zip(sound.steps, outer.steps, strict=True):
        for lane in range(len(step)):
            m.d.comb += inner[lane].eq(step[len(step) - 1 - lane])


def _forgets(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [lines[0].eq(0) for lines in sound.refill]


def _sticks(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [lines[0].eq(1) for lines in sound.refill]


def _variant(claim: str, title: str, fault: Fault) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=StagingBuffer, fault=fault, depth=4)


BROKEN_VARIANTS = (
    _variant("held_in_order_until_it_leaves", "lanes enter in reverse", _reverses_lanes),
    _variant("held_in_order_until_it_leaves", "a step that stays is lost", _forgets),
    _variant("held_in_order_until_it_leaves", "a step that stays is mixed with an entering one", _sticks),
    _variant("stays_by_its_first_line", "a step that stays is lost", _forgets),
)

PROOF = Proof(
    name="staging_buffer", build=build, applies=lambda config: not config.ring, broken_variants=BROKEN_VARIANTS
)
