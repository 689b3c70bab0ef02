"""Inflate: decompresses the units of a tensor into groups."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from .compaction import Compaction, above, count_ones

__all__ = ["Inflate"]


class Inflate(Block):
    """Takes beats of units, and returns a group for each mask: one per cycle, unless it ends in a beat after the next.

    It holds as few beats as a mask can span, and takes further units from the beat that is offered. A group that ends
    in a later beat leaves in parts. A part has as many values as a beat has units, or as a position has if that is
    more. A mask of the values still to come is stored.

    Timing: a part is offered in the cycle in which its last unit is offered, but the first units of all one cycle
    later. Beats after all groups of a compressed tensor are taken and dropped. `beats.ready` depends on `out.ready`,
    not on the beat that is offered in the same cycle.

    Parameters
    ----------
    lanes, width : int
        A group has `lanes` * `lanes` values of `width` bits; `lanes` * `lanes` is a multiple of `width`.
    data_bits : int
        Bits of a beat: at least two units.
    count_bits : int
        Bits of the number of units.

    Members
    -------
    start : In(1)
        Begin with the next beat. Not in the first cycle after it was `active`.
    plain : In(1)
        Groups arrive uncompressed, without masks, in any number. It changes only with `start`.
    offset : In
        At `start`: units of the first beat to skip.
    limit, groups : In
        At `start`, unless `plain`: number of units, those of `offset` included, and number of groups.
    beats : In(stream of data_bits)
        Units, the first in the lowest bits.
    out : Out(stream of lanes * lanes * width)
        Groups. Its ready must not depend on its valid.
    parts, last : Out
        With `out`: the parts of the group that are valid, and whether they complete it.
    active : Out(1)
        Compressed groups are still to come, or, if `plain`, a beat is held.
    wrong : Out(1)
        The units do not make that number of groups. It stays until the next start.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range, and if a mask is not an integer number of units.

    Source: docs/core.md, "Tensors" and "Errors" (`compressed`).
    """

    def __init__(self, *, lanes: int, width: int, data_bits: int, count_bits: int) -> None:
        self.width = require_int("width", width, 4, 32)
        self.size = require_int("lanes", lanes, 2) ** 2
        if self.size % width:
            raise ValueError(f"width must divide lanes * lanes = {self.size}, not {width}")
        self.masks = self.size // width
        self.most = self.masks + self.size  # units of a group
        self.beat = require_int("data_bits", data_bits, 2 * width) // width
        self.shift = self.beat.bit_length() - 1
        self.part = max(lanes, min(self.beat, self.size))  # values
        self.number = self.size // self.part
        # A mask lies within the held beats. A part after it lies within those and the next beat.
        before = self.beat - 1 + self.masks
        self.slots = max(-(-before // self.beat), -(-(before + self.part) // self.beat) - 1)
        super().__init__(
            {
                "start": In(1),
                "plain": In(1),
                "offset": In(self.shift),
                "limit": In(count_bits + 1),
                "groups": In(16),
                "beats": In(stream.Signature(data_bits)),
                "out": Out(stream.Signature(self.size * width)),
                "parts": Out(self.number),
                "last": Out(1),
                "active": Out(1),
                "wrong": Out(1),
            }
        )

    def elaborate(self, platform):
        """Build the held beats, and for each part a mux among them and a network that unpacks the values."""
        m = Module()
        slots, shift, out = self.slots, self.shift, self.out
        buffered = [Signal(self.beat * self.width, name=f"buffered_{k}", reset_less=True) for k in range(slots)]
        held = Signal(range(slots + 1))  # beats held
        head = Signal(shift)  # the next unit
        done = Signal(self.number)  # parts of the group that have left
        limit = Signal(
            len(self.limit), name="limit_left", reset_less=True
        )  # where units end, counted from the first beat held
        groups_left = Signal(16, reset_less=True)
        counts = Signal()  # groups are to come
        full = Signal()
        reach = Signal(range(slots + 2))  # beats that units may come from
        has_part = Signal()  # a part can be offered
        m.d.comb += [full.eq(held == slots), self.active.eq(counts | (self.plain & (held != 0)))]
        self._reach(m, full, held, reach)

        mask, after_mask = self._mask(m, buffered, held, head, done)
        window = [unit for beat in (*buffered, self.beats.payload) for unit in self._units(beat)]
        ends, values = self._values(m, window, mask, after_mask)
        complete = Signal(self.number)
        used = Signal(len(ends[-1]))  # where the last valid part ends
        uses_next = Signal()  # it takes units from the beat that is offered
        few = Signal()
        m.d.comb += [
            complete.eq(Cat(each <= (reach << shift) for each in ends)),
            uses_next.eq(used > slots * self.beat),
            few.eq(counts & (limit < ends[-1])),
            self.parts.eq(complete & ~done),
            self.last.eq(complete[-1]),
            out.valid.eq(has_part & (~uses_next | self.beats.valid)),
            has_part.eq((counts | self.plain) & (complete & ~done).any() & ~few),
        ]
        for bit, each in zip(complete, ends, strict=True):
            with m.If(bit):
                m.d.comb += used.eq(each)
        if slots > 1:
            # Units that have not arrived may be undefined in a simulation.
            values = [value & complete[j // self.part].replicate(self.width) for j, value in enumerate(values)]
        m.d.comb += out.payload.eq(Cat(*values))
        takes = Signal()
        gives = Signal()
        freed = Signal(range(slots + 2))
        m.d.comb += [
            gives.eq(out.valid & out.ready),
            freed.eq(Mux(gives, used >> shift, 0)),
            self.beats.ready.eq(~(counts | self.plain) | ~full | (has_part & out.ready & ((used >> shift) != 0))),
            takes.eq(self.beats.valid & self.beats.ready),
        ]
        m.d.sync += [held.eq(held + takes - freed), limit.eq(limit - (freed << shift))]
        for k, beat in enumerate(buffered):
            next_beat: Any = self.beats.payload
            for far in reversed(range(slots - k)):
                next_beat = Mux((freed == far) & (held > k + far), buffered[k + far], next_beat)
            with m.If(takes | (freed != 0) if slots > 1 else takes):
                m.d.sync += beat.eq(next_beat)
        with m.If(gives):
            m.d.sync += [head.eq(used), done.eq(Mux(complete[-1], 0, complete))]
        with m.If(gives & complete[-1]):
            m.d.sync += groups_left.eq(groups_left - 1)
        ends_all = gives & complete[-1] & (groups_left == 1)
        with m.If(few | (counts & ends_all)):
            m.d.sync += [counts.eq(0), self.wrong.eq(few | (limit != used))]
        with m.If(~(counts | self.plain)):
            m.d.sync += held.eq(0)
        with m.If(self.start):
            m.d.sync += [
                counts.eq(~self.plain),
                self.wrong.eq(0),
                head.eq(self.offset),
                held.eq(0),
                done.eq(0),
                limit.eq(self.limit),
                groups_left.eq(self.groups),
            ]
        return m

    def _reach(self, m: Module, full: Signal, held: Signal, reach: Signal) -> None:
        """Drive the number of beats that units may come from. It does not change while a group waits.

        The offered beat counts if all slots are full.
        """
        most = Mux(full, self.slots + 1, held)
        if self.slots == 1:
            m.d.comb += reach.eq(most)
            return
        waits = Signal()
        earlier = Signal(len(reach), name="reach_before", reset_less=True)
        hold_lines = waits.replicate(len(reach))
        m.d.comb += reach.eq((earlier & hold_lines) | (most & ~hold_lines))
        m.d.sync += waits.eq(self.out.valid & ~self.out.ready & ~self.start)
        with m.If(~waits):
            m.d.sync += earlier.eq(most)

    def _units(self, beat: Value) -> list[Value]:
        return [beat.word_select(i, self.width) for i in range(self.beat)]

    def _mask(
        self, m: Module, buffered: list[Signal], held: Signal, head: Signal, done: Signal
    ) -> tuple[Signal, Signal]:
        """Find the mask of the group's values that are still to come, and the place of their first unit."""
        units = [unit for beat in buffered for unit in self._units(beat)]
        for k in reversed(range(self.shift)):
            count = min(len(units), self.masks + (1 << k) - 1)
            chosen = [Signal(self.width, name=f"rotated_{k}_{i}") for i in range(count)]
            m.d.comb += [each.eq(Mux(head[k], units[i + (1 << k)], units[i])) for i, each in enumerate(chosen)]
            units = chosen
        mask = Signal(self.size)
        after_mask = Signal(range(self.beat + self.masks))
        mask_end = Signal(range(self.beat + self.masks))
        arriving = Cat(*units[: self.masks])
        m.d.comb += mask_end.eq(head + self.masks)
        # A mask with units that have not arrived is zero.
        arriving &= ((held << self.shift) >= mask_end).replicate(self.size)
        is_past_mask = self.plain
        if self.number > 1:
            earlier = Signal(self.size, reset_less=True)
            resumes = done.any()
            group_mask = Signal(self.size)
            hold_lines = resumes.replicate(self.size)
            m.d.comb += group_mask.eq((earlier & hold_lines) | (arriving & ~hold_lines))
            with m.If(~resumes):
                m.d.sync += earlier.eq(arriving)
            left = Cat(bit.replicate(self.part) for bit in ~done)
            m.d.comb += mask.eq((group_mask | self.plain.replicate(self.size)) & left)
            is_past_mask |= resumes
        else:
            m.d.comb += mask.eq(arriving | self.plain.replicate(self.size))
        m.d.comb += after_mask.eq(Mux(is_past_mask, head, mask_end))
        return mask, after_mask

    def _values(
        self, m: Module, window: list[Value], mask: Signal, after_mask: Signal
    ) -> tuple[list[Signal], list[Value]]:
        """Find where the units of each part end, and all values. Unmarked values are zero."""
        part, bits = self.part, self.part.bit_length() - 1
        rows = -(-len(window) // part)
        ends: list[Signal] = []
        values: list[Value] = []
        place: Signal = after_mask
        for k in range(self.number):
            marks = list(mask[k * part : (k + 1) * part])
            network = Compaction(m, f"part_{k}", marks, place[:bits])
            row = place >> bits  # row of the ring's places from `place` on; earlier places are in the next row
            chosen = [Signal(self.width, name=f"chosen_{k}_{p}") for p in range(part)]
            for p, each in enumerate(chosen):
                number = Signal(range(rows + 1), name=f"row_{k}_{p}")
                row_units = [window[r * part + p] for r in range(rows) if r * part + p < len(window)]
                unit: Value = row_units[-1]
                for r in reversed(range(len(row_units) - 1)):
                    unit = Mux(number == r, row_units[r], unit)
                m.d.comb += [number.eq(row + above(place[:bits], p)), each.eq(unit)]
            values += [
                value & mark.replicate(self.width) for value, mark in zip(network.expand(m, chosen), marks, strict=True)
            ]
            part_end = Signal(range(self.beat + self.most), name=f"end_{k}")
            m.d.comb += part_end.eq(place + count_ones(marks))
            ends.append(part_end)
            place = part_end
        return ends, values
