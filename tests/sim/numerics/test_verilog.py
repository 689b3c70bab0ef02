"""Run corner cases on the emitted Verilog, and compare with SoftFloat and rational arithmetic.

A tile with R rows and K columns computes R*K dot products of R operands of B and K of A, each with its own C. Corner
cases are on the diagonal of rows and columns. Other PEs multiply operands of different cases.
"""

from collections.abc import Sequence

import numpy as np
import pytest
import softfloatpy as softfloat

from tensordash import TileConfig
from tensordash.configuration.formats import IntegerFormat
from tensordash.configuration.numerics import WIDE_FORMATS, Fused
from tensordash_sim.golden import FP32
from tensordash_sim.trace import Trace, example_trace
from tensordash_sim.trace.layer_operands import layer_passes
from tensordash_sim.verify import Replayer
from tensordash_sim.verify.corner_cases import corner_values

from .dot_cases import FLOAT_KINDS, INTEGER_KINDS, dot_cases
from .format_values import table
from .reference_dots import EXACT_NAN, FUSED_NAN, exact_dot, fused_dot, int8_dot
from .test_scalar import bits_of, fp32_of, is_tiny

SIDE = 2  # Rows and columns of tiles, which are small to build fast.
ACCUMULATORS = {
    "volta": ("volta", 4),
    "ampere": ("ampere", 8),
    "hopper": ("hopper", 16),
    "nearest": ({"fused": 23, "rounding": "nearest"}, 4),
    "narrow": ({"fused": 10, "rounding": "zero"}, 4),
    "wide": ({"fused": 40, "rounding": "nearest"}, 4),
    "ada-fp8": ("ada-fp8", 16),
    "hopper-fp8": ("hopper-fp8", 32),
    "blackwell-fp8": ("blackwell-fp8", 32),
    "few bits": ({"fused": 16, "rounding": "nearest", "result_bits": 7}, 4),
    "low zero": ({"fused": 24, "zero_exponent": -132}, 8),
    "hopper-fp16": ("hopper-fp16", 16),
    "blackwell-fp16": ("blackwell-fp16", 16),
    "last": ({"fused": 16, "result_bits": 7, "addend": "last"}, 4),
    "after": ({"fused": 12, "rounding": "nearest", "addend": "after", "zero_exponent": -149}, 2),
}
MIXED = {"a": "fp8_e4m3", "b": "fp8_e5m2"}
FORMATS = {
    "fp16": "fp16",
    "bf16": "bf16",
    "tf32": "tf32",
    "e4m3": "fp8_e4m3",
    "e5m2": "fp8_e5m2",
    "mixed": MIXED,
    "int8": "int8",
}
EXACT = [name for name in FORMATS if name not in WIDE_FORMATS]
FUSED = [
    (name, accumulator)
    for name in FORMATS
    for accumulator in ACCUMULATORS
    if name != "int8" and not (accumulator.endswith("-fp16") and name in WIDE_FORMATS)
]
QUICK_EXACT, QUICK_SPARSE = ["mixed", "int8"], ["e4m3", "fp16", "int8"]  # Nightly tests build the others.
QUICK_FUSED = [("fp16", "volta"), ("bf16", "nearest"), ("e5m2", "narrow"), ("mixed", "wide")]
QUICK_FUSED += [("e4m3", "ada-fp8"), ("bf16", "low zero"), ("e4m3", "blackwell-fp16")]


def names_of(config: TileConfig) -> tuple[str, str]:
    return config.a_format.name, config.b_format.name


