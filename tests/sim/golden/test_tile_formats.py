"""Test the tile's results in every format, with every kind of accumulator and C."""

from typing import Any

import numpy as np
import pytest

from tensordash import TileConfig, load_preset
from tensordash.configuration.numerics import Fused
from tensordash_sim.golden import (
    FP32,
    Tile,
    dot_exact,
    encode,
    is_finite,
    make_accumulator,
    matmul,
    matmul_exact,
    run_streams,
)

MIXED = {"a": "fp8_e4m3", "b": "fp8_e5m2"}
ODD: dict[str, Any] = {"lanes": 5, "depth": 3, "connectivity": [[0, 0], [2, -1], [1, 1], [1, 0]]}
EXACT = {
    "fp16-c": TileConfig(rows=2, columns=3, initial=True),
    "fp16-c-both": TileConfig(rows=4, columns=2, out_rows=2, initial=True, sparsity="both", pipeline=1),
    "fp16-c-none": TileConfig(rows=3, columns=2, initial=True, sparsity="none", pipeline=1),
    "fp16-c-odd": TileConfig(rows=2, columns=2, initial=True, full_window=True, **ODD),
    "e4m3": TileConfig(rows=2, columns=2, format="fp8_e4m3"),
    "e5m2-c": TileConfig(rows=2, columns=2, format="fp8_e5m2", initial=True, pipeline=3),
    "mixed-c": TileConfig(rows=2, columns=2, format=MIXED, initial=True),
    "mixed-both": TileConfig(rows=2, columns=2, format=MIXED, sparsity="both"),
    "int8": TileConfig(rows=3, columns=2, format="int8"),
    "int8-c": TileConfig(rows=4, columns=2, format="int8", initial=True, out_rows=2),
    "int8-c-none": TileConfig(rows=2, columns=2, format="int8", initial=True, sparsity="none", pipeline=1),
}
FUSED = {
    "volta": TileConfig(rows=2, columns=2, accumulator="volta"),
    "bf16-c": TileConfig(rows=2, columns=2, format="bf16", accumulator="ampere", initial=True),
    "bf16-c-both": TileConfig(rows=4, columns=2, format="bf16", accumulator="volta", initial=True, sparsity="both"),
    "mixed-c": TileConfig(rows=2, columns=1, format=MIXED, accumulator=Fused(13, "nearest"), initial=True, **ODD),
    "e4m3-c": TileConfig(rows=4, columns=1, out_rows=4, format="fp8_e4m3", accumulator="hopper", initial=True),
    "bf16-c-none": TileConfig(
        rows=2, columns=2, format="bf16", accumulator="hopper", initial=True, sparsity="none", pipeline=1
    ),
}
every_exact = pytest.mark.parametrize("config", EXACT.values(), ids=EXACT.keys())
LENGTHS = (1, 1, 7, 2, 1, 12, 4, 5)


def expected(config, stream) -> np.ndarray:
    a, b, *c = stream
    return matmul_exact(a, b, config, *c)


@every_exact
@pytest.mark.parametrize("density", [0.0, 0.4, 1.0])
def test_exact_is_equal_to_the_baseline_and_to_mathematics(config, density, operands):
    streams = operands.streams(config, (1, 6, 19), density)
    result, dense = run_streams(streams, config), run_streams(streams, config.baseline)
    np.testing.assert_array_equal(result.c_bits, [expected(config, stream) for stream in streams])
    np.testing.assert_array_equal(result.c_bits, dense.c_bits)
    assert not result.protocol_error
    assert result.c.dtype == (np.int32 if config.numerics.result == "int32" else np.float32)


@pytest.mark.parametrize(
    "config", [*EXACT.values(), *FUSED.values()], ids=[*EXACT, *(f"fused-{name}" for name in FUSED)]
)
@pytest.mark.parametrize(
    ("idle", "busy", "c_idle"), [(0.0, 0.0, 0.5), (0.6, 0.0, 0.0), (0.0, 0.6, 0.0), (0.5, 0.5, 0.9)]
)
def test_arrival_and_back_pressure_change_no_bit(config, idle, busy, c_idle, operands, rng, drive):
    """Operands include infinities and NaN. Pauses change neither results nor the flag."""
    streams = operands.streams(config, LENGTHS, share=0.002)
    smooth = run_streams(streams, config)
    if not isinstance(config.numerics.accumulator, Fused):
        np.testing.assert_array_equal(smooth.c_bits, [expected(config, stream) for stream in streams])
    tile = Tile(config)
    trace = drive(
        tile,
        streams,
        lambda port: int(rng.integers(0, 6)) if rng.random() < idle else 99,
        lambda: bool(rng.random() >= busy),
        c_valid=lambda: bool(rng.random() >= c_idle),
    )
    np.testing.assert_array_equal(trace.blocks, smooth.c_bits)
    counters = tile.counters
    assert counters.steps == sum(LENGTHS)
    assert counters.cycles + counters.stall_input + counters.stall_output == len(trace.outputs)
    formats = config.a_format, config.b_format, FP32
    special = any(
        not is_finite(int(bits), fmt)
        for stream in streams
        for array, fmt in zip(stream, formats, strict=False)
        for bits in (array.ravel() if config.numerics.result == "fp32" else [])
    )
    assert (tile.non_finite, tile.protocol_error) == (special, False)


