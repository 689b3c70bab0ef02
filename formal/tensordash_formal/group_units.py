"""Reference model of the items of a group in memory (docs/core.md), for the proofs of inflate and deflate."""

from amaranth.hdl import Module, Mux, Signal, Value

from tensordash.configuration.core_config import CoreConfig

__all__ = ["GroupUnits", "proven_shape"]

MAX_LANES = 4
MAX_UNITS = 8
"""Most lanes, and most items of a beat, that solvers handle within minutes. Preset `core` has these numbers."""


def proven_shape(config: CoreConfig) -> dict[str, int]:
    """Return the parameters of inflate and deflate to prove for a core.

    They are the core's own, limited to a size that solvers can prove. The width of an item is always the core's.
    """
    lanes, width = min(config.tile.lanes, MAX_LANES), config.value_bits
    return {"lanes": lanes, "width": width, "data_bits": min(config.axi_bits, MAX_UNITS * width)}


class GroupUnits:
    """Places of a group's items: first the mask, then each value whose mask bit is set, lowest first.

    A plain group has no mask and consists of all its values.

    Parameters
    ----------
    m : Module
        Module of the ghost signals.
    begin : Value
        Place of the group's first remaining item.
    mask : Value
        One bit for each value. Bit j is set if value j is not +0.
    plain : Value
        Whether the group is plain.
    width : int
        Bits of an item, and bits of the mask in each item.
    places : int
        Number of places.
    sent : Value
        Progress of a group that is sent in parts: bit j is set after value j was sent. The mask is sent with the first
        value.

    Attributes
    ----------
    has_unit : list of Value
        For each value, whether it has an item.
    place : list of Signal
        Place of each value's item, and the place after the last item.

    Source: docs/core.md, "Tensors" (compressed in memory).
    """

    def __init__(
        self, m: Module, *, begin: Value, mask: Value, plain: Value, width: int, places: int, sent: Value | int = 0
    ) -> None:
        count = len(mask)
        sent = Value.cast(sent)
        self.has_unit = [bit | plain for bit in mask]
        self.place = [Signal(range(places), name=f"unit_place_{j}") for j in range(count + 1)]
        m.d.comb += self.place[0].eq(begin + Mux(plain | sent.any(), 0, count // width))
        for j, has_unit in enumerate(self.has_unit):
            remains = ~sent[j] if j < len(sent) else 1
            m.d.comb += self.place[j + 1].eq(self.place[j] + (has_unit & remains))
