"""Operand flags: zeros and non-finite values among those that a port offers."""

from amaranth.hdl import Const, Module, Value
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import FloatFormat, Format, ScaleFormat
from ..configuration.parameters import require_bool, require_int
from ..layouts import FloatLayout, steps_layout

__all__ = ["OperandFlags"]


class OperandFlags(Block):
    """Flags the zeros and the non-finite values of a port's steps as they enter.

    Timing: combinational.

    Parameters
    ----------
    fmt : Format
        Format of the values.
    lanes, depth : int
        Shape of the steps offered.
    zeros : bool
        Whether to drive `nonzero`. Otherwise it is zero.
    scale : ScaleFormat, optional
        Format of the steps' scales, if they have scales.
    empty : bool
        Steps can be empty.

    Members
    -------
    steps : In(steps_layout)
        Steps offered, oldest first.
    scales : In(8, depth)
        Only with a `scale`: the scale of each step.
    empty : In(depth)
        Only with `empty`: steps that count as zeros, whatever their values are.
    nonzero : Out(lanes, depth)
        Values that are not zero, in steps whose scale is not zero. -0 is a zero.
    non_finite : Out(depth)
        Steps that hold an infinity or NaN, or have a NaN scale.

    Source: paper, section III-A ("using per value comparators").
    """

    def __init__(
        self, *, fmt: Format, lanes: int, depth: int, zeros: bool, scale: ScaleFormat | None = None, empty: bool = False
    ) -> None:
        self.fmt, self.scale = fmt, scale
        self.lanes = require_int("lanes", lanes, 1)
        self.depth = require_int("depth", depth, 1)
        self.zeros, self.has_empty = zeros, require_bool("empty", empty)
        super().__init__(
            {
                "steps": In(steps_layout(fmt.width, lanes, depth)),
                **({"scales": In(ArrayLayout(scale.width, depth))} if scale is not None else {}),
                **({"empty": In(depth)} if empty else {}),
                "nonzero": Out(ArrayLayout(lanes, depth)),
                "non_finite": Out(depth),
            },
            variant="_".join([fmt.name, *(["zeros"] if zeros else []), *(["empty"] if empty else [])]),
        )

    def elaborate(self, platform):
        """Build one comparator per value and flag."""
        m = Module()
        for step in range(self.depth):
            special, scale_is_zero = self._of_scale(step)
            for lane in range(self.lanes):
                value = self.steps[step][lane]
                is_zero = value == 0
                if isinstance(self.fmt, FloatFormat):
                    number = FloatLayout(self.fmt)(value)
                    special, is_zero = special | number.is_special, number.is_zero
                if self.zeros:
                    m.d.comb += self.nonzero[step][lane].eq(
                        self._shown(step, ~is_zero if scale_is_zero is None else ~(is_zero | scale_is_zero))
                    )
            m.d.comb += self.non_finite[step].eq(self._shown(step, special))
        return m

    def _shown(self, step: int, flag: Value) -> Value:
        """Clear the flag of an empty step."""
        return flag & ~self.empty[step] if self.has_empty else flag

    def _of_scale(self, step: int) -> tuple[Value, Value | None]:
        """Return whether a step's scale is NaN, and whether it is zero (None if it cannot be)."""
        if self.scale is None:
            return Const(0), None
        bits = self.scales[step]
        if self.scale.number is None:
            return bits.all(), None
        number = FloatLayout(self.scale.number)(bits)
        return number.is_special, number.is_zero
