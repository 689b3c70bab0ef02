"""Group writer: results are written only at valid positions of the walk.

The proof covers every stride and both orientations, in cores whose rows are one group. Only tests cover the values.

Assumes: fields are stable while the writer has rows, and change only before a descriptor begins.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import MAX_STRIDE
from tensordash.configuration.preset import load_any_preset
from tensordash.core.group_writer import GroupWriter
from tensordash.core.row_store import RowStore
from tensordash.movers.placement import DISTANCE_BITS, Placement

from ..harness import Fault, FreeOutputs, Harness, Stub
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF"]

FIELDS = ("transposed", "fp32", "stride", "x_size")
ADDRESS_BITS = 16
MAX_DISTANCE = (1 << DISTANCE_BITS) - 1


class GroupWriterHarness(Harness):
    """A group writer with free rows and a free position of the walk.

    The walk's position in its last step is the place of the next written group.

    Source: docs/core.md, "Loops" and "Multiply"; the docstring of `GroupWriter`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.config, self.dut = config, GroupWriter(config)
        super().__init__(self.dut, stubs=(Stub(RowStore, FreeOutputs),), fault=fault, black_box=True)
        self.lanes = config.tile.lanes
        self._fields()
        self._place()
        for bank in range(self.lanes):
            self._claim(bank)

    def _fields(self) -> None:
        """Assume that fields are stable while rows are present, and that `start` precedes rows after a change."""
        m, dut = self.m, self.dut
        names = [*FIELDS, *(("mask", "mask_offset") if self.config.mask else ())]
        fields = Cat(getattr(dut, name) for name in names)
        changes, stale = Signal(name="changes"), Signal(name="stale", init=1)
        m.d.comb += changes.eq(fields != self.past(fields))
        with m.If(dut.start):
            m.d.sync += stale.eq(0)
        with m.Elif(changes):
            m.d.sync += stale.eq(1)
        self.assume(~changes | dut.empty)
        self.assume(~(changes | stale) | ~dut.rows.valid)
        self.assume(~dut.start | (dut.empty & ~dut.rows.valid))
        self.assume((dut.stride >= 1) & (dut.stride <= MAX_STRIDE))
        self.steady = ~(changes | stale)

    def _place(self) -> None:
        m, dut, lanes = self.m, self.dut, self.lanes
        self.address, self.x = Signal(ADDRESS_BITS, name="at_address"), Signal(signed(16), name="at_x")
        self.loaded = Signal(name="loaded")
        with m.If(dut.step):
            m.d.sync += [self.address.eq(dut.address), self.x.eq(dut.x), self.loaded.eq(1)]
        with m.If(dut.start):
            m.d.sync += self.loaded.eq(0)
        bits, shift = (lanes - 1).bit_length(), (self.config.fp32_groups - 1).bit_length()
        self.end = Signal(ADDRESS_BITS + 2, name="end_of_positions")  # the position after the last group
        m.d.comb += self.end.eq((dut.x_size + lanes - 1) >> bits << bits)

        def distance(value: Value) -> Value:
            return Mux(value < 0, 0, Mux(value > MAX_DISTANCE, MAX_DISTANCE, value))[:DISTANCE_BITS]

        x = self.x
        stored = self.probe("place_0", bits + 3 * DISTANCE_BITS + ADDRESS_BITS)
        low = Cat(x[:bits], distance(-x), distance(dut.x_size - x), distance(self.end.as_signed() - x))
        base = self.address + (x >> bits << Mux(dut.fp32, shift, 0))
        ready, full = self.probe("placed", 1), self.probe("full", 1)
        self.lemma(self.loaded, when=ready)
        self.lemma(stored == Cat(low, base[:ADDRESS_BITS]), when=ready & self.steady)
        self.lemma(~full, when=~self.steady)

    def _claim(self, bank: int) -> None:
        """Claim that an address written in a bank belongs to a valid position of the group in this bank."""
        dut, lanes = self.dut, self.lanes
        bits, words = (lanes - 1).bit_length(), self.config.fp32_groups
        port = dut.write.address[bank]
        found: list[Value] = []
        for i in range(lanes):
            at = Signal(signed(ADDRESS_BITS + 3), name=f"position_{bank}_{i}")
            self.m.d.comb += at.eq(self.x + i * dut.stride)
            is_valid = (at >= 0) & (at < self.end.as_signed()) & (at[:bits] == bank)
            for word in range(words):
                place = (self.address + ((at >> bits) * Mux(dut.fp32, words, 1)) + word)[:ADDRESS_BITS]
                inside = (place < self.config.groups) & (place[: len(port)] == port)
                found.append(is_valid & inside & (dut.fp32 | (word == 0)))
        written = dut.write.valid & dut.write.enable[bank]
        self.claim("a_bank_is_written_where_a_position_is", reduce(or_, found), when=written)


def _bank_is_one_further(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.write.address[1].eq(sound.write.address[1] + 1)


def _variant(title: str, fault: Fault, kind: type[Block] = GroupWriter) -> BrokenVariant:
    return BrokenVariant(claim="a_bank_is_written_where_a_position_is", title=title, kind=kind, fault=fault, depth=14)


BROKEN_VARIANTS = (
    _variant("a bank's address is one too high", _bank_is_one_further),
    _variant("all banks are written", lambda m, sound, outer: outer.write.enable.eq(-1)),
    _variant(
        "a position after the last is written", lambda m, sound, outer: sound.limit.eq(outer.limit + 1), Placement
    ),
    _variant("positions below zero are written", lambda m, sound, outer: sound.first.eq(0), Placement),
    _variant("all groups are placed like FP32", lambda m, sound, outer: sound.fp32.eq(Const(1))),
)

PROOF = Proof(
    name="group_writer",
    build=GroupWriterHarness,
    applies=lambda config: isinstance(config, CoreConfig) and config.parts("a") == 1,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=12,
    broken_config=load_any_preset("core"),
)
