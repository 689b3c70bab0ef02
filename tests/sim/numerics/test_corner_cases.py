"""Test that the generator covers every exponent, every gap, ties and all other kinds of cases."""

import numpy as np
import pytest

from tensordash.configuration.formats import FORMATS, FloatFormat
from tensordash_sim.verify.corner_cases import corner_values

from .dot_cases import FLOAT_KINDS, INTEGER_KINDS, dot_cases
from .format_values import table

FLOATS = [fmt for fmt in FORMATS.values() if isinstance(fmt, FloatFormat)]


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda fmt: fmt.name)
def test_values_reach_every_exponent_and_run(fmt):
    bits = corner_values(np.random.default_rng(1), fmt, 200_000).astype(np.int64)
    magnitude = bits % (1 << (fmt.width - 1))
    assert set((magnitude >> fmt.fraction_bits).tolist()) == set(range((fmt.largest >> fmt.fraction_bits) + 1))
    assert magnitude.max() == fmt.largest
    assert {0, 1 << (fmt.width - 1)} <= set(bits.tolist()), "both zeros"
    ones = (1 << fmt.fraction_bits) - 1
    runs = {(1 << n) - 1 for n in range(fmt.fraction_bits + 1)} | {1 << n for n in range(fmt.fraction_bits)}
    for field in (0, fmt.bias, (fmt.largest >> fmt.fraction_bits) - 1):
        fractions = set((magnitude[magnitude >> fmt.fraction_bits == field] & ones).tolist())
        assert runs | {ones - run for run in runs} <= fractions


@pytest.mark.parametrize("fmt", [fmt for fmt in FLOATS if fmt.nan], ids=lambda fmt: fmt.name)
def test_special_values_are_in_their_share(fmt):
    bits = corner_values(np.random.default_rng(2), fmt, 50_000, zeros=0.2, specials=0.1)
    values = np.array(table(fmt.name).floats)[bits]
    assert 0.09 < np.mean(~np.isfinite(values)) < 0.11
    assert 0.17 < np.mean(values == 0) < 0.22
    assert np.isnan(values).any()
    assert np.isinf(values).any() == fmt.infinities


def test_integers_reach_both_ends_and_every_power_of_two():
    bits = corner_values(np.random.default_rng(3), FORMATS["int8"], 50_000)
    assert set(bits.tolist()) == set(range(256))
    values, counts = np.unique(bits, return_counts=True)
    often = dict(zip(values.tolist(), counts.tolist(), strict=True))
    assert min(often[bits] for bits in (0x80, 0x7F, 0xFF, 0x00, 0x40)) > 3 * np.median(counts)


@pytest.mark.parametrize("fmt", FLOATS, ids=lambda fmt: fmt.name)
def test_gaps_cover_the_full_range(fmt):
    cases = dot_cases(np.random.default_rng(4), fmt, fmt, 100_000, steps=2, lanes=4, kinds=("gap",))
    exponents = np.array(table(fmt.name).exponents)
    units = np.array([unit != 0 for unit in table(fmt.name).units])
    products = np.where(units[cases.a] & units[cases.b], exponents[cases.a] + exponents[cases.b], 1000).reshape(-1, 8)
    least, largest = products.min(axis=1), np.where(products == 1000, -1000, products).max(axis=1)
    gaps = set((largest - least).tolist())
    normal = 2 * (exponents.max() - exponents.min())  # Subnormals share the least exponent.
    assert set(range(normal + 1)) <= gaps


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (4, 1), (3, 5)])
@pytest.mark.parametrize("names", [("fp16", "fp16"), ("fp8_e4m3", "bf16"), ("int8", "int8")])
def test_any_shape_and_the_same_seed_give_the_same_cases(names, shape):
    steps, lanes = shape
    formats = [FORMATS[name] for name in names]
    first, second = (dot_cases(np.random.default_rng(5), *formats, 500, steps=steps, lanes=lanes) for _ in range(2))
    assert first.a.shape == first.b.shape == (500, steps, lanes)
    assert all(np.array_equal(getattr(first, name), getattr(second, name)) for name in "abc")
    assert set(first.kind.tolist()) == set(INTEGER_KINDS if "int8" in names else FLOAT_KINDS)
    for fmt, bits in zip(formats, (first.a, first.b), strict=True):
        assert bits.max() < 1 << fmt.width
    pairs, c = next(iter(first))
    assert [len(step) for step in pairs] == [lanes] * steps
    assert c == first.c[0]


def test_only_the_special_family_has_infinities_and_nan():
    e4m3, e5m2 = FORMATS["fp8_e4m3"], FORMATS["fp8_e5m2"]
    cases = dot_cases(np.random.default_rng(6), e4m3, e5m2, 20_000, steps=2, lanes=4)
    for bits, name in ((cases.a, "fp8_e4m3"), (cases.b, "fp8_e5m2")):
        finite = np.isfinite(np.array(table(name).floats)[bits]).all(axis=(1, 2))
        assert finite[cases.kind != "special"].all()
        assert not finite[cases.kind == "special"].all()
    finite = np.isfinite(cases.c.view(np.float32))
    assert finite[cases.kind != "special"].all()
