"""Test which models of its arithmetic the captured results of a B200's fp8 instruction rule out.

The file has 50 sums of 32 products of E4M3 and C, as FP32 and as FP16. It lacks the products, but their sum follows
from the FP32 result: every product of two E4M3 numbers is a multiple of 2^-18, and the last place of these FP32
results is at most 2^-19.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.numerics import ACCUMULATORS, Fused
from tensordash_sim.golden import make_accumulator
from tensordash_sim.verify import Replayer

from .format_values import table

ROWS = json.loads(Path(__file__).with_name("captured_b200.json").read_text())["c, FP32 result, FP16 result"]
BITS = np.array([[int(each, 16) for each in row.split()] for row in ROWS], np.uint32)
C, FP32, FP16 = BITS.view(np.float32).astype(float).T
LAST = 2.0**-18
SUMS = np.round((FP32 - C) / LAST) * LAST
"""Exact sum of each row's products."""
PARTS = np.arange(-(1 << 22), 1 << 22, 7) * LAST
"""Candidate sums of the first 16 products."""
E4M3 = np.array(table("fp8_e4m3").floats[:0x7F])
Values = NDArray[np.float64]


def half(values: Values) -> Values:
    return values.astype(np.float16).astype(float)


def round_to_fp32(values: Values) -> Values:
    return values.astype(np.float32).astype(float)


def truncate_to_fp32(values: Values) -> Values:
    """Round to FP32 toward zero."""
    near = values.astype(np.float32)
    return np.where(abs(near.astype(float)) > abs(values), np.nextafter(near, np.float32(0)), near).astype(float)


def test_captured_results_determine_the_sums():
    """Exactly one multiple of 2^-18 gives the captured FP32 result."""
    near = SUMS[:, None] + np.arange(-8, 9) * LAST
    assert np.array_equal((round_to_fp32(near + C[:, None]) == FP32[:, None]).sum(1), np.ones(len(SUMS)))


@pytest.mark.parametrize(
    ("model", "agree"),
    [
        (lambda sums: round_to_fp32(round_to_fp32(sums) + C), 50),  # adds C to the rounded sum, to nearest
        (lambda sums: truncate_to_fp32(sums + C), 29),  # adds C with the products and truncates, as in older GPUs
    ],
)
def test_fp32_results(model: Callable[[Values], Values], agree: int):
    """A model is wrong if no possible sum of products gives the captured result."""
    near = [SUMS + k * LAST for k in range(-8, 9)]
    assert sum(np.any([model(each) == FP32 for each in near], axis=0)) == agree


def test_fp16_results_need_two_steps():
    c = half(C)
    assert (half(half(SUMS) + c) == FP16).sum() == 41  # one step of 32, then C
    assert (half(SUMS + c) == FP16).sum() == 34  # one step of 32 with C


def half_cut(values: Values) -> Values:
    """Round to FP16 toward zero."""
    near = values.astype(np.float16)
    return np.where(abs(near.astype(float)) > abs(values), np.nextafter(near, np.float16(0)), near).astype(float)


Rule = Callable[[Values], Values]
PLACES = ("in the first step", "in the second step", "between the steps", "last")


def fp16_model(steps: int, place: str, rounding: Rule, rule_of_c: Rule, parts: Values) -> Values:
    """Return FP16 results of one step of 32 or two of 16, with C among a step's terms or added after a step.

    `parts` are candidates for the sum of the first step's products, (50, candidates).
    """
    total, c = np.broadcast_to(SUMS[:, None], parts.shape), half(C)[:, None]
    first = parts if steps == 2 else total
    result = rounding(first + c) if place == PLACES[0] else rounding(first)
    if place == PLACES[2]:
        result = rule_of_c(result + c)
    if steps == 2:
        result = rounding(result + (total - first) + (c if place == PLACES[1] else 0))
    return rule_of_c(result + c) if place == PLACES[3] else result


def test_a_search_over_models_finds_blackwell_fp16():
    """Of 18 models, two steps to nearest with C last make the captured results most probable.

    The sums have the variance of 32 products of standard normal numbers. The sum of 16 products, given the sum of all,
    is normal around one half. No model with one step can give all results.
    """
    assert np.isclose(SUMS.std(), 32**0.5, rtol=0.1)
    rng, count = np.random.default_rng(202), 4_000
    parts = np.round((SUMS[:, None] / 2 + 8**0.5 * rng.standard_normal((50, count))) / LAST) * LAST
    found, impossible = {}, {}
    for model in product((1, 2), PLACES, (half, half_cut), (half, half_cut)):
        steps, place, _, rule_of_c = model
        if (steps == 1 and place in PLACES[1:3]) or (rule_of_c is half_cut and place in PLACES[:2]):
            continue  # Equal to another model.
        share = (fp16_model(*model, parts) == FP16[:, None]).mean(1)
        found[model] = np.log(np.maximum(share, 0.5 / count)).sum()
        impossible[model] = (share == 0).sum()
    assert len(found) == 18
    best, *others = sorted(found, key=lambda model: -found[model])
    assert best == (2, "last", half, half)
    assert impossible[best] == 0
    assert found[best] - found[others[0]] > np.log(1_000)
    for model in others:
        assert model[0] == 2 or impossible[model] >= 9, model
    assert impossible[2, "last", half, half_cut] > 0


def sixteen_pairs(units: int) -> list[tuple[int, int]]:
    """Return 16 pairs of E4M3 whose products add up to `units` of 2^-18, each a nibble times a power of two."""
    pairs = []
    for shift in range(0, 28, 4):
        nibble, up = abs(units) >> shift & 15, min(shift, 11)
        if nibble:
            a, b = (_pattern(E4M3, value * 2.0**-9) for value in (nibble << up, 1 << (shift - up)))
            pairs.append((a | (0x80 if units < 0 else 0), b))
    return pairs + [(0, 0)] * (16 - len(pairs))


