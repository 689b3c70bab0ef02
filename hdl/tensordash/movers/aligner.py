"""Aligner: routes the positions that banks have read to their ports."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.descriptors import MAX_STRIDE
from ..configuration.parameters import require_int
from .placement import require_lanes

__all__ = ["Aligner"]


class Aligner(Block):
    """Connects port i to the bank of position `low` + i * `stride`.

    Timing: combinational.

    Parameters
    ----------
    lanes : int
        Ports and banks, 4 or 8.
    bits : int
        Bits of a position.

    Members
    -------
    low : In(log2 lanes)
        The bank of port 0.
    stride : In(3)
        Distance from one port's position to the next port's, 1 to 4.
    enable : In(lanes)
        Banks that have read a position. The others count as zero.
    banks : In(bits, lanes)
    ports : Out(bits, lanes)

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Loops" and "Layout".
    """

    def __init__(self, *, lanes: int, bits: int) -> None:
        self.lanes = require_lanes(lanes)
        self.bits = require_int("bits", bits, 1)
        super().__init__(
            {
                "low": In(range(lanes)),
                "stride": In(3),
                "enable": In(lanes),
                "banks": In(ArrayLayout(bits, lanes)),
                "ports": Out(ArrayLayout(bits, lanes)),
            },
        )

    def elaborate(self, platform):
        """Build a rotation, then a choice by stride."""
        m = Module()
        lanes = self.lanes
        banks = [bank & bit.replicate(self.bits) for bank, bit in zip(self.banks, self.enable, strict=True)]
        for k, bit in enumerate(self.low):
            turned = [Signal(self.bits, name=f"turned_{k}_{place}") for place in range(lanes)]
            m.d.comb += [
                turned[place].eq(Mux(bit, banks[(place + (1 << k)) % lanes], banks[place])) for place in range(lanes)
            ]
            banks = turned
        for port in range(lanes):
            places: dict[int, list] = {}
            for stride in range(1, MAX_STRIDE + 1):
                places.setdefault(port * stride % lanes, []).append(self.stride == stride)
            if len(places) == 1:
                m.d.comb += self.ports[port].eq(banks[0])
            else:
                chosen = (banks[place] & Cat(bits).any().replicate(self.bits) for place, bits in places.items())
                m.d.comb += self.ports[port].eq(reduce(or_, chosen))
        return m
