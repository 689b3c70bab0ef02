"""Stream buffer: words of each bank against lists of them."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.memory.stream_buffer import StreamBuffer
from tensordash_sim.verify.unit_run import run_unit

USUAL = {"depth": 4, "words": 6, "parts": 2, "group_bits": 8}


def run(shape, *replaced):
    return run_unit(StreamBuffer(**shape), "stream_buffer", CoreConfig(), seed=4, replaced=replaced, options=shape)


@pytest.mark.parametrize("shape", [USUAL, USUAL | {"depth": 1, "parts": 1}, USUAL | {"depth": 3, "parts": 3}])
def test_groups(shape):
    assert run(shape) == []


BROKEN = {
    "reads another bank's word": (".read_address(read_address[5:3])", ".read_address(read_address[2:0])"),
    "writes all parts": ("bank_2__write_enable = write_part & ", "bank_2__write_enable = "),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name):
    assert run(USUAL, BROKEN[name])


@pytest.mark.parametrize("name", ["depth", "words", "parts", "group_bits"])
def test_wrong_parameters(name):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least [12], not 0"):
        StreamBuffer(**(USUAL | {name: 0}))
