"""Compare the generator of random bits with golden, and test converters with draws that nearly carry."""

import random

import pytest
from amaranth.hdl import Fragment
from amaranth.sim import Simulator

from tensordash.arithmetic.converter import Converter
from tensordash.arithmetic.random_bits import BEAT_BITS, RandomBits
from tensordash.arithmetic.result_converter import ResultConverter
from tensordash.configuration.formats import FORMATS, FloatFormat
from tensordash_sim.golden.numbers import round_fixed
from tensordash_sim.golden.random_bits import random_bits

SEEDS = (0, 0xFFFFFFFF, 1, 0x80000000, 0x9E3779B9)
ONE_EXPONENT = 127


def element(name: str) -> FloatFormat:
    fmt = FORMATS[name]
    assert isinstance(fmt, FloatFormat)
    return fmt


@pytest.mark.parametrize("columns", [1, 6])
def test_random_bits_match_golden(columns):
    """Seeds, steps and pauses vary, a start comes in any state, and the seed after a reset is 0."""
    generator, rng = RandomBits(columns=columns), random.Random(columns)
    simulator = Simulator(generator)
    simulator.add_clock(1e-9)

    async def compare(context):
        seed = beat = 0
        filling = 2
        for cycle in range(200):
            start, step = cycle % 40 == 39 or rng.random() < 0.05, not filling and rng.random() < 0.7
            next_seed = rng.choice(SEEDS)
            context.set(generator.start, start)
            context.set(generator.seed, next_seed)
            context.set(generator.step, step)
            assert context.get(generator.ready) == (not filling), f"cycle {cycle}"
            if not filling:
                drawn = [context.get(bits) for bits in generator.bits]
                assert drawn == random_bits(seed, beat, columns), f"cycle {cycle}"
            filling = max(filling - 1, 0)
            beat += step
            if start:
                seed, beat, filling = next_seed, 0, 2
            await context.tick()

    simulator.add_testbench(compare)
    simulator.run()


def test_beat_counter_carries():
    """The counter of beats is preset to run across each power of two."""
    generator = RandomBits(columns=4)
    fragment = Fragment.get(generator, None)
    driven = (signal for statement in fragment.statements["sync"] for signal in statement._lhs_signals())
    counter = next(signal for signal in driven if signal.name == "beat")
    simulator = Simulator(fragment)
    simulator.add_clock(1e-9)

    async def compare(context):
        context.set(generator.step, 1)
        for bit in range(2, BEAT_BITS):
            first = (1 << bit) - 3
            context.set(counter, first)
            await context.tick().repeat(2)  # Earlier beats leave the pipeline.
            for beat in range(first, first + 6):
                drawn = [context.get(bits) for bits in generator.bits]
                assert drawn == random_bits(0, beat, 4), f"beat {beat:#x}"
                await context.tick()

    simulator.add_testbench(compare)
    simulator.run()


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("of_results", [False, True])
def test_carries_depend_on_16_bits_only(name, of_results):
    """Draws fill the remainder's upper 16 bits, or exceed them by one. Lower bits have no effect."""
    fmt, rng = element(name), random.Random(name)
    converter = ResultConverter(fmt=fmt, relu=False, stochastic=True) if of_results else Converter(fmt=fmt)
    simulator = Simulator(converter)
    cut = 23 - fmt.fraction_bits

    async def compare(context):
        context.set(converter.stochastic, 1)
        if of_results:
            context.set(converter.offset, fmt.bias - ONE_EXPONENT)
        for _ in range(400):
            drawn = rng.getrandbits(16)
            cut_bits = min(cut + rng.randrange(0, 8), 23) if fmt.bias < ONE_EXPONENT else cut
            field = ONE_EXPONENT - (fmt.bias - 1 + cut_bits - cut if fmt.bias < ONE_EXPONENT else 0)
            upper_rest = (0xFFFF - drawn + rng.choice((0, 0, 1))) & 0xFFFF
            lower_rest = rng.getrandbits(max(cut_bits - 16, 0))
            fraction = rng.getrandbits(23) >> cut_bits << cut_bits | upper_rest << cut_bits >> 16 | lower_rest
            context.set(converter.value, field << 23 | fraction)
            context.set(converter.random, drawn)
            significand = fraction | 1 << 23
            golden = round_fixed(significand, field - ONE_EXPONENT - 23, fmt, "stochastic", drawn)
            found = context.get(converter.result) & ((1 << fmt.width) - 1)
            assert found == golden, f"{significand:#x} * 2**{field - 150}, draw {drawn:#x}"

    simulator.add_testbench(compare)
    simulator.run()
