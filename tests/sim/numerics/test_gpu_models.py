"""Compare the presets with publications about the tensor cores that they are named after.

The presets give the recorded results of a published model, bit by bit, and the results that others found on GPUs:
M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ Computer Science 7,
2021 (V100, T4, A100); F. Khattak, M. Mikaitis, "Accurate models of NVIDIA tensor cores", arXiv:2512.07004 (also H100).
"""

import json
import struct
from fractions import Fraction

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.configuration.numerics import ACCUMULATORS
from tensordash_sim.golden import make_accumulator

from .format_values import fp32_bits, power_of_two
from .record_gpu_models import PATH

RECORDED = json.loads(PATH.read_text(encoding="utf-8"))["results"]
GPUS = {"volta": (4, 23), "ampere": (8, 24), "hopper": (16, 25)}  # products added at once, and F


def split(digits: str, lanes: int) -> list[int]:
    size = len(digits) // lanes
    return [int(digits[i : i + size], 16) for i in range(0, len(digits), size)]


def results(entry: dict, accumulator: object) -> list[str]:
    """Return the golden model's results of an entry's cases."""
    lanes, found = entry["lanes"], []
    golden = make_accumulator(
        TileConfig(format=entry["format"], accumulator=accumulator, initial=True, sparsity="none")  # type: ignore[arg-type]
    )
    for case in entry["a b c d"]:
        a_bits, b_bits, c, _ = case.split()
        count = lanes * entry.get("steps", 1)
        pairs = list(zip(split(a_bits, count), split(b_bits, count), strict=True))
        for first in range(0, count, lanes):
            golden.accumulate(pairs[first : first + lanes], first=first == 0, c=int(c, 16))
        found.append(f"{golden.result_bits():08x}")
    return found


@pytest.mark.parametrize(
    "entry", RECORDED, ids=lambda entry: f"{entry['gpu']}-{entry['instruction']}-{entry['accumulator']}"
)
def test_recorded_results_of_a_published_model(entry):
    recorded = [case.split()[-1] for case in entry["a b c d"]]
    assert len(recorded) == 100
    for case, found, expected in zip(entry["a b c d"], results(entry, entry["accumulator"]), recorded, strict=True):
        assert found == expected or (entry["accumulator"] == "cdna1" and cancels(case, 64)), case


def cancels(case: str, bits: int) -> bool:
    """Return whether the exact sum of fp16 products and C is `bits` below the largest product."""
    a_bits, b_bits, c, _ = case.split()
    a, b = ([float(each) for each in np.array(split(bits, 4), np.uint16).view(np.float16)] for bits in (a_bits, b_bits))
    products = [Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True)]
    total = sum(products) + Fraction(float(np.uint32(int(c, 16)).view(np.float32)))
    return abs(total) * 2**bits < max(map(abs, products))


def as_table(accumulator: str | dict) -> dict:
    return accumulator if isinstance(accumulator, dict) else ACCUMULATORS[accumulator].table()


@pytest.mark.parametrize("entry", [entry for entry in RECORDED if "zero_exponent" in as_table(entry["accumulator"])])
def test_recorded_results_depend_on_the_exponent_of_zero(entry):
    """If zero counts with exponent -126, or an exponent next to the model's, results differ."""
    recorded = [case.split()[-1] for case in entry["a b c d"]]
    table = as_table(entry["accumulator"])
    for wrong in (-126, *(table["zero_exponent"] + off for off in (-1, 1))):
        assert results(entry, table | {"zero_exponent": wrong}) != recorded


# Results found on GPUs


def fp16(value: float) -> int:
    bits = np.float16(value)
    assert bits == value
    return int(bits.view(np.uint16))


