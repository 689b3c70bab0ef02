"""Numerics as data: a PE's operand formats, accumulator and results."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from .formats import FP32, SCALES, FloatFormat, Format, IntegerFormat, ScaleFormat
from .parameters import require_choice, require_int

__all__ = [
    "ACCUMULATORS",
    "ACCUMULATOR_TABLES",
    "ADDENDS",
    "ROUNDINGS",
    "WIDE_FORMATS",
    "Accumulator",
    "Binned",
    "Exact",
    "Fused",
    "Numerics",
    "accumulator_of_table",
]

ROUNDINGS = ("zero", "nearest")
ADDENDS = ("inside", "after", "last")
FP16_BITS = (5, 10)
"""Exponent and fraction bits of FP16."""
WIDE_FORMATS = ("bf16", "tf32")
"""Formats with FP32's exponents, whose products are too wide for an exact accumulator."""
ACCUMULATOR_TABLES = (
    "{ fused = F, and if need be rounding, result_bits, result_exponent_bits, addend, zero_exponent }, "
    "{ bins = 3, and if need be bin_bits } or "
)
NO_SCALE = "none"
SCALE_NAMES = (NO_SCALE, *SCALES)


@dataclass(frozen=True)
class Exact:
    """Fixed point, wide enough for every product, rounded once when the block leaves.

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
    """A floating-point number with one aligned multi-operand addition per cycle, as in tensor cores.

    Parameters
    ----------
    fraction_bits : int
        F: fraction bits of a term that is aligned to the largest exponent, 8 to 64.
    rounding : "zero" or "nearest"
        Rounding of each cycle's sum: toward zero, or to nearest with ties to even.
    result_bits : int
        Fraction bits of a cycle's result, 7 to 23. FP32 has 23.
    result_exponent_bits : int
        Exponent bits of a cycle's result: 8 as in FP32, or 5 with 10 result bits, for FP16 results.
    addend : "inside", "after" or "last"
        How the accumulated number is added. "inside": as one of the aligned terms. "after": to the rounded sum of a
        cycle's products, as FP32 and to nearest, with 23 result bits. "last": as "inside" from zero; C is added to the
        finished sum, to nearest.
    zero_exponent : int
        Exponent of an accumulator of zero in the alignment: -149 to -126, the exponent of FP32's least normal result
        (FP16: to -14).

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/numerics.md, "fused".
    """

    fraction_bits: int
    rounding: str
    result_bits: int = 23
    result_exponent_bits: int = 8
    addend: str = "inside"
    zero_exponent: int = -126

    def __post_init__(self) -> None:
        require_int("accumulator.fused", self.fraction_bits, 8, 64)
        require_choice("accumulator.rounding", self.rounding, ROUNDINGS)
        require_int("accumulator.result_bits", self.result_bits, 7, 23)
        require_int("accumulator.result_exponent_bits", self.result_exponent_bits, 5, 8)
        if self.result_exponent_bits != 8 and (self.result_exponent_bits, self.result_bits) != FP16_BITS:
            raise ValueError(
                "accumulator.result_exponent_bits must be 8, or 5 with accumulator.result_bits = 10 (FP16), "
                f"not {self.result_exponent_bits} with {self.result_bits}"
            )
        require_choice("accumulator.addend", self.addend, ADDENDS)
        least_normal = 2 - (1 << (self.result_exponent_bits - 1))
        require_int("accumulator.zero_exponent", self.zero_exponent, -149, least_normal)
        if self.addend == "after" and self.result_bits != 23:
            raise ValueError(
                f'accumulator.result_bits must be 23 with accumulator.addend = "after", whose sums are FP32, '
                f"not {self.result_bits}"
            )

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "Fused":
        """Build an accumulator from a table as `table` returns it."""
        options = {field.name for field in fields(cls)} - {"fraction_bits"}
        if "fused" not in table or not set(table) <= {"fused", *options}:
            raise _unknown_table(table)
        return cls(table["fused"], **{"rounding": "zero"} | {name: table[name] for name in table if name in options})

    def table(self) -> dict[str, int | str]:
        """Return the accumulator as a table of a configuration, without keys that have their default value.

        >>> Fused(13, "zero", result_bits=13).table()
        {'fused': 13, 'rounding': 'zero', 'result_bits': 13}
        """
        values = asdict(self)
        changed = {field.name: values[field.name] for field in fields(self) if values[field.name] != field.default}
        return {"fused": changed.pop("fraction_bits"), **changed}

    def __str__(self) -> str:
        """Return the accumulator in words.

        >>> str(Fused(13, "zero", result_bits=13)), str(Fused(25, "zero", addend="after", zero_exponent=-133))
        ('fused 13, zero, to 13 bits', 'fused 25, zero, addend after, zero at -133')
        """
        words = [f"fused {self.fraction_bits}", self.rounding]
        if self.result_exponent_bits != 8:
            words += ["to FP16"]
        elif self.result_bits != 23:
            words += [f"to {self.result_bits} bits"]
        words += [f"addend {self.addend}"] * (self.addend != "inside")
        words += [f"zero at {self.zero_exponent}"] * (self.zero_exponent != -126)
        return ", ".join(words)


@dataclass(frozen=True)
class Binned:
    """Digits of the products, summed in the highest bins that a sum has met, and rounded once when the block leaves.

    Parameters
    ----------
    bins : int
        Bins of a sum, 3 or 4.
    bin_bits : int
        Binary places of a bin, 8 to 32.
    headroom_bits : int
        Bits of a register above its bin, 0 to 64: the `headroom_bits` of the tile's configuration.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/numerics.md, "binned"; J. Demmel and H. D. Nguyen, "Parallel Reproducible Summation", IEEE Transactions
    on Computers 64 (2015).
    """

    bins: int
    bin_bits: int = 16
    headroom_bits: int = 16

    def __post_init__(self) -> None:
        require_int("accumulator.bins", self.bins, 3, 4)
        require_int("accumulator.bin_bits", self.bin_bits, 8, 32)
        require_int("headroom_bits", self.headroom_bits, 0, 64)

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "Binned":
        """Build an accumulator from a table as `table` returns it."""
        if "bins" not in table or not set(table) <= {"bins", "bin_bits"}:
            raise _unknown_table(table)
        return cls(**table)

    def table(self) -> dict[str, int]:
        """Return the accumulator as a table of a configuration, without the headroom.

        >>> Binned(3).table()
        {'bins': 3, 'bin_bits': 16}
        """
        return {"bins": self.bins, "bin_bits": self.bin_bits}

    def __str__(self) -> str:
        """Return the accumulator in words.

        >>> str(Binned(4, 12))
        'binned 4 x 12'
        """
        return f"binned {self.bins} x {self.bin_bits}"


Accumulator = Exact | Fused | Binned


def accumulator_of_table(table: Mapping[str, Any]) -> Fused | Binned:
    """Build the accumulator that a table of a configuration defines.

    >>> accumulator_of_table({"bins": 3}) == Binned(3), accumulator_of_table({"fused": 24}) == ACCUMULATORS["ampere"]
    (True, True)
    """
    return Binned.from_table(table) if "bins" in table else Fused.from_table(table)


def _unknown_table(table: Mapping[str, Any]) -> ValueError:
    """Return the error for a table that defines no accumulator."""
    return ValueError(
        f"accumulator must be {ACCUMULATOR_TABLES}one of {', '.join(sorted([*ACCUMULATORS, 'exact']))}, "
        f"not a table of {', '.join(map(str, table)) or 'nothing'}"
    )


ACCUMULATORS: dict[str, Fused] = {
    "volta": Fused(23, "zero"),
    "ampere": Fused(24, "zero"),
    "hopper": Fused(25, "zero"),
    "volta-fp16": Fused(23, "nearest", result_bits=10, result_exponent_bits=5, zero_exponent=-19),
    "ampere-fp16": Fused(24, "nearest", result_bits=10, result_exponent_bits=5, zero_exponent=-20),
    "hopper-fp16": Fused(25, "nearest", result_bits=10, result_exponent_bits=5, zero_exponent=-21),
    "ada-fp8": Fused(13, "zero", result_bits=13),
    "hopper-fp8": Fused(13, "zero", result_bits=13),
    "blackwell-fp8": Fused(25, "zero", addend="after"),
    "blackwell-fp16": Fused(25, "nearest", result_bits=10, result_exponent_bits=5, addend="last", zero_exponent=-21),
    "cdna1": Fused(64, "nearest"),
}
"""Fused accumulators by the name of the GPU whose matrix units have the same arithmetic.