def streams(
    config: TileConfig, count: int, steps: int, seed: int, finite: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw operands of a square tile: a and b, (count, SIDE, steps, lanes), and c, (count, SIDE, SIDE)."""
    rng = np.random.default_rng(seed)
    all_kinds = INTEGER_KINDS if isinstance(config.a_format, IntegerFormat) else FLOAT_KINDS
    kinds = tuple(kind for kind in all_kinds if not (finite and kind == "special"))
    cases = dot_cases(rng, config.a_format, config.b_format, count * SIDE, steps=steps, lanes=config.lanes, kinds=kinds)
    shape = count, SIDE, steps, config.lanes
    c = np.stack([np.roll(cases.c, shift) for shift in range(SIDE)], axis=-1).reshape(count, SIDE, SIDE)
    for row in range(SIDE):  # Cases are on the diagonal.
        c[:, row] = np.roll(c[:, row], row, axis=-1)
    return cases.a.reshape(shape), cases.b.reshape(shape), c


def expected_results(config: TileConfig, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return results' bits, (count, SIDE, SIDE), and the flag `overflow`, by rational arithmetic."""
    names, accumulator = names_of(config), config.numerics.accumulator
    results, overflow = np.zeros(c.shape, np.uint32), False
    for (stream, row, column), c_bits in np.ndenumerate(c):
        left, right = a[stream, column].tolist(), b[stream, row].tolist()
        pairs = [list(zip(*step, strict=True)) for step in zip(left, right, strict=True)]
        if isinstance(accumulator, Fused):
            bits = fused_dot(names, pairs, int(c_bits), accumulator)
        elif names[0] == "int8":
            bits, wrapped, left_int32 = int8_dot(pairs, int(c_bits), accumulator.headroom_bits)
            overflow |= wrapped or left_int32
        else:
            bits, _ = exact_dot(names, pairs, int(c_bits))
        results[stream, row, column] = bits
    return results, overflow


def assert_same(found: np.ndarray, expected: np.ndarray, *operands: np.ndarray) -> None:
    assert found.shape == expected.shape
    wrong = np.argwhere(found != expected)
    if len(wrong):
        stream, row, column = wrong[0]
        a, b, c = operands
        details = f"a = {a[stream, column].tolist()}, b = {b[stream, row].tolist()}, c = {c[stream, row, column]:#x}"
        first = f"found {found[tuple(wrong[0])]:#x}, expected {expected[tuple(wrong[0])]:#x}"
        raise AssertionError(f"{len(wrong)} of {found.size} results differ, at first {wrong[0]}: {details}: {first}")


def counted(quick: Sequence[tuple[str, ...]], every: Sequence[tuple[str, ...]]) -> list:
    """Return 1,000 cases for quick tests, or 20,000 for nightly ones; half of them are corner cases."""
    night = [pytest.param(*case, 5_000, id="-".join([*case, "many"]), marks=pytest.mark.slow) for case in every]
    return [pytest.param(*case, 250, id="-".join(case)) for case in quick] + night


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "count"), counted([(name,) for name in QUICK_EXACT], [(name,) for name in EXACT]))
def test_exact_dense(name, count, tmp_path):
    """Every pair is multiplied, including NaN and infinities."""
    config = TileConfig(rows=SIDE, columns=SIDE, format=FORMATS[name], sparsity="none", initial=True)
    operands = streams(config, count, steps=3, seed=1)
    found = Replayer(config, tmp_path).run(*operands)
    assert not found.mismatches
    results, overflow = expected_results(config, *operands)
    assert_same(found.c_bits, results, *operands)
    assert found.overflow == overflow
    assert found.non_finite == (name != "int8")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "accumulator", "count"), counted(QUICK_FUSED, FUSED))
