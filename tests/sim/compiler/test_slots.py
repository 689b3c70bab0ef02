"""Test that tensors in a part of the buffer never overlap, and that none is lost."""

from copy import deepcopy
from random import Random

import pytest

from tensordash_sim.compiler.program import ProgramError
from tensordash_sim.compiler.slots import Slots


@pytest.mark.parametrize("seed", range(20))
def test_placed_tensors_do_not_overlap(seed: int) -> None:
    """Compare with sets of places: a new tensor removes exactly the tensors that it overlaps."""
    random, slots = Random(seed), Slots(5, 24, "a part of the buffer")
    held: dict[int, range] = {}
    for key in range(60):
        size = random.choice([1, 2, 3, 5, 8, 12, 24])
        at, new = slots.place(key, size)
        place = range(at, at + size)
        assert new
        assert 5 <= at <= at + size <= 29
        gone = {other: taken for other, taken in held.items() if set(taken) & set(place)}
        for other, taken in gone.items():
            assert deepcopy(slots).place(other, len(taken))[1], f"{other} shares a place with {key}"
        held = {other: taken for other, taken in held.items() if other not in gone}
        held[key] = place
        for other, taken in list(held.items()):
            assert slots.place(other, len(taken)) == (taken.start, False), f"{other} of {held} is gone"


def test_tensor_may_fill_all_slots() -> None:
    slots = Slots(0, 7, "a part of the buffer")
    assert slots.place("whole", 7) == (0, True)
    assert slots.place("whole", 7) == (0, False)
    with pytest.raises(ProgramError, match="a part of the buffer has room for 7, not for 8"):
        slots.place("more", 8)


def youngest(held: dict[int, range], place: range) -> int:
    """Return the rank of the most recently used tensor that overlaps a place; -1 if there is none."""
    return max((rank for rank, taken in enumerate(held.values()) if set(place) & set(taken)), default=-1)


@pytest.mark.parametrize("seed", range(20))
def test_new_tensors_replace_the_least_recently_used(seed: int) -> None:
    """No place at either end, or after the last tensor, would spare all tensors as recent as the ones replaced."""
    random, slots = Random(seed), Slots(0, 24, "a part of the buffer")
    held: dict[int, range] = {}  # The least recently used comes first.
    after = replaced = 0
    for key in range(60):
        for other in random.sample(sorted(held), random.randint(0, len(held))):
            assert slots.place(other, len(held[other])) == (held[other].start, False)
            held[other] = held.pop(other)
        size = random.choice([1, 2, 3, 5, 8, 12])
        at, _ = slots.place(key, size)

        places = [start for start in (0, 24 - size, after) if start + size <= 24]
        ranks = {start: youngest(held, range(start, start + size)) for start in (at, *places)}
        assert ranks[at] == min(ranks[start] for start in places)
        replaced += ranks[at] >= 0
        held = {other: taken for other, taken in held.items() if not set(taken) & set(range(at, at + size))}
        held[key], after = range(at, at + size), at + size
    assert replaced > 10
