"""Matrix products: what goes in, what comes out, and errors that help."""

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.formats import FORMATS
from tensordash_sim.golden import encode, matmul, matmul_exact, run_streams, schedule_stream

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


def test_a_batch_is_its_streams_one_by_one(operands):
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


def test_the_configuration_must_be_one():
    with pytest.raises(TypeError, match="config must be a TileConfig, not 'paper'"):
        matmul(A, B, "paper")  # pyright: ignore[reportArgumentType]


def test_a_stream_needs_steps_on_both_sides():
    with pytest.raises(ValueError, match="stream 0 must have T >= 1 steps on both sides, not 5 and 4"):
        run_streams([(A.astype(np.uint16), B[:, :4].astype(np.uint16))], CONFIG)
