"""Compare the words in each bank of the stream buffer with lists."""

from shutil import which

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.memory.stream_buffer import PairStreamBuffer, StreamBuffer
from tensordash_sim.verify import simulators
from tensordash_sim.verify.unit_run import run_unit

USUAL = {"depth": 4, "words": 6, "parts": 2, "group_bits": 8}


def run(shape, *replaced):
    sizes = {name: value for name, value in shape.items() if name != "pairs"}
    block = (PairStreamBuffer if shape.get("pairs") else StreamBuffer)(**sizes)
    return run_unit(block, "stream_buffer", CoreConfig(), seed=4, replaced=replaced, options=shape)


ALONE = USUAL | {"depth": 1, "parts": 1, "words": 7}


SHAPES = [USUAL, ALONE, USUAL | {"depth": 1, "words": 2}, USUAL | {"depth": 3, "parts": 3}]
PAIRS = USUAL | {"pairs": True}


@pytest.mark.parametrize("shape", [*SHAPES, PAIRS, PAIRS | {"depth": 3, "parts": 3}])
def test_groups(shape):
    assert run(shape) == []


def test_without_icarus(monkeypatch):
    monkeypatch.setattr(simulators.shutil, "which", lambda name: None if name == "iverilog" else which(name))
    assert run(USUAL) == []


BROKEN = {
    "reads another bank's word": ("write_word : read_address[5:3]", "write_word : read_address[2:0]"),
    "writes all parts": ("write_part & {2{write_bank[2]}}", "{2{write_bank[2]}}"),
    "a collision loses the write": (
        "write_bank[1] ? write_word : read_address[5:3]",
        "read_enable[1] ? read_address[5:3] : write_word",
    ),
    "claims to read what it cannot": ("assign read_ready = ~write_bank", "assign read_ready = 4'd15"),
    "is only read where nothing is written": (
        "assign read_ready = ~write_bank",
        "assign read_ready = {4{~(|write_bank)}}",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found(name):
    assert run(USUAL, BROKEN[name])


BROKEN_PAIRS = {
    "all banks write the first one's word": ("write_bank[1] ? write_word[5:3]", "write_bank[1] ? write_word[2:0]"),
    "all banks write the first one's data": ("{2{write_data[15:8]}}", "{2{write_data[7:0]}}"),
    "all banks write the first one's part": ("write_part[3:2] &", "write_part[1:0] &"),
}


@pytest.mark.parametrize("name", BROKEN_PAIRS)
def test_broken_pairs_are_found(name):
    assert run(PAIRS, BROKEN_PAIRS[name])


BROKEN_ALONE = {
    "shows the other way's word": ("way_read ? ", "~way_read ? "),
    "the way is taken from a read that did not happen": ("read_enable & read_ready", "read_enable"),
    "a collision is not seen": ("assign read_ready = ~(", "assign read_ready = 1'b1 | ("),
    "no word is read while one is written": ("~(write_word[0] ^ read_address[0])", "1'd1"),
    "even words are written everywhere": (
        "(write_bank & write_word[0]) |",
        "write_bank |",
        "(write_bank & write_word[0]) ?",
        "write_bank ?",
        "write_part & write_bank & write_word[0]",
        "write_part & write_bank",
    ),
}


@pytest.mark.parametrize("name", BROKEN_ALONE)
def test_broken_single_buffers_are_found(name):
    texts = BROKEN_ALONE[name]
    assert run(ALONE, *zip(texts[::2], texts[1::2], strict=True))


@pytest.mark.parametrize("name", ["depth", "words", "parts", "group_bits"])
def test_wrong_parameters(name):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least [12], not 0"):
        StreamBuffer(**(USUAL | {name: 0}))


def test_pairs_have_two_banks():
    with pytest.raises(ValueError, match="depth must be an integer of at least 2, not 1"):
        PairStreamBuffer(**ALONE)
