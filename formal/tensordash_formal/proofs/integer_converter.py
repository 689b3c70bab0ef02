"""Results of integer sums: rounded, saturated or passed on, for all sums, scales and random bits, at their real width.

An int8 result is the sum's magnitude times the power of two, rounded to an integer in the selected mode and saturated,
with the sum's sign. An INT32 result is the sum. ReLU replaces negative sums by 0.
"""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value

from tensordash.arithmetic.integer_converter import IntegerConverter
from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import IntegerFormat
from tensordash.configuration.preset import load_any_preset

from ..harness import Fault, Harness
from ..proof import Proof, make_variants

__all__ = ["PROOF", "is_integer_core"]

RANDOM_BITS = 16


def is_integer_core(config: Any) -> bool:
    """Return whether a configuration is a core with integer operands."""
    return isinstance(config, CoreConfig) and config.tile.numerics.result == "int32"


def build(config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims (docs/core.md, "Integers").

    A scale below the places of a sum and of the random bits leaves nothing to round up. A scale above the result's bits
    saturates. So the claims limit the scale to these bounds.
    """
    fmt = config.tile.a_format
    assert isinstance(fmt, IntegerFormat)
    dut = IntegerConverter(width=fmt.width, relu=config.relu, stochastic=config.stochastic)
    harness, width = Harness(dut, fault=fault), fmt.width
    negative, places = dut.value < 0, dut.sum_bits + RANDOM_BITS
    magnitude, exact = Signal(dut.sum_bits), Signal(places + dut.sum_bits + width)
    up_places, down_places = Signal(range(width + 1)), Signal(range(places + 1))
    harness.m.d.comb += [
        magnitude.eq(Mux(negative, -dut.value, dut.value)),
        up_places.eq(Mux(dut.scale > 0, Mux(dut.scale > width, width, dut.scale), 0)),
        down_places.eq(Mux(dut.scale < 0, Mux(dut.scale < -places, places, -dut.scale), 0)),
        exact.eq((Cat(C(0, places), magnitude) << up_places) >> down_places),
    ]
    whole, rest = exact[places:], exact[:places]

    cleared = negative & dut.relu if config.relu else C(0)
    if config.relu:
        harness.claim("relu_clears_negative_sums", dut.result == 0, when=cleared)
    harness.claim("a_wide_result_is_the_sum", dut.result == dut.value.as_unsigned(), when=dut.wide & ~cleared)

    narrow = ~dut.wide & ~cleared
    stochastic = dut.stochastic & ~dut.toward_zero if config.stochastic else C(0)
    half = 1 << (places - 1)
    is_up = (rest > half) | ((rest == half) & whole[0])
    ups = {"nearest": (is_up, ~dut.toward_zero & ~stochastic), "toward_zero": (C(0), dut.toward_zero)}
    if config.stochastic:
        ups["stochastic"] = ((rest[-RANDOM_BITS:] + dut.random)[RANDOM_BITS], stochastic)
    for name, (up, when) in ups.items():
        rounded, limit = Signal(len(whole) + 1, name=f"rounded_{name}"), Signal(width, name=f"limit_{name}")
        harness.m.d.comb += [rounded.eq(whole + up), limit.eq((1 << (width - 1)) - ~negative)]
        fits = rounded <= limit
        harness.claim(f"rounded_{name}", dut.result == _signed(negative, rounded, width), when=narrow & when & fits)
        harness.claim("results_saturate", dut.result == _signed(negative, limit, width), when=narrow & when & ~fits)
    return harness


def _signed(negative: Value, magnitude: Value, width: int) -> Value:
    """Return a signed number in two's complement, with the result's width."""
    return Mux(negative, -magnitude, magnitude)[:width]


def _floor_of_ties(m: Module, sound: Any, outer: Any) -> None:
    with m.If((outer.value == -3) & (outer.scale == -1)):
        m.d.comb += sound.value.eq(-2)


def _toward_minus_infinity(m: Module, sound: Any, outer: Any) -> None:
    with m.If(outer.toward_zero & (outer.value[-8:] == 0xFF) & (outer.value != -1) & outer.value[0]):
        m.d.comb += sound.value.eq(outer.value - 1)


def _random_bits_of_negative_sums_are_inverted(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.random.eq(outer.random ^ outer.value[-1].replicate(RANDOM_BITS))


def _wraps(m: Module, sound: Any, outer: Any) -> None:
    with m.If((outer.scale == 0) & ~outer.wide & ~outer.relu):
        m.d.comb += outer.result.eq(outer.value[:8])


def _one_too_low(m: Module, sound: Any, outer: Any) -> None:
    with m.If(sound.result == 0x80):
        m.d.comb += outer.result.eq(0x81)


def _small_scales_count_as_larger_ones(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.scale.eq(Mux(outer.scale < -32, -31, outer.scale))


BROKEN_VARIANTS = make_variants(
    IntegerConverter,
    {
        "relu_clears_negative_sums": {
            "ReLU does not clear -1": lambda m, sound, outer: sound.relu.eq(outer.relu & (outer.value != -1))
        },
        "a_wide_result_is_the_sum": {
            "INT32 results are scaled": lambda m, sound, outer: sound.wide.eq(outer.wide & (outer.scale == 0))
        },
        "rounded_nearest": {
            "-1.5 is rounded to -1": _floor_of_ties,
            "scales below -32 count as -31": _small_scales_count_as_larger_ones,
        },
        "rounded_toward_zero": {"small negative sums are rounded down": _toward_minus_infinity},
        "rounded_stochastic": {"negative sums use inverted random bits": _random_bits_of_negative_sums_are_inverted},
        "results_saturate": {
            "unscaled sums wrap": _wraps,
            "results saturate at -127": _one_too_low,
        },
    },
    depth=2,
)

PROOF = Proof(
    name="integer_converter",
    build=build,
    applies=is_integer_core,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=2,
    broken_config=load_any_preset("core-int8"),
)
