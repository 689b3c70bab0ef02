"""Compare products and sums in formats of 6 and 4 bits with ml_dtypes."""

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Value
from amaranth.sim import Simulator

from tensordash import TileConfig
from tensordash.arithmetic.multiplier import Multiplier
from tensordash.configuration.formats import FORMATS, FloatFormat
from tensordash.configuration.numerics import ACCUMULATORS, Fused
from tensordash_sim.emulator import matrix_product
from tensordash_sim.golden import make_accumulator
from tensordash_sim.verify import Replayer, simulator_names

from .dot_cases import dot_cases
from .format_values import table
from .reference_dots import exact_dot, fused_dot

NARROW = ("fp6_e2m3", "fp6_e3m2", "fp4_e2m1")
PAIRS = list(product(NARROW, NARROW))
WIDER = [("fp8_e4m3", "fp4_e2m1"), ("fp6_e3m2", "fp8_e5m2"), ("fp16", "fp4_e2m1")]
FUSED = {"hopper": Fused(25, "zero"), "narrow": Fused(10, "nearest"), "after": ACCUMULATORS["blackwell-fp8"]}
QUICK = (("fp6_e2m3", "fp6_e3m2"), ("fp4_e2m1", "fp4_e2m1"))
"""Nightly tests cover the other formats."""


def nightly_unless_quick(names: tuple[str, str]) -> Any:
    return pytest.param(names, marks=[] if names in QUICK else pytest.mark.slow, id="-".join(names))


pairs_of_formats = pytest.mark.parametrize("names", [nightly_unless_quick(names) for names in PAIRS])


def config_of(names: tuple[str, str], **more) -> TileConfig:
    return TileConfig(format=dict(zip("ab", names, strict=True)), **more)


def patterns(name: str) -> np.ndarray:
    return np.arange(1 << FORMATS[name].width, dtype=np.uint8)


def product_bits(names: tuple[str, str]) -> np.ndarray:
    """Return exact FP32 bits of all products, (patterns of b, patterns of a), with zeros as +0."""
    a, b = (np.array(table(name).floats) for name in names)
    assert np.isfinite(a).all()
    assert np.isfinite(b).all()
    exact = np.outer(b, a)
    assert (exact.astype(np.float32) == exact).all()
    return np.where(exact == 0, 0.0, exact).astype(np.float32).view(np.uint32)


@pairs_of_formats
def test_every_product_of_the_multiplier(names):
    a_format, b_format = (FORMATS[name] for name in names)
    assert isinstance(a_format, FloatFormat)
    assert isinstance(b_format, FloatFormat)
    design = Multiplier(a_format=a_format, b_format=b_format)
    least = a_format.least_exponent + b_format.least_exponent
    a_values, b_values = (table(name).floats for name in names)
    compared = 0

    async def testbench(ctx):
        nonlocal compared
        for a, b in product(range(len(a_values)), range(len(b_values))):
            ctx.set(Value.cast(design.a), a)
            ctx.set(Value.cast(design.b), b)
            await ctx.delay(1e-9)
            found = ctx.get(design.product)
            assert not found.nan
            assert not found.infinite
            assert np.ldexp((-1) ** found.sign * found.significand << found.shift, least) == a_values[a] * b_values[b]
            assert found.sign == (a >> (a_format.width - 1)) ^ (b >> (b_format.width - 1))
            compared += 1

    simulator = Simulator(design)
    simulator.add_testbench(testbench)
    simulator.run()
    assert compared == product_bits(names).size


@pairs_of_formats
@pytest.mark.parametrize("accumulator", ["exact", "hopper"])
def test_every_product_of_golden_and_emulator(names, accumulator):
    config = config_of(names, accumulator=accumulator, rows=1, columns=1)
    expected = product_bits(names)
    golden = make_accumulator(config)
    for (b, a), bits in np.ndenumerate(expected):
        golden.accumulate([(a, b)], first=True)
        assert golden.result_bits() == bits
    found = matrix_product(patterns(names[0])[:, np.newaxis], patterns(names[1])[:, np.newaxis], config)
    np.testing.assert_array_equal(found, expected)


SIDE = 2
FOR_SMALL = "icarus" if "icarus" in simulator_names() else "auto"


@pytest.mark.parametrize(
    ("names", "lanes", "accumulator"),
    [
        pytest.param(("fp6_e2m3", "fp6_e3m2"), 4, "exact", marks=pytest.mark.slow),
        (("fp4_e2m1", "fp4_e2m1"), 16, "exact"),
        *(pytest.param(names, 4, "exact", marks=pytest.mark.slow) for names in PAIRS),
        *(pytest.param(names, 16, "hopper", marks=pytest.mark.slow) for names in PAIRS),
    ],
)
def test_every_product_of_the_verilog(names, lanes, accumulator, tmp_path):
    """Multiply all pairs of values, one in each stream and PE, in any lane."""
    config = config_of(names, lanes=lanes, accumulator=accumulator, rows=SIDE, columns=SIDE)
    blocks = [patterns(name).reshape(-1, SIDE) for name in names]
    streams = list(product(*blocks))
    a, b = (np.zeros((len(streams), SIDE, 1, lanes), np.uint8) for _ in names)
    for index, (a_bits, b_bits) in enumerate(streams):
        a[index, :, 0, index % lanes], b[index, :, 0, index % lanes] = a_bits, b_bits
    found = Replayer(config, tmp_path, simulator=FOR_SMALL).run(a, b)
    assert not found.mismatches
    assert not found.non_finite
    expected = product_bits(names)
    for bits, (a_bits, b_bits) in zip(found.c_bits, streams, strict=True):
        np.testing.assert_array_equal(bits, expected[np.ix_(b_bits, a_bits)])


@pytest.mark.parametrize("count", [500, pytest.param(50_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("names", [nightly_unless_quick(names) for names in (*PAIRS, *WIDER)])
def test_sums(names, count):
    """The golden model's sums, with C, equal rational arithmetic."""
    seen = Counter[str]()
    for number, accumulator in enumerate(["exact", *FUSED.values()]):
        config = config_of(names, accumulator=accumulator, initial=True)
        golden = make_accumulator(config)
        cases = dot_cases(np.random.default_rng(number), config.a_format, config.b_format, count, steps=3, lanes=4)
        for steps, c in cases:
            for i, step in enumerate(steps):
                assert not golden.accumulate(step, first=i == 0, c=c)
            if isinstance(accumulator, Fused):
                expected = fused_dot(names, steps, c, accumulator, seen=seen)
            else:
                expected, _ = exact_dot(names, steps, c, seen=seen)
            assert golden.result_bits(c) == expected, (steps, c)
    assert min(seen[kind] for kind in ("rounded", "tie", "cancellation", "truncated")) >= count // 50, seen
