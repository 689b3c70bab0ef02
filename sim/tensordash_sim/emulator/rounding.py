"""Compiled rounding: a magnitude and a power of two as a bit pattern of any format."""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["bit_length", "round_magnitude"]

HALF = np.uint64(1 << 63)


@intrinsic
def _leading_zeros(typingctx, bits):
    """Of 64 bits, one instruction: nothing in Numba's reach does it."""

    def generate(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@njit(cache=True, nogil=True)
def bit_length(magnitude):
    """As int's; of a uint64."""
    return 64 - np.int64(_leading_zeros(magnitude))


@njit(cache=True, nogil=True)
def round_magnitude(magnitude, exponent, fraction_bits, least_exponent, beyond, nearest):
    """Round ``magnitude * 2**exponent`` to the pattern of a format without its sign (IEEE 754-2019, section 4.3).

    `magnitude` is a uint64. Bits that were cut off below it may be marked in its lowest bit, if its highest one is set.
    `beyond` is the pattern of what is too large. Rounded to nearest, ties to even, or toward zero.
    """
    if magnitude == 0:
        return 0
    # The result's least bit: as many significant bits as the format has, but never below the subnormals' bit.
    least = max(exponent + bit_length(magnitude) - fraction_bits - 1, least_exponent)
    shift = least - exponent
    if shift <= 0:
        significand = np.int64(magnitude << np.uint64(-shift))
    elif shift > 64:
        significand = 0  # below a quarter of the least bit
    else:
        significand = np.int64(magnitude >> np.uint64(shift - 1) >> np.uint64(1))
        rest = magnitude << np.uint64(64 - shift)
        if nearest and (rest > HALF or (rest == HALF and significand & 1)):
            significand += 1
    # The hidden bit, where there is one, adds 1 to the exponent field, and a significand rounded up to 2 another 1.
    return min(((least - least_exponent) << fraction_bits) + significand, beyond)
