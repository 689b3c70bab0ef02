"""Test the buffer: requests that it grants or delays, and the data of reads."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.memory.buffer import Buffer, PairBuffer
from tensordash_sim.verify.unit_run import run_unit

USUAL = {"lanes": 4, "width": 8, "groups": 64, "regions": 4, "readers": 4, "writers": 2}


def run(shape, *replaced):
    return run_unit(
        (PairBuffer if "pair_readers" in shape else Buffer)(**shape),
        "buffer",
        CoreConfig(),
        seed=2,
        replaced=replaced,
        options=shape,
    )


SHAPES = {
    "usual": USUAL,
    "one region": USUAL | {"regions": 1},
    "many lanes": USUAL | {"lanes": 8, "readers": 3},
    "one port each": USUAL | {"readers": 1, "writers": 1, "regions": 2},
    "halves": USUAL | {"pair_readers": 2},
    "halves, one region": USUAL | {"pair_readers": 1, "regions": 1},
    "halves of a group": USUAL | {"pair_readers": 4, "regions": 32},
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SHAPES)
def test_requests(name):
    assert run(SHAPES[name]) == []


BROKEN = {
    "does not see a clash": ("assign reads_1_ready = read_turn[1] |", "assign reads_1_ready = 1 |"),
    "the turn never passes on": ("{read_turn[2:0], read_turn[3]};", "read_turn;"),
    "a write goes to another region": ("assign writes_1[0] = write[0]", "assign writes_1[0] = write[1]"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found(name):
    assert run(USUAL, BROKEN[name])


BROKEN_HALVES = {
    "two halves of a bank are one": ("reads_2_enable[0] & ~reads_2_half[0]", "reads_2_enable[0]"),
    "shows the other half's word": ("reads_3_half_read[1] ?", "~reads_3_half_read[1] ?"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", BROKEN_HALVES)
def test_broken_halves_are_found(name):
    assert run(SHAPES["halves"], BROKEN_HALVES[name])


WRONG = [
    ({"groups": 48}, "groups must be a power of two, not 48"),
    ({"regions": 3}, "regions must be a power of two, not 3"),
    ({"regions": 128}, "regions must be at most groups = 64, not 128"),
    ({"readers": 0}, "readers must be an integer of at least 1, not 0"),
    ({"lanes": 0}, "lanes must be an integer of at least 1, not 0"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        Buffer(**(USUAL | arguments))


WRONG_PAIRS = [
    ({"pair_readers": 5}, "pair_readers must be an integer from 0 to 4, not 5"),
    ({"regions": 64}, "regions must be at most groups / 2 = 32, not 64"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_PAIRS)
def test_wrong_parameters_of_pairs(arguments, message):
    with pytest.raises(ValueError, match=message):
        PairBuffer(**(SHAPES["halves"] | arguments))
