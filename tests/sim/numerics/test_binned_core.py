"""Compare a core's binned partial sums in any order, plus a bias, with one sum in rational arithmetic."""

from collections import Counter
from random import Random

import pytest

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS, FP32
from tensordash.configuration.numerics import Binned
from tensordash_sim.golden import BinnedAccumulator
from tensordash_sim.golden.core.results import result_bits
from tensordash_sim.golden.core.sums import CoreSum, add_bias, add_partial, make_sum
from tensordash_sim.verify.random_values import EXPONENTS, random_value

from .reference_dots import binned_dot
from .test_binned import config_of, random_pairs

CASES = {
    "bf16": (("bf16", "bf16"), Binned(3)),
    "bf16, 4 bins of 8": (("bf16", "bf16"), Binned(4, 8)),
    "fp16": (("fp16", "fp16"), Binned(3)),
    "bf16 and fp16": (("bf16", "fp16"), Binned(4, 11)),
    "fp8": (("fp8_e4m3", "fp8_e5m2"), Binned(3, 9)),
}


def summed(config: TileConfig, random: Random, pairs: list[tuple[int, ...]], bias: int) -> tuple[CoreSum, int]:
    """Return the sum of short passes, merged in random order, with the bias, and the number of wraps."""
    shuffled = random.sample(pairs, len(pairs))
    passes: list[CoreSum] = []
    while shuffled or not passes:
        count = random.randint(0, len(shuffled))
        passes.append(make_sum(config))
        assert not passes[-1].accumulate(shuffled[:count], first=True)
        shuffled = shuffled[count:]
    overflows = 0
    while len(passes) > 1:
        partial = passes.pop(random.randrange(len(passes)))
        overflows += add_partial(random.choice(passes), partial)
    return passes[0], overflows + add_bias(passes[0], bias)


@pytest.mark.parametrize("name", CASES)
def test_chunks_and_bias_are_one_sum(name):
    """In ten orders, the result equals the definition's for the entire reduction."""
    names, accumulator = CASES[name]
    config, random, seen = config_of(names, accumulator), Random(f"binned core {name}"), Counter()
    for index in range(160):
        exponents, bias_exponents = random.choice(EXPONENTS)
        pairs = random_pairs(
            random, config, ("random", "cancellation", "ends", "special")[index % 4], random.choice((exponents, None))
        )
        bias = random.choice((0, 1 << 31, *(random_value(random, FP32, 0.02, bias_exponents) for _ in range(6))))
        if random.random() < 0.1:
            bias = random.getrandbits(32)
        expected = binned_dot(names, [pairs], bias, accumulator, seen, is_bias=True)
        for _ in range(10):
            total, overflows = summed(config, random, pairs, bias)
            found = total.result_bits()
            assert (found, overflows) == (expected, 0), (pairs, hex(bias), hex(found), hex(expected))
    assert all(seen[each] for each in ("rounded", "truncated", "cancellation", "nan", "infinity")), seen


@pytest.mark.parametrize("name", CASES)
def test_bias_alone(name):
    """For each exponent, a bias is cut at the unit, and becomes an infinity above all bins."""
    names, accumulator = CASES[name]
    config, random = config_of(names, accumulator), Random("bias")
    for field in range(256):
        for sign in (0, 1):
            bias = sign << 31 | field << 23 | random.getrandbits(23)
            total = make_sum(config)
            total.accumulate([], first=True)
            assert not add_bias(total, bias)
            assert total.result_bits() == binned_dot(names, [], bias, accumulator, is_bias=True), hex(bias)


def test_overflows_of_merging():
    """A bin that leaves its range is counted once. A dropped bin is not counted."""
    config = config_of(*CASES["bf16"], headroom_bits=2)
    end = (1 << 18) - 1

    def merged(top: int, sums: dict[int, int], other_top: int, other: dict[int, int]) -> tuple[bool, int]:
        partials = [BinnedAccumulator(config) for _ in range(2)]
        for each, number, digits in zip(partials, (top, other_top), (sums, other), strict=True):
            each.accumulate([], first=True)
            each.top, each.sums = number, digits
        return add_partial(*partials), partials[0].block_bits()

    assert not merged(9, {9: end, 7: 1}, 9, {9: 0, 7: end - 1})[0]
    assert merged(9, {9: end}, 9, {9: 1})[0]
    assert merged(9, {7: -end - 1}, 9, {7: -1})[0]
    assert merged(9, {9: 1}, 10, {9: end})[0]
    assert not merged(9, {7: 1}, 10, {7: end})[0]
    assert merged(9, {7: end}, 10, {7: end})[1] == merged(10, {}, 9, {})[1]
    # A wrapped bin is counted again only if its register leaves the range.
    assert not merged(9, {9: end + 1}, 9, {9: 1})[0]
    assert merged(9, {9: end + 1}, 9, {9: -1})[0]


def test_subnormal_sums_become_zeros():
    """A sum below FP32's normal numbers becomes a zero of its sign, for every factor."""
    fields = {"scale": 30, "relu": 0, "mask": 0, "fp32": 0, "stochastic": 0, "toward_zero": 0}
    bf16 = FORMATS["bf16"]
    for bits, scale, expected in (
        (0x007FFFFF, 30, 0x0000),
        (0x807FFFFF, 30, 0x8000),
        (0x80000001, 0, 0x8000),
        (0x00800000, 0, 0x0080),
        (0x00800000, -3, 0x0010),
    ):
        assert result_bits(bits, fields | {"scale": scale}, bf16, masked=False, random=0) == expected
    config = config_of(*CASES["bf16"])
    total = make_sum(config)
    total.accumulate([(0x0001, 0x3F80)], first=True)  # 2**-133
    assert total.result_bits() == 1 << 16
