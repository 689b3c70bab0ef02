"""Transposer: every value of every group leaves once, at its place, in order and without a bubble.

Values are transposed or unchanged. Valid and payload hold until a block is taken.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.streams.transposer import Transposer

from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF"]


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a tile's transposer.

    Source: the docstring of `Transposer`; paper, section III-A, "Tensor Layout and Transposing".
    """
    lanes = config.lanes
    dut = Transposer(width=max(config.a_format.width, config.b_format.width), lanes=lanes)
    harness = Harness(dut, fault=fault)
    groups = GroupState(harness, dut)
    blocks, out = dut.blocks, dut.out
    harness.claim("valid_while_a_group_is_left", out.valid, when=groups.complete)
    harness.claim("valid_while_a_group_is_left", ~out.valid, when=~groups.complete)
    stalled, payload = harness.past(out.valid & ~out.ready), harness.past(out.payload)
    harness.claim("valid_holds_until_taken", out.valid, when=stalled)
    harness.claim("payload_holds_until_taken", out.payload.as_value() == payload, when=stalled)

    # Every block of every group enters and leaves once, so it is enough that each value leaves at its place.
    harness.claim(
        "value_comes_out_at_its_place",
        out.payload[groups.out_lane] == groups.value,
        when=groups.watched & groups.is_next & groups.complete & (groups.leaving == groups.out_block),
    )

    harness.claim("takes_a_block_while_there_is_room", blocks.ready, when=(groups.held < lanes) | out.ready)
    harness.claim("takes_no_block_without_room", ~blocks.ready, when=(groups.held == lanes) & ~out.ready)
    # Count the cycles in which the source has a block and the sink takes one.
    flowing = Signal(range(lanes + 1))
    with harness.m.If(~(blocks.valid & out.ready)):
        harness.m.d.sync += flowing.eq(0)
    with harness.m.Elif(flowing < lanes):
        harness.m.d.sync += flowing.eq(flowing + 1)
    harness.claim("flows_without_a_bubble", out.valid, when=flowing == lanes)
    in_step = groups.complete & (groups.entering == groups.leaving)
    harness.lemma(in_step | (groups.entering >= flowing))
    harness.lemma(flowing <= lanes)
    _add_lemmas(harness, lanes, dut.width, groups)
    return harness


class GroupState:
    """Reference model: the number of blocks inside, and the place of a watched value.

    Parameters
    ----------
    harness : Harness
        Harness that gets the ghost registers.
    dut : Transposer
        The component that the registers follow.
    """

    def __init__(self, harness: Harness, dut: Transposer) -> None:
        m, lanes = harness.m, dut.lanes
        values = dut.blocks.payload.values
        enters, leaves = dut.blocks.valid & dut.blocks.ready, dut.out.valid & dut.out.ready

        self.entering = Signal(range(lanes))  # index of the next block to enter
        self.leaving = Signal(range(lanes))
        self.complete = Signal()  # a complete group, or the rest of one, is inside
        self.held = Signal(range(2 * lanes))
        m.d.comb += self.held.eq(Mux(self.complete, lanes, 0) + self.entering - self.leaving)
        last_enters, last_leaves = Signal(), Signal()
        m.d.comb += [
            last_enters.eq(enters & (self.entering == lanes - 1)),
            last_leaves.eq(leaves & (self.leaving == lanes - 1)),
        ]
        with m.If(enters):
            m.d.sync += self.entering.eq(Mux(last_enters, 0, self.entering + 1))
        with m.If(leaves):
            m.d.sync += self.leaving.eq(Mux(last_leaves, 0, self.leaving + 1))
        m.d.sync += self.complete.eq(last_enters | (self.complete & ~last_leaves))
        harness.lemma(self.held <= lanes)
        harness.lemma(self.complete | (self.leaving == 0))
        harness.lemma((self.entering < lanes) & (self.leaving < lanes))

        # A group's first block determines whether the group leaves transposed.
        self.entering_transpose, self.leaving_transpose = Signal(), Signal()
        transpose = Mux(self.entering == 0, dut.blocks.payload.transpose, self.entering_transpose)
        with m.If(enters):
            m.d.sync += self.entering_transpose.eq(transpose)
        with m.If(last_enters):
            m.d.sync += self.leaving_transpose.eq(transpose)

        # The model watches an arbitrary value of an arbitrary group from its entry on.
        self.watched = Signal()
        self.is_next = Signal()  # its group leaves next
        self.value = Signal(dut.width)
        self.block = harness.constant(range(lanes), "block")
        self.lane = harness.constant(range(lanes), "lane")
        harness.assume((self.block < lanes) & (self.lane < lanes))
        self.transposed = Signal()
        self.out_block, self.out_lane = Signal(range(lanes)), Signal(range(lanes))
        m.d.comb += [
            self.out_block.eq(Mux(self.transposed, self.lane, self.block)),
            self.out_lane.eq(Mux(self.transposed, self.block, self.lane)),
        ]
        begin = harness.free(1, "begin")
        with m.If(enters & begin & ~self.watched & (self.entering == self.block)):
            m.d.sync += [
                self.watched.eq(1),
                self.is_next.eq(~self.complete | last_leaves),
                self.value.eq(values[self.lane]),
                self.transposed.eq(transpose),
            ]
        with m.Elif(last_leaves):
            m.d.sync += [self.is_next.eq(1), self.watched.eq(self.watched & ~self.is_next)]
        inside = self.watched & ~(self.is_next & self.complete)
        harness.lemma(self.entering > self.block, when=inside)
        harness.lemma(self.transposed == self.entering_transpose, when=inside)
        harness.lemma(self.is_next | self.complete, when=self.watched)
        harness.lemma(self.transposed == self.leaving_transpose, when=self.watched & self.is_next & self.complete)


