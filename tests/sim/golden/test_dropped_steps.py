"""Compare golden's dropped steps with NumPy, and refuse programs whose sums dropped steps make undefined."""

from itertools import product
from random import Random

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, encode
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.program import Loop, walk
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.golden.core.laid_streams import misreads_streams
from tensordash_sim.verify.programs.random_programs import random_program

LANES, STREAMS = 4, 3
B_GROUPS, A_GROUPS, RESULT, MASK = 0, 200, 300, 400


def core(*overrides, drops=True):
    return load_any_preset("core-drop", [f"core.drop_steps={str(drops).lower()}", *overrides])


CONFIG = core()


def program(steps, *, skips=0, base=5):
    """Return a program that multiplies streams of groups that follow each other in the buffer."""
    walks = walk([Loop(STREAMS * steps, address=1)], 6)
    laid = {"steps": steps, "streams": STREAMS, "x_size": LANES, **walks}
    walks = walk([Loop(STREAMS**2, address=1)], 4)
    results = {"address": RESULT, "x_size": LANES, "emit": 1, "mask_address": MASK, "skip_masked": skips, **walks}
    streams = {"steps": steps, "a_streams": STREAMS, "b_streams": STREAMS, "b_base": base}
    return [
        encode(OPERATIONS["layout_b"], {**laid, "address": B_GROUPS, "base": base}),
        encode(OPERATIONS["layout_a"], {**laid, "address": A_GROUPS}),
        encode(OPERATIONS["multiply"], {**streams, **results}),
    ]


def filled(config, steps, seed):
    """Return a core with groups in its buffer of which most are zeros, and the groups of side B, (streams, steps)."""
    golden, rng = GoldenCore(config, Memory(0)), np.random.default_rng(seed)
    count, width, is_integer = STREAMS * steps, config.value_bits, config.tile.b_format.name == "int8"
    groups = np.zeros((2, count, LANES, LANES), golden.buffer.dtype)
    values = rng.integers(1, 4, groups.shape)
    groups[:] = values if is_integer else values.astype(np.float16).view(np.uint16)
    groups[0][rng.random(count) < rng.choice([0.0, 0.7, 0.95])] = 0
    lone = rng.random(count) < 0.1  # The single value of a step keeps it.
    groups[0][lone] = 0
    groups[0][lone, rng.integers(LANES), rng.integers(LANES)] = 1 << (width - 1) if is_integer else 0x8001
    groups[0][:steps][rng.integers(4) :: 4] = 0
    groups[0][-steps:] *= np.uint16(rng.integers(2))
    if not is_integer:
        groups[0][(groups[0] == 0) & (rng.random(groups[0].shape) < 0.5)] = 0x8000
    golden.buffer[B_GROUPS:][:count], golden.buffer[A_GROUPS:][:count] = groups
    golden.buffer[MASK:][: STREAMS**2 : 2] = 1
    return golden, groups[0].reshape(STREAMS, steps, -1)


def lists_of_banks(stream, depth, is_integer):
    """Return how many steps of a stream each bank keeps."""
    banks = [0] * depth
    for step, values in enumerate(stream):
        banks[step % depth] += any(int(bits) & (0xFF if is_integer else 0x7FFF) for bits in values)
    return banks


