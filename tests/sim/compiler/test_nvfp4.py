"""Compare programs with NVFP4 operands with the emulator, and test their errors, sizes and estimates."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode
from tensordash.configuration.formats import FORMATS
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.emission import emit, placeholder_addresses
from tensordash_sim.compiler.images import TensorImage
from tensordash_sim.compiler.iteration_space import BufferPlan, IterationSpace
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.nvfp4_values import nvfp4_groups, nvfp4_products
from tensordash_sim.compiler.pipeline import compile_problem
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import ProgramError
from tensordash_sim.compiler.residents import NamedProblem, plan_buffers
from tensordash_sim.compiler.row_streams import RowStreams
from tensordash_sim.compiler.schedule import schedule_tiling
from tensordash_sim.compiler.scheduled import scheduled_paces
from tensordash_sim.compiler.search import best_schedule
from tensordash_sim.compiler.timing import timing
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.verify.verilated_core import VerilatedCore

from .nvfp4_layers import random_nvfp4_work

SIZE = 1 << 22
LAYER = Layer(samples=1, channels=40, filters=24, size=(1, 36))
"""A linear layer whose last block is shorter."""


@pytest.fixture(scope="module")
def core() -> CoreConfig:
    config = load_any_preset("core-nvfp4")
    assert isinstance(config, CoreConfig)
    return config


def loads_of(descriptors: list[int]) -> list[dict[str, int]]:
    decoded = map(decode, descriptors)
    return [dict(values) for operation, values in decoded if operation is not None and operation.name == "load"]


@pytest.mark.parametrize("seed", range(12))
def test_programs_leave_the_emulators_results(core: CoreConfig, seed: int) -> None:
    """The golden core expands the operands. Masks and biases stay plain."""
    work = random_nvfp4_work(Random(seed), core, (1, 30_000))
    image = work.image(core, Memory(SIZE))
    program = emit(best_schedule(work.space(core)), image.tensors)
    assert GoldenCore(core, image.memory).run(program.descriptors).error == ""
    expected = work.expected(core)
    assert np.array_equal(image.result().view(expected.dtype), expected)


@pytest.mark.parametrize("operation", OPERANDS)
def test_loads_have_the_form_of_each_operand(core: CoreConfig, operation: str) -> None:
    problem = Problem(layer=LAYER, operation=operation, rows=OPERANDS[operation][0], nvfp4=True)
    addresses = placeholder_addresses(problem)
    by_channel = {("WxG", "W"), ("AxG", "G"), ("AxG", "A")}
    found = set()
    for load in loads_of(compile_problem(problem, core, addresses).descriptors):
        name = max((name for name in addresses if addresses[name] <= load["memory"]), key=addresses.__getitem__)
        assert load["nvfp4"] == 1
        assert load["by_channel"] == ((operation, name) in by_channel)
        found.add(name)
    assert found == set(OPERANDS[operation])


def test_operands_take_half_of_the_bytes(core: CoreConfig) -> None:
    work = random_nvfp4_work(Random(3), core, (1, 30_000))
    halves, plain = work.image(core, Memory(SIZE)), work.plain(core).image(core, Memory(SIZE))
    first, second = OPERANDS[work.work.operation]
    (start, end), (plain_start, plain_end) = ((each.tensors[first], each.tensors[second]) for each in (halves, plain))
    assert abs((plain_end - plain_start) - 2 * (end - start)) <= 64  # alignment of the second tensor


def test_scales_differ_within_a_group(core: CoreConfig) -> None:
    """The first four elements are one position's channels, or all positions' first channels of the transposed group."""
    values = np.array([[0x3801] * 4 + [0x4002] * 4 + [0] * 8], np.uint16)
    packed = bytes.fromhex("1111222200000000 38400000 00000000")
    assert nvfp4_groups(values, core, by_channel=False) == packed
    turned = np.ascontiguousarray(values.reshape(1, 4, 4).swapaxes(1, 2).reshape(1, 16))
    assert nvfp4_groups(turned, core, by_channel=True)[8:] == packed[8:]
    for group, by_channel in ((values, True), (turned, False)):
        with pytest.raises(ValueError, match="NVFP4 values must have one scale for each"):
            nvfp4_groups(group, core, by_channel=by_channel)


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_every_product_is_exact(name: str) -> None:
    values = np.arange(1 << 16, dtype=np.uint16)
    values = values[(values >> 8 & 0x7F != 0x7F) & (values & 0xF0 == 0)]
    elements = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[values & 7]
    exponents, fractions = (values >> 11 & 15).astype(int), values >> 8 & 7
    scales = np.where(exponents, np.ldexp(8.0 + fractions, exponents - 10), np.ldexp(1.0 * fractions, -9))
    bits = nvfp4_products(values, FORMATS[name])
    numbers = bits.view(np.float16) if name == "fp16" else (bits.astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(np.abs(numbers), elements * scales)
    assert np.array_equal(np.signbit(numbers), values >> 3 & 1 != values >> 15)


def test_other_cores_are_refused() -> None:
    problem = Problem(layer=LAYER, operation="AxW", rows="A", nvfp4=True)
    with pytest.raises(ProgramError, match="core.nvfp4 must be true for NVFP4 operands, not false"):
        IterationSpace(problem=problem, core=CoreConfig())


def test_memory_too_small_is_refused(core: CoreConfig) -> None:
    values = {name: np.zeros(LAYER.shape(name), np.uint16) for name in "AW"}
    with pytest.raises(ValueError, match="memory must have room for"):
        TensorImage(core, Memory(1 << 12), LAYER, "AxW", values, nvfp4=True)
    with pytest.raises(TypeError, match="A must be"):
        TensorImage(core, Memory(SIZE), LAYER, "AxW", {**values, "A": np.zeros(LAYER.shape("A"))}, nvfp4=True)


def test_resident_tensors_are_loaded_in_their_form(core: CoreConfig) -> None:
    problem = Problem(layer=LAYER, operation="WxG", rows="G", nvfp4=True)
    space = IterationSpace(problem=problem, core=core)
    assert space.can_stay("W")
    groups = space.product_groups["W"]
    at = core.groups - groups
    space = space.with_buffer(BufferPlan(groups=at, resident=(("W", at),), loaded=("W",)))
    addresses = placeholder_addresses(problem)
    loads = loads_of(emit(schedule_tiling(space, best_schedule(space).tiling), addresses).descriptors)
    resident = [load for load in loads if load["address"] >= at]
    assert sum(load["count_0"] for load in resident) == groups
    for load in resident:
        assert (load["nvfp4"], load["by_channel"]) == (1, 1)
        assert load["memory"] - addresses["W"] == (load["address"] - at) * core.group_bytes // 2


def test_operands_stay_only_in_one_form(core: CoreConfig) -> None:
    """W of AxW has scales by position, W of WxG by channel: they are different tensors, whatever their names."""
    forward = Problem(layer=LAYER, operation="AxW", rows="A", nvfp4=True)
    names = {"A": "x", "W": "w", "G": "g"}

    def resident(*problems: Problem) -> list[set[str]]:
        named = [NamedProblem(each, {**{k: names[k] for k in OPERANDS[each.operation]}}) for each in problems]
        return [{name for name, _ in plan.resident} for plan in plan_buffers(core, named, lambda space: True)]

    assert resident(forward, forward) == [{"A", "W"}] * 2
    assert resident(forward, replace(forward, nvfp4=False)) == [set(), set()]
    assert resident(forward, replace(forward, operation="WxG", rows="G")) == [set(), set()]


def test_zeros_are_found_in_packed_operands(core: CoreConfig) -> None:
    """The tile's cycles are those of the same numbers in the operand format."""
    work = random_nvfp4_work(Random(5), core, (20_000, 60_000))
    speedups = []
    for each in (work, work.plain(core)):
        image = each.image(core, Memory(SIZE))
        space = each.space(core)
        tiling = best_schedule(work.space(core)).tiling
        program = emit(schedule_tiling(space, tiling), image.tensors).descriptors
        speedups.append(scheduled_paces(core, program, image.memory).speedup)
        streams = RowStreams(core, program, image.tensors[work.work.rows])
        places = np.concatenate([batch.places.ravel() for batch in streams._batches])
        assert places.max() < space.product_groups[work.work.rows] * work.work.layer.products * core.tile.lanes
    assert speedups[0] == speedups[1] > 1.1


