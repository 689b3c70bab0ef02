"""Compare sums over several cycles in the golden model's accumulators with rational arithmetic."""

from collections import Counter

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS
from tensordash.configuration.numerics import ACCUMULATORS, Fused
from tensordash_sim.golden import make_accumulator, product_bits

from .dot_cases import dot_cases
from .reference_dots import exact_dot, fused_dot, int8_dot

EXACT_FORMATS = ("fp16", "fp8_e4m3", "fp8_e5m2")
FUSED_FORMATS = [
    ("fp16", "fp16"),
    ("bf16", "bf16"),
    ("fp8_e4m3", "fp8_e4m3"),
    ("fp8_e5m2", "fp8_e5m2"),
    ("fp8_e4m3", "fp8_e5m2"),
    ("fp16", "bf16"),
    ("tf32", "tf32"),
]
FUSED = {  # the accumulator, lanes
    "volta": (Fused(23, "zero"), 4),
    "ampere": (Fused(24, "zero"), 8),
    "hopper": (Fused(25, "zero"), 16),
    "ada-fp8": (Fused(13, "zero", result_bits=13), 16),
    "blackwell-fp8": (Fused(25, "zero", addend="after"), 32),
    "hopper-fp16": (ACCUMULATORS["hopper-fp16"], 16),
    "blackwell-fp16": (ACCUMULATORS["blackwell-fp16"], 16),
    "last": (Fused(16, "zero", result_bits=7, addend="last"), 4),
    "highest zero of FP16": (Fused(12, "nearest", result_bits=10, result_exponent_bits=5, zero_exponent=-14), 4),
    "cdna1": (ACCUMULATORS["cdna1"], 4),
    "to FP16, cut": (Fused(12, "zero", result_bits=10, result_exponent_bits=5), 4),
    "nearest": (Fused(23, "nearest"), 4),
    "narrow": (Fused(10, "zero"), 4),
    "wide": (Fused(40, "nearest"), 4),
    "to few bits": (Fused(16, "nearest", result_bits=7), 4),
    "low zero": (Fused(24, "zero", zero_exponent=-132), 4),
    "lowest zero, after": (Fused(12, "nearest", addend="after", zero_exponent=-149), 2),
}
PLAIN = ("volta", "ampere", "hopper", "nearest", "narrow", "wide")  # tested with some formats only
FEW_FORMATS = [("bf16", "bf16"), ("fp8_e4m3", "fp8_e4m3"), ("fp8_e5m2", "fp8_e4m3")]
FP16_FORMATS = [("fp16", "fp16"), ("fp8_e4m3", "fp8_e4m3"), ("fp8_e5m2", "fp8_e4m3")]


def formats_of(name: str) -> list[tuple[str, str]]:
    """Return the formats for tests of an accumulator."""
    if FUSED[name][0].result_exponent_bits == 5:
        return FP16_FORMATS
    return FUSED_FORMATS if name in PLAIN else FEW_FORMATS


FUSED_CASES = [(names, name) for name in FUSED for names in formats_of(name)]
COUNTS = [3_000, pytest.param(100_000, marks=pytest.mark.slow)]
STEPS = 3


def config_of(names: tuple[str, str], **more) -> TileConfig:
    return TileConfig(format=dict(zip("ab", names, strict=True)), sparsity="none", **more)


def scheduled(steps: list, config: TileConfig, index: int) -> list:
    """Return the multiplied pairs: all, or in every third case only pairs with nonzero b."""
    sign = 1 << (config.b_format.width - 1)
    return steps if index % 3 else [[pair for pair in step if pair[1] & ~sign] for step in steps]


