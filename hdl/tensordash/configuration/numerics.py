"""Numerics as data: what a PE multiplies, how it accumulates, and what comes out."""

from dataclasses import asdict, dataclass, fields
from typing import Literal

from .formats import Format, IntegerFormat
from .parameters import require_choice, require_int

__all__ = ["ACCUMULATORS", "ADDENDS", "ROUNDINGS", "Accumulator", "Exact", "Fused", "Numerics"]

ROUNDINGS = ("zero", "nearest")
ADDENDS = ("inside", "after")
FUSED_ONLY = ("bf16", "tf32")
"""Formats with FP32's exponents."""


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
    """A floating-point number, and one aligned multi-operand addition per cycle, as tensor cores do it.

    Parameters
    ----------
    fraction_bits : int
        F: fraction bits that a term keeps when it is aligned to the largest exponent, 8 to 64.
    rounding : "zero" or "nearest"
        How each cycle's sum is rounded: toward zero, or to nearest with ties to even.
    result_bits : int
        Fraction bits that a cycle's result keeps, 7 to 23; FP32 has 23.
    addend : "inside" or "after"
        Whether what was accumulated is one of the terms that are aligned, or is added to the rounded sum of a cycle's
        products, as FP32 and to nearest; `after` takes 23 result bits.
    zero_exponent : int
        Exponent that an accumulator of zero counts as where terms are aligned, -149 to -126.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/numerics.md, "fused".
    """

    fraction_bits: int
    rounding: str
    result_bits: int = 23
    addend: str = "inside"
    zero_exponent: int = -126

    def __post_init__(self) -> None:
        require_int("accumulator.fused", self.fraction_bits, 8, 64)
        require_choice("accumulator.rounding", self.rounding, ROUNDINGS)
        require_int("accumulator.result_bits", self.result_bits, 7, 23)
        require_choice("accumulator.addend", self.addend, ADDENDS)
        require_int("accumulator.zero_exponent", self.zero_exponent, -149, -126)
        if self.addend == "after" and self.result_bits != 23:
            raise ValueError(
                f'accumulator.result_bits must be 23 with accumulator.addend = "after", whose sums are FP32, '
                f"not {self.result_bits}"
            )

    def table(self) -> dict[str, int | str]:
        """The accumulator as a table of a configuration: what is left out has its default.

        >>> Fused(13, "zero", result_bits=13).table()
        {'fused': 13, 'rounding': 'zero', 'result_bits': 13}
        """
        given = asdict(self)
        kept = {field.name: given[field.name] for field in fields(self) if given[field.name] != field.default}
        return {"fused": kept.pop("fraction_bits"), **kept}

    def __str__(self) -> str:
        """In words.

        >>> str(Fused(13, "zero", result_bits=13)), str(Fused(25, "zero", addend="after", zero_exponent=-133))
        ('fused 13, zero, to 13 bits', 'fused 25, zero, addend after, zero at -133')
        """
        words = [f"fused {self.fraction_bits}", self.rounding]
        words += [f"to {self.result_bits} bits"] * (self.result_bits != 23)
        words += [f"addend {self.addend}"] * (self.addend != "inside")
        words += [f"zero at {self.zero_exponent}"] * (self.zero_exponent != -126)
        return ", ".join(words)


Accumulator = Exact | Fused

ACCUMULATORS: dict[str, Fused] = {
    "volta": Fused(23, "zero"),
    "ampere": Fused(24, "zero"),
    "hopper": Fused(25, "zero"),
    "ada-fp8": Fused(13, "zero", result_bits=13),
    "hopper-fp8": Fused(13, "zero", result_bits=13),
    "blackwell-fp8": Fused(25, "zero", addend="after"),
}
"""Fused accumulators by the name of the GPU whose tensor cores compute so: on fp16 (ampere, hopper: and bf16) at 4,
8 and 16 lanes, on fp8 at 16 (Ada) and 32 lanes (Hopper, Blackwell). With other formats or lanes only the arithmetic is
the same. `ada-fp8` and `hopper-fp8` are one arithmetic, and differ in the lanes alone.

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
        `Fused` for floating-point formats only; `Exact` for all but bf16 and tf32.
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
        elif wide := [fmt.name for fmt in (self.a_format, self.b_format) if fmt.name in FUSED_ONLY]:
            raise ValueError(
                f"accumulator must be fused for {wide[0]} (volta, ampere, hopper or {{ fused = F, rounding = R }}), "
                "not exact: its products span over 500 bits"
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