def test_fused_dense(name, accumulator, count, tmp_path):
    """Each step of a dense tile is one addition, as in the definition."""
    settings, lanes = ACCUMULATORS[accumulator]
    config = TileConfig(
        rows=SIDE, columns=SIDE, lanes=lanes, format=FORMATS[name], accumulator=settings, sparsity="none", initial=True
    )
    operands = streams(config, count, steps=3, seed=2)
    found = Replayer(config, tmp_path).run(*operands)
    assert not found.mismatches
    results, _ = expected_results(config, *operands)
    assert_same(found.c_bits, results, *operands)
    assert found.non_finite


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "sparsity", "count"),
    counted([(name, "rows") for name in QUICK_SPARSE], [(name, kind) for name in EXACT for kind in ("rows", "both")]),
)
def test_exact_sparse(name, sparsity, count, tmp_path):
    """On finite operands, the sparse tile, the dense tile and the correctly rounded sum agree."""
    config = TileConfig(rows=SIDE, columns=SIDE, format=FORMATS[name], sparsity=sparsity, initial=True)
    rng = np.random.default_rng(3)
    a, b, c = streams(config, count, steps=6, seed=3, finite=True)
    zeros = rng.random(b.shape) < rng.choice([0.0, 0.5, 0.9], (count, 1, 1, 1))
    b[zeros] = 0
    found = Replayer(config, tmp_path).run(a, b, c)
    assert not found.mismatches
    results, overflow = expected_results(config, a, b, c)
    assert_same(found.c_bits, results, a, b, c)
    assert found.overflow == overflow
    assert not found.non_finite
    assert 0 < found.counters["cycles"].sum() < 6 * count, "something is skipped"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fp16", "e4m3", "e5m2", "mixed"])
def test_exact_on_a_training_step(name, tmp_path):
    """Results also agree for a network's operands."""
    config = TileConfig(format=FORMATS[name])
    records = [record for record in Trace.open(example_trace()).records if record.layer in ("CNN.conv2", "CNN.fc1")]
    operands = [streams for record in records for streams in layer_passes(record, config, sample=32, seed=0)]
    found = {}
    for kind, tile in (("sparse", config), ("dense", config.baseline)):
        replayer = Replayer(tile, tmp_path / kind)
        found[kind] = [replayer.run(a, b) for a, b in operands]
        assert not any(run.mismatches for run in found[kind])
    for (a, b), sparse, dense in zip(operands, found["sparse"], found["dense"], strict=True):
        assert np.array_equal(sparse.c_bits, dense.c_bits)
        for (stream, row, column), bits in np.ndenumerate(dense.c_bits):
            pairs = zip(a[stream, column].ravel().tolist(), b[stream, row].ravel().tolist(), strict=True)
            assert bits == exact_dot(names_of(config), [list(pairs)])[0]
        assert sparse.counters["cycles"].sum() < dense.counters["cycles"].sum()


# SoftFloat


def addends(rng: np.random.Generator, products: np.ndarray) -> np.ndarray:
    """Draw C by its product: any, near, cancelling, or with a sum halfway between two FP32 numbers."""
    any_c = corner_values(rng, FP32, products.shape, specials=0.03)
    finite = np.where(np.isfinite(products), products, 1.0)
    mantissa, exponent = np.frexp(finite)
    whole = np.maximum(np.abs(np.ldexp(mantissa, 22)).astype(np.int64), 1)  # Products of fp16 have 22 bits.
    last = exponent - 22 + np.round(np.log2(whole & -whole)).astype(np.int64)
    fraction = 1 + rng.integers(0, 1 << 23, products.shape) / (1 << 23)
    fraction = np.where(rng.random(products.shape) < 0.3, rng.choice([1.0, 2 - 2.0**-23], products.shape), fraction)
    sign = rng.choice([-1.0, 1.0], products.shape)
    tie = np.ldexp(sign * fraction, last + 24).astype(np.float32).view(np.uint32)
    near = (
        np.ldexp(sign * fraction, exponent + rng.integers(-26, 27, products.shape)).astype(np.float32).view(np.uint32)
    )
    cancels = (-finite).astype(np.float32).view(np.uint32)
    return np.choose(rng.integers(0, 5, products.shape), [any_c, tie, near, cancels, any_c & (1 << 31)])