def test_estimates_of_loads_match_the_verilog(core: CoreConfig) -> None:
    """Loads are within 5% of the Verilog, cycles within 5%, or 10% for programs of less than 3000 cycles."""
    errors = []
    with VerilatedCore(core, SIZE + (1 << 18), quick=True) as verilog:
        for seed in range(60, 64):
            work = random_nvfp4_work(Random(seed), core, (50_000, 200_000))
            image = work.image(core, Memory(SIZE))
            program = emit(best_schedule(work.space(core)), image.tensors).descriptors
            verilog.memory[:SIZE] = np.frombuffer(image.memory.bytes, np.uint8)
            run = verilog.run(program, SIZE)
            assert not run.outcome.error
            estimate = timing(core, program, speedup=scheduled_paces(core, program, image.memory))
            assert estimate.busy["load"] == pytest.approx(run.counters["load_busy"], rel=0.05, abs=40), seed
            errors.append(abs(estimate.cycles / run.cycles - 1))
            assert errors[-1] < (0.05 if run.cycles > 3000 else 0.1), seed
            image.memory.bytes[:SIZE] = verilog.memory[:SIZE].tobytes()
            expected = work.expected(core)
            assert np.array_equal(image.result().view(expected.dtype), expected), seed
    assert np.median(errors) < 0.02