@pytest.mark.parametrize(
    ("name", "overrides"),
    {
        "fp16": [],
        "int8": ["tile.format=int8", "core.axi_bits=128"],
        "two deep": ["tile.depth=2", "tile.connectivity=[[0, 0], [1, 1]]"],
    }.items(),
)
@pytest.mark.parametrize(("seed", "steps"), [*product(range(4), [1, 7, 32])])
def test_passes_take_the_remaining_steps(name, overrides, seed, steps):
    config, plain = core(*overrides), core(*overrides, drops=False)
    depth, skips = config.tile.window_depth, seed % 2
    golden, streams = filled(config, steps, seed)
    dense, _ = filled(plain, steps, seed)
    for each in (golden, dense):
        assert not each.run(program(steps, skips=skips)).error
    banks = [max(1, *lists_of_banks(stream, depth, name == "int8")) for stream in streams]
    runs = [sum((stream * STREAMS + k) % 2 == 0 for k in range(STREAMS)) if skips else STREAMS for stream in range(3)]
    assert golden.steps == depth * sum(each * run for each, run in zip(banks, runs, strict=True))
    assert dense.steps == depth * -(-steps // depth) * sum(runs)
    assert np.array_equal(golden.buffer, dense.buffer)
    assert steps == 1 or golden.buffer[RESULT:MASK].any()


STEPS = 6
READ = {"steps": STEPS, "a_streams": 1, "x_size": LANES}
"""Two words of each bank for each stream."""


def layout(**fields):
    return encode(OPERATIONS["layout_b"], {"steps": STEPS, "streams": 4, "x_size": LANES, **fields})


def multiply(**fields):
    return encode(OPERATIONS["multiply"], {**READ, **fields})


DEFINED = {
    "all streams": [layout(), multiply(b_streams=4)],
    "the last streams": [layout(base=3), multiply(b_base=7, b_streams=2)],
    "streams of two layouts": [layout(streams=1), layout(streams=1, base=2), multiply(b_streams=2)],
    "streams written again": [layout(streams=2), layout(streams=1), multiply(b_streams=2)],
}
UNDEFINED = {
    "no stream": [multiply(b_streams=1)],
    "fewer steps in the same words": [layout(), multiply(steps=5, b_streams=1)],
    "fewer words": [layout(), multiply(steps=4, b_streams=1)],
    "more words": [layout(), multiply(steps=16, b_streams=1)],
    "inside a stream": [layout(), multiply(b_base=1, b_streams=1)],
    "beyond the last stream": [layout(base=3), multiply(b_base=9, b_streams=3)],
    "a stream whose end is overwritten": [layout(), layout(steps=1, streams=1, base=3), multiply(b_streams=2)],
    "a stream whose beginning is overwritten": [layout(), layout(steps=4, streams=1), multiply(b_streams=1)],
    "a stream from a later layout": [layout(base=9), multiply(b_streams=1), layout()],
}


@pytest.mark.parametrize("name", DEFINED)
def test_streams_as_laid_out_are_defined(name):
    assert not misreads_streams(DEFINED[name], CONFIG)
    assert not GoldenCore(CONFIG, Memory(0)).run(DEFINED[name]).error


@pytest.mark.parametrize("name", UNDEFINED)
def test_other_streams_are_undefined(name):
    assert misreads_streams(UNDEFINED[name], CONFIG)
    with pytest.raises(ValueError, match="must read streams of side B as a layout wrote them"):
        GoldenCore(CONFIG, Memory(0)).run(UNDEFINED[name])
    assert not GoldenCore(core(drops=False), Memory(0)).run(UNDEFINED[name]).error


def test_undefined_streams_name_their_words():
    match = "words 1 to 6 are not 3 streams of 6 steps"
    with pytest.raises(ValueError, match=match):
        GoldenCore(CONFIG, Memory(0)).run([layout(), multiply(b_base=1, b_streams=3)])


def test_streams_out_of_range_are_an_error():
    room = CONFIG.stream_words("b")
    for outside in (layout(base=room - 1), multiply(b_streams=1, b_base=room)):
        assert not misreads_streams([outside, multiply(b_streams=1)], CONFIG)
        assert GoldenCore(CONFIG, Memory(0)).run([outside]).error == "range"


def test_random_programs_do_not_depend_on_dropping():
    """A random program reads streams as laid out, and leaves the same memory, in fewer steps."""
    fewer = same = 0
    for seed in range(40):
        config = core("core.partial_sums=16", "core.buffer=32")
        case = random_program(Random(seed), config)
        assert not misreads_streams(case.program.descriptors, config)
        cores = []
        for drops in (True, False):
            cores.append(GoldenCore(core("core.partial_sums=16", "core.buffer=32", drops=drops), Memory(1 << 17)))
            cores[-1].memory.bytes[:] = case.memory.bytes
            assert not cores[-1].run(case.program.descriptors).error
        assert cores[0].memory.bytes == cores[1].memory.bytes
        fewer, same = fewer + (cores[0].steps < cores[1].steps), same + (cores[0].steps == cores[1].steps)
    assert fewer > 10
    assert same > 2


def test_misread_streams_need_a_core_that_drops_steps():
    """Cores without dropped steps may read any words."""
    assert CoreConfig().drop_steps is False
    assert not GoldenCore(CoreConfig(), Memory(0)).run(UNDEFINED["no stream"]).error
