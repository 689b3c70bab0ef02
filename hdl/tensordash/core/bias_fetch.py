"""Bias fetch: reads the biases of the groups that the next rows make."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.core_config import CoreConfig
from ..layouts import RESULT_BITS
from ..memory.bank import group_address_bits
from ..memory.signature import BufferReadSignature
from ..one_hot import one_hot_mux

__all__ = ["BiasFetch"]


class BiasFetch(Block):
    """Reads the biases for a part of a block's rows, and outputs those of each row.

    Timing: two cycles for each group after `start` and after a part's last row, if the buffer is ready.

    Parameters
    ----------
    config : CoreConfig
        Defines lanes and columns.

    Members
    -------
    start : In(1)
        A descriptor begins: discard all biases. A reset does not discard them, but nothing is requested between a reset
        and `start`.
    bias, transposed : In(1), address : In(16)
        The descriptor's fields; `address` is `bias_address`.
    y : In(signed(16)), step : Out(1)
        The walk's y, and a request to advance it.
    has_group : In(1)
        The walk is at the next group.
    read : Out(BufferReadSignature)
    values : Out(32, result columns), valid : Out(1)
        Biases of the next piece of a row, lowest columns first. Undefined without `bias`.
    taken : In(1)
        The biases were added to the piece.

    Source: docs/core.md, "Multiply", 1.
    """

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self.lanes, self.width, self.columns = config.tile.lanes, config.value_bits, config.tile.columns
        self.address_bits = group_address_bits(config.groups)
        super().__init__(
            {
                "start": In(1),
                "bias": In(1),
                "transposed": In(1),
                "address": In(16),
                "y": In(signed(16)),
                "step": Out(1),
                "has_group": In(1),
                "read": Out(BufferReadSignature(lanes=self.lanes, width=self.width, address_bits=self.address_bits)),
                "values": Out(ArrayLayout(RESULT_BITS, config.result_columns)),
                "valid": Out(1),
                "taken": In(1),
            }
        )

    def elaborate(self, platform):
        """Read the biases of each group, then wait for the rows."""
        m = Module()
        lanes, groups = self.lanes, self.columns // self.lanes
        # A group's biases are one or more bank words at one address. The first bank is a multiple of their number.
        taken_banks = 32 // self.width
        shift = (lanes // taken_banks - 1).bit_length()
        group = Signal(groups, reset_less=True)
        row = Signal(lanes, reset_less=True)
        piece = Signal(self.config.result_cycles, reset_less=True)
        returned, known = Signal(name="returned", reset_less=True), Signal(name="known", reset_less=True)
        place = Signal(range(lanes // taken_banks), name="place", reset_less=True) if shift else None
        m.d.comb += [
            self.valid.eq(~self.bias | known),
            self.read.valid.eq(self.bias & self.has_group & ~known & ~returned & ~self.start),
            self.step.eq(self.read.valid & self.read.ready),
        ]
        m.d.sync += returned.eq(self.step & ~self.start)
        which = self.y[:shift] if shift else None
        for bank in range(lanes):
            m.d.comb += self.read.address[bank].eq(self.address + (self.y >> shift))
            mine = which == bank // taken_banks if shift else 1
            m.d.comb += self.read.enable[bank].eq(mine)
        if shift:
            with m.If(self.step):
                m.d.sync += place.eq(which)
        words = [Cat(self.read.data[first + k] for k in range(taken_banks)) for first in range(0, lanes, taken_banks)]
        fetched = words[0]
        for index, each in enumerate(words[1:], 1):
            fetched = Mux(place == index, each, fetched)
        held = [Signal(lanes * RESULT_BITS, name=f"biases_{index}", reset_less=True) for index in range(groups)]
        for index, biases in enumerate(held):
            with m.If(returned & group[index]):
                m.d.sync += biases.eq(fetched)
        with m.If(returned):
            m.d.sync += [group.eq(group.rotate_left(1)), known.eq(group[-1])]
        with m.If(self.taken):
            m.d.sync += piece.eq(piece.rotate_left(1))
        with m.If(self.taken & piece[-1]):
            m.d.sync += row.eq(row.rotate_left(1))
            with m.If(row[-1]):
                m.d.sync += known.eq(0)
        with m.If(self.start):
            m.d.sync += [group.eq(1), row.eq(1), piece.eq(1), known.eq(0)]
        # Each column of a piece takes the bias of its channel or, transposed, of the row.
        count = len(self.values)
        for column, value in enumerate(self.values):
            chosen, sources = [], []
            for index, biases in enumerate(held):
                for k in range(lanes):
                    channel = index * lanes + k
                    mine = [bit for p, bit in enumerate(piece) if (p * count + column) // lanes == index]
                    of_group = Const(1, 1) if len(mine) == len(piece) else Cat(mine).any()
                    plain = piece[channel // count] if channel % count == column else Const(0, 1)
                    chosen.append(Mux(self.transposed, row[k] & of_group, plain))
                    sources.append(biases[k * RESULT_BITS : (k + 1) * RESULT_BITS])
            m.d.comb += value.eq(one_hot_mux(chosen, sources))
        return m
