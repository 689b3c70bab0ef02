"""Compare a core's adders and converters of integer sums with the golden core."""

import random

import pytest

from tensordash.arithmetic.integer_adder import IntegerAdder
from tensordash.arithmetic.integer_converter import IntegerConverter
from tensordash.configuration.formats import FORMATS
from tensordash_sim.golden.core.results import integer_result_bits

from .test_binned_adder import simulate

ENDS = (0, 1, 127, 128, 129, 255, 256, (1 << 31) - 1, 1 << 31)
MODES: tuple[dict[str, int], ...] = (
    {},
    {"toward_zero": 1},
    {"stochastic": 1},
    {"stochastic": 1, "toward_zero": 1},
    {"fp32": 1},
    {"relu": 1},
)


def draw_sum(rng: random.Random) -> int:
    """Draw a sum with any number of bits, or near an end of a range."""
    magnitude = rng.choice((rng.choice(ENDS), rng.getrandbits(rng.randint(1, 31))))
    return max(-(1 << 31), min(rng.choice((1, -1)) * magnitude + rng.randint(-1, 1), (1 << 31) - 1))


@pytest.mark.parametrize("scale", [-128, -49, -48, -47, -33, -32, -31, -24, *range(-17, 0, 3), -1, 0, 1, 7, 8, 9, 127])
def test_results(scale):
    dut, rng, int8 = IntegerConverter(width=8, relu=True, stochastic=True), random.Random(scale), FORMATS["int8"]

    async def check(context):
        context.set(dut.scale, scale)
        for turn in range(120):
            fields = {"fp32": 0, "relu": 0, "mask": 0, "stochastic": 0, "toward_zero": 0, **MODES[turn % len(MODES)]}
            tie = (2 * rng.getrandbits(7) + 1) << max(0, -scale - 1)
            value = rng.choice((tie, -tie)) if turn % 7 == 0 and tie < 1 << 31 else draw_sum(rng)
            drawn = rng.choice((0, (1 << 16) - 1, rng.getrandbits(16)))
            context.set(dut.value, value)
            context.set(dut.wide, fields["fp32"])
            for name in ("relu", "stochastic", "toward_zero"):
                context.set(getattr(dut, name), fields[name])
            context.set(dut.random, drawn)
            expected = integer_result_bits(
                value % (1 << 32), {**fields, "scale": scale}, int8, masked=False, random=drawn
            )
            assert context.get(dut.result) == expected, (value, fields, drawn)

    simulate(dut, check)


@pytest.mark.parametrize("biased", [False, True])
def test_sums(biased):
    """Add a partial sum, a bias, or a bias and an earlier total, modulo 2^32, and report an overflow."""
    dut, rng = IntegerAdder(biased=biased), random.Random(biased)

    async def check(context):
        for turn in range(600):
            first, second, other = (draw_sum(rng) for _ in range(3))
            adds, is_second = turn % 2, biased and turn % 4 == 2
            context.set(dut.sum, other if is_second else first)
            context.set(dut.partial, second)
            context.set(dut.add, adds)
            if biased:
                context.set(dut.second_pass, is_second)
                context.set(dut.earlier, first if is_second else other)
                context.set(dut.bias, 0 if adds else second)
            total = first + (second if adds or biased else 0)
            wrapped = (total + (1 << 31)) % (1 << 32) - (1 << 31)
            assert (context.get(dut.total), context.get(dut.overflow)) == (wrapped, total != wrapped)

    simulate(dut, check)
