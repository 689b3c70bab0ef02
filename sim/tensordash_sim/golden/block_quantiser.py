"""The block quantiser: rounds blocks of 32 FP32 numbers to elements that share a power of two."""

from collections.abc import Sequence
from typing import NamedTuple

from tensordash.configuration.formats import FP32, SCALES, FloatFormat

from .numbers import Decoded, Kind, decode, round_fixed
from .random_bits import random_bits

__all__ = ["BlockQuantiser", "QuantiserOutputs", "quantised_block"]

Step = tuple[tuple[int, ...], int]
ROUNDINGS = ("nearest", "stochastic", "zero")
BLOCK = 32
NAN = SCALES["e8m0"].nan
BIAS = SCALES["e8m0"].bias
FILL_CYCLES = 2


def quantised_block(
    values: Sequence[int],
    fmt: FloatFormat,
    rounding: str = "nearest",
    random: Sequence[int] = (),
    *,
    scale_rounding: str = "floor",
) -> Step:
    """Return the elements and the scale of a block of FP32 numbers.

    Parameters
    ----------
    values : sequence of int
        Bit patterns. Subnormal numbers count as zeros.
    fmt : FloatFormat
        Format of the elements.
    rounding : "nearest", "zero" or "stochastic"
        Rounding of the elements.
    random : sequence of int
        16 bits for each value, for stochastic rounding.
    scale_rounding : "floor" or "up"
        Rounding of the scale. "floor": the exponent of the largest magnitude minus the exponent of the largest element.
        "up": the smallest power of two with which no element exceeds the largest one.

    Returns
    -------
    tuple of int, int
        Bit patterns of the elements and of the scale.

    Source
    ------
    OCP Microscaling Formats (MX) Specification 1.0, section 6.3; docs/numerics.md, "Quantisation".

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> quantised_block([0x40E00000, 0x3E99999A, 0xC019999A, 0], FORMATS["fp4_e2m1"])  # 7, 0.3, -2.4
    ((7, 1, 12, 0), 127)
    """
    scale = _scale(values, fmt, scale_rounding)
    return _elements(values, scale, fmt, rounding, random), scale


def _scale(values: Sequence[int], fmt: FloatFormat, scale_rounding: str) -> int:
    """Return the scale of a block."""
    numbers = [decode(bits, FP32) for bits in values]
    if any(number.kind in (Kind.NAN, Kind.INFINITE) for number in numbers):
        return NAN
    found, top = [number for number in numbers if number.kind is Kind.NORMAL], decode(fmt.largest, fmt)
    if not found:
        return 0
    # Exponents of leading bits.
    power = max(number.exponent + number.significand.bit_length() for number in found)
    power -= top.exponent + top.significand.bit_length()
    if scale_rounding == "up":
        power += any(_exceeds(number, top, power) for number in found)
    return max(power + BIAS, 0)


def _elements(
    values: Sequence[int], scale: int, fmt: FloatFormat, rounding: str, random: Sequence[int]
) -> tuple[int, ...]:
    """Divide numbers by their scale and round them to elements."""
    elements = []
    for k, bits in enumerate(values):
        number, magnitude = decode(bits, FP32), 0
        if scale == NAN:
            elements.append(0)
            continue
        if number.kind is Kind.NORMAL:
            drawn = random[k] if rounding == "stochastic" else 0
            magnitude = round_fixed(number.significand, number.exponent - (scale - BIAS), fmt, rounding, drawn)
        elements.append(number.sign << (fmt.width - 1) | min(magnitude, fmt.largest))
    return tuple(elements)


def _exceeds(number: Decoded, top: Decoded, power: int) -> bool:
    """Return whether a magnitude is larger than the largest element times a power of two."""
    places = number.exponent - top.exponent - power
    significand, limit = number.significand, top.significand
    return significand << max(places, 0) > limit << max(-places, 0)


class QuantiserOutputs(NamedTuple):
    """Outputs of one cycle; `out_step` is None if `out_valid` is false."""

    in_ready: bool
    out_valid: bool
    out_step: Step | None


class BlockQuantiser:
    """Quantises blocks of 32 FP32 numbers; takes and returns `lanes` of them per cycle.

    *Timing*: the first beat of a block can leave in the cycle after its last beat has entered. From then on, one beat
    leaves and one enters in every cycle in which both sides allow it, with no bubble between blocks. A beat enters the
    place of a beat of the previous block that has left or leaves in this cycle.

    Parameters
    ----------
    fmt : FloatFormat
        Format of the elements.
    lanes : int
        Values of a beat.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> quantiser = BlockQuantiser(FORMATS["fp4_e2m1"], lanes=16)
    >>> for _ in range(2):
    ...     ports = quantiser.cycle(True, 16 * [0x3F800000], True)
    >>> quantiser.cycle(False, None, True).out_step  # 4 * 2**-2
    ((6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6), 125)
    """

    def __init__(self, fmt: FloatFormat, lanes: int, scale_rounding: str = "floor") -> None:
        self.fmt, self.lanes, self.scale_rounding = fmt, lanes, scale_rounding
        self.reset()

    def reset(self) -> None:
        """Become empty; random bits restart with seed 0."""
        self._entered: list[int] = []
        self._resident: list[int] = []
        self._scale = 0
        self.start(0)

    def start(self, seed: int) -> None:
        """Restart the random bits with this seed from the next cycle on."""
        self._seed, self._beat, self._filling = seed, 0, FILL_CYCLES

    def bits_of_next_block(self) -> list[int]:
        """Return the random bits for the next block to enter, if no block is partly entered and no restart follows."""
        ahead = (len(self._resident) + len(self._entered)) // self.lanes
        beats = range(self._beat + ahead, self._beat + ahead + BLOCK // self.lanes)
        return [bits for beat in beats for bits in random_bits(self._seed, beat, self.lanes)]

    def cycle(
        self, in_valid: bool, values: Sequence[int] | None, out_ready: bool, rounding: int = 0
    ) -> QuantiserOutputs:
        """Simulate one clock cycle.

        Parameters
        ----------
        in_valid : bool
            A beat is offered.
        values : sequence of int, (lanes,)
            FP32 bit patterns; ignored unless `in_valid`.
        out_ready : bool
            The consumer takes the beat at the output.
        rounding : int
            0: to nearest, 1: stochastic, 2: toward zero.

        Returns
        -------
        QuantiserOutputs
            The ports before the clock edge.
        """
        is_offered = bool(self._resident) and not self._filling
        leaves = is_offered and out_ready
        left = BLOCK - len(self._resident) + (self.lanes if leaves else 0)
        in_ready = not self._resident or len(self._entered) < left
        self._filling = max(self._filling - 1, 0)
        step = None
        if is_offered:
            drawn = random_bits(self._seed, self._beat, self.lanes)
            beat = self._resident[: self.lanes]
            step = _elements(beat, self._scale, self.fmt, ROUNDINGS[rounding], drawn), self._scale
        if leaves:
            self._beat += 1
            self._resident = self._resident[self.lanes :]
        if in_valid and in_ready:
            self._entered += values or []
            if len(self._entered) == BLOCK:
                self._scale = _scale(self._entered, self.fmt, self.scale_rounding)
                self._resident, self._entered = self._entered, []
        return QuantiserOutputs(in_ready, is_offered, step)
