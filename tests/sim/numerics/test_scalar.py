"""Compare golden products and D = A*B + C with ml_dtypes, NumPy and Berkeley SoftFloat."""

import math

import numpy as np
import pytest
import softfloatpy as softfloat

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS
from tensordash_sim.golden import make_accumulator
from tensordash_sim.verify.corner_cases import corner_values

from .dot_cases import dot_cases
from .format_values import table
from .reference_dots import EXACT_NAN, FUSED_NAN

FP8 = ("fp8_e4m3", "fp8_e5m2")
COUNTS = [20_000, pytest.param(200_000, marks=pytest.mark.slow)]


def config_of(a: str, b: str, accumulator: object = "exact", **more) -> TileConfig:
    return TileConfig(format={"a": a, "b": b}, accumulator=accumulator, sparsity="none", **more)  # type: ignore[arg-type]


def canonical(value: float, nan: int) -> int:
    """Return FP32 bits of a number that FP32 holds, with one zero and one NaN."""
    if math.isnan(value):
        return nan
    bits = np.float32(value)
    assert float(bits) == value
    return int(bits.view(np.uint32)) if value else 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("accumulator", ["exact", "volta", "hopper"])
@pytest.mark.parametrize("a_name", FP8)
@pytest.mark.parametrize("b_name", FP8)
def test_every_product_of_fp8(a_name, b_name, accumulator):
    golden = make_accumulator(config_of(a_name, b_name, accumulator))
    nan = EXACT_NAN if accumulator == "exact" else FUSED_NAN
    b_values = table(b_name).floats
    for a, a_value in enumerate(table(a_name).floats):
        for b in range(256):
            assert not golden.accumulate([(a, b)], first=True)
            assert golden.result_bits() == canonical(a_value * b_values[b], nan), (hex(a), hex(b))


def test_every_product_of_int8():
    golden = make_accumulator(config_of("int8", "int8"))
    values = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.int32)
    products = np.multiply.outer(values, values).view(np.uint32).tolist()
    for a in range(256):
        for b in range(256):
            assert not golden.accumulate([(a, b)], first=True)
            assert golden.result_bits() == products[a][b], (a, b)


# SoftFloat


def fp32_of(name: str, bits: int) -> softfloat.Float32:
    """Return an operand as SoftFloat's FP32, which holds every fp16 and bf16."""
    kind = softfloat.Float16 if name == "fp16" else softfloat.BFloat16
    return kind.from_bytes(bits.to_bytes(2, "big")).to_f32()


def bits_of(value: softfloat.Float32, nan: int) -> int:
    bits = int.from_bytes(value.to_bytes(), "big")
    if softfloat.f32_is_nan(value):
        return nan
    return 0 if bits == 0x80000000 else bits


def is_tiny(expected: int, a: int, b: int) -> bool:
    """Return whether a product is below 2**-126, where alignment truncates bits before rounding."""
    return 0 < expected & 0x7FFFFFFF < 1 << 23 or (expected == 0 and a & 0x7FFF != 0 and b & 0x7FFF != 0)


@pytest.fixture
def toward_zero():
    before = softfloat.get_rounding_mode()
    softfloat.set_rounding_mode(softfloat.RoundingMode.MIN_MAG)
    yield
    softfloat.set_rounding_mode(before)


def pairs_of(name: str, count: int, seed: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    a, b = (corner_values(rng, FORMATS[name], count, specials=0.02).tolist() for _ in range(2))
    return list(zip(a, b, strict=True))


@pytest.mark.parametrize("count", COUNTS)
def test_products_of_fp16(count):
    """Exact and fused accumulators keep every product, since FP32 holds all of them."""
    exact, fused = make_accumulator(config_of("fp16", "fp16")), make_accumulator(config_of("fp16", "fp16", "volta"))
    softfloat.set_exception_flags(softfloat.ExceptionFlag(0))
    for a, b in pairs_of("fp16", count, seed=1):
        expected = fp32_of("fp16", a) * fp32_of("fp16", b)
        for golden, nan in ((exact, EXACT_NAN), (fused, FUSED_NAN)):
            golden.accumulate([(a, b)], first=True)
            assert golden.result_bits() == bits_of(expected, nan), (hex(a), hex(b))
    assert not softfloat.test_exception_flags(softfloat.ExceptionFlag.INEXACT)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("accumulator", ["volta", "hopper"])
def test_products_of_bf16(accumulator, count, toward_zero):
    """SoftFloat also rounds toward zero, but overflows to the largest finite number."""
    golden = make_accumulator(config_of("bf16", "bf16", accumulator))
    seen = {"overflow": 0, "subnormal": 0, "inexact": 0}
    for a, b in pairs_of("bf16", count, seed=2):
        softfloat.set_exception_flags(softfloat.ExceptionFlag(0))
        product = fp32_of("bf16", a) * fp32_of("bf16", b)
        expected = bits_of(product, FUSED_NAN)
        if softfloat.test_exception_flags(softfloat.ExceptionFlag.OVERFLOW):
            seen["overflow"] += 1
            expected += 1  # The golden model overflows to infinity.
        elif expected & 0x7FFFFFFF < 1 << 23:
            seen["subnormal"] += expected & 0x7FFFFFFF != 0
            seen["inexact"] += softfloat.test_exception_flags(softfloat.ExceptionFlag.INEXACT)
        golden.accumulate([(a, b)], first=True)
        found = golden.result_bits()
        assert (0 if found == 0x80000000 else found) == expected, (hex(a), hex(b))
    assert min(seen.values()) > count / 500, seen


@pytest.mark.parametrize("count", COUNTS)
def test_bf16_to_nearest_where_products_are_normal(count):
    golden = make_accumulator(config_of("bf16", "bf16", {"fused": 23, "rounding": "nearest"}))
    compared = 0
    for a, b in pairs_of("bf16", count, seed=3):
        expected = bits_of(fp32_of("bf16", a) * fp32_of("bf16", b), FUSED_NAN)
        if is_tiny(expected, a, b):
            continue
        golden.accumulate([(a, b)], first=True)
        assert golden.result_bits() == expected, (hex(a), hex(b))
        compared += 1
    assert compared > count / 2


@pytest.mark.parametrize("count", COUNTS)
def test_fp16_multiply_add(count):
    """D = A*B + C on the exact accumulator is a fused multiply-add."""
    golden = make_accumulator(config_of("fp16", "fp16", initial=True))
    seen = {"inexact": 0, "zero": 0, "nan": 0, "infinity": 0}
    fp16 = FORMATS["fp16"]
    for (((a, b),),), c in dot_cases(np.random.default_rng(4), fp16, fp16, count, lanes=1):
        softfloat.set_exception_flags(softfloat.ExceptionFlag(0))
        c_value = softfloat.Float32.from_bytes(c.to_bytes(4, "big"))
        expected = bits_of(softfloat.f32_mul_add(fp32_of("fp16", a), fp32_of("fp16", b), c_value), EXACT_NAN)
        golden.accumulate([(a, b)], first=True)
        assert golden.result_bits(c) == expected, (hex(a), hex(b), hex(c))
        seen["inexact"] += softfloat.test_exception_flags(softfloat.ExceptionFlag.INEXACT)
        seen["zero"] += expected == 0
        seen["nan"] += expected == EXACT_NAN
        seen["infinity"] += expected & 0x7FFFFFFF == 0x7F800000
    assert min(seen.values()) > count / 200, seen
