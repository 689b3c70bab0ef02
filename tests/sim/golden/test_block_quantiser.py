"""Compare the golden quantiser with `quantise_blocks`, which is separate code, and with cases by hand."""

import numpy as np
import pytest

from tensordash.configuration.formats import SCALES
from tensordash_sim.golden.block_quantiser import BlockQuantiser, quantised_block
from tensordash_sim.golden.block_scales import quantise_blocks

from .conftest import float_format

ONE, INFINITY, MIN_NORMAL = 0x3F800000, 0x7F800000, 0x00800000


def draw_blocks(seed: int, blocks: int) -> np.ndarray:
    """Draw FP32 patterns: of any magnitude, near each other, with few bits, and near both ends of the range."""
    rng = np.random.default_rng(seed)
    top = rng.choice(np.array([3, 12, 60, 127, 200, 253]), (blocks, 1))
    fields = np.maximum(top - rng.integers(0, 40, (blocks, 32)) * (rng.random((blocks, 32)) < 0.7), 0)
    fractions = rng.integers(0, 1 << 23, (blocks, 32))
    fractions = np.where(rng.random((blocks, 1)) < 0.5, fractions >> 19 << 19, fractions)
    bits = (rng.integers(0, 2, (blocks, 32)) << 31 | fields << 23 | fractions).astype(np.uint32)
    bits[rng.random(bits.shape) < 0.1] &= 1 << 31
    bits[0] = 0
    bits[1, 7] = INFINITY
    bits[2, 31] = INFINITY + 5
    return bits


@pytest.mark.parametrize("scale_rounding", ["floor", "up"])
@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2", "fp6_e2m3", "fp6_e3m2", "fp4_e2m1"])
def test_blocks_match_quantise_blocks(name, scale_rounding):
    blocks = draw_blocks(4, 300)
    random = np.random.default_rng(5).integers(0, 1 << 16, blocks.shape, dtype=np.uint16)
    ways = {"nearest": None, "stochastic": random, "zero": np.zeros_like(random)}
    for rounding, bits in ways.items():
        options = {"random": bits, "scale_rounding": scale_rounding}
        expected = quantise_blocks(blocks.view(np.float32), float_format(name), SCALES["e8m0"], **options)
        for k, block in enumerate(blocks.tolist()):
            elements, scale = quantised_block(
                block, float_format(name), rounding, random[k].tolist(), scale_rounding=scale_rounding
            )
            assert (list(elements), scale) == (expected.bits[k].tolist(), int(expected.scales[k, 0])), (rounding, k)


def test_ends_of_the_range():
    fmt = float_format("fp8_e4m3")
    subnormal = MIN_NORMAL - 1
    assert quantised_block([subnormal, subnormal | 1 << 31] + 30 * [0], fmt) == ((0, 0x80) + 30 * (0,), 0)
    # 2**-126 divided by the least scale, 2**-127, is 2.
    assert quantised_block([MIN_NORMAL] + 31 * [0], fmt) == ((0x40,) + 31 * (0,), 0)
    largest = INFINITY - 1  # Divided by 2**119, these are near 512, beyond 448.
    assert quantised_block([largest] + 31 * [0], fmt)[0][0] == fmt.largest
    assert quantised_block([largest] + 31 * [0], fmt, "zero") == ((fmt.largest,) + 31 * (0,), 127 + 119)
    assert quantised_block(31 * [ONE] + [INFINITY | 1 << 31], fmt) == (32 * (0,), 0xFF)


def test_scales_that_are_rounded_up():
    """The largest element is the limit: 448 keeps the scale; the next number doubles the scale."""
    fmt, limit = float_format("fp8_e4m3"), 0x43E00000  # 448
    assert quantised_block([limit] + 31 * [0], fmt, scale_rounding="up") == ((0x7E,) + 31 * (0,), 127)
    assert quantised_block([limit + 1] + 31 * [0], fmt, scale_rounding="up") == ((0x76,) + 31 * (0,), 128)
    assert quantised_block([limit + 1] + 31 * [0], fmt) == ((0x7E,) + 31 * (0,), 127)
    largest = INFINITY - 1
    assert quantised_block([largest] + 31 * [0], fmt, scale_rounding="up")[1] == 127 + 120


def test_beats_enter_while_others_leave():
    """If the consumer is always ready, a beat leaves in every cycle after the first block."""
    quantiser = BlockQuantiser(float_format("fp4_e2m1"), lanes=8)
    seen = [quantiser.cycle(True, 8 * [ONE], True) for _ in range(13)]
    assert [ports.in_ready for ports in seen] == 13 * [True]
    assert [ports.out_valid for ports in seen] == 4 * [False] + 9 * [True]
    quantiser.reset()
    seen = [quantiser.cycle(True, 8 * [ONE], False) for _ in range(6)]
    assert [ports.in_ready for ports in seen] == 4 * [True] + 2 * [False]
