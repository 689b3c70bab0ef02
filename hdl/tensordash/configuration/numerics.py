"""Numerics as data: what a PE multiplies, how it accumulates, and what comes out."""

from dataclasses import dataclass
from typing import Literal

from .formats import FloatFormat, Format, IntegerFormat
from .parameters import require_choice, require_int

__all__ = ["ACCUMULATORS", "ROUNDINGS", "Accumulator", "Exact", "Fused", "Numerics"]

ROUNDINGS = ("zero", "nearest")


@dataclass(frozen=True)
class Exact:
    """Fixed point, wide enough for every product; rounded once, when the block leaves.

    Parameters
    ----------
    headroom_bits : int
        Bits above the largest product, 0 to 64.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.
    """

    headroom_bits: int

    def __post_init__(self) -> None:
        require_int("headroom_bits", self.headroom_bits, 0, 64)


@dataclass(frozen=True)
class Fused:
    """FP32, and one aligned multi-operand addition per cycle, as tensor cores do it (docs/numerics.md).

    Parameters
    ----------
    fraction_bits : int
        F: fraction bits that a term keeps when it is aligned to the largest exponent, 8 to 64.
    rounding : "zero" or "nearest"
        How each cycle's sum is rounded to FP32: toward zero, or to nearest with ties to even.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.
    """

    fraction_bits: int
    rounding: str

    def __post_init__(self) -> None:
        require_int("accumulator.fused", self.fraction_bits, 8, 64)
        require_choice("accumulator.rounding", self.rounding, ROUNDINGS)


Accumulator = Exact | Fused

ACCUMULATORS: dict[str, Fused] = {
    "volta": Fused(23, "zero"),
    "ampere": Fused(24, "zero"),
    "hopper": Fused(25, "zero"),
}
"""Fused accumulators by the name of the GPU whose tensor cores compute so on fp16 (ampere, hopper: and bf16), at 4, 8
and 16 lanes. With other formats or lanes only the arithmetic is the same.

Source: docs/numerics.md, "Tensor cores".
"""


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """Operand formats, accumulator and C input of a PE: all that decides its bits, and nothing else.

    Parameters
    ----------
    a_format, b_format : Format
        Both floating-point or both integer.
    accumulator : Exact or Fused
        `Fused` for floating-point formats only; `Exact` for all but bf16.
    initial : bool
        Whether there is a C input.

    Raises
    ------
    ValueError
        If the formats and the accumulator do not go together, in one line.
    """

    a_format: Format
    b_format: Format
    accumulator: Accumulator
    initial: bool = False

    def __post_init__(self) -> None:
        names = f"a = {self.a_format.name} and b = {self.b_format.name}"
        if isinstance(self.a_format, IntegerFormat) != isinstance(self.b_format, IntegerFormat):
            raise ValueError(f"format must be floating-point on both sides or int8 on both, not {names}")
        if isinstance(self.accumulator, Fused):
            if isinstance(self.a_format, IntegerFormat):
                raise ValueError("accumulator must be exact for int8, not fused")
        elif isinstance(self.a_format, FloatFormat) and "bf16" in (self.a_format.name, self.b_format.name):
            raise ValueError(
                "accumulator must be fused for bf16 (volta, ampere, hopper or { fused = F, rounding = R }), not exact: "
                "its products span over 500 bits"
            )
        elif isinstance(self.a_format, IntegerFormat) and self.accumulator.headroom_bits > 16:
            raise ValueError(
                f"headroom_bits must be an integer from 0 to 16 for int8, whose results are INT32, "
                f"not {self.accumulator.headroom_bits}"
            )

    @property
    def result(self) -> Literal["fp32", "int32"]:
        """Format of the results, and of C."""
        return "int32" if isinstance(self.a_format, IntegerFormat) else "fp32"
