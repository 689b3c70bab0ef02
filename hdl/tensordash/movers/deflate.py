"""Deflate: compresses groups into the units of a tensor."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from .axi_writer import write_beat_layout
from .compaction import Compaction, above, count_ones, unit_bits

__all__ = ["Deflate"]

ALIGNED = 128
"""Alignment of a compressed tensor in memory, in bits."""


class Deflate(Block):
    """Packs the masks and values of groups into beats: a group per cycle, if it completes at most one beat.

    It stores only the units that do not fill a beat yet. A group stays offered while its beats leave one by one,
    straight from its values. It is taken with its last complete beat, or at once if it completes none.

    A network packs each part of a group that has as many values as a beat has units. The network's ring is a beat, so
    the part's first unit follows the units before it. The last mux selects the beat that each place belongs to.

    Timing: a beat is offered in the cycle of the group that completes it.

    Parameters
    ----------
    lanes, width, data_bits
        As in `Inflate`.

    Members
    -------
    start : In(1)
        Begin a tensor. Only while no unit is held. Required after a reset, which clears nothing.
    offset : In
        Only if a beat is wider than 16 bytes: multiples of 16 bytes of the first beat that are skipped, with strobes
        low. Valid at `start` and until that beat was taken.
    plain : In(1)
        Groups leave uncompressed, without masks. It may change only with `start`.
    groups : In(stream of lanes * lanes * width)
        Groups. A group that is offered must stay until it is taken, or until `start`.
    units : Out
        Units of all groups taken, until a last beat has left that is not full.
    flush : In(1)
        No group follows: the last beat leaves though it is not full. It must stay until no unit is held.
    whole_beats : Out
        Number of beats that can leave without another group.
    beats : Out(stream of write_beat_layout)
        Beats to write. Bytes whose strobes are low are zero.
    mute : In(1)
        Data are zero in this cycle, whatever is offered.

    Raises
    ------
    TypeError, ValueError
        As in `Inflate`, and for beats of less than two units.

    Source: docs/core.md, "Tensors".
    """

    def __init__(self, *, lanes: int, width: int, data_bits: int) -> None:
        self.width = require_int("width", width, 4, 32)
        self.size = require_int("lanes", lanes, 2) ** 2
        if self.size % width:
            raise ValueError(f"width must divide lanes * lanes = {self.size}, not {width}")
        self.masks = self.size // width
        self.most = self.masks + self.size
        self.beat = require_int("data_bits", data_bits, 2 * width) // width
        self.shift = self.beat.bit_length() - 1
        self.offset_bits = max(0, (data_bits // ALIGNED).bit_length() - 1)
        self.max_beats = (self.beat - 1 + self.most) // self.beat  # that a group can complete
        super().__init__(
            {
                "start": In(1),
                **({"offset": In(self.offset_bits)} if self.offset_bits else {}),
                "plain": In(1),
                "groups": In(stream.Signature(self.size * width)),
                "units": Out(unit_bits(lanes, width)),
                "flush": In(1),
                "whole_beats": Out(range(self.max_beats + 1)),
                "beats": Out(stream.Signature(write_beat_layout(data_bits))),
                "mute": In(1),
            }
        )

    def elaborate(self, platform):
        """Build networks for a beat's number of units, a mux for the beat that leaves and one for the rest."""
        m = Module()
        beat, shift = self.beat, self.shift
        rest = [Signal(self.width, name=f"rest_{p}", reset_less=True) for p in range(beat - 1)]
        filled = Signal(shift, reset_less=True)  # units in `rest`
        beats_before = Signal(len(self.units) - shift, reset_less=True)  # beats that earlier groups completed
        sent = Signal(range(self.max_beats), reset_less=True)  # beats of the group that have left
        total = Signal(range(beat + self.most))  # units from the start of the first beat, with the group's
        completed = Signal(range(self.max_beats + 1))  # beats that the group completes
        blocks = self._blocks(m, filled, total)

        takes = Signal()
        beat_leaves = Signal()
        flushes = self.flush & (filled != 0)
        shows = self.groups.valid & ~self.mute
        offset = Cat(Const(0, shift - self.offset_bits), self.offset) if self.offset_bits else Const(0, shift)
        first = Signal(reset_less=True)  # no beat has left
        if self.offset_bits:
            m.d.sync += first.eq(self.start | (first & ~beat_leaves))
        m.d.comb += [
            completed.eq(total >> shift),
            self.whole_beats.eq(Mux(self.groups.valid, completed - sent, flushes)),
            self.units.eq(Cat(filled, beats_before) - offset),
            self.beats.valid.eq(self.whole_beats != 0),
            beat_leaves.eq(self.beats.valid & self.beats.ready),
            self.groups.ready.eq((completed == 0) | ((completed == sent + 1) & self.beats.ready)),
            takes.eq(self.groups.valid & self.groups.ready),
        ]
        for p in range(beat):
            sent_units, stays = [], []
            for place, held, units in blocks:
                # The group's beat that has a unit of this block here. Places before its first are in the next beat.
                number = (place >> shift) + above(place[:shift], p)
                for target, chosen, name in ((sent, sent_units, "sends"), (completed, stays, "stays")):
                    one = Signal(name=f"{name}_{p}")
                    m.d.comb += one.eq(held[p] & (number == target) & (shows if chosen is sent_units else 1))
                    chosen.append(units[p] & one.replicate(self.width))
            written = Signal(name=f"written_{p}")
            m.d.comb += written.eq((self.groups.valid | above(filled, p)) & ~(first & above(offset, p)))
            if p < beat - 1:
                before = Signal(name=f"before_{p}")
                m.d.comb += before.eq((sent == 0) & above(filled, p) & written & ~self.mute)
                sent_units.append(rest[p] & before.replicate(self.width))
                with m.If(takes & ((completed != 0) | (filled <= p))):
                    m.d.sync += rest[p].eq(reduce(or_, stays))
            m.d.comb += [
                self.beats.payload.data.word_select(p, self.width).eq(reduce(or_, sent_units)),
                self.beats.payload.strobe.word_select(p, self.width // 8).eq(written.replicate(self.width // 8)),
            ]
        with m.If(beat_leaves):
            m.d.sync += sent.eq(sent + 1)
        with m.If(takes):
            m.d.sync += [sent.eq(0), filled.eq(total), beats_before.eq(beats_before + completed)]
        with m.If(flushes & beat_leaves):
            m.d.sync += [sent.eq(0), filled.eq(0)]
        with m.If(self.start):
            m.d.sync += [sent.eq(0), filled.eq(offset), beats_before.eq(0)]
        return m

    def _blocks(self, m: Module, filled: Signal, total: Signal) -> list[tuple[Value, list[Value], list[Value]]]:
        """Build the networks: for each the place of its first unit, the places that it has units for, and the units.

        The first unit's place counts from the start of the first beat; the others are within a beat. Masks come first.
        """
        group, beat = self.groups.payload, self.beat
        values = [group.word_select(j, self.width) for j in range(self.size)]
        mask = Signal(self.size)
        m.d.comb += mask.eq(Cat(*(value.any() for value in values)))
        masks = [mask.word_select(k, self.width) for k in range(self.masks)]
        blocks = []
        place: Value = filled
        for k in range(0, self.masks, beat):
            some = masks[k : k + beat]
            marks = [Const(1)] * len(some) + [Const(0)] * (beat - len(some))
            network = Compaction(m, f"masks_{k}", marks, place[: self.shift])
            # Unmarked values are undefined. Repeating the masks makes the muxes smaller.
            units = network.compact(m, [some[i % len(some)] for i in range(beat)])
            blocks.append((place, [held & ~self.plain for held in network.held], units))
            next_place = Signal(range(beat + self.most), name=f"after_masks_{k}")
            m.d.comb += next_place.eq(place + Mux(self.plain, 0, len(some)))
            place = next_place
        for k in range(0, self.size, beat):
            marks = list(mask[k : k + beat] | self.plain.replicate(beat))
            network = Compaction(m, f"values_{k}", marks, place[: self.shift])
            blocks.append((place, network.held, network.compact(m, values[k : k + beat])))
            next_place = total if k + beat == self.size else Signal(range(beat + self.most), name=f"after_values_{k}")
            m.d.comb += next_place.eq(place + count_ones(marks))
            place = next_place
        return blocks
