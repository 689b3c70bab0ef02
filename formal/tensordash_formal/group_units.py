"""The units of a group in memory, as docs/core.md has them: what proofs about inflate and deflate are written in."""

from amaranth.hdl import Module, Mux, Signal, Value

from tensordash.configuration.core_config import CoreConfig

__all__ = ["GroupUnits", "proven_shape"]

MOST_LANES = 4
MOST_UNITS = 8
"""Of a beat: what solvers answer within minutes; both as those of the preset `core`."""


def proven_shape(config: CoreConfig) -> dict[str, int]:
    """Parameters of inflate and deflate that are proven for a core: its own, or those of a smaller one.

    The width of a unit is always the core's.
    """
    lanes, width = min(config.tile.lanes, MOST_LANES), config.value_bits
    return {"lanes": lanes, "width": width, "data_bits": min(config.axi_bits, MOST_UNITS * width)}


class GroupUnits:
    """Where the units of a group stand: first its mask, then the values whose bit is set, the lowest first.

    A plain group is all of its values, without a mask.

    Parameters
    ----------
    m : Module
        Where it is built.
    begin : Value
        The place of its first unit, or of the first that is left.
    mask : Value
        Bit j: value j is not +0. As many as there are values.
    plain : Value
        Whether the group is plain.
    width : int
        Bits of a unit, and bits of the mask in each.
    places : int
        There are so many places.
    given : Value
        Of a group that is given in parts: bit j, value j has left. With the first one the mask has.

    Attributes
    ----------
    there : list of Value
        For each value, whether it has a unit.
    place : list of Signal
        Of each value's unit, and of the one behind them all.

    Source: docs/core.md, "Tensors" (compressed in memory).
    """

    def __init__(
        self, m: Module, *, begin: Value, mask: Value, plain: Value, width: int, places: int, given: Value | int = 0
    ) -> None:
        count = len(mask)
        given = Value.cast(given)
        self.there = [bit | plain for bit in mask]
        self.place = [Signal(range(places), name=f"unit_place_{j}") for j in range(count + 1)]
        m.d.comb += self.place[0].eq(begin + Mux(plain | given.any(), 0, count // width))
        for j, there in enumerate(self.there):
            left = ~given[j] if j < len(given) else 1
            m.d.comb += self.place[j + 1].eq(self.place[j] + (there & left))
