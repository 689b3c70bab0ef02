"""Test matrix products: operands, results and errors."""

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS
from tensordash_sim.golden import checked_operands, encode, matmul, matmul_exact, run_streams, schedule_stream

CONFIG = TileConfig(rows=3, columns=2)
A, B = np.zeros((2, 5, 4)), np.zeros((3, 5, 4))


def test_floats_and_bit_patterns_give_the_same(rng):
    a, b = rng.standard_normal((2, 5, 4)), rng.standard_normal((3, 5, 4))
    fp16 = FORMATS["fp16"]
    from_floats = matmul(a, b, CONFIG)
    for dtype in (np.uint16, np.uint64):
        from_bits = matmul(encode(a, fp16).astype(dtype), encode(b, fp16).astype(dtype), CONFIG)
        np.testing.assert_array_equal(from_bits.c_bits, from_floats.c_bits)
    np.testing.assert_array_equal(matmul(a.astype(np.float16), b, CONFIG).c_bits, from_floats.c_bits)
    assert from_floats.c_bits.dtype == np.uint32
    assert from_floats.c.dtype == np.float32
    np.testing.assert_allclose(from_floats.c, np.einsum("ktl,rtl->rk", a, b), rtol=0.02, atol=0.02)


def test_batch_matches_single_streams(operands):
    a, b = operands.finite((6, 2, 7, 4), 0.9), operands.finite((6, 3, 7, 4), 0.3)
    batch = matmul(a, b, CONFIG)
    assert batch.c_bits.shape == (6, 3, 2)
    assert batch.row_wait.shape == (6, 3)
    for index in range(6):
        single = matmul(a[index], b[index], CONFIG)
        assert single.c_bits.shape == (3, 2)
        np.testing.assert_array_equal(batch.c_bits[index], single.c_bits)
        np.testing.assert_array_equal(single.c_bits, matmul_exact(a[index], b[index], CONFIG))
        for name in ("cycles", "steps", "effectual", "row_wait"):
            np.testing.assert_array_equal(getattr(batch, name)[index], getattr(single, name)[0])
        advances = schedule_stream((b[index] & 0x7FFF) != 0, CONFIG.options, CONFIG.depth)
        assert single.cycles[0] == len(advances)
        np.testing.assert_array_equal(single.row_wait[0], (advances - advances.min(axis=1, keepdims=True)).sum(axis=0))
        assert single.effectual[0] == np.count_nonzero(b[index] & 0x7FFF)
    assert batch.counters.cycles == batch.cycles.sum()
    assert batch.counters.steps == batch.steps.sum() == 6 * 7
    assert batch.counters.effectual == batch.effectual.sum()
    assert batch.counters.row_wait == tuple(batch.row_wait.sum(axis=0))
    counted = batch.counters.cycles + batch.counters.stall_input + batch.counters.stall_output
    assert counted == batch.elapsed


def test_streams_of_different_lengths(operands):
    lengths = (1, 9, 2, 5, 1, 1, 17, 4)
    streams = operands.streams(CONFIG, lengths)
    result = run_streams(streams, CONFIG)
    assert result.steps.tolist() == list(lengths)
    for c_bits, (a, b) in zip(result.c_bits, streams, strict=True):
        np.testing.assert_array_equal(c_bits, matmul_exact(a, b, CONFIG))


@pytest.mark.parametrize(
    ("a", "b", "error", "message"),
    [
        (
            A,
            np.zeros((4, 7, 4)),
            ValueError,
            r"b must have shape \(rows=3, T, lanes=4\) or \(batch, 3, T, 4\), not \(4",
        ),
        (np.zeros((2, 5)), B, ValueError, r"a must have shape \(columns=2, T, lanes=4\) .* not \(2, 5\)"),
        (A, np.zeros((3, 6, 4)), ValueError, r"b must have as many steps as a \(5\), not 6"),
        (A, B[None], ValueError, r"b must have as many axes as a \(3\), not 4"),
        (np.zeros((2, 2, 5, 4)), B[None], ValueError, r"b must have as many streams as a \(2\), not 1"),
        (A[:, :0], B[:, :0], ValueError, r"a must have at least one step and one stream, not shape \(2, 0, 4\)"),
        (A.astype(int), B, TypeError, r"a must be an array of fp16 bit patterns .* or of floats, not of int64"),
        (A, B.astype(bool), TypeError, "b must be an array .* not of bool"),
        (A, np.full(B.shape, 65536, np.uint32), ValueError, r"b must hold fp16 bit patterns below 2\*\*16, not 65536"),
    ],
)
def test_errors(a, b, error, message):
    with pytest.raises(error, match=message) as raised:
        matmul(a, b, CONFIG)
    assert "\n" not in str(raised.value)