def require(seen: Counter, count: int, *classes: str) -> None:
    """Require each class of inputs in at least one of 200 cases."""
    assert all(seen[name] >= count // 200 for name in classes), f"{count} cases try {dict(seen)}"


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("initial", [False, True], ids=["", "c"])
@pytest.mark.parametrize("a_name", EXACT_FORMATS)
@pytest.mark.parametrize("b_name", EXACT_FORMATS)
def test_exact(a_name, b_name, initial, count):
    """Sums are rounded once, for any distribution of products over cycles."""
    names = a_name, b_name
    config = config_of(names, initial=initial)
    golden = make_accumulator(config)
    seen = Counter[str]()
    cases = dot_cases(np.random.default_rng(1), config.a_format, config.b_format, count, steps=STEPS, lanes=4)
    for index, (steps, c) in enumerate(cases):
        c = c if initial else 0
        pairs = scheduled(steps, config, index)
        wraps = sum(golden.accumulate(step, first=i == 0, c=c) for i, step in enumerate(pairs))
        expected, _ = exact_dot(names, pairs, c, seen=seen)
        assert (golden.result_bits(c), wraps, golden.result_overflow(c)) == (expected, 0, False), (pairs, c)
    require(seen, count, "rounded", "tie", "cancellation", "nan", *(["c cancels"] if initial else []))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("headroom", [0, 1, 2])
@pytest.mark.parametrize("names", [("fp16", "fp16"), ("fp8_e4m3", "fp8_e4m3"), ("fp8_e5m2", "fp8_e4m3")])
def test_exact_wraps(names, headroom, count):
    """Sums beyond the accumulator's range wrap, and C is added to the wrapped sum."""
    config = config_of(names, initial=True, headroom_bits=headroom)
    golden = make_accumulator(config)
    width = product_bits(config.a_format, config.b_format) + 1 + headroom
    seen = Counter[str]()
    rng = np.random.default_rng(2)
    kinds = ("overflow", "random", "special")
    for pairs, c in dot_cases(rng, config.a_format, config.b_format, count, steps=STEPS, lanes=8, kinds=kinds):
        wrapped = sum(golden.accumulate(step, first=i == 0) for i, step in enumerate(pairs)) > 0
        assert (golden.result_bits(c), wrapped) == exact_dot(names, pairs, c, width, seen), (pairs, c)
    require(seen, count, "wrapped")


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("initial", [False, True], ids=["", "c"])
@pytest.mark.parametrize("headroom", [0, 2, 16])
def test_int8(headroom, initial, count):
    golden = make_accumulator(config_of(("int8", "int8"), initial=initial, headroom_bits=headroom))
    seen = Counter[str]()
    int8 = FORMATS["int8"]
    for pairs, c in dot_cases(np.random.default_rng(3), int8, int8, count, steps=STEPS, lanes=4):
        c = c if initial else 0
        wrapped = sum(golden.accumulate(step, first=i == 0) for i, step in enumerate(pairs)) > 0
        found = golden.result_bits(c), wrapped, golden.result_overflow(c)
        assert found == int8_dot(pairs, c, headroom, seen), (pairs, c)
    require(seen, count, "cancellation", *(["wrapped"] if headroom < 16 else []), *(["overflow"] if initial else []))


def test_int8_runs_leave_the_widest_accumulator():
    """The sum of 131,072 products of -128 * -128 is one more than INT32 holds."""
    golden = make_accumulator(config_of(("int8", "int8")))
    run = [(0x80, 0x80)] * 32
    assert sum(golden.accumulate(run, first=i == 0) for i in range(4095)) == 0
    assert golden.result_bits() == 2**31 - 2**19
    assert golden.accumulate(run, first=False)
    assert golden.result_bits() == 2**31


@pytest.mark.sampled(20)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("names", "name"), FUSED_CASES, ids=str)
def test_fused(names, name, count):
    """Follow the steps of docs/numerics.md, with and without C, for all pairs or only pairs that are not skipped."""
    accumulator, lanes = FUSED[name]
    config = config_of(names, accumulator=accumulator, initial=True)
    golden = make_accumulator(config)
    assert name not in ACCUMULATORS or config.accumulator == name
    seen = Counter[str]()
    cases = dot_cases(np.random.default_rng(4), config.a_format, config.b_format, count, steps=STEPS, lanes=lanes)
    for index, (steps, c) in enumerate(cases):
        c = c if index % 2 else 0
        pairs = scheduled(steps, config, index)
        for i, step in enumerate(pairs):
            assert not golden.accumulate(step, first=i == 0, c=c)
        expected = fused_dot(names, pairs, c, accumulator, seen=seen)
        assert golden.result_bits(c) == expected, (pairs, c)
    of_c = {"inside": "c decides", "after": "added, rounded", "last": "C, rounded"}[accumulator.addend]
    require(seen, count, "truncated", "cancellation", "nan", of_c)
    if "fp8_e4m3" not in names:
        require(seen, count, "infinity")
    if accumulator.fraction_bits >= accumulator.result_bits and accumulator.fraction_bits > 13:
        require(seen, count, "rounded", "tie")
    if accumulator.result_exponent_bits == 5:
        require(seen, count, "overflow", *(["subnormal result"] if names == ("fp16", "fp16") else []))
    if names in (("bf16", "bf16"), ("tf32", "tf32")):
        low = accumulator.zero_exponent < -126
        require(seen, count, "floor decides", "subnormal result", "overflow", *(["below FP32"] if low else []))