def multiply_add(a: int, b: int, c: int) -> int:
    """Return SoftFloat's a*b + c, rounded once to FP32. Products with a zero b are skipped."""
    left, right = (softfloat.Float16.from_bytes(bits.to_bytes(2, "big")).to_f32() for bits in (a, b))
    if not b & 0x7FFF:
        left = softfloat.Float32.from_float(0.0)
    result = softfloat.f32_mul_add(left, right, softfloat.Float32.from_bytes(c.to_bytes(4, "big")))
    bits = int.from_bytes(result.to_bytes(), "big")
    if softfloat.f32_is_nan(result):
        return EXACT_NAN
    return 0 if bits == 0x80000000 else bits


@pytest.mark.parametrize("count", [400, pytest.param(1_250, marks=pytest.mark.slow)])
def test_fp16_multiply_add(count, tmp_path):
    """Compare A*B + C, one in each stream and PE, with Berkeley SoftFloat."""
    side = 4
    config = TileConfig(rows=side, columns=side, lanes=2, depth=2, connectivity=((0, 0), (1, 0)), initial=True)
    rng = np.random.default_rng(5)
    a, b = np.zeros((2, count, side, 1, 2), np.uint16)
    lane = np.arange(count) % 2  # Each pair's other lane has zeros.
    for side_bits, fmt in ((a, config.a_format), (b, config.b_format)):
        side_bits[np.arange(count), :, 0, lane] = corner_values(rng, fmt, (count, side), specials=0.03)
    values = np.array(table("fp16").floats)
    a_bits, b_bits = a.max(axis=(2, 3)), b.max(axis=(2, 3))
    with np.errstate(invalid="ignore"):
        c = addends(rng, values[a_bits][:, np.newaxis, :] * values[b_bits][:, :, np.newaxis])
    found = Replayer(config, tmp_path).run(a, b, c)
    assert not found.mismatches
    expected = np.zeros_like(c)
    seen = {"zero": 0, "nan": 0, "infinity": 0, "inexact": 0}
    for (stream, row, column), c_bits in np.ndenumerate(c):
        softfloat.set_exception_flags(softfloat.ExceptionFlag(0))
        bits = multiply_add(int(a_bits[stream, column]), int(b_bits[stream, row]), int(c_bits))
        expected[stream, row, column] = bits
        seen["zero"] += bits == 0
        seen["nan"] += bits == EXACT_NAN
        seen["infinity"] += bits & 0x7FFFFFFF == 0x7F800000
        seen["inexact"] += softfloat.test_exception_flags(softfloat.ExceptionFlag.INEXACT)
    assert expected.size == count * side**2
    assert_same(found.c_bits, expected, a, b, c)
    assert min(seen.values()) > 100, seen


@pytest.mark.parametrize(
    ("name", "count"),
    [("fp16", 400), *(pytest.param(name, 1_250, marks=pytest.mark.slow) for name in ("fp16", "bf16"))],
)
def test_products(name, count, tmp_path):
    """Compare products, one in each stream and PE, with Berkeley SoftFloat; subnormal results separately."""
    side = 4
    config = TileConfig(
        rows=side, columns=side, lanes=2, sparsity="none", format=name, accumulator={"fused": 23, "rounding": "nearest"}
    )
    rng = np.random.default_rng(6)
    a, b = np.zeros((2, count, side, 1, 2), np.uint16)
    for side_bits, fmt in ((a, config.a_format), (b, config.b_format)):
        side_bits[..., 0, 0] = corner_values(rng, fmt, (count, side), specials=0.02)
    found = Replayer(config, tmp_path).run(a, b)
    assert not found.mismatches
    compared = 0
    for (stream, row, column), bits in np.ndenumerate(found.c_bits):
        a_bits, b_bits = int(a[stream, column, 0, 0]), int(b[stream, row, 0, 0])
        expected = bits_of(fp32_of(name, a_bits) * fp32_of(name, b_bits), FUSED_NAN)
        if is_tiny(expected, a_bits, b_bits):
            continue
        assert bits == expected, (hex(a_bits), hex(b_bits))
        compared += 1
    assert compared > 0.8 * found.c_bits.size
