"""Inflate: groups from the units of a compressed tensor."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from .compaction import Compaction, ring_slots

__all__ = ["Inflate"]


class Inflate(Block):
    """Takes beats of units, and gives a group for each mask: one in every cycle as long as its units are there.

    Units wait in a ring of whole beats, so that beats are never shifted; only what leaves is rotated. A group is
    offered as it stands in the ring: nothing else is held.

    Timing: a group is offered in the cycle after its last unit came. Beats that come while it is not `active` are
    taken and dropped.

    Parameters
    ----------
    lanes, width : int
        A group has `lanes` * `lanes` values of `width` bits; `lanes` * `lanes` is a multiple of `width`.
    data_bits : int
        Of a beat.
    count_bits : int
        Of the number of units.

    Members
    -------
    start : In(1)
        Begin with the next beat.
    offset : In
        Then: units of the first beat that come before.
    units, groups : In
        Then: how many there are.
    beats : In(stream of data_bits)
        Units, the first in the lowest bits.
    out : Out(stream of lanes * lanes * width)
        Groups.
    active : Out(1)
        Groups are to come.
    wrong : Out(1)
        The units are not those of so many groups; until the next start.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range, and if a mask is no whole number of units.

    Source: docs/core.md, "Tensors" and "Errors" (`compressed`).
    """

    def __init__(self, *, lanes: int, width: int, data_bits: int, count_bits: int) -> None:
        self.width = require_int("width", width, 4, 32)
        self.size = require_int("lanes", lanes, 2) ** 2
        if self.size % width:
            raise ValueError(f"width must divide lanes * lanes = {self.size}, not {width}")
        self.masks = self.size // width
        self.most = self.masks + self.size  # units of a group
        self.beat = require_int("data_bits", data_bits, width) // width
        self.slots = ring_slots(self.most, self.beat)
        self.shift = self.beat.bit_length() - 1
        super().__init__(
            {
                "start": In(1),
                "offset": In(max(1, self.shift)),
                "units": In(count_bits),
                "groups": In(16),
                "beats": In(stream.Signature(data_bits)),
                "out": Out(stream.Signature(self.size * width)),
                "active": Out(1),
                "wrong": Out(1),
            }
        )

    def elaborate(self, platform):
        """A ring, a rotator, and a network that moves values to their places."""
        m = Module()
        places = self.slots * self.beat
        ring = [Signal(self.width, name=f"unit_{i}", reset_less=True) for i in range(places)]
        write = Signal(range(self.slots), reset_less=True)  # the slot of the next beat
        head = Signal(range(places))  # the next group's first unit
        held = Signal(range(self.slots + 1))  # slots in use, the one of `head` among them
        left = Signal(len(self.units), reset_less=True)
        groups_left = Signal(16, reset_less=True)

        units = self._rotated(m, ring, head)
        mask = Signal(self.size)
        has_mask = Signal()
        # Nothing depends on units that have not come: they may be undefined in a simulation.
        m.d.comb += mask.eq(Cat(*units[: self.masks]) & has_mask.replicate(self.size))
        network = Compaction(m, mask)
        values = network.apart(m, units[self.masks :])
        need = Signal(range(self.most + 1))
        ends = Signal(range(self.most + self.beat))  # where the group ends, from the begin of its first slot on
        rest = Signal(len(left) + 1)  # units after the group; negative if there are not as many
        there = Signal()
        skipped = head[: self.shift]
        m.d.comb += [
            need.eq(network.ones + self.masks),
            ends.eq(need + skipped),
            rest.eq(left - need),
            has_mask.eq((held << self.shift) >= skipped + self.masks),
            there.eq((held << self.shift) >= ends),
            self.out.payload.eq(Cat(*values)),
            self.out.valid.eq(self.active & there & ~rest[-1]),
        ]
        gives = Signal()
        takes = Signal()
        m.d.comb += [
            self.beats.ready.eq(~self.active | (held != self.slots)),
            takes.eq(self.beats.valid & self.beats.ready),
            gives.eq(self.out.valid & self.out.ready),
        ]
        for slot in range(self.slots):
            with m.If(takes & (write == slot)):
                m.d.sync += Cat(*ring[slot * self.beat : (slot + 1) * self.beat]).eq(self.beats.payload)
        with m.If(takes & self.active):
            m.d.sync += write.eq(write + 1)
        with m.If(gives):
            m.d.sync += [
                head.eq(head + need),
                left.eq(rest),
                groups_left.eq(groups_left - 1),
            ]
        m.d.sync += held.eq(held + (takes & self.active) - Mux(gives, ends[self.shift :], 0))
        few = (left < self.masks) | (has_mask & rest[-1])
        done = gives & (groups_left == 1)
        with m.If(self.active & (few | done)):
            m.d.sync += [self.active.eq(0), self.wrong.eq(few | (rest != 0))]
        with m.If(self.start):
            m.d.sync += [
                self.active.eq(1),
                self.wrong.eq(0),
                write.eq(0),
                head.eq(self.offset if self.shift else 0),
                held.eq(0),
                left.eq(self.units),
                groups_left.eq(self.groups),
            ]
        return m

    def _rotated(self, m: Module, ring: list[Signal], head: Signal) -> list[Value]:
        """As many units from `head` on as a group can have. Later stages move less, and have less to move."""
        units: list[Value] = list(ring)
        for k in reversed(range(len(head))):
            step, count = 1 << k, min(len(units), self.most + (1 << k) - 1)
            chosen = []
            for i in range(count):
                unit = Signal(self.width, name=f"rotated_{k}_{i}")
                m.d.comb += unit.eq(Mux(head[k], units[(i + step) % len(units)], units[i]))
                chosen.append(unit)
            units = chosen
        return units
