"""Memory: words against a list of them, and what its Verilog is like."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.library import emit
from tensordash.memory.memory import Memory
from tensordash_sim.verify.unit_run import run_unit

SHAPES = [(512, 64, 1), (12, 6, 3), (2, 1, 1)]


def run(words, bits, enables, *replaced):
    options = {"words": words, "bits": bits, "enables": enables}
    return run_unit(Memory(**options), "memory", CoreConfig(), seed=1, replaced=replaced, options=options)


@pytest.mark.parametrize(("words", "bits", "enables"), [(12, 6, 3), (2, 1, 1), (40, 16, 1)])
def test_words(words, bits, enables):
    assert run(words, bits, enables) == []


BROKEN = {
    "reads when it should hold": ("if (read_enable)", "if (1)"),
    "writes a part that is not enabled": ("if (write_enable[1])", "if (write_enable[2])"),
    "reads where it writes": ("memory[read_address];", "memory[write_address];"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name):
    assert run(12, 6, 3, BROKEN[name])


@pytest.mark.parametrize(("words", "bits", "enables"), SHAPES)
def test_verilog(words, bits, enables):
    text = emit(Memory(words=words, bits=bits, enables=enables))
    assert f"memory [{words - 1}:0];" in text
    assert "initial" not in text
    assert "_0_" not in text
    assert f"module tensordash_memory__{words}x{bits}" in text


WRONG = [
    ({"words": 1, "bits": 4}, "words must be an integer of at least 2, not 1"),
    ({"words": 2, "bits": 0}, "bits must be an integer of at least 1, not 0"),
    ({"words": 2, "bits": 4, "enables": 3}, "bits must be a multiple of enables = 3, not 4"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        Memory(**arguments)