WITH_C = TileConfig(rows=3, columns=2, initial=True)
INT8_WITH_C = TileConfig(rows=3, columns=2, format="int8", initial=True)
A8, B8 = A.astype(np.int64), B.astype(np.int64)


@pytest.mark.parametrize(
    ("config", "operands", "error", "message"),
    [
        (CONFIG, (A, B, np.zeros((3, 2))), ValueError, r"c must be left out, since the tile has no C input"),
        (WITH_C, (A, B, None), ValueError, r"c must be given, since the tile has a C input \(initial = true\)"),
        (WITH_C, (A, B, np.zeros((2, 3))), ValueError, r"c must have shape \(rows=3, columns=2\), not \(2, 3\)"),
        (
            WITH_C,
            (A[None], B[None], np.zeros((3, 2))),
            ValueError,
            r"c must have shape \(batch=1, rows=3, columns=2\), not \(3, 2\)",
        ),
        (WITH_C, (A, B, np.zeros((3, 2), int)), TypeError, r"c must be an array of fp32 bit patterns .* or of floats"),
        (
            WITH_C,
            (A, B, np.full((3, 2), 1 << 32, np.uint64)),
            ValueError,
            r"c must hold fp32 bit patterns below 2\*\*32",
        ),
        (
            INT8_WITH_C,
            (A8, B8, np.zeros((3, 2))),
            TypeError,
            r"c must be .* int32 bit patterns .* or of signed integers",
        ),
        (INT8_WITH_C, (A8, B8, np.full((3, 2), 1 << 31)), ValueError, r"c must be from -2147483648 .* not 2147483648"),
        (INT8_WITH_C, (A8, B8 + 200, np.zeros((3, 2), int)), ValueError, "b must be from -128 to 127, not 200"),
        (
            INT8_WITH_C,
            (A, B8, np.zeros((3, 2), int)),
            TypeError,
            r"a must be an array of int8 bit patterns \(unsigned integers\) or of signed integers, not of float64",
        ),
    ],
)
def test_errors_of_c_and_int8(config, operands, error, message):
    a, b, c = operands
    for call in (matmul, checked_operands):
        with pytest.raises(error, match=message) as raised:
            call(a, b, config, c)
        assert "\n" not in str(raised.value)


def test_checked_operands_are_patterns():
    a, b, c = checked_operands(A - 1, B, WITH_C, np.ones((3, 2)))
    assert c is not None
    assert [one.dtype for one in (a, b, c)] == [np.uint16, np.uint16, np.uint32]
    assert (a.flat[0], b.flat[0], c.flat[0]) == (0xBC00, 0, 0x3F800000)
    assert checked_operands(A, B, CONFIG)[2] is None


def test_streams_with_or_without_c():
    a, b = A.astype(np.uint16), B.astype(np.uint16)
    with pytest.raises(ValueError, match="stream 0 must be a, b and c, not 2 arrays"):
        run_streams([(a, b)], WITH_C)
    with pytest.raises(ValueError, match="stream 1 must be a and b, not 3 arrays"):
        run_streams([(a, b), (a, b, a)], CONFIG)


def test_config_must_be_a_tile_config():
    with pytest.raises(TypeError, match="config must be a TileConfig, not 'paper'"):
        matmul(A, B, "paper")  # pyright: ignore[reportArgumentType]


def test_a_stream_needs_steps_on_both_sides():
    with pytest.raises(ValueError, match="stream 0 must have T >= 1 steps on both sides, not 5 and 4"):
        run_streams([(A.astype(np.uint16), B[:, :4].astype(np.uint16))], CONFIG)
