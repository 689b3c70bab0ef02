"""Biases of binned sums: each FP32 pattern is converted to the digits of a binned sum.

The number is written as a multiple of 2^G (docs/numerics.md). Bin k has the binary places from `bin_bits * k` on.
Places below 2^G are dropped. A number above the bins of all products becomes an infinity.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.data import View

from tensordash.arithmetic.binned_bias import BinnedBias
from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FP32
from tensordash.configuration.preset import load_any_preset

from ..harness import Fault, Harness
from ..proof import Proof, make_variants
from .binned_adder import is_binned_core

__all__ = ["PROOF"]


def build(config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims (docs/core.md, "Binned sums")."""
    dut = BinnedBias(config.tile.numerics)
    harness, shape = Harness(dut, fault=fault), dut.shape
    fraction, field, sign = dut.value[: FP32.fraction_bits], dut.value[FP32.fraction_bits : -1], dut.value[-1]
    exponent = Signal(FP32.exponent_bits, name="exponent")  # biased, as in FP32
    wide = Signal(FP32.significand_bits + (1 << FP32.exponent_bits), name="wide")
    place = Signal(signed(12), name="place")
    harness.m.d.comb += [
        exponent.eq(Mux(field == 0, 1, field)),
        wide.eq(Cat(fraction, field != 0) << exponent),
        place.eq(exponent - FP32.bias - shape.unit),
    ]
    # The lowest place of `wide`, counted from the unit.
    first = -FP32.bias - FP32.fraction_bits - shape.unit
    units = Cat(Const(0, first), wide) if first >= 0 else wide[-first:]
    places = (shape.max_top + 1) * shape.bin_bits
    padded = Cat(units, Const(0, places))[:places]
    digits = Array(padded[k * shape.bin_bits : (k + 1) * shape.bin_bits] for k in range(shape.max_top + 1))

    number = View(shape.layout, dut.aligned.number)
    special, nan = field == (1 << FP32.exponent_bits) - 1, fraction != 0
    beyond = special | (place >= places)
    counts = dut.enable & ~beyond & (place >= 0) & ((field != 0) | (fraction != 0))
    top = Signal(shape.top_bits, name="top")
    harness.m.d.comb += top.eq(Mux(counts, place // shape.bin_bits, 0))
    harness.claim("the_top_bin_has_the_highest_place", number.top == top, when=counts)
    for below in range(shape.bins):
        digit = Signal(shape.bin_bits, name=f"digit_{below}")
        harness.m.d.comb += digit.eq(Mux(top < below, 0, digits[top - below]))
        held = number.bins[shape.bins - 1 - below] + dut.carry
        harness.claim("each_bin_has_its_digit", held == Mux(sign, -digit, digit), when=counts)
    harness.claim("nothing_else_has_digits", ~(dut.aligned.number.any() | dut.carry), when=~counts)
    infinite = dut.enable & beyond
    marks = Cat(dut.aligned.positive, dut.aligned.negative)
    harness.claim("infinities_are_marked", marks == Mux(sign, 2, 1), when=infinite & ~(special & nan))
    harness.claim("nan_is_marked", marks == 3, when=infinite & special & nan)
    harness.claim("numbers_are_not_marked", marks == 0, when=~infinite)
    return harness


def _no_payload(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.aligned.negative.eq(outer.value[-1] & sound.aligned.negative)


def _large_is_infinite(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.aligned.positive.eq(sound.aligned.positive | (outer.enable & outer.value[24:31].all()))


BROKEN_VARIANTS = make_variants(
    BinnedBias,
    {
        "the_top_bin_has_the_highest_place": {
            "all exponents are odd": lambda m, sound, outer: sound.value[FP32.fraction_bits].eq(1)
        },
        "each_bin_has_its_digit": {
            "digits of negative numbers are too small by one": lambda m, sound, outer: outer.carry.eq(0),
            "the lowest bit of a number is lost": lambda m, sound, outer: sound.value[0].eq(0),
        },
        "nothing_else_has_digits": {
            "a bias counts even if it is not enabled": lambda m, sound, outer: sound.enable.eq(1)
        },
        "infinities_are_marked": {"infinities have no sign": lambda m, sound, outer: sound.value[-1].eq(0)},
        "nan_is_marked": {"a NaN whose sign bit is 0 becomes +infinity": _no_payload},
        "numbers_are_not_marked": {"the largest numbers become infinities": _large_is_infinite},
    },
    depth=2,
)

PROOF = Proof(
    name="binned_bias",
    build=build,
    applies=lambda config: is_binned_core(config) and config.bias,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=2,
    broken_config=load_any_preset("core-bf16"),
)
