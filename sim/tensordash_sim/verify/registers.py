"""Accumulators whose sums a bench sets: in the Verilog's register and in the golden model alike.

Operands alone take `2**headroom_bits` of the largest products to the top of an exact accumulator: 16,384 cycles of the
paper's PE. A register that is set goes on exactly as one that came there.
"""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from tensordash import TileConfig
from tensordash.configuration.formats import FP32
from tensordash.configuration.numerics import Fused

from ..golden import Accumulator, BinnedAccumulator, ExactAccumulator, FusedAccumulator, IntegerAccumulator

__all__ = ["REGISTER", "accumulator_in", "near_the_ends", "set_bins", "set_sum"]

REGISTER = "accumulated"
"""The register that holds an accumulator's sum, by its name in the Verilog: two's complement, bins, or FP32's upper
bits, and above them the marks of infinities and NaN."""


def accumulator_in(dut: Any, row: int, column: int) -> Any:
    """Return the accumulator of a PE of a tile in a simulation."""
    pe = getattr(dut, f"pe_{row}_{column}")
    return (pe if hasattr(pe, "accumulator") else pe.pe).accumulator


def set_sum(accumulator: Any, golden: Accumulator, number: int) -> None:
    """Make a number the sum so far, free of infinities and NaN.

    Parameters
    ----------
    accumulator : cocotb handle
        The component in the simulation.
    golden : Accumulator
        Its model.
    number : int
        The sum in units of the least bit; of a fused accumulator its FP32 bits, finite, not -0, and none below its
        result bits.
    """
    if isinstance(golden, FusedAccumulator):
        golden.bits = number
    else:
        assert isinstance(golden, ExactAccumulator | IntegerAccumulator)
        golden.total, golden.infinities = number, frozenset()
    getattr(accumulator, REGISTER).value = golden.block_bits()


def set_bins(accumulator: Any, golden: BinnedAccumulator, top: int, sums: Mapping[int, int]) -> None:
    """Make bins the sum so far, free of infinities and NaN.

    Parameters
    ----------
    accumulator : cocotb handle
        The component in the simulation.
    golden : BinnedAccumulator
        Its model.
    top : int
        Number of the top bin.
    sums : mapping of int to int
        What the registers of bins hold, by the bins' numbers.
    """
    golden.top, golden.sums, golden.infinities = top, dict(sums), frozenset()
    getattr(accumulator, REGISTER).value = golden.block_bits()


def near_the_ends(random: Random, config: TileConfig, golden: Accumulator, added: int) -> Iterator[int]:
    """Sums to set so that the next one, `added` more, lies around the accumulator's ends.

    Of an exact accumulator: the last sum within the range and the first one beyond, at both ends; and a sum of each
    binade of the headroom, of either sign. Of a fused one: its largest numbers.

    Parameters
    ----------
    random : Random
        Chooses what lies below a binade's first bit.
    config : TileConfig
        The tile.
    golden : Accumulator
        Gives the width.
    added : int
        What the next products come to.
    """
    if isinstance(golden, FusedAccumulator):
        accumulator = config.numerics.accumulator
        assert isinstance(accumulator, Fused)
        cut = FP32.fraction_bits - accumulator.result_bits
        # FP32's bits of the largest finite number, or a few more, and of one in the same binade.
        top = FP32.bias - 1 + (1 << (accumulator.result_exponent_bits - 1))
        largest = (top + 1 << FP32.fraction_bits) - 1
        for sign in (0, 1 << 31):
            for number in (largest, largest - random.getrandbits(23)):
                yield sign | number >> cut << cut
        return
    assert isinstance(golden, ExactAccumulator | IntegerAccumulator)
    half = 1 << (golden.width - 1)
    for end in (half - 1, half, -half, -half - 1):
        number = end - added
        if -half <= number < half:
            yield number
    headroom = config.numerics.accumulator.headroom_bits  # type: ignore[union-attr]
    for binade in range(golden.width - 2 - headroom, golden.width - 1):
        magnitude = 1 << binade | random.getrandbits(binade)
        yield min(magnitude, half - 1)
        yield -magnitude
