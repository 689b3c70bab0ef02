"""Processing element: the compute core that the baseline and TensorDash share."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from .accumulator import ExactAccumulator
from .block import Block
from .formats import FloatFormat
from .layouts import FixedPoint, RawBlockLayout, product_layout
from .multiplier import Multiplier
from .parameters import require_int

__all__ = ["PE", "pass_through", "pe_members"]


def pe_members(a_format: FloatFormat, b_format: FloatFormat, headroom_bits: int) -> dict:
    """Members that every kind of PE has: the pipeline's controls and the finished block."""
    return {
        "hold": In(1),
        "clear": In(1),
        "take": In(1),
        "block": Out(RawBlockLayout(FixedPoint(a_format, b_format, headroom_bits).width)),
        "overflow": Out(1),
    }


def pass_through(outer: Block, inner: Block) -> list:
    """Assignments that hand `pe_members` of an outer PE on to, or from, the one inside it."""
    return [
        inner.hold.eq(outer.hold),
        inner.clear.eq(outer.clear),
        inner.take.eq(outer.take),
        outer.block.eq(inner.block),
        outer.overflow.eq(inner.overflow),
    ]


class PE(Block):
    """`lanes` multipliers whose products all go into one accumulator.

    Timing: operands of one cycle are in the sum `stages` cycles later; one set of operands per cycle.

    Parameters
    ----------
    a_format, b_format : FloatFormat
        Operand formats.
    lanes : int
        Multipliers.
    headroom_bits : int
        Bits of the accumulator above the largest product.
    stages : int
        Register stages, the accumulator included: 1; 2 with a register behind the multipliers; 3 with another one
        before the accumulator's loop.

    Members
    -------
    a, b : In(width, lanes)
        Operands, from registers.
    active : In(lanes)
        Lanes whose operands count.
    hold : In(1)
        The tile is frozen: nothing moves. `clear` and `take` are low.
    clear, take : In(1)
        The operands of `stages - 1` cycles ago start a sum; finish it into `block`.
    block : Out(RawBlockLayout)
        The sum finished last.
    overflow : Out(1)
        The accumulator leaves its range in this cycle.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: paper, Fig. 2.
    """

    def __init__(
        self, *, a_format: FloatFormat, b_format: FloatFormat, lanes: int, headroom_bits: int, stages: int
    ) -> None:
        self.a_format, self.b_format = a_format, b_format
        self.lanes = require_int("lanes", lanes, 1)
        self.stages = require_int("stages", stages, 1, 3)
        super().__init__(
            {
                "a": In(ArrayLayout(a_format.width, lanes)),
                "b": In(ArrayLayout(b_format.width, lanes)),
                "active": In(lanes),
                **pe_members(a_format, b_format, headroom_bits),
            },
            identity=(a_format, b_format, lanes, headroom_bits, stages),
        )
        self.multipliers = [Multiplier(a_format=a_format, b_format=b_format) for _ in range(lanes)]
        self.accumulator = ExactAccumulator(
            a_format=a_format,
            b_format=b_format,
            lanes=lanes,
            headroom_bits=headroom_bits,
            stages=2 if stages == 3 else 1,
        )

    def elaborate(self, platform):
        """Multiply, (register), accumulate."""
        m = Module()
        m.submodules.accumulator = self.accumulator.place(platform)
        products = Signal(ArrayLayout(product_layout(self.a_format, self.b_format), self.lanes), reset_less=True)
        active = Signal(self.lanes)
        for lane, multiplier in enumerate(self.multipliers):
            m.submodules[f"multiplier_{lane}"] = multiplier.place(platform)
            m.d.comb += [multiplier.a.eq(self.a[lane]), multiplier.b.eq(self.b[lane])]
        registered = self.stages > 1
        with m.If(~self.hold | ~Const(registered)):
            domain = "sync" if registered else "comb"
            m.d[domain] += active.eq(self.active)
            m.d[domain] += [products[lane].eq(each.product) for lane, each in enumerate(self.multipliers)]
        m.d.comb += [
            self.accumulator.products.eq(products),
            self.accumulator.active.eq(active),
            *pass_through(self, self.accumulator),
        ]
        return m
