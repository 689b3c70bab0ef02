"""Operands of a contraction: scaling by a power of two, rounding to a side's format, and counts of changed values."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS, FP32, INT32, Format, IntegerFormat
from tensordash.configuration.numerics import Fused
from tensordash_sim.compiler.images import TENSOR_TYPES
from tensordash_sim.emulator import decode, encode
from tensordash_sim.emulator.kernels import scan
from tensordash_sim.emulator.tables import is_finite
from tensordash_sim.golden.quantization import non_zeros
from tensordash_sim.lowering import Geometry

from .values import FLOAT32, plain, type_of

__all__ = [
    "Operand",
    "RoundedOperand",
    "Rounding",
    "Scaling",
    "checked_operands",
    "checked_scaling",
    "scaling_limit",
]

Scaling = str | Mapping[str, int]
SCALINGS = ("auto", "none")
MAX_POWER = 512
"""Largest exponent of an explicit power of two, twice as large as any float32 value needs."""
MAX_PRODUCT_EXPONENT = 16
"""Exponent of the bound on automatically scaled values of formats with FP32's exponent range."""
_FORMATS = {FLOAT32: FP32} | {kind: FORMATS[name] for name, kind in TENSOR_TYPES.items()}


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """Counts of an operand's values before and after rounding to its side's format.

    Attributes
    ----------
    values : int
        Number of values.
    zeros : int
        Zeros of either sign before rounding.
    flushed : int
        Non-zero values that rounding made zero.
    saturated : int, optional
        Finite values that rounding made infinite, NaN or, in a format with neither, the largest number. For integers,
        values outside of the range. None for formats with scales, whose saturation is not counted.
    non_finite : int
        Infinities and NaN before rounding.
    exponent : int
        Exponent of the power of two that multiplied the values before rounding.
    """

    values: int
    zeros: int
    flushed: int
    saturated: int | None
    non_finite: int
    exponent: int

    @property
    def flushed_share(self) -> float:
        """Share of the tensor's non-zero values that rounding made zero."""
        return self.flushed / max(1, self.values - self.zeros)

    def to_json(self) -> dict[str, int | None]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class RoundedOperand:
    """An operand for a job.

    Attributes
    ----------
    values : array
        Bit patterns of a side's format, NVFP4 values, or float32 for a tile with scales; zeros in place of infinities
        and NaN.
    rounding : Rounding
        Counts of values.
    numbers : array of float32, optional
        The values with their infinities and NaN, including those from rounding; None if all are finite.
    non_zeros : array of bool, optional
        Positions of non-zero elements, for operands with scales.
    factor : float
        For NVFP4 values: the tensor's scale, an FP32 number that multiplies results.
    """

    values: NDArray
    rounding: Rounding
    numbers: NDArray[np.float32] | None = None
    non_zeros: NDArray[np.bool_] | None = None
    factor: float = 1.0

    @property
    def has_other_zeros(self) -> bool:
        """Whether the job's zeros differ from the tensor's."""
        return self.rounding.flushed > 0 or self.numbers is not None


