"""Processing element: the compute core that the baseline and TensorDash share."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In

from ..arithmetic.accumulator import ExactAccumulator
from ..arithmetic.fused_accumulator import FusedAccumulator
from ..arithmetic.integer_accumulator import IntegerAccumulator
from ..arithmetic.integer_multiplier import IntegerMultiplier
from ..arithmetic.multiplier import Multiplier
from ..arithmetic.sum_ports import pass_through, sum_members
from ..block import Block
from ..configuration.formats import FloatFormat, IntegerFormat
from ..configuration.numerics import Fused, Numerics
from ..configuration.parameters import require_int
from ..layouts import product_shape

__all__ = ["PE"]


class PE(Block):
    """`lanes` multipliers whose products all go into one accumulator.

    Timing: operands of one cycle are in the sum `stages` cycles later; one set of operands per cycle.

    Parameters
    ----------
    numerics : Numerics
        Operand formats, accumulator, C input.
    lanes : int
        Multipliers.
    stages : int
        Register stages, the accumulator included: 1; 2 with a register behind the multipliers (exact) or behind the
        alignment of the products (fused), whichever balances better; 3 with both.

    Members
    -------
    a, b : In(width, lanes)
        Operands.
    active : In(lanes)
        Lanes whose operands count.
    hold : In(1)
        The tile is frozen: nothing moves. `clear` and `take` are low.
    clear, take : In(1)
        The operands of `stages - 1` cycles ago start a sum; finish it into `block`.
    c : In(32)
        Only fused with a C input: what a sum starts from, in the cycle of `clear`.
    block : Out(block_shape)
        The sum finished last.
    overflow : Out(1)
        The accumulator leaves its range in this cycle.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: paper, Fig. 2.
    """

    def __init__(self, *, numerics: Numerics, lanes: int, stages: int) -> None:
        self.numerics = numerics
        self.lanes = require_int("lanes", lanes, 1)
        self.stages = require_int("stages", stages, 1, 3)
        fused = isinstance(numerics.accumulator, Fused)
        self.registered = stages > (2 if fused else 1)
        a, b = numerics.a_format, numerics.b_format
        super().__init__(
            {
                "a": In(ArrayLayout(a.width, lanes)),
                "b": In(ArrayLayout(b.width, lanes)),
                "active": In(lanes),
                **sum_members(numerics),
            },
            identity=(numerics, lanes, stages),
        )
        kind: type[ExactAccumulator | FusedAccumulator | IntegerAccumulator] = (
            FusedAccumulator if fused else ExactAccumulator
        )
        if isinstance(a, FloatFormat) and isinstance(b, FloatFormat):
            self.multipliers: list[Block] = [Multiplier(a_format=a, b_format=b) for _ in range(lanes)]
        elif isinstance(a, IntegerFormat) and isinstance(b, IntegerFormat):
            self.multipliers = [IntegerMultiplier(a_format=a, b_format=b) for _ in range(lanes)]
            kind = IntegerAccumulator
        self.accumulator = kind(numerics=numerics, lanes=lanes, stages=stages - self.registered)

    def elaborate(self, platform):
        """Multiply, (register), accumulate."""
        m = Module()
        m.submodules.accumulator = self.accumulator.place(platform)
        products = Signal(ArrayLayout(product_shape(self.numerics), self.lanes), reset_less=True)
        active = Signal(self.lanes)
        for lane, multiplier in enumerate(self.multipliers):
            m.submodules[f"multiplier_{lane}"] = multiplier.place(platform)
            m.d.comb += [multiplier.a.eq(self.a[lane]), multiplier.b.eq(self.b[lane])]
        with m.If(~self.hold | ~Const(self.registered)):
            domain = "sync" if self.registered else "comb"
            m.d[domain] += active.eq(self.active)
            m.d[domain] += [products[lane].eq(each.product) for lane, each in enumerate(self.multipliers)]
        m.d.comb += [
            self.accumulator.products.eq(products),
            self.accumulator.active.eq(active),
            *pass_through(self, self.accumulator, self.numerics),
        ]
        return m
