"""Test the estimate of several cores at one memory port. tests/runtime/test_multicore.py compares it with Verilog."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.layer import Layer
from tensordash_sim.compiler.pipeline import compile_problem
from tensordash_sim.compiler.port import port_timing
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import Program, ProgramError
from tensordash_sim.compiler.timing import timing
from tensordash_sim.compiler.unit_cycles import LATENCY

CONFIG = CoreConfig()
GROUPS = 512
BEATS = GROUPS * CONFIG.group_bits // CONFIG.axi_bits
PAGE = 4096


def move_groups(name: str, addresses: list[int]) -> list[int]:
    """Return a program of moves of `GROUPS` groups."""
    program = Program()
    for address in addresses:
        program.add(name, memory=address, count_0=GROUPS)
    program.add("end")
    return program.descriptors


def test_one_core_has_the_time_of_a_core():
    layer = Layer(samples=1, channels=16, filters=16, size=(8, 8), kernel=(3, 3))
    program = compile_problem(Problem(layer=layer, operation="AxW", rows="A"), CONFIG).descriptors
    assert port_timing(CONFIG, [program], [2.0]).cycles == timing(CONFIG, program, speedup=2.0).cycles


@pytest.mark.parametrize("name", ["load", "store"])
def test_moves_of_all_cores_take_the_port_one_after_the_other(name):
    alone = port_timing(CONFIG, [move_groups(name, [0])], [1.0])
    four = port_timing(CONFIG, [move_groups(name, [0])] * 4, [1.0] * 4)
    assert (alone.beats, four.beats) == (BEATS, 4 * BEATS)
    assert 3 * BEATS <= four.cycles - alone.cycles < 3 * BEATS + LATENCY


def test_a_shared_load_waits_for_the_last_core():
    """The second core loads data of its own before the shared data, which both cores store afterwards."""
    shared = range(PAGE * 1024, PAGE * 2048)
    first, second = move_groups("load", [shared.start]), move_groups("load", [0, shared.start])
    alone = port_timing(CONFIG, [second], [1.0])
    both = port_timing(CONFIG, [first, second], [1.0] * 2, shared=shared)
    assert both.beats == alone.beats == 2 * BEATS
    assert alone.cycles <= both.cycles < alone.cycles + LATENCY
    apart = port_timing(CONFIG, [first, second], [1.0] * 2)
    assert apart.beats == 3 * BEATS
    assert apart.cycles > both.cycles


def test_shared_loads_in_different_orders():
    a, b = PAGE * 1024, PAGE * 1028
    programs = [move_groups("load", order) for order in ([a, b], [b, a])]
    with pytest.raises(ProgramError, match="load shared operands in the same order"):
        port_timing(CONFIG, programs, [1.0] * 2, shared=range(a, a + PAGE * 1024))
