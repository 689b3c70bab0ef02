"""Compare the Verilated core with the golden core, on random programs and a trace's convolutions."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES
from tensordash_sim.compiler.images import TensorImage, expected
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.pipeline import compile_problem
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.lowering.geometry import Convolution
from tensordash_sim.trace import Trace, example_trace
from tensordash_sim.verify.programs.random_programs import PROGRAM, random_program
from tensordash_sim.verify.verilated_core import VerilatedCore, VerilatedError

from .conftest import core_preset

RING = 1 << 20


@pytest.fixture(scope="module")
def config() -> CoreConfig:
    return core_preset("core")


def check_random(config: CoreConfig, seeds: range, **memory) -> None:
    with VerilatedCore(config, 1 << 17, **memory) as core:
        for seed in seeds:
            case = random_program(Random(seed), config)
            golden = GoldenCore(config, Memory(1 << 17))
            golden.memory.bytes[:] = case.memory.bytes
            reference = golden.run(case.program.descriptors)
            core.memory[:] = np.frombuffer(case.memory.bytes, np.uint8)
            found = core.run(case.program.descriptors, PROGRAM).outcome
            assert found == reference, f"seed {seed}: {case.title}"
            ring = slice(PROGRAM, PROGRAM + BYTES * len(case.program.descriptors))
            core.memory[ring] = np.frombuffer(golden.memory.bytes, np.uint8)[ring]
            assert core.memory.tobytes() == bytes(golden.memory.bytes), f"seed {seed}: {case.title}"


def test_random_programs(config):
    check_random(config, range(60), latency=(1, 1))
    check_random(config, range(60, 100), latency=(0, 200), pause=0.4, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["core", "core-bf16", "core-int8", "core-dense", "core-wide", "core-fp8", "core-nvfp4", "core-skip", "core-drop"],
)
def test_many_random_programs(name):
    check_random(core_preset(name), range(1000, 2000), latency=(0, 120), pause=0.2, seed=7)


def convolutions():
    """Yield every convolution of the package's trace with all operations."""
    records = [each for each in Trace.open(example_trace()).records if isinstance(each.geometry, Convolution)]
    return {f"{each.layer} {each.operation}": each for each in records}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", convolutions())
def test_convolutions_of_the_trace(config, name):
    record = convolutions()[name]
    layer, operation = Layer.of(record.geometry), str(record.operation)
    values = {each: record.values(each).astype(np.float16) for each in OPERANDS[operation]}
    image = TensorImage(config, Memory(RING), layer, operation, values)
    problem = Problem(layer=layer, operation=operation, rows=record.sparser)
    program = compile_problem(problem, config, image.tensors)
    with VerilatedCore(config, RING + (1 << 16)) as core:
        core.memory[:RING] = np.frombuffer(image.memory.bytes, np.uint8)
        run = core.run(program.descriptors, RING)
        assert not run.outcome.error
        left = core.memory[:RING].tobytes()
    assert not GoldenCore(config, image.memory).run(program.descriptors).error
    assert left == bytes(image.memory.bytes)
    np.testing.assert_array_equal(image.result(), expected(layer, operation, values))


def test_wrong_verilog_and_long_programs_are_errors(config):
    """The test finds wrong Verilog and a program that takes too long."""
    with pytest.raises(VerilatedError, match="the Verilog must have a module tensordash_core"):
        VerilatedCore(config, 1 << 12, verilog="module tensordash_core(input wire clk;\nendmodule\n")
    with pytest.raises(VerilatedError, match="verilator ended with"):
        VerilatedCore(config, 1 << 12, verilog="module tensordash_core(\n  input wire clk\n);\n  assign\nendmodule\n")
    with VerilatedCore(config, 1 << 17) as core:
        # Memory is empty, so programs have no compressed loads.
        case = random_program(Random(0), replace(config, compression=False))
        run = core.run(case.program.descriptors, (1 << 17) - 4096)
        assert run.outcome.done == len(case.program.descriptors)
        run = core.run(case.program.descriptors, PROGRAM, every=32)
        assert 0 < run.span[0] < run.span[1] <= run.cycles
        with pytest.raises(VerilatedError, match="no interrupt in 50 cycles: 0 of"):
            core.run(case.program.descriptors, PROGRAM, most=50)
