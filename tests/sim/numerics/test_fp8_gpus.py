"""Compare the fp8 presets with the published rules of Ada, Hopper and Blackwell.

Ada and Hopper: P. Xie et al., arXiv:2511.10909. Blackwell: captured results of a B200. Its instruction may be emulated,
and differs from that paper's description of the unit.
"""

import struct
from itertools import pairwise

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.golden import make_accumulator

from .dot_cases import dot_cases
from .format_values import fp32_bits, power_of_two, table

LANES = {"ada-fp8": 16, "hopper-fp8": 32, "blackwell-fp8": 32}
FORMATS = ("fp8_e4m3", "fp8_e5m2")
CUT = (1 << 10) - 1
"""FP32's fraction bits after the first 13, as a mask."""


def fp8(value: float, name: str) -> int:
    """Return the pattern of a value that the format holds."""
    return table(name).floats.index(value) if value >= 0 else fp8(-value, name) | 0x80


def value_of(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


class Instruction:
    """An instruction on real numbers: 32 products and C, added in the GPU's steps. Other products are zero."""

    def __init__(self, accumulator: str, name: str) -> None:
        self.lanes, self.name = LANES[accumulator], name
        self._golden = make_accumulator(
            TileConfig(format=name, accumulator=accumulator, lanes=self.lanes, initial=True, sparsity="none")
        )

    def __call__(self, products: dict[int, tuple[float, float]], c: float = 0.0) -> float:
        factors = [products.get(k, (0.0, 0.0)) for k in range(32)]
        pairs = [(fp8(a, self.name), fp8(b, self.name)) for a, b in factors]
        for first in range(0, 32, self.lanes):
            self._golden.accumulate(pairs[first : first + self.lanes], first=first == 0, c=fp32_bits(c))
        return value_of(self._golden.result_bits())


@pytest.fixture(params=FORMATS)
def name(request):
    return request.param


ONE = (1.0, 1.0)


@pytest.mark.parametrize("accumulator", ["ada-fp8", "hopper-fp8"])
def test_thirteen_bits_below_the_largest_and_no_more(accumulator, name):
    multiply = Instruction(accumulator, name)
    big, small = (32.0, 2.0), power_of_two(-7)  # 64 and 2**-7 are 13 bits apart.
    assert multiply({0: big, 1: small}) == 64 + 2.0**-7
    assert multiply({0: big, 1: power_of_two(-8)}) == 64
    assert multiply({0: big, **{k: power_of_two(-8) for k in range(1, 16)}}) == 64
    assert multiply({k: power_of_two(-8) for k in range(1, 16)}) == 15 * 2.0**-8


@pytest.mark.parametrize("accumulator", ["ada-fp8", "hopper-fp8"])
def test_results_have_thirteen_bits(accumulator, name):
    """A carry moves the last place up, and lower bits are truncated, for either sign."""
    multiply = Instruction(accumulator, name)
    products = {0: (32.0, 2.0), 1: (32.0, 2.0), 2: power_of_two(-7)}
    assert multiply(products) == 128
    assert multiply({k: (-a, b) for k, (a, b) in products.items()}) == -128
    assert multiply(products | {3: power_of_two(-7)}) == 128 + 2.0**-6
    assert multiply({0: ONE}, c=2 - 2.0**-13) == 3 - 2.0**-12


def test_ada_cuts_the_sum_of_sixteen_before_the_next_sixteen(name):
    ada, hopper = Instruction("ada-fp8", name), Instruction("hopper-fp8", name)
    fits = {0: (2.0, 1.0), 1: power_of_two(-12), 16: power_of_two(-12)}
    assert ada(fits) == hopper(fits) == 2 + 2.0**-11
    # 4 + 2**-12 is one bit too long, which has no effect if -4 is added in the same step.
    carry = dict.fromkeys(range(4), ONE) | {4: power_of_two(-12), 16: (-2.0, 1.0), 17: (-2.0, 1.0)}
    assert hopper(carry) == 2.0**-12
    assert ada(carry) == 0
    # A term of 2**-8 is lost in a sum with 64, but Ada adds two such terms before 64.
    late = {0: power_of_two(-8), 1: power_of_two(-8), 16: (32.0, 2.0)}
    assert hopper(late) == 64
    assert ada(late) == 64 + 2.0**-7


@pytest.mark.parametrize("accumulator", ["ada-fp8", "hopper-fp8"])
def test_c_is_aligned_like_a_product_and_cut_like_a_result(accumulator, name):
    multiply = Instruction(accumulator, name)
    assert multiply({0: power_of_two(-8)}, c=64.0) == 64
    assert multiply({0: power_of_two(-7)}, c=64.0) == 64 + 2.0**-7
    assert multiply({}, c=1 + 2.0**-23) == 1
    assert multiply({}, c=1 + 2.0**-13 + 2.0**-14) == 1 + 2.0**-13
    assert multiply({}, c=2.0**-140) == 0  # FP32's subnormals are truncated too.
    assert multiply({}, c=2.0**-139) == 2.0**-139


def test_blackwell_adds_c_to_the_rounded_sum_of_the_products(name):
    multiply = Instruction("blackwell-fp8", name)
    # F is 25 and FP32 has 23 bits, so the sum keeps 64 and 2**-12. Alignment does not cut a smaller C.
    assert multiply({0: (32.0, 2.0), 1: power_of_two(-12)}) == 64 + 2.0**-12
    # Blackwell rounds to nearest, ties to even; the other two truncate.
    ulp = 2.0**-23
    assert multiply({0: ONE}, c=ulp / 2) == 1
    assert multiply({0: ONE}, c=ulp * 0.75) == 1 + ulp
    assert multiply({0: ONE}, c=ulp * 1.5) == 1 + 2 * ulp
    assert multiply({0: (-1.0, 1.0)}, c=-ulp * 0.75) == -1 - ulp
    # C does not affect the products' alignment: they are summed before C = 2**26 is added.
    tiny = {k: power_of_two(2) for k in range(32)}
    assert multiply(tiny, c=2.0**30) == 2.0**30 + 128
    assert multiply({0: (1.0, 1.0)}, c=-1.0) == 0
    assert struct.pack("<f", multiply({0: (1.0, -1.0)}, c=1.0)) == struct.pack("<f", 0.0)


def test_blackwell_cuts_the_sum_of_the_products():
    """The sum is truncated to 23 bits before C is added. The last place is 2**-4, so 3 * 2**-6 is lost."""
    multiply = Instruction("blackwell-fp8", "fp8_e5m2")
    products = dict.fromkeys(range(16), (57344.0, 1.0)) | {16: (2.0**-5, 1.0), 17: (2.0**-6, 1.0)}
    assert multiply(products) == 16 * 57344  # 20 bits before the binary point leave 4 after.
    assert multiply(products, c=2.0**-6) == 16 * 57344  # With the truncated part, the sum would be 2**-4 larger.


@pytest.mark.parametrize("a_name", FORMATS)
@pytest.mark.parametrize("b_name", FORMATS)
@pytest.mark.parametrize("accumulator", ["ada-fp8", "hopper-fp8"])
def test_the_low_ten_bits_are_zero_after_each_block(accumulator, a_name, b_name):
    lanes = LANES[accumulator]
    config = TileConfig(
        format={"a": a_name, "b": b_name}, accumulator=accumulator, lanes=lanes, initial=True, sparsity="none"
    )
    golden, seen = make_accumulator(config), set()
    for steps, c in dot_cases(np.random.default_rng(8), config.a_format, config.b_format, 300, steps=2, lanes=lanes):
        for number, step in enumerate(steps):
            golden.accumulate(step, first=number == 0, c=c)
            bits = golden.result_bits()
            assert bits & CUT == 0 or bits == 0x7FFFFFFF
            seen.add(bits >> 10 & 7)
    assert len(seen) == 8


@pytest.mark.parametrize("accumulator", ["hopper-fp8", "blackwell-fp8"])  # Ada differs only in its lanes.
@pytest.mark.parametrize("a_name", FORMATS)
@pytest.mark.parametrize("b_name", FORMATS)
def test_every_product(a_name, b_name, accumulator):
    """Each single product is exact: it has at most 8 significant bits."""
    golden = make_accumulator(TileConfig(format={"a": a_name, "b": b_name}, accumulator=accumulator, sparsity="none"))
    a_values, b_values = np.array(table(a_name).floats), np.array(table(b_name).floats)
    with np.errstate(invalid="ignore"):
        products = np.multiply.outer(a_values, b_values).astype(np.float32)
    expected = np.where(np.isnan(products), np.uint32(0x7FFFFFFF), np.where(products == 0, 0, products.view(np.uint32)))
    for a, row in enumerate(expected.tolist()):
        for b, bits in enumerate(row):
            golden.accumulate([(a, b)], first=True)
            assert golden.result_bits() == bits, (hex(a), hex(b))


def test_addend_after_is_added_as_fp32_adds():
    """Every pair of special FP32 values, one as a product of bf16 and one as C, compared with NumPy."""
    config = TileConfig(
        format="bf16", accumulator={"fused": 64, "addend": "after"}, initial=True, sparsity="none", lanes=2
    )
    golden = make_accumulator(config)
    fields = [0, 1, 2, 23, 24, 25, 26, 120, 127, 150, 151, 152, 253, 254]
    fractions = [0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFF]
    numbers = [sign << 31 | field << 23 | fraction for sign in (0, 1) for field in fields for fraction in fractions]
    tops = sorted({number & 0xFFFF0000 for number in numbers})
    assert all(low < high for low, high in pairwise(tops))
    compared = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for top in tops:
            golden.accumulate([(top >> 16, 0x3F80)], first=True)
            product = np.uint32(golden.result_bits()).view(np.float32)
            for c in numbers:
                golden.accumulate([(top >> 16, 0x3F80)], first=True, c=c)
                total = product + np.uint32(c).view(np.float32)
                expected = int(total.view(np.uint32)) if total else 0
                assert golden.result_bits() == expected, (hex(top), hex(c))
                compared += 1
    assert compared > 10_000
