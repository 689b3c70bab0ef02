"""Processing element: the compute core that the baseline and TensorDash share."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In

from ..arithmetic.accumulator import ExactAccumulator
from ..arithmetic.addend_accumulator import AddendAccumulator
from ..arithmetic.binned_accumulator import BinnedAccumulator
from ..arithmetic.float_sum import MIN_EXPONENT
from ..arithmetic.fused_accumulator import FusedAccumulator
from ..arithmetic.integer_accumulator import IntegerAccumulator
from ..arithmetic.integer_multiplier import IntegerMultiplier
from ..arithmetic.multiplier import Multiplier
from ..arithmetic.product_scaler import ProductScaler, scale_sum
from ..arithmetic.scaled_accumulator import ScaledAccumulator
from ..arithmetic.step_sums import StepSums
from ..arithmetic.sum_ports import SumSignature
from ..block import Block, placed
from ..configuration.formats import FloatFormat, IntegerFormat
from ..configuration.numerics import Binned, Fused, Numerics
from ..configuration.parameters import require_int
from ..layouts import product_shape

__all__ = ["PE", "scale_members", "scale_steps"]


def scale_members(numerics: Numerics, lanes: int, steps: int) -> dict[str, Any]:
    """Return the members of a `PE` for scales."""
    if numerics.scale is None:
        return {}
    scales = ArrayLayout(numerics.scale.width, steps)
    chosen = {"chosen": In(ArrayLayout(steps, lanes))} if steps > 1 else {}
    return {"a_scales": In(scales), "b_scales": In(scales), **chosen}


def scale_steps(numerics: Numerics, depth: int) -> dict[str, int]:
    """Return the argument `steps` of a PE that follows a window. Without scales there is none."""
    return {"steps": depth} if numerics.scale is not None else {}


class PE(Block):
    """Multiplies `lanes` pairs of operands and adds all products in one accumulator.

    Timing: operands of one cycle are in the sum `stages` cycles later. It takes one set of operands per cycle.

    Parameters
    ----------
    numerics : Numerics
        Operand formats, accumulator, C input.
    lanes : int
        Multipliers.
    stages : int
        Register stages, the accumulator's included.
        1: only the accumulator's register.
        2: one more register, after the multipliers (exact), after the alignment of the products (fused; after their sum
        if the addend is added after them), or after the sums of a cycle's digits (binned).
        3: both.
        With scales that are numbers, the register after the multipliers comes after the sums of each step instead.
    steps : int
        With scales: steps of the window. A lane's operands may come from any of them.

    Members
    -------
    a, b : In(width, lanes)
        Operands.
    a_scales, b_scales : In(8, steps)
        Only with scales: the scale of each step of the window.
    chosen : In(steps, lanes)
        Only with scales and more than one step: the step that each lane's operands come from, one-hot.
    active : In(lanes)
        Lanes whose operands count.
    sum : In(SumSignature)
        Its controls refer to the products of the operands of `stages - 1` cycles ago.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: paper, Fig. 2.
    """

    def __init__(self, *, numerics: Numerics, lanes: int, stages: int, steps: int = 1) -> None:
        self.numerics = numerics
        self.lanes = require_int("lanes", lanes, 1)
        self.stages = require_int("stages", stages, 1, 3)
        accumulator = numerics.accumulator
        self.registered = stages > (2 if isinstance(accumulator, Fused | Binned) else 1)
        a, b = numerics.a_format, numerics.b_format
        self.steps = require_int("steps", steps, 1)
        super().__init__(
            {
                "a": In(ArrayLayout(a.width, lanes)),
                "b": In(ArrayLayout(b.width, lanes)),
                **scale_members(numerics, lanes, steps),
                "active": In(lanes),
                "sum": In(SumSignature(numerics)),
            },
        )
        kind: type[Block] = ExactAccumulator
        if isinstance(accumulator, Binned):
            kind = BinnedAccumulator
        elif isinstance(accumulator, Fused):
            kind = AddendAccumulator if accumulator.addend == "after" else FusedAccumulator
        if isinstance(a, FloatFormat) and isinstance(b, FloatFormat):
            self.multipliers: list[Block] = [Multiplier(a_format=a, b_format=b) for _ in range(lanes)]
        elif isinstance(a, IntegerFormat) and isinstance(b, IntegerFormat):
            self.multipliers = [IntegerMultiplier(a_format=a, b_format=b) for _ in range(lanes)]
            kind = IntegerAccumulator
        arguments: dict[str, Any] = {"numerics": numerics, "lanes": lanes, "stages": stages - self.registered}
        self.scaler: ProductScaler | StepSums | None = None
        self.scale_multipliers: list[Multiplier] = []
        # Where all products have the same scale, exponents are compared without it.
        self.shared = False
        if isinstance(accumulator, Fused) and numerics.scale is not None and steps == 1:
            self.shared = accumulator.addend != "after" and accumulator.zero_exponent == MIN_EXPONENT
        if numerics.scale is None:
            self.accumulator: Block = kind(**arguments)
        elif (number := numerics.scale.number) is None:
            self.accumulator = kind(**arguments, **(dict[str, Any](shared=True) if self.shared else {}))
            self.scaler = None if self.shared else ProductScaler(numerics=numerics, lanes=lanes, steps=steps)
        else:
            self.accumulator = ScaledAccumulator(**arguments, steps=steps)
            self.scaler = StepSums(numerics=numerics, lanes=lanes, steps=steps)
            self.scale_multipliers = [Multiplier(a_format=number, b_format=number) for _ in range(steps)]

    def elaborate(self, platform):
        """Multiply, (scale,) (register,) accumulate."""
        m = Module()
        m.submodules.accumulator = placed(self.accumulator, platform)
        products = Signal(ArrayLayout(product_shape(self.numerics), self.lanes), reset_less=True)
        active = Signal(self.lanes)
        for lane, multiplier in enumerate(self.multipliers):
            m.submodules[f"multiplier_{lane}"] = placed(multiplier, platform)
            m.d.comb += [multiplier.a.eq(self.a[lane]), multiplier.b.eq(self.b[lane])]
        multiplied = [products[lane].eq(each.product) for lane, each in enumerate(self.multipliers)]
        wiring.connect(m, wiring.flipped(self.sum), self.accumulator.sum)
        if self.numerics.scale is not None:
            m.d.comb += multiplied
            self._scale(m, platform, products)
            return m
        entering = [active.eq(self.active), *multiplied]
        if isinstance(self.accumulator, BinnedAccumulator):
            shape = self.accumulator.shape
            early = {"nonzero": self._nonzero(), "places": self._places(shape.first_place, shape.place_bits)}
            for name, value in early.items():
                held = Signal.like(getattr(self.accumulator, name), name=f"held_{name}", reset_less=True)
                entering.append(held.eq(value))
                m.d.comb += getattr(self.accumulator, name).eq(held)
        if self.registered:
            with m.If(~self.sum.hold):
                m.d.sync += entering
        else:
            m.d.comb += entering
        m.d.comb += [self.accumulator.products.eq(products), self.accumulator.active.eq(active)]
        return m

    def _nonzero(self) -> Value:
        """Return the lanes whose product is not zero, from the operands: earlier than from the products."""
        return Cat(
            ~multiplier.a.is_zero & ~multiplier.b.is_zero
            for multiplier in self.multipliers
            if isinstance(multiplier, Multiplier)
        )

    def _places(self, first_place: int, bits: int) -> Value:
        """Return the place of each product's highest bit, from the operands. The least product has `first_place`."""
        places = []
        for multiplier in self.multipliers:
            # The least exponent field above zero is 1.
            sides = multiplier.a, multiplier.b
            a, b = (Cat(side.exponent[0] | side.is_subnormal, side.exponent[1:]) for side in sides)
            places.append((a + b + (first_place - 2))[:bits])
        return Cat(*places)

    def _scale(self, m: Module, platform: Any, products: Any) -> None:
        """Drive the accumulator with products and scales, through the register if there is one."""
        scaler, entering = self.scaler, {"products": products, "active": self.active}
        if scaler is not None:
            m.submodules.scaler = placed(scaler, platform)
            m.d.comb += scaler.products.eq(products)
            if self.steps > 1:
                m.d.comb += scaler.chosen.eq(self.chosen)
        if self.shared:
            entering["common"] = scale_sum(m, self.a_scales[0], self.b_scales[0], "scale_sum")
        elif isinstance(scaler, ProductScaler):
            m.d.comb += [scaler.a_scales.eq(self.a_scales), scaler.b_scales.eq(self.b_scales)]
            entering["products"] = scaler.scaled
            if isinstance(self.accumulator, BinnedAccumulator):
                shape = self.accumulator.shape
                places = [(product.shift + shape.first_place)[: shape.place_bits] for product in scaler.scaled]
                entering |= {"nonzero": self._nonzero(), "places": Cat(*places)}
        elif isinstance(scaler, StepSums):
            m.d.comb += scaler.active.eq(self.active)
            entering = {"sums": scaler.sums, "active": scaler.counted}
            scales = Signal(self.accumulator.scales.shape(), name="scale_products")
            for step, multiplier in enumerate(self.scale_multipliers):
                m.submodules[f"scale_multiplier_{step}"] = placed(multiplier, platform)
                m.d.comb += [
                    multiplier.a.eq(self.a_scales[step]),
                    multiplier.b.eq(self.b_scales[step]),
                    scales[step].eq(multiplier.product),
                ]
            entering["scales"] = scales
        for name, value in entering.items():
            member = getattr(self.accumulator, name)
            if self.registered:
                held = Signal.like(member, name=f"held_{name}", reset_less=name != "active")
                with m.If(~self.sum.hold):
                    m.d.sync += held.eq(value)
                value = held
            m.d.comb += member.eq(value)
