"""Compare a memory's words with a list, and test the form of its Verilog."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.library import emit
from tensordash.memory.memory import Memory
from tensordash_sim.verify.unit_run import run_unit

SHAPES = [(512, 64, 1), (12, 6, 3), (2, 1, 1)]


def run(words, bits, enables, ports, *replaced):
    options = {"words": words, "bits": bits, "enables": enables, "ports": ports}
    return run_unit(Memory(**options), "memory", CoreConfig(), seed=1, replaced=replaced, options=options)


@pytest.mark.parametrize("ports", [1, 2])
@pytest.mark.parametrize(("words", "bits", "enables"), [(12, 6, 3), (2, 1, 1), (40, 16, 1)])
def test_words_match_a_list(words, bits, enables, ports):
    assert run(words, bits, enables, ports) == []


BROKEN = {
    "reads when it should hold": ("if (read_enable)", "if (1)"),
    "writes a part that is not enabled": ("if (write_enable[1])", "if (write_enable[2])"),
    "reads where it writes": ("memory[read_address];", "memory[write_address];"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found(name):
    assert run(12, 6, 3, 2, BROKEN[name])


BROKEN_ONE_PORT = {
    "writes without enable": ("write_enable[0] & enable", "write_enable[0]"),
    "reads what is written": ("enable & ~|write_enable", "enable"),
    "never reads": ("enable & ~|write_enable", "1'b0"),
}


@pytest.mark.parametrize("name", BROKEN_ONE_PORT)
def test_broken_variants_with_one_port_are_found(name):
    assert run(12, 6, 3, 1, BROKEN_ONE_PORT[name])


@pytest.mark.parametrize(("words", "bits", "enables"), SHAPES)
def test_verilog(words, bits, enables):
    text = emit(Memory(words=words, bits=bits, enables=enables))
    assert f"memory [0:{words - 1}];" in text
    assert "initial" not in text
    assert "_0_" not in text
    assert f"module tensordash_memory__{words}x{bits}(" in text or enables > 1
    one = emit(Memory(words=words, bits=bits, enables=enables, ports=1))
    assert one.count("memory[address]") >= 2
    assert f"module tensordash_memory__{words}x{bits}" in one
    assert "_1_port(" in one


WRONG = [
    ({"words": 1, "bits": 4}, "words must be an integer of at least 2, not 1"),
    ({"words": 2, "bits": 0}, "bits must be an integer of at least 1, not 0"),
    ({"words": 2, "bits": 4, "enables": 3}, "bits must be a multiple of enables = 3, not 4"),
    ({"words": 2, "bits": 4, "ports": 3}, "ports must be an integer from 1 to 2, not 3"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        Memory(**arguments)