@dataclass
class Operand:
    """A tensor as it was passed to the device.

    Parameters
    ----------
    name : str
        "A", "W" or "G".
    tensor : array or tensor
        The values.

    Raises
    ------
    TypeError
        If `tensor` is neither an array nor a tensor.
    """

    name: str
    tensor: Any
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        self.kind = type_of(self.name, self.tensor)

    @cached_property
    def array(self) -> NDArray:
        """The values as a NumPy array, or their bit patterns if NumPy lacks the type."""
        return plain(self.tensor)

    @cached_property
    def bits(self) -> NDArray:
        """Bit patterns of the tensor's own type."""
        array = self.array
        return array.view(f"u{array.dtype.itemsize}")

    @property
    def format(self) -> Format:
        """The format of the tensor's own type."""
        return _FORMATS[self.kind]

    @cached_property
    def non_zeros(self) -> NDArray[np.bool_]:
        """Positions of the tensor's non-zero values."""
        return non_zeros(self.bits, self.format)

    @cached_property
    def _scanned(self) -> tuple[int, int, int]:
        return _scan_values(self.bits, self.format)

    @cached_property
    def largest(self) -> float:
        """The largest magnitude of a finite value."""
        return abs(float(decode(np.array(self._scanned[0], f"u{self.bits.dtype.itemsize}"), self.format)))

    @property
    def zeros(self) -> int:
        """Zeros of either sign."""
        return self._scanned[1]

    @property
    def non_finite(self) -> int:
        return self._scanned[2]

    @cached_property
    def numbers(self) -> NDArray[np.float32]:
        """The values, exact in float32."""
        return self.array if self.kind == FLOAT32 else decode(self.bits, self.format)

    def exponent(self, fmt: Format, limit: int, scaling: Scaling) -> int:
        """Return the exponent of the power of two that multiplies the values before rounding to a format.

        Only float32 tensors are scaled. Automatic scaling chooses the largest power that keeps every finite value
        within the format's range and at or below ``2**limit``.
        """
        if self.kind != FLOAT32 or scaling == "none":
            return 0
        if isinstance(scaling, Mapping):
            return scaling.get(self.name, 0)
        if self.largest == 0:
            return 0
        if isinstance(fmt, IntegerFormat):
            maximum = (1 << fmt.width - 1) - 1.0
        else:
            maximum = math.ldexp(fmt.largest_units, fmt.least_exponent)
        significand, exponent = math.frexp(self.largest)
        max_significand, max_exponent = math.frexp(min(maximum, math.ldexp(1.0, limit)))
        return max_exponent - exponent - (significand > max_significand)

    def rounded(self, fmt: Format, exponent: int) -> RoundedOperand:
        """Return the values times ``2**exponent``, rounded to nearest even in a format. Integers saturate."""
        if self.kind == FLOAT32 and isinstance(fmt, IntegerFormat):
            return self._rounded_to_integers(fmt, exponent)
        if self.kind != FLOAT32:
            bits, (_, zeros, non_finite) = self.bits, self._scanned
        else:
            bits = encode(np.ascontiguousarray(self.array), fmt, exponent)
            _, zeros, non_finite = _scan_values(bits, fmt)
        saturated = non_finite - self.non_finite
        rounding = self.rounding(flushed=zeros - self.zeros, saturated=saturated, exponent=exponent)
        if non_finite == 0:
            return RoundedOperand(values=bits, rounding=rounding)
        numbers = self.numbers
        if saturated:
            numbers = np.where(np.isfinite(numbers) & ~is_finite(bits, fmt), decode(bits, fmt), numbers)
        finite = np.where(is_finite(bits, fmt), bits, bits.dtype.type(0))
        return RoundedOperand(values=finite, rounding=rounding, numbers=numbers)

    def _rounded_to_integers(self, fmt: IntegerFormat, exponent: int) -> RoundedOperand:
        half = 1 << (fmt.width - 1)
        with np.errstate(over="ignore"):
            exact = np.rint(np.ldexp(self.array.astype(np.float64), exponent))
        exact[~np.isfinite(self.array)] = 0
        integers = np.clip(exact, -half, half - 1)
        zeros = integers.size - int(np.count_nonzero(integers)) - self.non_finite
        rounding = self.rounding(
            flushed=zeros - self.zeros, saturated=int(np.count_nonzero(integers != exact)), exponent=exponent
        )
        bits = integers.astype(f"i{fmt.width // 8}").view(f"u{fmt.width // 8}")
        return RoundedOperand(values=bits, rounding=rounding, numbers=self.numbers if self.non_finite else None)

    def rounding(self, *, flushed: int, saturated: int | None = None, exponent: int = 0) -> Rounding:
        """Return the counts of the tensor's values and of the values that rounding changed."""
        return Rounding(
            values=self.bits.size,
            zeros=self.zeros,
            flushed=flushed,
            saturated=saturated,
            non_finite=self.non_finite,
            exponent=exponent,
        )


def _scan_values(bits: NDArray, fmt: Format) -> tuple[int, int, int]:
    """Return the bit pattern of the largest finite magnitude, and the numbers of zeros and of non-finite values."""
    flat = np.ascontiguousarray(bits).reshape(-1)
    if isinstance(fmt, IntegerFormat):
        magnitudes = np.abs(flat.view(f"i{fmt.width // 8}").astype(np.int64))
        return int(magnitudes.max(initial=0)), flat.size - int(np.count_nonzero(flat)), 0
    largest, zeros, non_finite = scan(flat, 1 << (fmt.width - 1), fmt.largest)
    return int(largest), int(zeros), int(non_finite)


def scaling_limit(tile: TileConfig, reduced: int) -> int:
    """Return the exponent of the bound on scaled values that keeps sums within the accumulator's range.

    Parameters
    ----------
    tile : TileConfig
        The tile.
    reduced : int
        Number of products in a sum.

    Examples
    --------
    >>> from tensordash import load_preset
    >>> scaling_limit(load_preset("paper-bf16"), 1 << 10)
    16
    """
    if tile.numerics.result == "int32":
        return (INT32.width - 1 - reduced.bit_length()) // 2
    accumulator = tile.numerics.accumulator
    bits = accumulator.result_exponent_bits if isinstance(accumulator, Fused) else 8
    largest = (1 << (bits - 1)) - 1
    return min(MAX_PRODUCT_EXPONENT, (largest - reduced.bit_length()) // 2)


def checked_operands(tensors: Mapping[str, Any], geometry: Geometry) -> dict[str, Operand]:
    """Return a layer's operands by name.

    Raises
    ------
    TypeError, ValueError
        If an operand is neither an array nor a tensor, or does not have the geometry's shape.
    """
    operands = {name: Operand(name, tensor) for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        if tuple(tensor.shape) != geometry.shapes[name]:
            raise ValueError(f"{name} must have the shape {geometry.shapes[name]}, not {tuple(tensor.shape)}")
    return operands


def checked_scaling(scaling: Scaling) -> Scaling:
    """Check the argument `scaling` of a device, and return it.

    Raises
    ------
    TypeError, ValueError
        If it is neither "auto" nor "none" nor a mapping of operands to exponents from -512 to 512.
    """
    allowed = 'scaling must be "auto", "none" or powers of two for A, W and G'
    if not isinstance(scaling, Mapping):
        if scaling not in SCALINGS:
            raise ValueError(f"{allowed}, not {scaling!r}")
        return scaling
    for name, power in scaling.items():
        if name not in ("A", "W", "G"):
            raise ValueError(f"{allowed}, not for {name!r}")
        if not isinstance(power, int) or isinstance(power, bool) or abs(power) > MAX_POWER:
            raise ValueError(f"scaling[{name!r}] must be an integer from -{MAX_POWER} to {MAX_POWER}, not {power!r}")
    return dict(scaling)
