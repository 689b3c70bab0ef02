"""Compare the golden core's products with float64, and test the error of each wrong program."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import HEADER, OPERATIONS, decode, encode
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.program import Loop, Program, ProgramError
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.golden.core.tensors import deflate, from_groups, inflate, to_groups
from tensordash_sim.verify.programs.random_operands import random_values
from tensordash_sim.verify.programs.random_programs import random_program

CONFIG = CoreConfig()
A, W, RESULT = 0x1000, 0x4000, 0x8000


def random_fp16(rng, shape, zeros=0.5):
    values = rng.standard_normal(shape).astype(np.float16)
    return np.where(rng.random(shape) < zeros, np.float16(0), values)


def bits(values):
    return np.ascontiguousarray(values).view(np.uint16)


class Layer:
    """A convolution in the core: A (channels, height, width), W (filters, channels, kernel, kernel)."""

    def __init__(self, seed, *, channels, filters, size, kernel, stride, padding):
        rng = np.random.default_rng(seed)
        self.stride, self.padding, self.kernel = stride, padding, kernel
        self.a = random_fp16(rng, (channels, size, size))
        self.w = random_fp16(rng, (filters, channels, kernel, kernel), zeros=0.2)
        self.out = (size + 2 * padding - kernel) // stride + 1
        self.memory = Memory(1 << 16)
        # A: y, channel group, x group. W: kernel row, kernel column, channel group, filter group.
        groups_of_a = to_groups(bits(self.a.transpose(1, 0, 2)), CONFIG)
        groups_of_w = to_groups(bits(self.w.transpose(2, 3, 1, 0)), CONFIG)
        self.cg, self.xg = groups_of_a.shape[1:3]
        self.fg = groups_of_w.shape[3]
        self.counts = groups_of_a.size // 16, groups_of_w.size // 16
        self.memory.write(A, groups_of_a.tobytes())
        self.memory.write(W, groups_of_w.tobytes())

    def run(self):
        """Return the output's rows in float16; positions are the scheduled side."""
        program = Program()
        kernel, cg, xg, fg, out = self.kernel, self.cg, self.xg, self.fg, self.out
        og = -(-out // 4)
        program.add("load", signal=["layout_b"], memory=A, address=0, count_0=self.counts[0])
        program.add("load", signal=["layout_a"], memory=W, address=512, count_0=self.counts[1])
        steps = kernel * kernel * cg
        program.add(
            "layout_a",
            wait=["load"],
            signal=["multiply"],
            steps=steps,
            streams=fg,
            address=512,
            x_size=len(self.w),
            loops=[Loop(count=kernel * kernel * cg, address=fg), Loop(count=fg, x=4)],
        )
        for y in range(out):
            program.add(
                "layout_b",
                wait=["load"] if y == 0 else ["multiply"],
                signal=["multiply"],
                steps=steps,
                streams=og,
                checked=1,
                stride=self.stride,
                address=((y * self.stride - self.padding) * cg * xg) % (1 << 16),
                x=-self.padding,
                y=y * self.stride - self.padding,
                x_size=self.a.shape[2],
                y_size=self.a.shape[1],
                loops=[
                    Loop(count=cg, address=xg),
                    Loop(count=kernel, x=1),
                    Loop(count=kernel, address=cg * xg, y=1),
                    Loop(count=og, x=4 * self.stride),
                ],
            )
            program.add(
                "multiply",
                wait=["layout_b", *(["layout_a"] if y == 0 else [])],
                signal=["layout_b"],
                output_signal=["store"] if y == out - 1 else [],
                a_streams=fg,
                b_streams=og,
                steps=steps,
                emit=1,
                address=1024 + y * fg * og,
                x_size=out,
                loops=[Loop(count=fg, address=og), Loop(count=og, x=4)],
            )
        program.add("layout_b", wait=["multiply"], steps=1, streams=1, x_size=1)
        program.add("store", wait=["output"], memory=RESULT, address=1024, count_0=out * fg * og)
        program.add("end")
        outcome = GoldenCore(CONFIG, self.memory).run(program.descriptors)
        assert outcome.error == "", outcome
        stored = np.frombuffer(self.memory.read(RESULT, 32 * out * fg * og), np.uint16)
        return from_groups(stored.reshape(out, fg, og, 16), CONFIG, len(self.w), out).view(np.float16)

    def expected(self):
        """Compute the output in float64, rounded to FP32 and then to float16."""
        padded = np.pad(self.a.astype(np.float64), ((0, 0), (self.padding,) * 2, (self.padding,) * 2))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (self.kernel,) * 2, (1, 2))
        windows = windows[:, :: self.stride, :: self.stride]
        sums = np.einsum("cyxij,fcij->yfx", windows, self.w.astype(np.float64))
        return sums.astype(np.float32).astype(np.float16)


@pytest.mark.parametrize(
    "layer",
    [
        {"channels": 3, "filters": 5, "size": 6, "kernel": 3, "stride": 1, "padding": 1},
        {"channels": 5, "filters": 2, "size": 7, "kernel": 3, "stride": 2, "padding": 1},
        {"channels": 4, "filters": 4, "size": 9, "kernel": 2, "stride": 3, "padding": 0},
        {"channels": 1, "filters": 9, "size": 8, "kernel": 1, "stride": 4, "padding": 0},
    ],
)
def test_convolution(layer):
    layer = Layer(1, **layer)
    np.testing.assert_array_equal(layer.run(), layer.expected())