def fp16_operands() -> list[tuple[list[tuple[int, int]], int]]:
    """Return operands and C's FP32 bits for all 50 results. Each half's sum makes the result possible."""
    found = []
    for total, addend, result in zip(SUMS, half(C), FP16, strict=True):
        parts = PARTS[abs(PARTS - total / 2) < 8]
        (index,) = np.flatnonzero(half(half(half(parts) + (total - parts)) + addend) == result)[:1]
        first = round(parts[index] / LAST)
        pairs = sixteen_pairs(first) + sixteen_pairs(round(total / LAST) - first)
        found.append((pairs, int(np.float32(addend).view(np.uint32))))
    return found


def test_blackwell_fp16_gives_the_captured_results():
    """Operands have the known sum and possible parts, and give every captured result."""
    agree = Counter[str]()
    for (pairs, c), result in zip(fp16_operands(), FP16, strict=True):
        assert accumulate_pairs(16, "blackwell-fp16", pairs, c) == result
        agree["C first"] += accumulate_pairs(16, "hopper-fp16", pairs, c) == result
        agree["one step"] += accumulate_pairs(32, "blackwell-fp16", pairs, c) == result
    assert agree["one step"] == 41
    assert agree["C first"] < 50


@pytest.mark.slow
def test_blackwell_fp16_gives_the_captured_results_on_the_verilog(tmp_path):
    config = TileConfig(
        rows=1, columns=1, lanes=16, format="fp8_e4m3", accumulator="blackwell-fp16", initial=True, sparsity="none"
    )
    operands = fp16_operands()
    a, b = np.moveaxis(np.array([pairs for pairs, _ in operands], np.uint8).reshape(50, 1, 2, 16, 2), -1, 0)
    c = np.array([bits for _, bits in operands], np.uint32).reshape(50, 1, 1)
    found = Replayer(config, tmp_path).run(a, b, c)
    assert np.array_equal(found.c_bits.view(np.float32).ravel(), FP16)


def accumulate_pairs(
    lanes: int, accumulator: str | dict[str, object] | Fused, pairs: list[tuple[int, int]], c: int = 0
) -> float:
    """Return the FP32 result of 32 pairs, added `lanes` pairs at a time."""
    config = TileConfig(format="fp8_e4m3", accumulator=accumulator, lanes=lanes, initial=True, sparsity="none")
    golden = make_accumulator(config)
    for first in range(0, 32, lanes):
        golden.accumulate(pairs[first : first + lanes], first=first == 0, c=c)
    return float(np.uint32(golden.result_bits(c)).view(np.float32))


def after(fraction_bits: int) -> dict[str, object]:
    return {"fused": fraction_bits, "rounding": "zero", "addend": "after"}


def interleave(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Reorder pairs so that pair k is in step floor(k / 2) mod 2."""
    return [pair for step in (0, 1) for k, pair in enumerate(pairs) if k // 2 % 2 == step]


def test_fp32_results_decide_neither_the_fraction_bits_nor_the_steps():
    """FP32 holds the sums of such products exactly, so all models that add C last give the same results."""
    rng, values = np.random.default_rng(200), E4M3
    for drawn in rng.standard_normal((40, 32, 2)):
        pairs = [(_pattern(values, a), _pattern(values, b)) for a, b in drawn.tolist()]
        c = np.float32(rng.random())
        exact = sum(_fraction(values, a) * _fraction(values, b) for a, b in pairs)
        expected = float(np.float32(np.float32(float(exact)) + c))
        bits = int(c.view(np.uint32))
        for fraction_bits in (23, 25, 40, 60):
            assert accumulate_pairs(32, after(fraction_bits), pairs, bits) == expected
        assert accumulate_pairs(16, {"fused": 25, "addend": "last"}, interleave(pairs), bits) == expected


def test_fp16_results_do_not_decide_the_fraction_bits():
    """FP16 results of products of normally distributed numbers are the same for every F from 23 on."""
    rng = np.random.default_rng(203)
    preset = ACCUMULATORS["blackwell-fp16"]
    for drawn in rng.standard_normal((40, 32, 2)):
        pairs = interleave([(_pattern(E4M3, a), _pattern(E4M3, b)) for a, b in drawn.tolist()])
        c = int(np.float32(np.float16(rng.random())).view(np.uint32))
        results = {
            accumulate_pairs(16, replace(preset, fraction_bits=fraction_bits, zero_exponent=zero), pairs, c)
            for fraction_bits, zero in ((23, -21), (25, -21), (25, -14), (60, -149))
        }
        assert len(results) == 1


def test_steps_matter_for_random_operands():
    """With uniform bit patterns, chained steps of 16 and `blackwell-fp8` differ for about a quarter of the inputs."""
    rng, differ, count = np.random.default_rng(201), 0, 400
    patterns = [bits for bits in range(256) if bits & 0x7F != 0x7F]
    for _ in range(count):
        pairs = [(a, b) for a, b in rng.choice(patterns, (32, 2)).tolist()]
        differ += accumulate_pairs(32, "blackwell-fp8", pairs) != accumulate_pairs(16, "hopper", interleave(pairs))
    assert 0.2 < differ / count < 0.35, differ


def _pattern(values: Values, value: float) -> int:
    """Return the pattern of the nearest number."""
    return int(np.abs(values - abs(value)).argmin()) | (0x80 if value < 0 else 0)


def _fraction(values: Values, bits: int) -> Fraction:
    return Fraction(float(values[bits & 0x7F])) * (-1 if bits & 0x80 else 1)
