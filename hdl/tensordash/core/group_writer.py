"""Group writer: turns rows of results into groups, and writes them to the buffer."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import MAX_STRIDE
from ..configuration.formats import FP32, IntegerFormat
from ..layouts import RESULT_BITS
from ..memory.bank import group_address_bits
from ..memory.signature import BufferReadSignature, BufferWriteSignature
from ..movers.placement import DISTANCE_BITS, Placement
from ..one_hot import one_hot_mux
from .row_store import RowStore

__all__ = ["GroupWriter"]

ADDRESS_BITS = 16


class GroupWriter(Block):
    """Collects rows of results until they make groups (or FP32 words), and writes these to the buffer.

    Timing: the writer takes a row in each cycle until it has all rows of its groups. Then each group takes a cycle for
    each turn (the greatest common divisor of stride and lanes) and word, and two more with a mask. FP32 rows that are
    channels make one word. FP32 rows that are positions make all words of an FP32 group. The next rows begin with the
    last word.

    Parameters
    ----------
    config : CoreConfig
        Defines lanes, columns, and the features built.

    Members
    -------
    rows : In(stream of 32 bits, columns)
        Results.
    transposed, fp32 : In(1), stride : In(3), x_size : In(16)
        The descriptor's fields.
    mask : In(1), mask_offset : In(16)
        Only with masks: there is a mask, and its distance from the results in groups.
    start : In(1)
        A descriptor begins: the walk is at its first group in the next cycle.
    address : In(16), x : In(signed(16)), step : Out(1)
        The walk's place, and a request to advance it. It is at the groups of the rows after those in the writer.
    hold : In(1)
        The walk must not advance yet.
    read : Out(BufferReadSignature)
        Only with masks.
    write : Out(BufferWriteSignature)
    zeros, non_finite : Out(0..lanes**2)
        Numbers of results written in the last cycle that are zero, and that are infinite or NaN.
    outside : Out(1)
        A position to write in this cycle is beyond the buffer's end.
    empty : Out(1)
        The writer holds no row.

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
                "rows": In(stream.Signature(ArrayLayout(RESULT_BITS, self.columns))),
                "transposed": In(1),
                "fp32": In(1),
                "stride": In(3),
                "x_size": In(16),
                **(
                    {"mask": In(1), "mask_offset": In(16), "read": Out(BufferReadSignature(**port))}
                    if config.mask
                    else {}
                ),
                "start": In(1),
                "address": In(ADDRESS_BITS),
                "x": In(signed(16)),
                "step": Out(1),
                "hold": In(1),
                "write": Out(BufferWriteSignature(**port)),
                "zeros": Out(counts),
                "non_finite": Out(counts),
                "outside": Out(1),
                "empty": Out(1),
            }
        )
        self.placement = Placement(lanes=self.lanes)
        self.store = RowStore(config)

    def elaborate(self, platform):
        """Store the rows, find the places of their groups, and write their words one after the other."""
        m = Module()
        m.submodules.placement = placed(self.placement, platform)
        m.submodules.store = placed(self.store, platform)
        lanes, groups, words = self.lanes, self.columns // self.lanes, self.config.fp32_groups
        row = Signal(lanes, init=1)  # the next row of a group, one-hot
        full, ready, taken = Signal(name="full"), Signal(name="placed"), Signal(name="taken")
        group = Signal(groups, init=1)  # the group of the rows that is written, one-hot
        batch = Signal(words, init=1)  # the batch of FP32 rows, one-hot
        rows_done, groups_done = (
            Signal(name="rows_done"),
            Signal(name="groups_done"),
        )  # the rows' last word is written; the groups' last word
        rows_of_batch = lanes // words
        m.d.comb += [
            self.rows.ready.eq(~full | rows_done),
            taken.eq(self.rows.valid & self.rows.ready),
            self.empty.eq(row[0] & ~full),
            self.store.values.eq(self.rows.payload),
            self.store.take.eq(taken),
            self.store.row.eq(row),
            self.store.transposed.eq(self.transposed),
            self.store.fp32.eq(self.fp32),
        ]
        ends = self._write(m, full & ready, group, batch)
        m.d.comb += [rows_done.eq(ends & group[-1]), groups_done.eq(rows_done & (~self.fp32 | batch[-1]))]
        self._place(m, groups_done, ready, group)
        with m.If(ends):
            m.d.sync += group.eq(group.rotate_left(1))
        with m.If(rows_done):
            m.d.sync += [full.eq(0), batch.eq(Mux(self.fp32, batch.rotate_left(1), batch))]
        with m.If(taken):
            last_of_batch = row[rows_of_batch - 1 :: rows_of_batch].any()
            m.d.sync += [row.eq(row.rotate_left(1)), full.eq(Mux(self.fp32, last_of_batch, row[-1]))]
        return m

    def _place(self, m: Module, groups_done, ready, group) -> None:
        """Hold the place of each group. Load it and advance the walk when the earlier groups are written."""
        bits, groups, most = (self.lanes - 1).bit_length(), len(group), (1 << DISTANCE_BITS) - 1
        shift = (self.config.fp32_groups - 1).bit_length()
        before = (-self.x)[:16]
        # Distances to the first position that does not count, and to the first that is not written.
        rest = (self.x_size - self.x)[:18]
        last = Cat(Const(0, bits), self.x_size[bits:] + self.x_size[:bits].any())
        room = (last - self.x)[:19]
        away = self.x >> bits

        def distance(value):
            return Mux(value[-1], 0, Mux(value[DISTANCE_BITS:-1].any(), most, value[:DISTANCE_BITS]))

        place = Cat(
            self.x[:bits],
            Mux(self.x >= 0, Const(0, DISTANCE_BITS), Mux(before[DISTANCE_BITS:].any(), most, before[:DISTANCE_BITS])),
            distance(rest),
            distance(room),
            (self.address + Mux(self.fp32, away << shift, away))[:ADDRESS_BITS],
        )
        places = [Signal(len(place), name=f"place_{k}", reset_less=True) for k in range(groups)]
        index = Signal(groups, init=1)  # the place to load, one-hot
        loads = Signal()
        m.d.comb += [loads.eq((~ready | groups_done) & ~self.hold), self.step.eq(loads)]
        with m.If(loads):
            m.d.sync += [index.eq(index.rotate_left(1)), ready.eq(index[-1])]
        with m.Elif(groups_done):
            m.d.sync += ready.eq(0)
        with m.If(self.start):
            m.d.sync += [index.eq(1), ready.eq(0)]
        for k, each in enumerate(places):
            with m.If(loads & index[k]):
                m.d.sync += each.eq(place)
        chosen = Signal(len(place), name="place")
        m.d.comb += [
            chosen.eq(one_hot_mux(group, places)),
            Cat(self._low, self._first, self._limit, self._end, self._base).eq(chosen),
        ]

    def _select(self, m: Module, word, batch) -> tuple[list[list[Any]], list[Any]]:
        """Find for each bank the store's columns that it writes, and whether it holds one of the rows' positions."""
        lanes, placement = self.lanes, self.placement
        bits, rows = (lanes - 1).bit_length(), lanes // self.config.fp32_groups
        self._low = Signal(bits, name="low")
        self._first, self._limit, self._end = (
            Signal(DISTANCE_BITS, name=name) for name in ("first", "limit", "write_limit")
        )
        self._base = Signal(ADDRESS_BITS, name="base")
        m.d.comb += [
            placement.low.eq(self._low),
            placement.stride.eq(self.stride),
            placement.first.eq(self._first),
            placement.limit.eq(self._end),
        ]
        selects, counted = [], []  # for each position: its bank, one-hot, and the same if it counts
        for position in range(lanes):
            distance = Signal(DISTANCE_BITS, name=f"distance_{position}")
            m.d.comb += distance.eq(
                reduce(
                    or_,
                    (
                        Const(position * stride, DISTANCE_BITS) & (self.stride == stride).replicate(DISTANCE_BITS)
                        for stride in range(1, MAX_STRIDE + 1)
                    ),
                )
            )
            counts = (distance >= self._first) & (distance < self._limit)
            bank, places = Signal(bits, name=f"bank_{position}"), Signal(lanes, name=f"banks_{position}")
            m.d.comb += [
                bank.eq(distance + self._low),
                places.eq(Cat(placement.ports[position] & (bank == each) for each in range(lanes))),
            ]
            selects.append(places)
            counted.append(places & counts.replicate(lanes))
        # FP32 with rows that are positions: row i of the batch has a column for each word.
        apart = self.fp32 & ~self.transposed
        row_selects = [one_hot_mux(batch, selects[i::rows]) for i in range(rows)]
        rows_counted = [one_hot_mux(batch, counted[i::rows]) for i in range(rows)]
        selects = []
        for column in range(lanes):
            select = Signal(lanes, name=f"selects_{column}")
            mine = rows_counted[column % rows] & word[column // rows].replicate(lanes)
            m.d.comb += select.eq(Mux(apart, mine, counted[column]))
            selects.append(select)
        inside = reduce(or_, row_selects) | (~apart).replicate(lanes)
        return [[select[bank] for select in selects] for bank in range(lanes)], list(inside)

    def _write(self, m: Module, go, group, batch) -> Any:
        """Write word after word. Return whether the rows' last word of the group is written in this cycle."""
        lanes, width, config, placement = self.lanes, self.width, self.config, self.placement
        words = config.fp32_groups
        turn = Signal.like(placement.turn, name="turn")
        word = Signal(words, init=1)
        writes, done, final = Signal(name="writes"), Signal(name="done"), Signal(name="last_word")
        apart = self.fp32 & ~self.transposed
        m.d.comb += [
            placement.turn.eq(turn),
            final.eq(placement.last & Mux(apart, word[-1], 1)),
        ]
        selects, inside = self._select(m, word, batch)
        columns = [
            one_hot_mux(group, [self.store.words[g * lanes + column] for g in range(len(group))])
            for column in range(lanes)
        ]
        written = Signal(words, name="written_word")  # the word of an FP32 group, one-hot
        m.d.comb += written.eq(Mux(self.transposed, batch, word))
        masked = self._mask(m, go, written, done)
        # Addresses of masks, then of results.
        first, number = Signal(ADDRESS_BITS, name="first_address"), Signal(range(words), name="word_number")
        m.d.comb += [
            first.eq(self._base + (Mux(self._masked, 0, self.mask_offset) if config.mask else 0)),
            number.eq(
                Mux(
                    self._masked,
                    Cat(Cat(written[h] for h in range(words) if h >> k & 1).any() for k in range(len(number))),
                    0,
                )
            ),
        ]
        enable, outside = Signal(lanes, name="enable"), Signal(lanes, name="outside_banks")
        zeros, odds = [], []
        for bank in range(lanes):
            line = Signal(lanes * width, name=f"line_{bank}")
            m.d.comb += line.eq(one_hot_mux(selects[bank], columns) & ~masked[bank])
            address = self._address(m, bank, first, number)
            wanted = placement.enable[bank] & inside[bank]
            m.d.comb += [
                outside[bank].eq(wanted & (address >= config.groups)),
                enable[bank].eq(wanted & ~outside[bank]),
                self.write.address[bank].eq(address),
                self.write.data[bank].eq(line),
            ]
            is_selected = Cat(selects[bank]).any() & enable[bank]
            for place in range(lanes // words):
                zero, odd = self._kinds(line[place * RESULT_BITS : (place + 1) * RESULT_BITS])
                zeros += [is_selected & each for each in zero]
                odds += [is_selected & each for each in odd]
        m.d.comb += [
            self.write.valid.eq(writes & enable.any()),
            self.write.enable.eq(enable),
            done.eq(writes & (self.write.ready | ~enable.any())),
            self.outside.eq(done & outside.any()),
            writes.eq(go & self._masked),
        ]
        # The counts are summed a cycle later.
        for name, bits in (("zeros", zeros), ("non_finite", odds)):
            if not bits:
                continue
            held = Signal(len(bits), name=f"{name}_written")
            m.d.sync += held.eq(Cat(bits) & done.replicate(len(bits)))
            m.d.comb += getattr(self, name).eq(sum(held))
        with m.If(done):
            m.d.sync += [
                turn.eq(Mux(placement.last, 0, turn + 1)),
                word.eq(Mux(placement.last & apart, word.rotate_left(1), word)),
            ]
        ends = Signal()
        m.d.comb += ends.eq(done & final)
        return ends

    def _kinds(self, bits) -> tuple[list[Any], list[Any]]:
        """Return which results in 32 bits are zero, and which are infinite or NaN. As FP32 there is only the first."""
        fmt = self.config.tile.a_format
        values = [bits[k : k + self.width] for k in range(0, RESULT_BITS, self.width)]
        nothing = [~self._magnitude(value).any() for value in values]
        zero = [Mux(self.fp32, nothing[-1] & ~bits[: -self.width].any(), nothing[0]), *nothing[1:]]

        if isinstance(fmt, IntegerFormat):
            return [zero[0], *(each & ~self.fp32 for each in zero[1:])], []

        def odd(value, fmt):
            return value[fmt.fraction_bits if fmt.infinities else 0 : fmt.width - 1].all()

        odds = [Mux(self.fp32, odd(bits, FP32), odd(values[0], fmt)), *(odd(value, fmt) for value in values[1:])]
        return tuple([first, *(each & ~self.fp32 for each in others)] for first, *others in (zero, odds))  # type: ignore[return-value]

    def _magnitude(self, value) -> Any:
        """Return the bits that are 0 in a zero operand: all but a floating-point sign."""
        return value if self.config.tile.numerics.result == "int32" else value[:-1]

    def _address(self, m: Module, bank: int, first, number) -> Any:
        """Compute the group that a bank writes, or whose mask it reads."""
        group = self.placement.group[bank]
        address = Signal(ADDRESS_BITS, name=f"address_{bank}")
        m.d.comb += address.eq(first + Mux(self.fp32, Cat(number, group), group))
        if self.config.mask:
            m.d.comb += self.read.address[bank].eq(address)
        return address

    def _mask(self, m: Module, go, word, done) -> list[Any]:
        """Read the mask of the group to write. Return the bits that it hides in each bank's word."""
        lanes, width, words = self.lanes, self.width, self.config.fp32_groups
        per_word = lanes // words
        self._masked = Signal(name="masked")  # the mask is known
        if not self.config.mask:
            m.d.comb += self._masked.eq(1)
            return [Const(0, lanes * width)] * lanes
        hidden = [Signal(lanes, name=f"hidden_{bank}", reset_less=True) for bank in range(lanes)]
        returned, known = Signal(name="returned"), Signal(name="known")
        m.d.comb += [
            self._masked.eq(~self.mask | known),
            self.read.valid.eq(go & self.mask & ~returned & ~known),
            self.read.enable.eq(self.placement.enable),
        ]
        m.d.sync += returned.eq(self.read.valid & self.read.ready)
        with m.If(done):
            m.d.sync += known.eq(0)
        with m.Elif(returned):
            m.d.sync += known.eq(1)
        result = []
        for bank in range(lanes):
            values = [self.read.data[bank][c * width : (c + 1) * width] for c in range(lanes)]
            with m.If(returned):
                m.d.sync += hidden[bank].eq(Cat(self._magnitude(value) == 0 for value in values))
            hides = hidden[bank] & self.mask.replicate(lanes)
            bits = []
            for place in range(per_word):
                wide = reduce(or_, (hides[h * per_word + place] & word[h] for h in range(words)))
                bits += [Mux(self.fp32, wide, hides[place * words + k]).replicate(width) for k in range(words)]
            result.append(Cat(bits))
        return result
