"""Processing element: the compute core that the baseline and TensorDash share."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In

from ..arithmetic.accumulator import ExactAccumulator
from ..arithmetic.addend_accumulator import AddendAccumulator
from ..arithmetic.fused_accumulator import FusedAccumulator
from ..arithmetic.integer_accumulator import IntegerAccumulator
from ..arithmetic.integer_multiplier import IntegerMultiplier
from ..arithmetic.multiplier import Multiplier
from ..arithmetic.sum_ports import SumSignature
from ..block import Block, placed
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
        alignment of the products (fused; their sum if the addend comes after), whichever balances better; 3 with both.

    Members
    -------
    a, b : In(width, lanes)
        Operands.
    active : In(lanes)
        Lanes whose operands count.
    sum : In(SumSignature)
        Due are the products of the operands of `stages - 1` cycles ago.

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
        accumulator = numerics.accumulator
        fused = isinstance(accumulator, Fused)
        self.registered = stages > (2 if fused else 1)
        a, b = numerics.a_format, numerics.b_format
        super().__init__(
            {
                "a": In(ArrayLayout(a.width, lanes)),
                "b": In(ArrayLayout(b.width, lanes)),
                "active": In(lanes),
                "sum": In(SumSignature(numerics)),
            },
        )
        kind: type[ExactAccumulator | FusedAccumulator | AddendAccumulator | IntegerAccumulator] = ExactAccumulator
        if isinstance(accumulator, Fused):
            kind = AddendAccumulator if accumulator.addend == "after" else FusedAccumulator
        if isinstance(a, FloatFormat) and isinstance(b, FloatFormat):
            self.multipliers: list[Block] = [Multiplier(a_format=a, b_format=b) for _ in range(lanes)]
        elif isinstance(a, IntegerFormat) and isinstance(b, IntegerFormat):
            self.multipliers = [IntegerMultiplier(a_format=a, b_format=b) for _ in range(lanes)]
            kind = IntegerAccumulator
        self.accumulator = kind(numerics=numerics, lanes=lanes, stages=stages - self.registered)

    def elaborate(self, platform):
        """Multiply, (register), accumulate."""
        m = Module()
        m.submodules.accumulator = placed(self.accumulator, platform)
        products = Signal(ArrayLayout(product_shape(self.numerics), self.lanes), reset_less=True)
        active = Signal(self.lanes)
        for lane, multiplier in enumerate(self.multipliers):
            m.submodules[f"multiplier_{lane}"] = placed(multiplier, platform)
            m.d.comb += [multiplier.a.eq(self.a[lane]), multiplier.b.eq(self.b[lane])]
        multiplied = [products[lane].eq(each.product) for lane, each in enumerate(self.multipliers)]
        if self.registered:
            with m.If(~self.sum.hold):
                m.d.sync += [active.eq(self.active), *multiplied]
        else:
            m.d.comb += [active.eq(self.active), *multiplied]
        m.d.comb += [self.accumulator.products.eq(products), self.accumulator.active.eq(active)]
        wiring.connect(m, wiring.flipped(self.sum), self.accumulator.sum)
        return m