def _add_lemmas(harness: Harness, lanes: int, width: int, groups: GroupState) -> None:
    """State the lemmas about the array, its pointers, and the watched value's cell."""
    write, read = harness.probe("write", lanes), harness.probe("read", lanes)
    ahead = harness.probe("ahead", lanes - 1)
    by_column, turned, turning = (harness.probe(name, 1) for name in ("by_column", "turned", "turning"))
    harness.lemma(write == 1 << groups.entering)
    harness.lemma(read == 1 << groups.leaving)
    harness.lemma(turned == groups.leaving_transpose, when=groups.complete)
    harness.lemma(turning == groups.entering_transpose, when=groups.entering != 0)
    harness.lemma(ahead == (1 << groups.leaving) - 1)

    leaves = groups.is_next & groups.complete
    columns = by_column ^ (groups.complete & turned)
    slot = Mux(leaves, groups.out_block, groups.block)
    place = Mux(leaves, groups.out_lane, groups.lane)
    row, column = Signal(range(lanes)), Signal(range(lanes))
    harness.m.d.comb += [row.eq(Mux(columns, place, slot)), column.eq(Mux(columns, slot, place))]
    inside = groups.watched & ~(leaves & (groups.leaving > groups.out_block))
    for i in range(lanes):
        for j in range(lanes):
            cell = harness.probe(f"cell_{i}_{j}", width)
            harness.lemma(cell == groups.value, when=inside & (row == i) & (column == j))


def _reverses_lanes(m: Module, sound: Any, outer: Any) -> None:
    lanes = outer.lanes
    m.d.comb += [outer.out.payload[lane].eq(sound.out.payload[lanes - 1 - lane]) for lane in range(lanes)]


def _turns_the_wrong_groups(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.blocks.payload.transpose.eq(~outer.blocks.payload.transpose)


def _loses_blocks(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.blocks.ready.eq(1)


def _withdraws_valid(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.out.valid.eq(sound.out.valid & ~_stalled(m, outer))


def _changes_payload(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.out.payload[0].eq(sound.out.payload[0] ^ _stalled(m, outer))


def _stalled(m: Module, outer: Any) -> Signal:
    stalled = Signal()
    m.d.sync += stalled.eq(outer.out.valid & ~outer.out.ready)
    return stalled


def _waits_for_ready(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.out.valid.eq(sound.out.valid & outer.out.ready)


def _takes_one_group_at_a_time(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [
        outer.blocks.ready.eq(sound.blocks.ready & ~sound.out.valid),
        sound.blocks.valid.eq(outer.blocks.valid & ~sound.out.valid),
    ]


def _variant(claim: str, title: str, fault: Fault) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=Transposer, fault=fault, depth=40)


BROKEN_VARIANTS = (
    _variant("valid_while_a_group_is_left", "`valid` waits for `ready`", _waits_for_ready),
    _variant("valid_while_a_group_is_left", "blocks are lost while there is no room", _loses_blocks),
    _variant("valid_holds_until_taken", "`valid` falls before `ready` rises", _withdraws_valid),
    _variant("payload_holds_until_taken", "a value changes before `ready` rises", _changes_payload),
    _variant("value_comes_out_at_its_place", "lanes leave in reverse", _reverses_lanes),
    _variant("value_comes_out_at_its_place", "the wrong groups are transposed", _turns_the_wrong_groups),
    _variant("takes_a_block_while_there_is_room", "no block enters while one leaves", _takes_one_group_at_a_time),
    _variant("takes_no_block_without_room", "blocks are lost while there is no room", _loses_blocks),
    _variant("flows_without_a_bubble", "no block enters while one leaves", _takes_one_group_at_a_time),
)

PROOF = Proof(
    name="transposer", build=build, applies=lambda config: True, broken_variants=BROKEN_VARIANTS, cover_depth=40
)
