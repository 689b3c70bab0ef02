"""Set accumulators' sums in a simulation, in the Verilog's register and in the golden model.

By operands alone, an exact accumulator reaches its upper end after `2**headroom_bits` of the largest products: 16,384
cycles of the paper's PE. Setting the register reaches the same state at once.
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
"""Name of an accumulator's sum register in the Verilog. It holds two's complement, bins, or FP32's upper bits; the
marks of infinities and NaN are above them."""


def accumulator_in(dut: Any, row: int, column: int) -> Any:
    """Return the accumulator of a PE of a tile in a simulation."""
    pe = getattr(dut, f"pe_{row}_{column}")
    return (pe if hasattr(pe, "accumulator") else pe.pe).accumulator


def set_sum(accumulator: Any, golden: Accumulator, number: int) -> None:
    """Set the sum to a number, without infinities and NaN.

    Parameters
    ----------
    accumulator : cocotb handle
        The component in the simulation.
    golden : Accumulator
        Its model.
    number : int
        The sum in units of the least bit. For a fused accumulator, the sum's FP32 bits: finite, not -0, and without
        fraction bits below the accumulator's result bits.
    """
    if isinstance(golden, FusedAccumulator):
        golden.bits = number
    else:
        assert isinstance(golden, ExactAccumulator | IntegerAccumulator)
        golden.total, golden.infinities = number, frozenset()
    getattr(accumulator, REGISTER).value = golden.block_bits()


def set_bins(accumulator: Any, golden: BinnedAccumulator, top: int, sums: Mapping[int, int]) -> None:
    """Set the sum to bins, without infinities and NaN.

    Parameters
    ----------
    accumulator : cocotb handle
        The component in the simulation.
    golden : BinnedAccumulator
        Its model.
    top : int
        Number of the top bin.
    sums : mapping of int to int
        Content of the bins' registers, by the bins' numbers.
    """
    golden.top, golden.sums, golden.infinities = top, dict(sums), frozenset()
    getattr(accumulator, REGISTER).value = golden.block_bits()


def near_the_ends(random: Random, config: TileConfig, golden: Accumulator, added: int) -> Iterator[int]:
    """Yield sums to set such that adding `added` ends near the limits of the accumulator's range.

    For an exact accumulator, the results are the last sum in the range and the first one outside, at both ends.
    The sums also include one per binade of the headroom and sign. For a fused accumulator, the sums are its largest
    numbers.

    Parameters
    ----------
    random : Random
        Source of the bits below a binade's leading bit.
    config : TileConfig
        The tile.
    golden : Accumulator
        The accumulator's model, which defines the width.
    added : int
        Sum of the next products.
    """
    if isinstance(golden, FusedAccumulator):
        accumulator = config.numerics.accumulator
        assert isinstance(accumulator, Fused)
        cut = FP32.fraction_bits - accumulator.result_bits
        # FP32 bits of the largest finite number before `cut`, and of a random number in the same binade.
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
