"""Processing element with a scheduler of its own, which skips zeros of both sides."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..arithmetic.sum_ports import SumSignature
from ..block import Block, placed
from ..configuration.connectivity import Connectivity
from ..configuration.numerics import Numerics
from ..layouts import steps_layout
from ..schedule.motion import MotionSignature
from ..schedule.operand_mux import OperandMux
from ..schedule.row_scheduler import RowScheduler
from ..schedule.step_select import StepSelect
from .pe import PE, scale_members, scale_steps

__all__ = ["SelfScheduledPE"]


class SelfScheduledPE(Block):
    """A PE that selects its own pairs: those with two nonzero values.

    Timing: a selection of one cycle is in the sum `stages` cycles later. It makes one selection per cycle.

    Parameters
    ----------
    numerics, connectivity, stages, ring
        As in `ScheduledPE`.

    Members
    -------
    a_window, b_window : In(steps_layout)
        The column's and the row's staging buffers.
    a_nonzero, b_nonzero : In(lanes, depth)
        Which values of the steps offered are not zero.
    motion, active, advance
        As in `RowScheduler`.
    a_scales, b_scales
        Only with scales, as in `PE`: the scales of the column's steps and of the row's steps.
    sum : In(SumSignature)
        As in `PE`.

    Source: paper, section III-A and Fig. 4: Z_A and Z_B are combined, and one MS drives the muxes of both sides.
    """

    def __init__(
        self,
        *,
        numerics: Numerics,
        connectivity: Connectivity,
        stages: int,
        ring: bool = False,
    ) -> None:
        lanes, depth = connectivity.lanes, connectivity.depth
        super().__init__(
            {
                "a_window": In(steps_layout(numerics.a_format.width, lanes, depth)),
                "b_window": In(steps_layout(numerics.b_format.width, lanes, depth)),
                "a_nonzero": In(ArrayLayout(lanes, depth)),
                "b_nonzero": In(ArrayLayout(lanes, depth)),
                **{name: each for name, each in scale_members(numerics, lanes, depth).items() if name != "chosen"},
                "motion": In(MotionSignature(depth, ring)),
                "active": Out(lanes),
                "advance": Out(depth),
                "sum": In(SumSignature(numerics)),
            },
        )
        self.scheduler = RowScheduler(connectivity, ring=ring)
        self.a_mux = OperandMux(width=numerics.a_format.width, connectivity=connectivity, ring=ring)
        self.b_mux = OperandMux(width=numerics.b_format.width, connectivity=connectivity, ring=ring)
        self.pe = PE(numerics=numerics, lanes=lanes, stages=stages, **scale_steps(numerics, depth))
        self.step_select = StepSelect(connectivity, ring=ring) if numerics.scale is not None else None

    def elaborate(self, platform):
        """Connect the scheduler, two muxes, and the compute core."""
        m = Module()
        for name in ("scheduler", "a_mux", "b_mux", "pe"):
            m.submodules[name] = placed(getattr(self, name), platform)
        m.d.comb += [
            self.scheduler.nonzero.eq(self.a_nonzero.as_value() & self.b_nonzero.as_value()),
            self.active.eq(self.scheduler.active),
            self.advance.eq(self.scheduler.advance),
            self.a_mux.window.eq(self.a_window),
            self.a_mux.select.eq(self.scheduler.select),
            self.b_mux.window.eq(self.b_window),
            self.b_mux.select.eq(self.scheduler.select),
            self.pe.a.eq(self.a_mux.operands),
            self.pe.b.eq(self.b_mux.operands),
            self.pe.active.eq(self.scheduler.active),
        ]
        if self.step_select is not None:
            m.submodules.step_select = placed(self.step_select, platform)
            m.d.comb += [
                self.step_select.select.eq(self.scheduler.select),
                self.pe.chosen.eq(self.step_select.steps),
                self.pe.a_scales.eq(self.a_scales),
                self.pe.b_scales.eq(self.b_scales),
            ]
        wiring.connect(m, wiring.flipped(self.motion), self.scheduler.motion)
        wiring.connect(m, wiring.flipped(self.sum), self.pe.sum)
        return m
