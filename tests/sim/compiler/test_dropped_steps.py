"""Compare the estimates of a core that drops steps with golden, and with a count of each stream."""

import numpy as np
import pytest

from tensordash.configuration.descriptors import OPERATIONS, decode
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.emission import emit
from tensordash_sim.compiler.images import TensorImage
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.layer import Layer
from tensordash_sim.compiler.multiply_cycles import pass_cycles
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import dense_steps
from tensordash_sim.compiler.row_streams import CountedPaces, EvenPaces
from tensordash_sim.compiler.scheduled import scheduled_paces, scheduled_speedup
from tensordash_sim.compiler.search import best_schedule
from tensordash_sim.compiler.timing import timing
from tensordash_sim.compiler.unit_cycles import LENGTH_CYCLES
from tensordash_sim.golden import schedule_stream
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory

MULTIPLY = OPERATIONS["multiply"]
LAYER = Layer(samples=1, channels=34, filters=12, size=(4, 9), kernel=(3, 3), padding=1)
"""Its streams are longer than a chunk, and do not end with a word."""


def core(*overrides, drops=True):
    return load_any_preset("core-drop", [f"core.drop_steps={str(drops).lower()}", *overrides])


def emitted(config, operation, zeros, seed=0):
    """Return a program of a layer whose row side has empty steps, and its memory."""
    rows = "A" if operation == "AxW" else "G"
    names = {"AxW": "AW", "WxG": "WG", "AxG": "AG"}[operation]
    rng = np.random.default_rng(seed)
    values = {name: rng.standard_normal(LAYER.shape(name)).astype(np.float16) for name in names}
    values[rows][rng.random(values[rows].shape) < zeros] = 0
    image = TensorImage(config, Memory(1 << 20), LAYER, operation, values, rows=rows)
    problem = Problem(layer=LAYER, operation=operation, rows=rows, speedup=4.0)
    schedule = best_schedule(IterationSpace(problem=problem, core=config))
    return emit(schedule, image.tensors).descriptors, image.memory


def remaining(stream, depth):
    """Return the steps that remain of a stream, (steps, rows, lanes), the same number from each bank."""
    banks = [[step for step in stream[bank::depth] if step.any()] for bank in range(depth)]
    words = max(1, *map(len, banks))
    empty = np.zeros(stream.shape[1:], np.bool_)
    return np.stack([bank[word] if word < len(bank) else empty for word in range(words) for bank in banks])


def golden_cycles(config, program, memory):
    """Return golden, and the tile's cycles for each multiply's streams, from golden's stream buffer."""
    golden, cycles, tile = GoldenCore(config, memory), {}, config.tile
    run = golden._multiply

    def multiply(values):
        size = -(-values["steps"] // tile.depth) * tile.depth
        streams = golden.streams["b"][tile.depth * values["b_base"] :][: values["b_streams"] * size]
        streams = (streams & 0x7FFF != 0).reshape(values["b_streams"], size, tile.rows, tile.lanes)
        left = [remaining(each, tile.depth).swapaxes(0, 1) for each in streams]
        counts = [len(schedule_stream(each, tile.options, tile.depth)) for each in left]
        cycles[len(cycles)] = counts, [each.shape[1] for each in left]
        run(values)

    golden._multiply = multiply
    assert not golden.run(program).error
    return golden, list(cycles.values())


@pytest.mark.parametrize("operation", ["AxW", "WxG", "AxG"])
@pytest.mark.parametrize("zeros", [0.5, 0.97, 1.0])
def test_paces_are_those_of_the_remaining_steps(operation, zeros):
    config = core("core.stream_buffer=2", "core.buffer=16")
    program, memory = emitted(config, operation, zeros)
    paces = scheduled_paces(config, program, Memory(len(memory.bytes)))
    assert paces.speedup > 4  # Memory of zeros.
    golden_memory = Memory(len(memory.bytes))
    golden_memory.bytes[:] = memory.bytes
    golden, counted = golden_cycles(config, program, golden_memory)
    paces = scheduled_paces(config, program, memory)
    multiplies = [k for k, bits in enumerate(program) if decode(bits)[0] is MULTIPLY]
    steps = tile_cycles = 0
    for index, (cycles, left) in zip(multiplies, counted, strict=True):
        values = decode(program[index])[1]
        pace = paces.of(index, values)
        assert pace.cycles.tolist() == cycles
        assert (pace.losses >= 0).all()
        steps += values["a_streams"] * sum(left)
        tile_cycles += values["a_streams"] * sum(cycles)
    assert golden.steps == steps <= dense_steps(config, program)
    assert scheduled_speedup(config, program, memory) == pytest.approx(dense_steps(config, program) / tile_cycles)


def test_many_zeros_exceed_the_depth():
    found = {}
    for drops in (False, True):
        config = core(drops=drops)
        program, memory = emitted(config, "WxG", 0.98)
        found[drops] = scheduled_speedup(config, program, memory), timing(config, program).cycles
    assert found[False][0] <= 4 < found[True][0]
    assert found[False][1] == found[True][1]


def test_dense_operands_take_the_same_time():
    """Only layouts take a little longer."""
    cycles = []
    for drops in (False, True):
        config = core(drops=drops)
        program, memory = emitted(config, "AxG", 0.0)
        paces = scheduled_paces(config, program, memory)
        assert isinstance(getattr(paces, "_paces", paces), CountedPaces)
        cycles.append((paces.speedup, timing(config, program, speedup=paces).cycles))
    layouts = sum(decode(bits)[0] is OPERATIONS["layout_b"] for bits in program)
    assert cycles[0][0] == cycles[1][0]
    assert 0 <= cycles[1][1] - cycles[0][1] <= LENGTH_CYCLES * layouts


def test_even_paces_are_not_bound_by_the_depth():
    values = {"steps": 100}
    assert EvenPaces(core(), 20.0).of(0, values).cycles == 5
    assert EvenPaces(core(), 1000.0).of(0, values).cycles == 1
    assert EvenPaces(core(drops=False), 20.0).of(0, values).cycles == 25
    assert pass_cycles(core(), 3, 1.0) == pass_cycles(core(drops=False), 3, 1.0) == 3


def test_dense_steps_do_not_depend_on_values():
    config = core()
    program, memory = emitted(config, "AxW", 0.9)
    golden = GoldenCore(core(drops=False), memory)
    assert not golden.run(program).error
    assert golden.steps == dense_steps(config, program)
    assert golden.steps % config.tile.depth == 0