def test_c_is_added_last_as_fp16_adds():
    """Streams have one product by 1 and C in FP16. The result equals NumPy's FP16 sum, to nearest, ties to even."""
    golden = make_accumulator(config_of(("fp16", "fp16"), accumulator="blackwell-fp16", initial=True))
    rng = np.random.default_rng(7)
    left, right = rng.integers(0, 1 << 16, (2, 12_000), np.uint16)
    near = rng.integers(-13 << 10, 13 << 10, 12_000)  # Both addends are close enough for rounding.
    right[2_000:] = np.clip((left.astype(int) & 0x7FFF) + near, 0, 0x7C00)[2_000:] | rng.integers(0, 2, 10_000) << 15
    left[2_000:4_000] &= 0x83FF  # These are subnormal.
    right[4_000:5_000] = left[4_000:5_000] ^ 0x8000
    left[5_000:5_500], right[5_000:5_500] = ((side[5_000:5_500] & 0x83FF) | 0x7800 for side in (left, right))
    with np.errstate(over="ignore", invalid="ignore"):
        references = (left.view(np.float16) + right.view(np.float16)).astype(np.float32)
        c = right.view(np.float16).astype(np.float32).view(np.uint32)
    seen = Counter[str]()
    for a, b, each in zip(left.tolist(), c.tolist(), references, strict=True):
        golden.accumulate([(a, 0x3C00)], first=True, c=b)
        expected = 0x7FFFFFFF if np.isnan(each) else int(each.view(np.uint32)) if each else 0
        assert golden.result_bits(b) == expected, (hex(a), hex(b))
        seen["overflow"] += bool(np.isinf(each)) and a & 0x7C00 != 0x7C00 and b & 0x7F800000 != 0x7F800000
        seen["zero"] += not each
        seen["subnormal"] += 0 < abs(each) < 2.0**-14
    assert min(seen.values()) > 50, seen


@pytest.mark.parametrize("name", ["volta-fp16", "ampere-fp16", "hopper-fp16"])
def test_a_product_as_fp16(name):
    """A single product is not truncated. It is rounded to FP16 once, as NumPy rounds it."""
    golden = make_accumulator(config_of(("fp16", "fp16"), accumulator=name))
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 1 << 16, (2, 20_000), np.uint16)
    b[:10_000] = (b[:10_000] & 0x83FF) | rng.integers(0, 3, 10_000).astype(np.uint16) << 10  # results are subnormal
    with np.errstate(over="ignore", invalid="ignore"):
        references = (a.view(np.float16).astype(float) * b.view(np.float16).astype(float)).astype(np.float16)
    for left, right, each in zip(a.tolist(), b.tolist(), references.astype(np.float32), strict=True):
        golden.accumulate([(left, right)], first=True)
        expected = 0x7FFFFFFF if np.isnan(each) else int(each.view(np.uint32)) if each else 0
        assert golden.result_bits() == expected, (hex(left), hex(right))
