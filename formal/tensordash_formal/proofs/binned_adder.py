"""Adders of binned sums: for all partial sums, biases and sums, bin by bin, at their real width.

Each bin of the total is the sum of the two bins with the same number. A bin that an operand does not hold counts as
zero. Overflow is set if and only if a bin of the total leaves its range. Sums and biases may have any pattern.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal, Value, signed
from amaranth.lib.data import View

from tensordash.arithmetic.binned_adder import BinnedAdder
from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.numerics import Binned
from tensordash.configuration.preset import load_any_preset
from tensordash.layouts import BinnedShape

from ..harness import Fault, Harness
from ..proof import Proof, make_variants

__all__ = ["PROOF", "is_binned_core"]


def is_binned_core(config: Any) -> bool:
    """Return whether a configuration is a core with binned accumulators."""
    return isinstance(config, CoreConfig) and isinstance(config.tile.numerics.accumulator, Binned)


def build(config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims (docs/core.md, "Binned sums").

    The row adder gates the bias with the complement of the adder's `add`.
    """
    dut = BinnedAdder(numerics=config.tile.numerics, biased=config.bias)
    harness, shape = Harness(dut, fault=fault), dut.shape
    left, right, carry = dut.sum.as_value(), Mux(dut.add, dut.partial.as_value(), 0), Const(0, 1)
    if config.bias:
        bias = dut.bias.as_value()
        harness.assume(~dut.add | ~(bias.any() | dut.carry))
        left = Mux(dut.second_pass, dut.earlier.as_value(), left)
        right, carry = Mux(dut.add, right, bias), dut.carry
    first, second, total = (
        _held(harness, shape, value, name)
        for value, name in ((left, "left"), (right, "right"), (dut.total.as_value(), "total"))
    )
    larger = Mux(first.top > second.top, first.top, second.top)
    harness.claim("the_top_bin_is_the_larger_one", total.top == larger)
    leaves = []
    for place in range(shape.bins):
        number = Signal(signed(shape.top_bits + 2), name=f"number_{place}")
        harness.m.d.comb += number.eq(larger - (shape.bins - 1 - place))
        both = Signal(signed(shape.bin_width + 2), name=f"both_{place}")
        holds = _holds(shape, second, number)
        harness.m.d.comb += both.eq(_digit(shape, first, number) + _digit(shape, second, number) + (carry & holds))
        wrapped = both[: shape.bin_width].as_signed()
        harness.claim("each_bin_is_the_sum_of_both", total.bins[place] == wrapped)
        leaves.append(both != wrapped)
    overflows = reduce(or_, leaves)
    harness.claim("overflow_where_a_bin_leaves_its_range", dut.overflow, when=overflows)
    harness.claim("no_overflow_elsewhere", ~dut.overflow, when=~overflows)
    marks = left[-2:] | right[-2:]
    harness.claim("infinities_pass", dut.total.as_value()[-2:] == marks, when=marks.any())
    harness.claim("numbers_stay_numbers", ~dut.total.as_value()[-2:].any(), when=~marks.any())
    return harness


def _held(harness: Harness, shape: BinnedShape, value: Value, name: str) -> View:
    """Return the bins and the top bin of a sum."""
    held = Signal(shape.layout, name=f"{name}_sum")
    harness.m.d.comb += held.as_value().eq(value[: shape.width])
    return held


def _holds(shape: BinnedShape, held: View, number: Value) -> Value:
    """Return whether a sum holds the bin with a number."""
    return (number <= held.top) & (number + shape.bins > held.top)


def _digit(shape: BinnedShape, held: View, number: Value) -> Value:
    """Return the content of the bin with a number, or 0 if the sum does not hold it."""
    digit: Value = Const(0, signed(shape.bin_width))
    for place in range(shape.bins):
        digit = Mux(number + (shape.bins - 1 - place) == held.top, held.bins[place], digit)
    return digit


def _first_top(m: Module, sound: Any, outer: Any) -> None:
    """Give every total the top bin of the sum."""
    shape = outer.shape
    top = slice(shape.bins * shape.bin_width, shape.width)
    m.d.comb += outer.total.number[top].eq(sound.sum.number[top])


def _no_high_bit_of_the_lowest_bin(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.partial.number[outer.shape.bin_width - 1].eq(0)


def _overflow_of_all_negative_bins(m: Module, sound: Any, outer: Any) -> None:
    width = outer.shape.bin_width
    signs = [sound.total.number[width * (place + 1) - 1] for place in range(outer.shape.bins)]
    m.d.comb += outer.overflow.eq(sound.overflow | (reduce(or_, signs) & sound.carry))


def _one_mark_is_lost(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.total.negative.eq(sound.total.negative & ~outer.partial.negative)


def _marks_of_what_is_not_added(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.total.positive.eq(sound.total.positive | outer.partial.positive)


BROKEN_VARIANTS = make_variants(
    BinnedAdder,
    {
        "the_top_bin_is_the_larger_one": {"a total always has the top bin of the sum": _first_top},
        "each_bin_is_the_sum_of_both": {
            "digits of negative biases are too small by one": lambda m, sound, outer: sound.carry.eq(0),
            "the lowest bin of a partial sum has no sign": _no_high_bit_of_the_lowest_bin,
            "a bias is never added to an earlier total": lambda m, sound, outer: sound.second_pass.eq(0),
        },
        "overflow_where_a_bin_leaves_its_range": {
            "a bias never overflows": lambda m, sound, outer: outer.overflow.eq(sound.overflow & outer.add)
        },
        "no_overflow_elsewhere": {"negative bins overflow when a bias is added": _overflow_of_all_negative_bins},
        "infinities_pass": {"an infinity of a partial sum is lost": _one_mark_is_lost},
        "numbers_stay_numbers": {"marks of partial sums count even if not added": _marks_of_what_is_not_added},
    },
    depth=2,
)

PROOF = Proof(
    name="binned_adder",
    build=build,
    applies=is_binned_core,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=2,
    broken_config=load_any_preset("core-bf16"),
)
