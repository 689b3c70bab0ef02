"""Group writer: rows of results become groups, and go to the buffer."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..memory.bank import group_address_bits
from ..memory.signature import BufferReadSignature, BufferWriteSignature
from ..movers.placement import DISTANCE_BITS, MOST_STRIDE, Placement
from .result_pipeline import row_layout

__all__ = ["GroupWriter"]

ADDRESS_BITS = 16


class GroupWriter(Block):
    """Collects as many rows of results as there are lanes, and writes the groups that they make.

    Timing: a row in each cycle until a group's rows are there; then each group takes a cycle for each turn
    (the greatest common divisor of stride and lanes) and each of an FP32 group's words, two more with a mask, and one
    to go on to the next of a row. With the last word the next rows begin.

    Parameters
    ----------
    config : CoreConfig
        Gives lanes, columns, and what is built.

    Members
    -------
    rows : In(stream of row_layout)
        Results.
    transposed, fp32 : In(1), stride : In(3), x_size : In(16)
        The descriptor's fields.
    mask : In(1), mask_offset : In(16)
        Only with masks: there is one, and so many groups after the results it lies.
    address : In(16), x : In(signed(16)), step : Out(1)
        Where the walk stands, and that it shall go on.
    read : Out(BufferReadSignature)
        Only with masks.
    write : Out(BufferWriteSignature)
    counted : Out(1), zeros, non_finite : Out(0..lanes**2)
        In this cycle so many results are written that are zero, and infinite or NaN.
    outside : Out(1)
        In this cycle a position that was to be written is not in the buffer.
    empty : Out(1)
        No row waits.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self.lanes, self.width = config.tile.lanes, config.value_bits
        self.columns = config.tile.columns
        self.address_bits = group_address_bits(config.groups)
        port = {"lanes": self.lanes, "width": self.width, "address_bits": self.address_bits}
        counts = range(self.lanes**2 + 1)
        super().__init__(
            {
                "rows": In(stream.Signature(row_layout(config.tile.columns))),
                "transposed": In(1),
                "fp32": In(1),
                "stride": In(3),
                "x_size": In(16),
                **(
                    {"mask": In(1), "mask_offset": In(16), "read": Out(BufferReadSignature(**port))}
                    if config.mask
                    else {}
                ),
                "address": In(ADDRESS_BITS),
                "x": In(signed(16)),
                "step": Out(1),
                "write": Out(BufferWriteSignature(**port)),
                "counted": Out(1),
                "zeros": Out(counts),
                "non_finite": Out(counts),
                "outside": Out(1),
                "empty": Out(1),
            }
        )
        self.placement = Placement(lanes=self.lanes)

    def elaborate(self, platform):
        """Cells; where the group goes; then its words, one after the other."""
        m = Module()
        m.submodules.placement = placed(self.placement, platform)
        lanes, groups = self.lanes, self.columns // self.lanes
        fill = Signal(lanes, init=1)  # the row of a group that comes next, one-hot
        full, ready = Signal(name="full"), Signal(name="ready")
        group = Signal(groups, init=1)  # which of the groups that the rows make is written, one-hot
        taken = Signal()
        goes = Signal()  # the last of the groups is written in this cycle
        m.d.comb += [
            self.rows.ready.eq(~full | goes),
            taken.eq(self.rows.valid & self.rows.ready),
            self.empty.eq(fill[0] & ~full),
        ]
        cells = self._cells(m, taken, fill, group)
        counts = self._place(m)
        ends = self._write(m, full & ready, cells, counts)
        # Where the walk stands is known a cycle after it has stepped.
        m.d.sync += ready.eq(~ends)
        m.d.comb += self.step.eq(ends)
        m.d.comb += goes.eq(ends & group[-1])
        with m.If(ends):
            m.d.sync += group.eq(group.rotate_left(1))
        with m.If(goes):
            m.d.sync += full.eq(0)
        with m.If(taken):
            m.d.sync += [fill.eq(fill.rotate_left(1)), full.eq(fill[-1])]
        return m

    def _cells(self, m: Module, taken, fill, group) -> list[list[Any]]:
        """The group that is written, by position and channel: bits, whether it is zero, whether it is not finite."""
        lanes, rows = self.lanes, self.rows.payload
        chosen: list[list[list[Any]]] = [[[] for _ in range(lanes)] for _ in range(lanes)]
        beat = [Cat(rows.values[j], rows.zero[j], rows.non_finite[j]) for j in range(self.columns)]
        for index in range(self.columns // lanes):
            for position in range(lanes):
                for channel in range(lanes):
                    cell = Signal(34, name=f"cell_{index}_{position}_{channel}", reset_less=True)
                    plain, turned = index * lanes + channel, index * lanes + position  # its column
                    with m.If(taken & Mux(self.transposed, fill[channel], fill[position])):
                        m.d.sync += cell.eq(Mux(self.transposed, beat[turned], beat[plain]))
                    chosen[position][channel].append(cell & group[index].replicate(34))
        return [[reduce(or_, each) for each in position] for position in chosen]

    def _place(self, m: Module) -> Any:
        """Registers of where the group goes, and which of its positions count."""
        placement, most = self.placement, (1 << DISTANCE_BITS) - 1
        bits = (self.lanes - 1).bit_length()
        low = Signal(bits, reset_less=True)
        first, limit, end = (
            Signal(DISTANCE_BITS, name=name, reset_less=True) for name in ("first", "limit", "write_limit")
        )
        self._base = Signal(ADDRESS_BITS, name="base", reset_less=True)
        shift = (self.config.fp32_groups - 1).bit_length()
        before = (-self.x)[:16]
        # To the first position that does not count, and to the first that is not written.
        rest = (self.x_size - self.x)[:18]
        last = Cat(Const(0, bits), self.x_size[bits:] + self.x_size[:bits].any())
        room = (last - self.x)[:19]
        away = self.x >> bits

        def distance(value):
            return Mux(value[-1], 0, Mux(value[DISTANCE_BITS:-1].any(), most, value[:DISTANCE_BITS]))

        m.d.sync += [
            low.eq(self.x[:bits]),
            first.eq(Mux(self.x >= 0, 0, Mux(before[DISTANCE_BITS:].any(), most, before[:DISTANCE_BITS]))),
            limit.eq(distance(rest)),
            end.eq(distance(room)),
            self._base.eq(self.address + Mux(self.fp32, away << shift, away)),
        ]
        m.d.comb += [
            placement.low.eq(low),
            placement.stride.eq(self.stride),
            placement.first.eq(first),
            placement.limit.eq(end),
        ]
        counts = []  # of each position, whether it counts
        self._bank_of = []  # of each position, its bank, one-hot
        for position in range(self.lanes):
            distance_of = Signal(DISTANCE_BITS, name=f"distance_{position}")
            m.d.comb += distance_of.eq(
                reduce(
                    or_,
                    (
                        Const(position * stride, DISTANCE_BITS) & (self.stride == stride).replicate(DISTANCE_BITS)
                        for stride in range(1, MOST_STRIDE + 1)
                    ),
                )
            )
            counts.append((distance_of >= first) & (distance_of < limit))
            bank = Signal(bits, name=f"bank_{position}")
            m.d.comb += bank.eq(distance_of + low)
            self._bank_of.append([placement.ports[position] & (bank == each) for each in range(self.lanes)])
        return counts

    def _write(self, m: Module, go, cells, counts) -> Any:
        """Write word after word; returns whether the group's last one is written in this cycle."""
        lanes, width, config, placement = self.lanes, self.width, self.config, self.placement
        words = config.fp32_groups
        per_word = lanes // words  # FP32 values of a position in a word
        turn = Signal.like(placement.turn, name="turn")
        word = Signal(words, init=1)
        writes, done, final = Signal(name="writes"), Signal(name="done"), Signal(name="last_word")
        m.d.comb += [
            placement.turn.eq(turn),
            final.eq(placement.last & Mux(self.fp32, word[-1], 1)),
        ]

        # Each position's values, then each bank's; a value of 32 bits stands where so many of `width` do.
        value_bits = 32 + 2 * words
        banks: list[Any] = [Const(0)] * lanes
        for position in range(lanes):
            parts = []
            for place in range(per_word):
                # As FP32: channel `place` of the word. Else the channels that have this place of 32 bits.
                wide = reduce(
                    or_,
                    (cells[position][h * per_word + place] & word[h].replicate(34) for h in range(words)),
                )
                narrow = [cells[position][place * words + k] for k in range(words)]
                bits = Mux(self.fp32, wide[:32], Cat(each[:width] for each in narrow))
                zero = Mux(self.fp32, wide[32], Cat(each[32] for each in narrow))
                odd = Mux(self.fp32, wide[33], Cat(each[33] for each in narrow))
                parts.append(Cat(bits, zero, odd))
            held = Signal(per_word * value_bits, name=f"position_{position}")
            counted = Cat(counts[position]).replicate(len(held))
            m.d.comb += held.eq(Cat(parts) & counted)
            banks = [
                before | (Cat(held, counts[position]) & self._bank_of[position][bank].replicate(len(held) + 1))
                for bank, before in enumerate(banks)
            ]
        masked = self._mask(m, go, word, banks, done)
        enable, outside = Signal(lanes, name="enable"), Signal(lanes, name="outside_banks")
        zeros, odds = [], []
        for bank in range(lanes):
            line = Signal(per_word * value_bits + 1, name=f"line_{bank}")
            m.d.comb += line.eq(banks[bank])
            address = self._address(m, bank, word)
            m.d.comb += [
                outside[bank].eq(placement.enable[bank] & (address >= config.groups)),
                enable[bank].eq(placement.enable[bank] & ~outside[bank]),
                self.write.address[bank].eq(address),
            ]
            for place in range(per_word):
                value = line[place * value_bits : (place + 1) * value_bits]
                hidden = masked[bank][place]  # for each of the values here, as FP32 the first alone
                keep = Mux(
                    self.fp32, (~hidden[0]).replicate(32), Cat((~hidden[k]).replicate(width) for k in range(words))
                )
                m.d.comb += self.write.data[bank][place * 32 : (place + 1) * 32].eq(value[:32] & keep)
                for k in range(words):
                    there = line[-1] & enable[bank] & (~self.fp32 if k else Const(1))
                    zeros.append(there & (value[32 + k] | hidden[k]))
                    odds.append(there & value[32 + words + k] & ~hidden[k])
        m.d.comb += [
            self.write.valid.eq(writes & enable.any()),
            self.write.enable.eq(enable),
            done.eq(writes & (self.write.ready | ~enable.any())),
            self.counted.eq(done),
            self.zeros.eq(sum(zeros)),
            self.non_finite.eq(sum(odds)),
            self.outside.eq(done & outside.any()),
            writes.eq(go & self._masked),
        ]
        with m.If(done):
            m.d.sync += [
                turn.eq(Mux(placement.last, 0, turn + 1)),
                word.eq(Mux(placement.last & self.fp32, word.rotate_left(1), word)),
            ]
        ends = Signal()
        m.d.comb += ends.eq(done & final)
        return ends

    def _address(self, m: Module, bank: int, word) -> Any:
        """The group that a bank writes."""
        words = self.config.fp32_groups
        number = Cat(Cat(word[h] for h in range(words) if h >> k & 1).any() for k in range((words - 1).bit_length()))
        near = Mux(self.fp32, Cat(number, self.placement.group[bank]), self.placement.group[bank])
        address = Signal(ADDRESS_BITS, name=f"address_{bank}")
        m.d.comb += address.eq(self._base + near)
        return address

    def _mask(self, m: Module, go, word, banks, done) -> list[list[Any]]:
        """Read the mask of what is to be written, and keep which values it hides: of each bank's places of 32 bits."""
        lanes, width, words = self.lanes, self.width, self.config.fp32_groups
        per_word = lanes // words
        self._masked = Signal(name="masked")  # what the mask says is known
        if not self.config.mask:
            m.d.comb += self._masked.eq(1)
            return [[Const(0, words)] * per_word for _ in range(lanes)]
        hidden = [Signal(lanes, name=f"hidden_{bank}", reset_less=True) for bank in range(lanes)]
        came, known = Signal(name="came"), Signal(name="known")
        m.d.comb += [
            self._masked.eq(~self.mask | known),
            self.read.valid.eq(go & self.mask & ~came & ~known),
            self.read.enable.eq(self.placement.enable),
        ]
        m.d.sync += came.eq(self.read.valid & self.read.ready)
        with m.If(done):
            m.d.sync += known.eq(0)
        with m.Elif(came):
            m.d.sync += known.eq(1)
        result = []
        for bank in range(lanes):
            near = Mux(
                self.fp32,
                self.placement.group[bank] << (words - 1).bit_length(),
                self.placement.group[bank],
            )
            m.d.comb += self.read.address[bank].eq(self._base + near + self.mask_offset)
            values = [self.read.data[bank][c * width : (c + 1) * width] for c in range(lanes)]
            with m.If(came):
                m.d.sync += hidden[bank].eq(Cat(value[:-1] == 0 for value in values))
            hides = hidden[bank] & self.mask.replicate(lanes)
            places = []
            for place in range(per_word):
                wide = reduce(or_, (hides[h * per_word + place] & word[h] for h in range(words)))
                narrow = Cat(hides[place * words + k] for k in range(words))
                places.append(Mux(self.fp32, wide, narrow))
            result.append(places)
        return result