@pytest.mark.parametrize("accumulator", ["volta", Fused(11, "nearest")])
@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8_e5m2"])
def test_the_fused_baseline_adds_step_by_step(accumulator, name, operands):
    config = TileConfig(rows=2, columns=2, format=name, accumulator=accumulator, sparsity="none", initial=True)
    for a, b, c in operands.streams(config, (1, 9, 20), 0.8):
        result = matmul(a, b, config, c)
        for row in range(2):
            for column in range(2):
                pe = make_accumulator(config)
                for step, pairs in enumerate(zip(a[column].tolist(), b[row].tolist(), strict=True)):
                    pe.accumulate(zip(*pairs, strict=True), step == 0, int(c[row, column]))
                assert result.c_bits[row, column] == pe.result_bits()


def test_fused_result_depends_on_the_schedule():
    """Two terms of 2**-24 after 1 are lost in two schedules, but count in one."""
    config = TileConfig(rows=1, columns=1, accumulator="ampere")
    a, b = np.ones((1, 3, 4)), np.zeros((1, 3, 4))
    b[0, 0, 0], b[0, 1, 1], b[0, 2, 2] = 1, 2.0**-24, 2.0**-24
    assert matmul(a, b, config).c_bits.item() == 0x3F800001
    assert matmul(a, b, config.baseline).c_bits.item() == 0x3F800000


def test_stream_of_zeros_returns_c():
    """No lane is active, so that the result is C with one zero and one NaN."""
    c = np.array([[0x3F812345, 0x80000000], [0xFF800000, 0xFFC12345]], np.uint32)
    zeros = np.zeros((2, 3, 4), np.uint16)
    for settings, nan in (({}, 0x7FC00000), ({"accumulator": Fused(8, "zero")}, 0x7FFFFFFF)):
        config = TileConfig(rows=2, columns=2, initial=True, **settings)
        assert matmul(zeros, zeros, config, c).c_bits.tolist() == [[0x3F812345, 0], [0xFF800000, nan]]
    # The baseline multiplies the zeros, so that F = 8 truncates C.
    config = TileConfig(rows=2, columns=2, initial=True, accumulator=Fused(8, "zero"), sparsity="none")
    assert matmul(zeros, zeros, config, c).c_bits.tolist() == [[0x3F810000, 0], [0xFF800000, 0x7FFFFFFF]]


def test_fused_tiles_wait_for_a_full_window(operands, drive):
    """The tile schedules four steps at a time for any arrival, so that the order of additions is fixed."""
    config = TileConfig(rows=1, columns=1, accumulator="volta")
    assert config.needs_full_window
    stream = operands.streams(config, [11], 0.5)
    trace = drive(Tile(config), stream, lambda port: 1)
    np.testing.assert_array_equal(trace.blocks, run_streams(stream, config).c_bits)


@pytest.mark.parametrize("sparsity", ["none", "rows", "both"])
def test_int8_matches_numpy(sparsity, rng):
    config = TileConfig(rows=3, columns=2, format="int8", sparsity=sparsity, initial=True)
    a = rng.integers(-128, 128, (4, 2, 9, 4))
    b = rng.integers(-128, 128, (4, 3, 9, 4)) * (rng.random((4, 3, 9, 4)) < 0.5)
    c = rng.integers(-(2**31), 2**31, (4, 3, 2))
    wide = np.einsum("nktl,nrtl->nrk", a, b) + c
    result = matmul(a, b, config, c)
    np.testing.assert_array_equal(result.c, (wide + 2**31) % 2**32 - 2**31)
    assert result.overflow == (wide != result.c).any()
    patterns = matmul(a.astype(np.uint8), b.astype(np.uint8), config, c.astype(np.uint32))
    np.testing.assert_array_equal(patterns.c_bits, result.c_bits)
    in_range = matmul(a, b, config, np.zeros_like(c))
    assert not in_range.overflow
    assert not in_range.non_finite


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2"])
def test_floats_and_c_are_rounded_first(name, rng):
    config = TileConfig(rows=2, columns=2, format=name, initial=True)
    a, b, c = rng.standard_normal((2, 5, 4)), rng.standard_normal((2, 5, 4)), rng.standard_normal((2, 2))
    result = matmul(a, b, config, c)
    a_bits, b_bits, c_bits = (
        encode(a, config.a_format),
        encode(b, config.b_format),
        c.astype(np.float32).view(np.uint32),
    )
    np.testing.assert_array_equal(result.c_bits, matmul(a_bits, b_bits, config, c_bits).c_bits)
    for row in range(2):
        for column in range(2):
            one = dot_exact(a_bits[column], b_bits[row], config.a_format, c=int(c_bits[row, column]))
            assert result.c_bits[row, column] == one
    np.testing.assert_allclose(result.c, np.einsum("ktl,rtl->rk", a, b) + c, atol=0.6)


def test_the_presets_run():
    for name, steps in (("paper", 5), ("dense", 3)):
        config = load_preset(name, ["tile.format=bf16", "tile.accumulator=volta", "tile.initial=true"])
        ones = np.ones((4, steps, 4))
        assert (matmul(ones, ones, config, np.full((4, 4), 0.5)).c == 4 * steps + 0.5).all()
