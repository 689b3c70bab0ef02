"""Compare the staging buffer with a list."""

import pytest

from tensordash_sim.golden import StagingBuffer


def test_random_traffic_matches_a_list(rng):
    buffer = StagingBuffer(depth=3, lanes=2)
    expected: list[tuple[tuple[int, int], bool]] = []
    number = 0
    for _ in range(2_000):
        leave = int(rng.integers(0, buffer.present + 1))
        buffer.advance(leave)
        expected = expected[leave:]
        count = int(rng.integers(0, buffer.space + 1))
        steps = [(number + index, -number) for index in range(count)]
        ends = bool(count and rng.random() < 0.3)
        buffer.push(steps, ends)
        expected += [(step, ends and index == count - 1) for index, step in enumerate(steps)]
        number += count
        assert list(zip(buffer.steps, buffer.ends, strict=True)) == expected
        assert buffer.present + buffer.space == 3
        marks = [end for _, end in expected]
        assert buffer.eligible == (marks.index(True) + 1 if any(marks) else len(marks))
    buffer.reset()
    assert (buffer.present, buffer.eligible) == (0, 0)


def test_errors():
    buffer = StagingBuffer(depth=2, lanes=2)
    with pytest.raises(ValueError, match="steps must be at most 2, the space left, not 3"):
        buffer.push([(0, 0)] * 3)
    with pytest.raises(ValueError, match="a step must have lanes=2 values, not 1"):
        buffer.push([(0,)])
    with pytest.raises(ValueError, match="ends must be false when no step is pushed"):
        buffer.push([], ends=True)
    with pytest.raises(ValueError, match="count must be from 0 to the 0 steps present, not 1"):
        buffer.advance(1)
