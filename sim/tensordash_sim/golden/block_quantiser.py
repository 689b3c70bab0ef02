"""The block quantiser: FP32 numbers as elements of 32 that share a power of two."""

from collections.abc import Sequence
from typing import NamedTuple

from tensordash.configuration.formats import FP32, SCALES, FloatFormat

from .numbers import Kind, decode, round_fixed

__all__ = ["BlockQuantiser", "QuantiserOutputs", "quantised_block"]

Step = tuple[tuple[int, ...], int]
ROUNDINGS = ("nearest", "stochastic", "zero")
BLOCK = 32
NAN, BIAS = SCALES["e8m0"].nan, SCALES["e8m0"].bias
MASK = (1 << 32) - 1


def quantised_block(
    values: Sequence[int], fmt: FloatFormat, rounding: str = "nearest", random: Sequence[int] = ()
) -> Step:
    """Elements and scale of a block of FP32 numbers.

    Parameters
    ----------
    values : sequence of int
        Bit patterns. Subnormal ones count as zeros.
    fmt : FloatFormat
        Of the elements.
    rounding : "nearest", "zero" or "stochastic"
        Of elements.
    random : sequence of int
        16 bits for each value, if it is stochastic.

    Returns
    -------
    tuple of int, int
        Bit patterns.

    Source
    ------
    OCP Microscaling Formats (MX) Specification 1.0, section 6.3; docs/numerics.md, "Quantisation".

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> quantised_block([0x40E00000, 0x3E99999A, 0xC019999A, 0], FORMATS["fp4_e2m1"])  # 7, 0.3, -2.4
    ((7, 1, 12, 0), 127)
    """
    numbers = [decode(bits, FP32) for bits in values]
    if any(number.kind in (Kind.NAN, Kind.INFINITE) for number in numbers):
        return (0,) * len(values), NAN
    normal = [number.kind is Kind.NORMAL for number in numbers]
    top = decode(fmt.largest, fmt)
    # Exponents of leading bits.
    most = top.exponent + top.significand.bit_length() - 1
    exponents = [n.exponent + n.significand.bit_length() - 1 for n, there in zip(numbers, normal, strict=True) if there]
    scale = max(max(exponents) - most + BIAS, 0) if exponents else 0
    elements = []
    for k, (number, there) in enumerate(zip(numbers, normal, strict=True)):
        sign = number.sign << (fmt.width - 1)
        magnitude = 0
        if there:
            bits = random[k] if rounding == "stochastic" else 0
            magnitude = round_fixed(number.significand, number.exponent - (scale - BIAS), fmt, rounding, bits)
        elements.append(sign | min(magnitude, fmt.largest))
    return tuple(elements), scale


class QuantiserOutputs(NamedTuple):
    """What is visible at the ports in a cycle; `out_step` is None where `out_valid` is false."""

    in_ready: bool
    out_valid: bool
    out_step: Step | None


class BlockQuantiser:
    """Takes blocks of 32 FP32 numbers, some of them a cycle, and gives them quantised, as many a cycle.

    *Timing*: the first beat of a block can leave in the cycle after its last one entered. Then one beat leaves and one
    enters in every cycle in which both sides allow it, with no bubble between blocks: a beat enters where one of the
    block before has left, or leaves in this cycle.

    Parameters
    ----------
    fmt : FloatFormat
        Of the elements.
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

    def __init__(self, fmt: FloatFormat, lanes: int) -> None:
        self.fmt, self.lanes = fmt, lanes
        self._states = [0] * lanes
        self.reset()

    def reset(self) -> None:
        """Become empty; generators go on."""
        self._entered: list[int] = []
        self._resident: list[int] = []
        self._block: list[int] = []  # what is resident, with what has left

    def start(self, seed: int) -> None:
        """What generators have in the next cycle: xorshift32, as docs/core.md has them for columns."""
        self._states = [(seed ^ (lane + 1) * 0x9E3779B9 & MASK) or 1 for lane in range(self.lanes)]

    def cycle(
        self, in_valid: bool, values: Sequence[int] | None, out_ready: bool, rounding: int = 0
    ) -> QuantiserOutputs:
        """One clock cycle.

        Parameters
        ----------
        in_valid : bool
            A beat is offered.
        values : sequence of int, (lanes,)
            FP32 bit patterns; not looked at unless `in_valid`.
        out_ready : bool
            The beat that is offered at the output is taken.
        rounding : int
            0 to nearest, 1 stochastically, 2 toward zero.

        Returns
        -------
        QuantiserOutputs
            The ports before the clock edge.
        """
        there = bool(self._resident)
        left = BLOCK - len(self._resident) + (self.lanes if out_ready else 0)
        in_ready = not there or len(self._entered) < left
        step = None
        if there:
            gone = BLOCK - len(self._resident)
            drawn = [0] * gone + [self._next(state) & 0xFFFF for state in self._states]
            drawn += [0] * (BLOCK - len(drawn))
            elements, scale = quantised_block(self._block, self.fmt, ROUNDINGS[rounding], drawn)
            step = elements[gone : gone + self.lanes], scale
            if out_ready:
                self._states = [self._next(state) for state in self._states]
                self._resident = self._resident[self.lanes :]
        if in_valid and in_ready:
            self._entered += values or []
            if len(self._entered) == BLOCK:
                self._block = self._resident = self._entered
                self._entered = []
        return QuantiserOutputs(in_ready, there, step)

    @staticmethod
    def _next(x: int) -> int:
        x ^= x << 13 & MASK
        x ^= x >> 17
        return x ^ x << 5 & MASK