class TensorCore:
    """One step of a preset in fp16, on real numbers."""

    def __init__(self, gpu: str) -> None:
        self.lanes, self.fraction_bits = GPUS[gpu]
        self._golden = make_accumulator(TileConfig(accumulator=gpu, initial=True, sparsity="none"))

    def __call__(self, *products: float | tuple[float, float], c: float = 0.0) -> float:
        """Return C plus products. Each is a number, multiplied by 1, or a pair of factors. Other lanes are zero."""
        assert len(products) <= self.lanes
        pairs = [factors if isinstance(factors, tuple) else (factors, 1.0) for factors in products]
        pairs += [(0.0, 0.0)] * (self.lanes - len(pairs))
        self._golden.accumulate([(fp16(a), fp16(b)) for a, b in pairs], first=True, c=fp32_bits(c))
        return struct.unpack("<f", struct.pack("<I", self._golden.result_bits()))[0]


@pytest.fixture(params=GPUS)
def core(request):
    return TensorCore(request.param)


def test_subnormal_operands_and_results(core):
    assert core((2.0**-24, 4.0)) == 2.0**-22
    assert core(c=2.0**-149) == 2.0**-149
    assert core((2.0**-24, 2.0**-24)) == 2.0**-48
    assert core(c=-(2.0**-126 - 2.0**-149)) == -(2.0**-126 - 2.0**-149)


def test_products_are_exact(core):
    below_one = 1 - 2.0**-11
    assert core((below_one, below_one)) == 1 - 2.0**-10 + 2.0**-22
    assert core(*[(below_one, below_one)] * 4) == 4 * (1 - 2.0**-10 + 2.0**-22)


def test_terms_are_aligned_to_the_largest(core):
    """Sequential addition would keep terms before the largest one."""
    tiny = power_of_two(-core.fraction_bits - 1)
    for place in range(core.lanes):
        terms = [tiny] * core.lanes
        terms[place] = (1.0, 1.0)
        assert core(*terms, c=2.0**-24 if core.fraction_bits == 23 else 0.0) == 1.0
    assert core(*[tiny] * core.lanes, c=1.0) == 1.0
    assert core(*[tiny] * core.lanes) == core.lanes * 2.0 ** (-core.fraction_bits - 1)


@pytest.mark.parametrize("sign", [1, -1])
def test_alignment_keeps_the_documented_extra_bits(core, sign):
    """Alignment keeps no more bits than FP32 on V100, one more on A100, and two more on H100."""
    visible = [
        k
        for k in range(20, 30)
        if core(sign * 1.0, (sign * power_of_two(-k)[0], power_of_two(-k)[1]), c=-sign * 1.0) != 0
    ]
    assert visible == list(range(20, core.fraction_bits + 1))
    assert core(1.0, c=-(1 - 2.0**-24)) == (2.0**-23 if core.fraction_bits == 23 else 2.0**-24)


@pytest.mark.parametrize("sign", [1, -1])
def test_results_are_rounded_toward_zero(core, sign):
    assert core(2.0 * sign, (1.5 * 2.0**-12, sign * 2.0**-11)) == 2.0 * sign
    assert core(*[sign * 1.0] * 4, c=sign * (1 + 2.0**-22 + 2.0**-23)) == sign * 5.0


def test_sums_have_room_for_carries(core):
    assert core(1.0, 1.5, 1.75, 1.875, c=1.875) == 8.0
    carried = core(1.0, 1.0, 1.0, power_of_two(-23), c=1 + 2.0**-22 + 2.0**-23)
    assert carried == 4 + 2.0**-21


def test_sums_are_normalised_only_at_the_end(core):
    """A larger C may give a smaller result: products count in a sum with 1 - 2**-24, but not with 1."""
    tiny = [power_of_two(-core.fraction_bits - 1)] * core.lanes
    assert core(*tiny, c=1 - 2.0**-24) == 1 + 2.0**-23
    assert core(*tiny, c=1.0) == 1.0


def test_groups_have_the_size_of_the_preset(core):
    """Twice as many products take two steps. Each is rounded, so that the second is lost in the sum with 1."""
    tiny = [power_of_two(-core.fraction_bits - 1)] * core.lanes
    first = core(*tiny, c=1 - 2.0**-24)
    assert core(*tiny, c=first) == first
    together = Fraction(1) - Fraction(2) ** -24 + 2 * core.lanes * Fraction(2) ** (-core.fraction_bits - 1)
    assert together > Fraction(first) + Fraction(2) ** -23
