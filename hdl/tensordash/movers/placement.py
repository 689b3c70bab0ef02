"""Placement: the bank that holds each port's position."""

from collections.abc import Iterator
from functools import reduce
from math import gcd
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.descriptors import MAX_STRIDE
from ..configuration.parameters import require_int

__all__ = ["DISTANCE_BITS", "Placement", "require_lanes", "turns", "turns_of"]

TURN_BITS = 2
GROUP_BITS = 3
DISTANCE_BITS = 5
"""Bits of a distance in positions. The farthest port is 28 positions away, so larger distances saturate."""


def require_lanes(lanes: int) -> int:
    """Return `lanes` if it is 4 or 8, the numbers that a core can have."""
    if require_int("lanes", lanes, 1) not in (4, 8):
        raise ValueError(f"lanes must be 4 or 8, not {lanes}")
    return lanes


def turns(stride: int, lanes: int) -> int:
    """Return the cycles that a group takes.

    >>> [turns(stride, 8) for stride in (1, 2, 3, 4)]
    [1, 2, 1, 4]
    """
    return gcd(stride, lanes)


def turns_of(lanes: int) -> Iterator[tuple[int, int, range]]:
    """Yield every stride, each of its turns, and the ports read in that turn. Their positions are in different banks.

    >>> [(stride, turn, list(ports)) for stride, turn, ports in turns_of(4) if stride == 2]
    [(2, 0, [0, 1]), (2, 1, [2, 3])]
    """
    for stride in range(1, MAX_STRIDE + 1):
        together = lanes // turns(stride, lanes)
        for turn in range(turns(stride, lanes)):
            yield stride, turn, range(turn * together, (turn + 1) * together)


class Placement(Block):
    """Selects which banks are read in a turn, and in which group, for ports that are `stride` positions apart.

    Timing: combinational.

    Parameters
    ----------
    lanes : int
        Ports, banks, and positions of a group: 4 or 8.

    Members
    -------
    low : In(log2 lanes)
        The position of port 0, modulo `lanes`.
    stride : In(3)
        Distance from one port's position to the next port's, 1 to 4.
    turn : In(2)
        The turn of the group.
    first, limit : In(5)
        The distances from port 0 to position 0, and to the first position beyond the end. A port counts if its distance
        is at least `first` and less than `limit`. 31 stands for all distances from 31 on.
    enable : Out(lanes)
        Banks that hold the position of a port that counts.
    group : Out(3, lanes)
        The group that each bank reads, counted from the group of port 0.
    ports : Out(lanes)
        Ports that have their turn, whether they count or not.
    last : Out(1)
        This is the last turn.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Loops" and "Layout".
    """

    def __init__(self, *, lanes: int) -> None:
        self.lanes = require_lanes(lanes)
        super().__init__(
            {
                "low": In(range(lanes)),
                "stride": In(3),
                "turn": In(TURN_BITS),
                "first": In(DISTANCE_BITS),
                "limit": In(DISTANCE_BITS),
                "enable": Out(lanes),
                "group": Out(ArrayLayout(GROUP_BITS, lanes)),
                "ports": Out(lanes),
                "last": Out(1),
            },
        )

    def elaborate(self, platform):
        """Find each port's group, then the port at each distance from the bank of port 0, then each bank's group."""
        m = Module()
        lanes = self.lanes
        is_stride = {stride: Signal(name=f"stride_is_{stride}") for stride in range(1, MAX_STRIDE + 1)}
        m.d.comb += [bit.eq(self.stride == stride) for stride, bit in is_stride.items()]
        wanted = []  # for each port: whether it counts, and its group
        for port in range(lanes):
            distance = Signal(DISTANCE_BITS, name=f"distance_{port}")
            counts = Signal(name=f"counts_{port}")
            far = (
                Const(port * stride, DISTANCE_BITS) & bit.replicate(DISTANCE_BITS) for stride, bit in is_stride.items()
            )
            m.d.comb += [
                distance.eq(reduce(or_, far)),
                counts.eq((distance >= self.first) & (distance < self.limit)),
            ]
            groups = (distance + self.low)[len(self.low) :][:GROUP_BITS] if port else Const(0, GROUP_BITS)
            wanted.append(Cat(counts, groups))
        turn_is = {
            (stride, turn): is_stride[stride] & (self.turn == turn if turns(stride, lanes) > 1 else 1)
            for stride, turn, _ in turns_of(lanes)
        }
        banks = []  # in order of the distance from the bank of port 0
        for bank in range(lanes):
            asks: dict[int, list] = {}
            for stride, turn, ports in turns_of(lanes):
                for port in ports:
                    if port * stride % lanes == bank:
                        asks.setdefault(port, []).append(turn_is[stride, turn])
            banks.append(
                reduce(or_, (wanted[port] & Cat(bits).any().replicate(1 + GROUP_BITS) for port, bits in asks.items()))
            )
        for k, bit in enumerate(self.low):
            banks = [Mux(bit, banks[bank - (1 << k)], banks[bank]) for bank in range(lanes)]
        for bank, want in enumerate(banks):
            m.d.comb += Cat(self.enable[bank], self.group[bank]).eq(want)
        for port in range(lanes):
            mine = [turn_is[stride, turn] for stride, turn, ports in turns_of(lanes) if port in ports]
            m.d.comb += self.ports[port].eq(Cat(mine).any())
        m.d.comb += self.last.eq(
            Cat(bit for (stride, turn), bit in turn_is.items() if turn == turns(stride, lanes) - 1).any()
        )
        return m
