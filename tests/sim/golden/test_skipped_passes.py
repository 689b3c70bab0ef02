"""Compare golden's skipped passes with NumPy, and with programs that skip none."""

from random import Random

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, decode, encode
from tensordash_sim.compiler.program import Loop, walk
from tensordash_sim.golden.core.effects import overwrites_masks
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.golden.core.legal import Sequencer
from tensordash_sim.verify.programs.corruptor import with_fields
from tensordash_sim.verify.programs.random_programs import random_program

CONFIG = CoreConfig.from_toml("", ["core.skip_masked=true", "tile.rows=8"])
LANES, STEPS, STREAMS = 4, 8, 3
POSITION_GROUPS, CHANNEL_GROUPS = 2 * STREAMS, STREAMS
RESULT, MASK = 100, 300
MULTIPLY = {"steps": STEPS, "a_streams": STREAMS, "b_streams": STREAMS, "emit": 1, "address": RESULT, "x_size": 24}
WALK = [Loop(2, x=LANES), Loop(STREAMS, address=POSITION_GROUPS), Loop(STREAMS, x=2 * LANES)]
"""Groups of a block, blocks of a stream of side B, and its streams; `address` counts channel groups."""


def multiply(**fields):
    """Return the bits of a multiply of all streams."""
    return encode(OPERATIONS["multiply"], {**MULTIPLY, "mask_address": MASK, **walk(WALK, 4), **fields})


def filled(seed):
    """Return a core with small integers in its streams, and masks of which most groups are zeros of either sign."""
    rng, golden = np.random.default_rng(seed), GoldenCore(CONFIG, Memory(0))
    for streams in golden.streams.values():
        integers = rng.integers(-3, 4, (STREAMS * STEPS, *streams.shape[1:]))
        streams[: STREAMS * STEPS] = integers.astype(np.float16).view(np.uint16)
    masks = rng.standard_normal((CHANNEL_GROUPS, POSITION_GROUPS, LANES, LANES)).astype(np.float16)
    masks[rng.random(masks.shape) < 0.5] = 0
    masks[rng.random(masks.shape[:2]) < 0.7] = 0
    signs = rng.choice(np.array([1, -1], np.float16), masks.shape)
    golden.buffer[MASK:][: CHANNEL_GROUPS * POSITION_GROUPS] = (masks * signs).view(np.uint16).reshape(-1, LANES, LANES)
    return golden, masks


def products(golden):
    """Return the sums of all passes, (channels, positions)."""
    sides = []
    for side in "ba":
        values = golden.streams[side][: STREAMS * STEPS].view(np.float16).astype(np.float64)
        values = values.reshape(STREAMS, STEPS, -1, LANES).transpose(0, 2, 1, 3)
        sides.append(values.reshape(-1, STEPS * LANES))
    rows, columns = sides
    return columns @ rows.T


def skipped_channels(masks, x_size=24):
    """Return which sums belong to skipped passes, (channels, positions): both groups of a block have no other mask."""
    is_inside = np.arange(POSITION_GROUPS) * LANES < x_size
    blocks = ((masks != 0).any(axis=(2, 3)) & is_inside).reshape(CHANNEL_GROUPS, STREAMS, 2).any(axis=2)
    return ~np.repeat(np.repeat(blocks, LANES, axis=0), 2 * LANES, axis=1)


def results(golden):
    """Return the results in the buffer, (channels, positions)."""
    groups = golden.buffer[RESULT:][: CHANNEL_GROUPS * POSITION_GROUPS].view(np.float16)
    return groups.reshape(CHANNEL_GROUPS, -1, LANES).transpose(0, 2, 1).reshape(CHANNEL_GROUPS * LANES, -1)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mask", [0, 1])
@pytest.mark.parametrize("x_size", [24, 16, 9])
def test_skipped_blocks_are_zero(seed, mask, x_size):
    golden, masks = filled(seed)
    assert not golden.run([multiply(skip_masked=1, mask=mask, x_size=x_size)]).error
    skipped = skipped_channels(masks, x_size)
    expected = np.where(skipped, 0, products(golden))
    if mask:
        zeros = (masks == 0).transpose(0, 3, 1, 2).reshape(expected.shape)
        expected = np.where(zeros, 0, expected)
    expected[:, x_size:] = 0
    np.testing.assert_array_equal(results(golden), expected)
    assert golden.steps == STEPS * np.count_nonzero(~skipped[::LANES, :: 2 * LANES]) < STEPS * STREAMS**2