@pytest.mark.parametrize("preset", ["core", "core-bf16", "core-int8"])
def test_zero_skipping_changes_nothing(preset):
    random, sparse = Random(5), load_any_preset(preset)
    for _ in range(5):
        case = random_program(random, sparse)
        memories = []
        for config in (sparse, sparse.baseline):
            memory = Memory(1 << 17)
            memory.bytes[:] = case.memory.bytes
            assert GoldenCore(config, memory).run(case.program.descriptors).error == ""
            memories.append(memory.bytes)
        assert memories[0] == memories[1]


@pytest.mark.parametrize("preset", ["core", "core-bf16", "core-int8"])
def test_results_are_independent_of_chunks(preset):
    """A reduction in one pass and in several passes, whose results are added, gives the same bits."""
    config, random = load_any_preset(preset), Random(7)
    results = {"stride": 1, "x_size": 4, "emit": 1, "fp32": 1, "bias": 1, "bias_address": 64, "a_streams": 1}
    for _ in range(6):
        golden = GoldenCore(config, Memory(0))
        for streams in golden.streams.values():
            streams[:64] = random_values(random, config, streams[:64].shape, 0.3)
        golden.buffer[64] = random_values(random, config, golden.buffer[64].shape, 0.3)
        golden._multiply(multiply_fields({**results, "steps": 64, "address": 0}))
        cuts = [0, *sorted(random.sample(range(1, 16), 3)), 16]  # Cuts are in words.
        for index, (begin, end) in enumerate(pairwise(cuts)):
            fields = {"steps": 4 * (end - begin), "a_base": begin, "b_base": begin, "add": int(index > 0), "partial": 3}
            last = {**results, "address": 32} if end == 16 else {"a_streams": 1, "x_size": 1}
            golden._multiply(multiply_fields({**last, **fields}))
        assert (golden.buffer[0:2] == golden.buffer[32:34]).all()
        assert golden.buffer[0:2].any()


def multiply_fields(fields):
    """Return all fields of a multiply of one stream of side B."""
    _, values = decode(encode(OPERATIONS["multiply"], {"b_streams": 1, **fields}))
    return values


def test_groups_round_trip():
    rng = np.random.default_rng(3)
    for width in (16, 32):
        values = rng.integers(0, 1 << width, (2, 7, 5))
        groups = to_groups(values, CONFIG, bits=width)
        assert groups.shape == (2, 2, 2, 16 * width // 16)
        np.testing.assert_array_equal(from_groups(groups, CONFIG, 7, 5, bits=width), values)


def test_compression_loses_nothing():
    rng = np.random.default_rng(4)
    groups = np.where(rng.random((9, 16)) < 0.5, 0, rng.integers(0, 1 << 16, (9, 16))).astype(np.uint16)
    data, table = deflate(groups, CONFIG, segment=4)
    assert table[-1] * 2 == len(data)
    units = np.frombuffer(data, np.uint16)
    np.testing.assert_array_equal(inflate(units, CONFIG, 9), groups)
    np.testing.assert_array_equal(inflate(units[table[1] : table[2]], CONFIG, 4), groups[4:8])
    assert inflate(units[:-1], CONFIG, 9) is None
    assert inflate(units, CONFIG, 8) is None


def test_fields_do_not_overlap():
    for operation in OPERATIONS.values():
        seen = 0
        for field in (*HEADER, *operation.fields):
            assert not seen & field.mask, (operation.name, field.name)
            seen |= field.mask
        assert seen < 1 << 512


MULTIPLY = {"steps": 1, "a_streams": 1, "b_streams": 1, "x_size": 1, "emit": 1}
ERRORS = {
    "operation": lambda program: program.descriptors.append(9),
    "reserved": lambda program: program.descriptors.append(7 | 1 << 500),
    "field": lambda program: program.add("load", memory=8, count_0=1),
    "range": lambda program: program.add("load", address=CONFIG.groups - 1, count_0=2),
    "tokens": lambda program: program.add("store", wait=["output"], count_0=1),
    "address": lambda program: program.add("multiply", **{**MULTIPLY, "address": CONFIG.groups}),
    "compressed": lambda program: program.add("load", compressed=1, segment=1, count_0=1),
    "read": lambda program: program.add("load", memory=1 << 30, count_0=1),
    "write": lambda program: program.add("store", memory=1 << 30, count_0=1),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    program = Program()
    program.add("load", count_0=1)
    ERRORS[name](program)
    program.add("end")
    outcome = GoldenCore(CONFIG, Memory(4096)).run(program.descriptors)
    assert (outcome.error, outcome.index, outcome.done, outcome.ends) == (name, 1, 1, 0)


def test_a_fetch_that_memory_refuses():
    program = Program()
    program.add("load", count_0=1)
    memory = Memory(64)
    memory.write(0, program.image())
    assert GoldenCore(CONFIG, memory).run_queue(0, 2).error == "fetch"


def test_invalid_descriptors():
    program = Program()
    with pytest.raises(ProgramError, match="operation must be one of load, .*, not 'fetch'"):
        program.add("fetch")
    with pytest.raises(ProgramError, match=r"descriptor 0: load.count_0 must be from 1 to 65535, not 0"):
        program.add("load", count_0=0)
    with pytest.raises(ProgramError, match="a token's unit must be one of .*, not 'tile'"):
        program.add("load", wait=["tile"])
    with pytest.raises(ProgramError, match="a walk must have at most 6 loops"):
        program.add("layout_a", loops=[Loop(count=2)] * 7)
