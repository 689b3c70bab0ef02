"""Captured results of a B200's fp8 instruction rule out some models of its arithmetic and leave others open.

The file has 50 sums of 32 products of E4M3 and C, as FP32 and as FP16. It does not have the products, but their sum
follows from the FP32 result: every product of two E4M3 numbers is a multiple of 2^-18, and the last place of these FP32
results is at most 2^-19.
"""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash_sim.golden import make_accumulator

from .reference import table

ROWS = json.loads(Path(__file__).with_name("captured_b200.json").read_text())["c, FP32 result, FP16 result"]
BITS = np.array([[int(each, 16) for each in row.split()] for row in ROWS], np.uint32)
C, FP32, FP16 = BITS.view(np.float32).astype(float).T
LAST = 2.0**-18
SUMS = np.round((FP32 - C) / LAST) * LAST
"""The sum of each row's products, exactly."""
PARTS = np.arange(-(1 << 22), 1 << 22, 7) * LAST
"""Candidates for the sum of the first 16 products."""
Values = NDArray[np.float64]


def half(values: Values) -> Values:
    return values.astype(np.float16).astype(float)


def single(values: Values) -> Values:
    return values.astype(np.float32).astype(float)


def cut(values: Values) -> Values:
    """Round to FP32 toward zero."""
    near = values.astype(np.float32)
    return np.where(abs(near.astype(float)) > abs(values), np.nextafter(near, np.float32(0)), near).astype(float)


def test_the_sums_are_known():
    """Exactly one multiple of 2^-18 gives the captured FP32 result."""
    near = SUMS[:, None] + np.arange(-8, 9) * LAST
    assert np.array_equal((single(near + C[:, None]) == FP32[:, None]).sum(1), np.ones(len(SUMS)))


@pytest.mark.parametrize(
    ("model", "agree"),
    [
        (lambda sums: single(single(sums) + C), 50),  # C after the rounded sum, to nearest
        (lambda sums: cut(sums + C), 29),  # C beside the products, and one result cut off, as the older GPUs have it
    ],
)
def test_fp32_results(model: Callable[[Values], Values], agree: int):
    """A model is wrong if it gives a result for no possible sum of products."""
    near = [SUMS + k * LAST for k in range(-8, 9)]
    assert sum(np.any([model(each) == FP32 for each in near], axis=0)) == agree


def test_fp16_results_need_two_steps():
    c = half(C)
    assert (half(half(SUMS) + c) == FP16).sum() == 41  # one step of 32, C after
    assert (half(SUMS + c) == FP16).sum() == 34  # C among the products
    for total, addend, result in zip(SUMS, c, FP16, strict=True):
        chained = half(half(PARTS) + (total - PARTS))
        assert np.any(half(chained + addend) == result)


def accumulated(lanes: int, accumulator: str | dict[str, object], pairs: list[tuple[int, int]], c: int = 0) -> float:
    """Return the FP32 result of 32 pairs, `lanes` pairs at a time."""
    config = TileConfig(format="fp8_e4m3", accumulator=accumulator, lanes=lanes, initial=True, sparsity="none")
    golden = make_accumulator(config)
    for first in range(0, 32, lanes):
        golden.accumulate(pairs[first : first + lanes], first=first == 0, c=c)
    return float(np.uint32(golden.result_bits()).view(np.float32))


def after(fraction_bits: int) -> dict[str, object]:
    return {"fused": fraction_bits, "rounding": "zero", "addend": "after"}


def interleaved(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Reorder pairs so that pair k is in step floor(k / 2) mod 2."""
    return [pair for step in (0, 1) for k, pair in enumerate(pairs) if k // 2 % 2 == step]


def test_fp32_results_decide_neither_the_fraction_bits_nor_the_steps():
    """FP32 holds the sums of such products exactly, so all models that add C last give the same results."""
    rng, values = np.random.default_rng(200), np.array(table("fp8_e4m3").floats[:0x7F])
    for drawn in rng.standard_normal((40, 32, 2)):
        pairs = [(_pattern(values, a), _pattern(values, b)) for a, b in drawn.tolist()]
        c = np.float32(rng.random())
        exact = sum(_fraction(values, a) * _fraction(values, b) for a, b in pairs)
        expected = float(np.float32(np.float32(float(exact)) + c))
        bits = int(c.view(np.uint32))
        for fraction_bits in (23, 25, 40, 60):
            assert accumulated(32, after(fraction_bits), pairs, bits) == expected
        two_steps = accumulated(16, "hopper", interleaved(pairs))
        assert float(np.float32(np.float32(two_steps) + c)) == expected


def test_steps_matter_for_random_operands():
    """With uniform bit patterns, chained steps of 16 and `blackwell-fp8` differ for about a quarter of the inputs."""
    rng, differ, count = np.random.default_rng(201), 0, 400
    patterns = [bits for bits in range(256) if bits & 0x7F != 0x7F]
    for _ in range(count):
        pairs = [(a, b) for a, b in rng.choice(patterns, (32, 2)).tolist()]
        differ += accumulated(32, "blackwell-fp8", pairs) != accumulated(16, "hopper", interleaved(pairs))
    assert 0.2 < differ / count < 0.35, differ


def _pattern(values: Values, value: float) -> int:
    """Return the pattern of the number nearest to a value."""
    return int(np.abs(values - abs(value)).argmin()) | (0x80 if value < 0 else 0)


def _fraction(values: Values, bits: int) -> Fraction:
    return Fraction(float(values[bits & 0x7F])) * (-1 if bits & 0x80 else 1)