It matches that GPU on fp16 (ampere and hopper also on bf16) at 4, 8 and 16 lanes, on fp8 at 16 lanes (Ada) and 32 lanes
(Hopper, Blackwell), and on fp16 at 4 lanes (CDNA1). With other formats or lanes only the arithmetic is the same.
Accumulators with `-fp16` have the same sums and FP16 results. `blackwell-fp16` is for fp8 operands at 16 lanes, and
adds C last. `ada-fp8` and `hopper-fp8` have the same arithmetic, and differ only in the GPU's lanes.

Source: docs/gpu-numerics.md.
"""


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """Operand formats, accumulator and C input of a PE: everything that determines its results.

    Parameters
    ----------
    a_format, b_format : Format
        Both floating-point or both integer.
    accumulator : Exact, Fused or Binned
        `Fused` and `Binned` for floating-point formats only; `Exact` for all but bf16 and tf32.
    initial : bool
        Whether there is a C input.
    scale_name : str
        "none", or the format of the steps' scales, on both sides: "e8m0" for formats of at most 8 bits and a `Fused` or
        `Binned` accumulator, "e4m3" for fp4_e2m1 and an `Exact` accumulator.

    Raises
    ------
    ValueError
        If formats, accumulator and scale are incompatible. The message is one line.
    """

    a_format: Format
    b_format: Format
    accumulator: Accumulator
    initial: bool = False
    scale_name: str = NO_SCALE

    def __post_init__(self) -> None:
        require_choice("scale", self.scale_name, SCALE_NAMES)
        if self.scale is not None:
            self._check_scale(self.scale)
        names = f"a = {self.a_format.name} and b = {self.b_format.name}"
        if isinstance(self.a_format, IntegerFormat) != isinstance(self.b_format, IntegerFormat):
            raise ValueError(f"format must be floating-point on both sides or int8 on both, not {names}")
        for fmt in (self.a_format, self.b_format):
            if isinstance(fmt, FloatFormat) and fmt.exponent_bits > FP32.exponent_bits:
                raise ValueError(
                    f"format must have at most {FP32.exponent_bits} exponent bits, as the FP32 results have, "
                    f"not {fmt.exponent_bits} as {fmt.name}"
                )
        if isinstance(self.accumulator, Fused | Binned) and isinstance(self.a_format, IntegerFormat):
            raise ValueError(f"accumulator must be exact for int8, not {type(self.accumulator).__name__.lower()}")
        if isinstance(self.accumulator, Binned):
            self._check_bins(self.accumulator, names)
        elif isinstance(self.accumulator, Fused):
            if self.accumulator.result_exponent_bits != 8 and (
                self.scale is not None or max(self.a_format.exponent_bits, self.b_format.exponent_bits) > 5  # type: ignore[union-attr]
            ):
                raise ValueError(
                    "accumulator.result_exponent_bits must be 8 with scales and for operands of more than 5 exponent "
                    f"bits, not {self.accumulator.result_exponent_bits} for {names}"
                )
        elif wide := [fmt.name for fmt in (self.a_format, self.b_format) if fmt.name in WIDE_FORMATS]:
            raise ValueError(
                f"accumulator must be fused for {wide[0]} (volta, ampere, hopper or {{ fused = F, rounding = R }}) or "
                "binned ({ bins = 3, bin_bits = 16 }), not exact: its products span over 500 bits"
            )
        elif isinstance(self.a_format, IntegerFormat) and self.accumulator.headroom_bits > 16:
            raise ValueError(
                f"headroom_bits must be an integer from 0 to 16 for int8, whose results are INT32, "
                f"not {self.accumulator.headroom_bits}"
            )

    def _check_bins(self, accumulator: Binned, names: str) -> None:
        """Refuse bins that do not fit a product's digits for every place of its highest bit."""
        significand_bits = sum(
            fmt.significand_bits for fmt in (self.a_format, self.b_format) if isinstance(fmt, FloatFormat)
        )
        least = -(-(significand_bits - 1) // (accumulator.bins - 1))
        if accumulator.bin_bits < least:
            raise ValueError(
                f"accumulator.bin_bits must be an integer from {least} to 32 with accumulator.bins = "
                f"{accumulator.bins} for {names}, whose products have {significand_bits} bits, "
                f"not {accumulator.bin_bits}"
            )

    def _check_scale(self, scale: ScaleFormat) -> None:
        names = f"a = {self.a_format.name} and b = {self.b_format.name}"
        a, b = self.a_format, self.b_format
        if scale.number is not None:
            if a.name != "fp4_e2m1" or b.name != "fp4_e2m1":
                raise ValueError(f'format must be fp4_e2m1 with scale = "{scale.name}" (NVFP4), not {names}')
            if isinstance(self.accumulator, Fused | Binned):
                raise ValueError(
                    f'accumulator must be exact with scale = "{scale.name}", whose products have 43 bits, '
                    f"not {type(self.accumulator).__name__.lower()}"
                )
            return
        if not isinstance(a, FloatFormat) or not isinstance(b, FloatFormat) or max(a.width, b.width) > 8:
            raise ValueError(
                f'format must be floating-point of 8 bits or fewer with scale = "{scale.name}" (MX), not {names}'
            )
        if isinstance(self.accumulator, Exact):
            elements = sum(fmt.significand_bits + fmt.exponent_range - 1 for fmt in (a, b))
            of_scales = 2 * (scale.exponent_range - 1)
            raise ValueError(
                f'accumulator must be fused with scale = "{scale.name}" (such as hopper) or binned '
                f"({{ bins = 3, bin_bits = 16 }}), not exact: its products span {elements + of_scales} bits, "
                f"{elements} of {names} and {of_scales} of the scales"
            )

    @property
    def scale(self) -> ScaleFormat | None:
        """Format of a step's scale, or None."""
        return SCALES.get(self.scale_name)

    @property
    def scale_bits(self) -> int:
        """Bits of a step's scale, or 0 without scales."""
        return 0 if self.scale is None else self.scale.width

    @property
    def result(self) -> Literal["fp32", "int32"]:
        """Format of the results, and of C."""
        return "int32" if isinstance(self.a_format, IntegerFormat) else "fp32"
