"""Processing element that follows the schedule of its row."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In

from ..arithmetic.sum_ports import SumSignature
from ..block import Block, placed
from ..configuration.connectivity import Connectivity
from ..configuration.numerics import Numerics
from ..layouts import steps_layout
from ..schedule.operand_mux import OperandMux
from .pe import PE, scale_members, scale_steps

__all__ = ["ScheduledPE"]


class ScheduledPE(Block):
    """A PE with an A-side mux. Its row makes the selection, and muxes the B side for all PEs of the row.

    Timing: a selection of one cycle is in the sum `stages` cycles later. It takes one selection per cycle.

    Parameters
    ----------
    numerics, stages
        As in `PE`.
    connectivity : Connectivity
        Options of a lane, and the number of lanes.
    ring : bool
        As in `OperandMux`.

    Members
    -------
    a_window : In(steps_layout)
        The column's staging buffer.
    select : In(sources, lanes)
        The row's selection.
    b : In(width, lanes)
        The row's selected B operands.
    a_scales, b_scales, chosen
        Only with scales, as in `PE`: the scales of the column's steps and of the row's steps, and the row's choice.
    active : In(lanes)
        Lanes that consume what they selected.
    sum : In(SumSignature)
        As in `PE`.

    Source: paper, Fig. 7 ("A-side multiplexer blocks per row share the same MS signal").
    """

    def __init__(
        self,
        *,
        numerics: Numerics,
        connectivity: Connectivity,
        stages: int,
        ring: bool = False,
    ) -> None:
        lanes = connectivity.lanes
        self.numerics = numerics
        super().__init__(
            {
                "a_window": In(steps_layout(numerics.a_format.width, lanes, connectivity.depth)),
                "select": In(ArrayLayout(len(connectivity.sources(ring)), lanes)),
                "b": In(ArrayLayout(numerics.b_format.width, lanes)),
                **scale_members(numerics, lanes, connectivity.depth),
                "active": In(lanes),
                "sum": In(SumSignature(numerics)),
            },
        )
        self.mux = OperandMux(width=numerics.a_format.width, connectivity=connectivity, ring=ring)
        self.pe = PE(numerics=numerics, lanes=lanes, stages=stages, **scale_steps(numerics, connectivity.depth))

    def elaborate(self, platform):
        """Mux, then the compute core."""
        m = Module()
        m.submodules.a_mux = placed(self.mux, platform)
        m.submodules.pe = placed(self.pe, platform)
        m.d.comb += [
            self.mux.window.eq(self.a_window),
            self.mux.select.eq(self.select),
            self.pe.a.eq(self.mux.operands),
            self.pe.b.eq(self.b),
            self.pe.active.eq(self.active),
        ]
        if self.numerics.scale is not None:
            names = scale_members(self.numerics, self.mux.connectivity.lanes, self.mux.connectivity.depth)
            m.d.comb += [getattr(self.pe, name).eq(getattr(self, name)) for name in names]
        wiring.connect(m, wiring.flipped(self.sum), self.pe.sum)
        return m
