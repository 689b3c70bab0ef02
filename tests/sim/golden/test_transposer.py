"""Test that the transposer keeps order and content under any traffic, and runs at full speed."""

import pytest

from tensordash_sim.golden import Transposer, transpose_group


def groups_of(rng, lanes, count):
    groups = rng.integers(0, 1 << 16, (count, lanes, lanes)).tolist()
    flags = (rng.random(count) < 0.5).tolist()
    expected = []
    for group, flag in zip(groups, flags, strict=True):
        expected += transpose_group(group) if flag else [tuple(block) for block in group]
    return groups, flags, expected


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("idle", [0.0, 0.5])
@pytest.mark.parametrize("busy", [0.0, 0.5])
def test_any_traffic(lanes, idle, busy, rng):
    groups, flags, expected = groups_of(rng, lanes, 30)
    blocks = [(block, flag) for group, flag in zip(groups, flags, strict=True) for block in group]
    transposer = Transposer(lanes)
    found, sent, held = [], 0, None
    for cycle in range(100_000):
        valid = sent < len(blocks) and rng.random() >= idle
        ready = bool(rng.random() >= busy)
        block, flag = blocks[sent] if valid else (None, False)
        # Only the flag of a group's first block counts.
        flag = flag if sent % lanes == 0 else bool(rng.random() < 0.5)
        ports = transposer.cycle(valid, block, flag, ready)
        assert held is None or ports.out_block == held
        held = ports.out_block if ports.out_valid and not ready else None
        sent += valid and ports.in_ready
        if ports.out_valid and ready:
            found.append(ports.out_block)
        if len(found) == len(expected):
            assert found == expected
            if not idle and not busy:
                assert cycle + 1 == len(expected) + lanes  # In every cycle, one block enters and one leaves.
            return
    raise AssertionError(f"{len(found)} of {len(expected)} blocks")


def test_slot_is_free_once_its_block_has_left():
    transposer = Transposer(3)
    for block in ((1, 2, 3), (4, 5, 6), (7, 8, 9)):
        assert transposer.cycle(True, block, True, False) == (True, False, None)
    assert transposer.cycle(True, (0, 0, 0), False, False) == (False, True, (1, 4, 7))
    assert transposer.cycle(False, None, False, True) == (True, True, (1, 4, 7))
    assert transposer.cycle(True, (10, 11, 12), False, False) == (True, True, (2, 5, 8))
    assert transposer.cycle(True, (13, 14, 15), False, False) == (False, True, (2, 5, 8))
    assert transposer.cycle(True, (13, 14, 15), False, True) == (True, True, (2, 5, 8))
    assert transposer.cycle(False, None, False, True) == (True, True, (3, 6, 9))
    assert transposer.cycle(True, (16, 17, 18), False, True) == (True, False, None)
    for block in ((10, 11, 12), (13, 14, 15), (16, 17, 18)):
        assert transposer.cycle(False, None, False, True) == (True, True, block)
    assert transposer.cycle(False, None, False, True) == (True, False, None)


def test_reset_drops_stored_blocks():
    transposer = Transposer(2)
    transposer.cycle(True, (1, 2), True, True)
    transposer.reset()
    transposer.cycle(True, (3, 4), False, True)
    transposer.cycle(True, (5, 6), True, True)
    assert transposer.cycle(False, None, False, True).out_block == (3, 4)


def test_a_block_of_the_wrong_size():
    with pytest.raises(ValueError, match=r"in_block must have lanes=2 values, not \(1, 2, 3\)"):
        Transposer(2).cycle(True, (1, 2, 3), False, True)
    with pytest.raises(ValueError, match="not None"):
        Transposer(2).cycle(True, None, False, True)
