"""Pair queue: groups of a walk that wait to be read. Up to two leave per cycle."""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from .layout import ADDRESS_BITS, LOOPS
from .pair_walk import PairWalk
from .placement import DISTANCE_BITS, require_lanes
from .walk import COUNT_BITS

__all__ = ["FIELDS", "PairQueue"]

FIELDS = ("address", "x", "y", "checked", "x_size", "y_size")
"""Fields of a layout's descriptor that the queue takes, besides those of loops."""
GROUPS = 2
PLACES = 5
"""Places of the queue. Two groups are added while at least two places are free, so that two groups always wait."""


def group_layout(lanes: int) -> StructLayout:
    """Return the layout of a group's place: the group and the bank of port 0, and distances from there.

    `first` and `limit` are as in `Placement`.
    """
    bits = (lanes - 1).bit_length()
    return StructLayout(
        {"valid": 1, "address": ADDRESS_BITS, "low": bits, "first": DISTANCE_BITS, "limit": DISTANCE_BITS}
    )


class PairQueue(Block):
    """Walks the loops of a layout and queues its groups. The walk goes on beyond the layout's last group.

    Timing: the first two groups are valid 2 cycles after `start`. From then on two groups are valid in every cycle
    until the next `start`.

    Parameters
    ----------
    lanes : int
        Ports, and positions of a group: 4 or 8.

    Members
    -------
    start : In(1)
        Begin a layout. Waiting groups are dropped.
    active : In(1)
        Groups may be added.
    leave : In(2)
        Bit 0: the first group leaves. Bit 1: the second leaves too.
    address, x, y, checked, x_size, y_size, address_steps, x_steps, y_steps, counts : In
        The descriptor's fields. They must not change from `start` on while `active`.
    groups : Out(group_layout, 2)
        The first two groups that wait.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Layout" and "Loops".
    """

    def __init__(self, *, lanes: int) -> None:
        self.lanes = require_lanes(lanes)
        super().__init__(
            {
                **dict.fromkeys(("start", "active", "checked"), In(1)),
                "leave": In(GROUPS),
                "address": In(ADDRESS_BITS),
                **dict.fromkeys(("x", "y"), In(signed(16))),
                **dict.fromkeys(("x_size", "y_size"), In(16)),
                **{f"{name}_steps": In(ArrayLayout(16, LOOPS)) for name in ("address", "x", "y")},
                "counts": In(ArrayLayout(COUNT_BITS, LOOPS - 1)),
                "groups": Out(ArrayLayout(group_layout(lanes), GROUPS)),
            },
        )
        self.walk = PairWalk(loops=LOOPS)

    def elaborate(self, platform):
        """Build the walk, and places in which groups move up."""
        m = Module()
        walk = self.walk
        m.submodules.walk = placed(walk, platform)
        m.d.comb += [
            walk.start.eq(self.start),
            *(getattr(walk, f"first_{name}").eq(getattr(self, name)) for name in ("address", "x", "y")),
            *(
                getattr(walk, name).eq(getattr(self, name))
                for name in ("address_steps", "x_steps", "y_steps", "counts")
            ),
        ]
        added = [self._group(f"added_{k}") for k in range(GROUPS)]
        for prefix, group in zip(("", "next_"), added, strict=True):
            m.d.comb += self._positions(prefix, group)
        queue = [self._group(f"queue_{k}") for k in range(PLACES)]
        valid = Signal(PLACES, name="valid")
        adds, one, two = (Signal(name=name) for name in ("adds", "one", "two"))
        ends, remains = (Signal(PLACES + 1, name=name) for name in ("ends", "remains"))
        m.d.comb += [
            adds.eq(self.active & ~valid[PLACES - GROUPS]),
            walk.step.eq(adds),
            one.eq(self.leave[0] & ~self.leave[1]),
            two.eq(self.leave[1]),
            ends.eq(Cat(Const(1, 1), valid)),  # bit k: at least k groups wait
            remains.eq(Mux(two, ends[2:], Mux(one, ends[1:], ends))),  # bit k: at least k remain
        ]
        for k, place in enumerate(queue):
            fills = Signal(name=f"fills_{k}")  # the first added group takes this place
            m.d.comb += fills.eq(remains[k] & ~remains[k + 1])
            for name, signal in vars(place).items():
                value: Any = Mux(fills, getattr(added[0], name), getattr(added[1], name))
                for by, leaves in ((2, two), (1, one)):
                    if k + by < PLACES:
                        value = Mux(leaves & remains[k + 1], getattr(queue[k + by], name), value)
                with m.If(self.leave[0] | ~valid[k]):
                    m.d.sync += signal.eq(value)
        with m.If(self.start):
            m.d.sync += valid.eq(0)
        with m.Else():
            m.d.sync += valid.eq(Mux(adds, Cat(Const(0b11, GROUPS), remains[1:]), remains[1:]))
        for k, group in enumerate(self.groups):
            m.d.comb += [group.valid.eq(valid[k]), *(getattr(group, n).eq(each) for n, each in vars(queue[k]).items())]
        return m

    def _group(self, name: str) -> SimpleNamespace:
        members = group_layout(self.lanes).members
        return SimpleNamespace(
            **{
                each: Signal(bits, name=f"{name}_{each}", reset_less=True)
                for each, bits in members.items()
                if each != "valid"
            }
        )

    def _positions(self, prefix: str, group: Any) -> list[Any]:
        """Compute port 0's group and bank, and its distances to the first position and to the end."""
        address, x, y = (getattr(self.walk, f"{prefix}{name}") for name in ("address", "x", "y"))
        most = (1 << DISTANCE_BITS) - 1
        before = (-x)[:16]  # of an x below 0: distance to position 0
        rest = (self.x_size - x)[:18]
        row = ~self.checked | ((y >= 0) & (y.as_unsigned() < self.y_size))
        return [
            group.address.eq(address + (x >> len(group.low))),
            group.low.eq(x[: len(group.low)]),
            group.first.eq(Mux(x >= 0, 0, Mux(before[DISTANCE_BITS:].any(), most, before[:DISTANCE_BITS]))),
            group.limit.eq(Mux(~row | rest[-1], 0, Mux(rest[DISTANCE_BITS:].any(), most, rest[:DISTANCE_BITS]))),
        ]