def test_skipped_blocks_are_added():
    """A skipped block adds +0 to partial sums, and becomes partial sums without `emit`."""
    golden, masks = filled(1)
    partial = {"emit": 0, "partial": 5}
    program = [multiply(**partial), multiply(**partial, skip_masked=1, add=1), multiply(partial=5, add=1)]
    assert not golden.run(program).error
    expected = products(golden) * np.where(skipped_channels(masks), 2, 3)
    np.testing.assert_array_equal(results(golden), expected)


def test_masks_follow_the_first_group_of_fp32_results():
    golden, masks = filled(2)
    double = [Loop(each.count, 2 * each.address, each.x) for each in WALK]
    spread = np.full((CHANNEL_GROUPS * POSITION_GROUPS, 2, LANES, LANES), 0x3C00, np.uint16)
    spread[:, 0] = masks.reshape(-1, LANES, LANES).view(np.uint16)
    golden.buffer[MASK:][: 2 * len(spread)] = spread.reshape(-1, LANES, LANES)
    assert not golden.run([multiply(skip_masked=1, fp32=1, **walk(double, 4))]).error
    halves = golden.buffer[RESULT:][: 2 * len(spread)].view(np.float32)  # Half of the channels in each group.
    halves = halves.reshape(CHANNEL_GROUPS, POSITION_GROUPS, 2, LANES, LANES // 2)
    found = halves.transpose(0, 2, 4, 1, 3).reshape(CHANNEL_GROUPS * LANES, -1)
    np.testing.assert_array_equal(found, np.where(skipped_channels(masks), 0, products(golden)))


def test_programs_with_masks_do_not_depend_on_skipping():
    """The memory after a program is the same without the flag, apart from counts, if results are masked."""
    config, compared, skipped = CoreConfig.from_toml("", ["core.skip_masked=true", "core.partial_sums=16"]), 0, 0
    for seed in range(60):
        case = random_program(Random(seed), config)
        descriptors = case.program.descriptors
        values = [decode(bits)[1] for bits in descriptors]
        if not any(each.get("skip_masked") for each in values) or not all(each.get("mask", 1) for each in values):
            continue
        plain = [
            bits if "skip_masked" not in each else with_fields(bits, skip_masked=0)
            for bits, each in zip(descriptors, values, strict=True)
        ]
        cores = []
        for program in (descriptors, plain):
            cores.append(GoldenCore(config, Memory(len(case.memory.bytes))))
            cores[-1].memory.bytes[:] = case.memory.bytes
            assert not cores[-1].run(program[:-2]).error  # The last but one records counts.
        assert cores[0].memory.bytes == cores[1].memory.bytes
        compared, skipped = compared + 1, skipped + (cores[0].steps < cores[1].steps)
    assert compared > 15
    assert skipped > 10


def test_walks_that_cannot_be_skipped_are_refused():
    for fields in ({"stride": 2}, {"x": 2}, {"x": -3}, {"x_0": 1}, {"x_3": 6}):
        bits = multiply(**fields)
        assert Sequencer(CONFIG).refusal(bits) == ""
        assert Sequencer(CONFIG).refusal(with_fields(bits, skip_masked=1)) == "field"
    assert Sequencer(CONFIG).refusal(multiply(skip_masked=1, x=-8)) == ""
    assert Sequencer(CoreConfig()).refusal(multiply(skip_masked=1)) == "reserved"


def test_range_does_not_depend_on_skipping():
    golden = GoldenCore(CONFIG, Memory(0))
    assert golden.run([multiply(skip_masked=1, a_base=CONFIG.stream_words("a"))]).error == "range"
    assert golden.run([multiply(skip_masked=1, emit=0, partial=CONFIG.partial_sums - 1)]).error == "range"


def test_overwritten_masks():
    assert not overwrites_masks(multiply(skip_masked=1), CONFIG)
    assert not overwrites_masks(multiply(skip_masked=1, mask_address=RESULT), CONFIG)
    assert overwrites_masks(multiply(skip_masked=1, mask_address=RESULT - 2), CONFIG)
    assert not overwrites_masks(multiply(mask_address=RESULT - 2), CONFIG)
    repeated = multiply(skip_masked=1, mask_address=RESULT, address_1=0)
    assert overwrites_masks(repeated, CONFIG)
