"""Compare estimated cycles with the Verilog's, and test estimates of the tiling search."""

from dataclasses import replace
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, decode
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.emission import emit
from tensordash_sim.compiler.estimate import UnitWork, estimate_cycles, rough_cycles
from tensordash_sim.compiler.images import TensorImage
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.multiply_cycles import even_losses, losses_of, run_passes
from tensordash_sim.compiler.pipeline import compile_problem
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import Loop, Program, ProgramError, dense_steps
from tensordash_sim.compiler.row_streams import RowStreams
from tensordash_sim.compiler.schedule import schedule_tiling
from tensordash_sim.compiler.scheduled import scheduled_paces
from tensordash_sim.compiler.search import MAX_ROUGH_MULTIPLIES, best_schedule
from tensordash_sim.compiler.tiling import Tiling
from tensordash_sim.compiler.timing import timing
from tensordash_sim.compiler.unit_cycles import block_cycles
from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.programs.random_layers import random_work
from tensordash_sim.verify.verilated_core import VerilatedCore

SIZE = 1 << 22


def tile_cycles(program, paces):
    """Return the tile's cycles for all passes of a program, without skipped passes."""
    total = 0.0
    for index, (operation, values) in enumerate(map(decode, program)):
        if operation is OPERATIONS["multiply"]:
            cycles = paces.of(index, values).cycles  # Of each pass, or of each stream of side B.
            total += cycles.mean() * values["a_streams"] * values["b_streams"]
    return total


@pytest.mark.parametrize(
    "name", ["core", *(pytest.param(each, marks=pytest.mark.slow) for each in ("core-dense", "core-drop"))]
)
def test_cycles_and_busy_units(name):
    """For random layers, estimates of layouts are within 1% and estimates of cycles within 5%.

    A bank is late if a layout writes it. A sparse tile then schedules only the available steps, so that it makes more
    schedules. In half of the layers no bank is late.
    """
    config = load_any_preset(name)
    assert isinstance(config, CoreConfig)
    errors, late = [], []
    with VerilatedCore(config, SIZE + (1 << 18)) as core:
        for seed in range(50, 58):
            work = random_work(Random(seed), config, (50_000, 300_000))
            image = work.image(config, Memory(SIZE))
            schedule = best_schedule(work.space(config))
            program = emit(schedule, image.tensors).descriptors
            paces = scheduled_paces(config, program, image.memory)
            core.memory[:SIZE] = np.frombuffer(image.memory.bytes, np.uint8)
            run = core.run(program, SIZE)
            counters, context = run.counters, f"seed {seed}: {work.operation} of {work.layer}"
            late.append(counters["scheduled"] - round(tile_cycles(program, paces)))
            assert 0 <= late[-1] <= counters["layout_a_busy"] + counters["layout_b_busy"], context
            expected = timing(config, program, speedup=paces)
            assert timing(config, program, speedup=2.0).cycles == estimate_cycles(schedule)
            for unit, share in (("layout_a", 0.01), ("layout_b", 0.01), ("store", 0.05), ("load", 0.05)):
                assert expected.busy[unit] == pytest.approx(counters[f"{unit}_busy"], rel=share, abs=40), (
                    context,
                    unit,
                )
            errors.append(abs(expected.cycles / run.cycles - 1))
            assert errors[-1] < (0.05 if run.cycles > 3000 else 0.1), context
    assert np.median(errors) < 0.01
    assert late.count(0) >= (8 if config.tile.sparsity == "none" else 4)


@pytest.mark.parametrize(
    "name", ["core", *(pytest.param(each, marks=pytest.mark.slow) for each in ("core-wide", "core-fp8", "core-bf16"))]
)
def test_block_cycles_match_the_verilog(name):
    """Streams have one word each, so that the output unit determines the cycles."""
    config = load_any_preset(name)
    assert isinstance(config, CoreConfig)
    flags = ("emit", "add", "fp32", "transposed", "mask", "bias")
    with VerilatedCore(config, SIZE) as core:
        for *bits, stride in product(*[(0, 1)] * len(flags), (1, 2, 4)):
            options = dict(zip(flags, bits, strict=True))
            if options["mask"] & options["fp32"] or (
                not options["emit"] and (sum(bits) > options["add"] or stride > 1)
            ):
                continue
            cycles = {}
            for streams in (4, 8):
                program = Program()
                loops = [Loop(count=2 * streams)] if options["emit"] else []
                more = {"stride": stride, "x_size": 64} if options["emit"] else {}
                program.add("multiply", a_streams=2, b_streams=streams, loops=loops, **options, **more)
                program.add("end")
                core.reset()
                run = core.run(program.descriptors, 0)
                assert not run.outcome.error
                cycles[streams] = run.cycles
            took = (cycles[8] - cycles[4]) / 8
            assert took == pytest.approx(block_cycles(config, stride, **options), abs=0.5), (options, stride)


def run_layer(config: CoreConfig, layer: Layer, operation: str, operands: str, zeros: float, speedup: float):
    """Run an operation whose row side is a sparse G on the Verilated core.

    Return the run, its dense steps, its paces, and the cycles that the compiler expects at these paces.
    """
    random = np.random.default_rng(0)
    values = {name: random.standard_normal(layer.shape(name)).astype(np.float16) for name in operands}
    values["G"][random.random(values["G"].shape) < zeros] = 0
    image = TensorImage(config, Memory(SIZE), layer, operation, values, rows="G")
    problem = Problem(layer=layer, operation=operation, rows="G", speedup=speedup)
    program = compile_problem(problem, config, image.tensors).descriptors
    paces = scheduled_paces(config, program, image.memory)
    with VerilatedCore(config, SIZE + (1 << 18)) as core:
        core.memory[:SIZE] = np.frombuffer(image.memory.bytes, np.uint8)
        run = core.run(program, SIZE)
    return run, dense_steps(config, program), paces, timing(config, program, speedup=paces).cycles


def test_layouts_hold_up_a_fast_tile():
    """Most values of the gradient are zeros, and few passes use each stream."""
    config = load_any_preset("core")
    assert isinstance(config, CoreConfig)
    layer = Layer(samples=4, channels=16, filters=16, size=(8, 8), kernel=(3, 3))
    run, _, paces, cycles = run_layer(config, layer, "WxG", "GW", zeros=0.85, speedup=3.0)
    assert paces.speedup > 3
    assert cycles == pytest.approx(run.cycles, rel=0.03)


@pytest.mark.parametrize(("name", "zeros"), [("core", 0.99), pytest.param("core-dense", 0.0, marks=pytest.mark.slow)])
def test_strided_layouts_hold_up_the_tile(name, zeros):
    """A layout that writes in every second cycle conflicts with the tile's reads. A quarter of all cycles is lost."""
    config = load_any_preset(name)
    assert isinstance(config, CoreConfig)
    layer = Layer(samples=2, channels=34, filters=6, size=(7, 7), kernel=(5, 5), stride=2, padding=2)
    run, steps, paces, cycles = run_layer(config, layer, "AxG", "GA", zeros=zeros, speedup=4.0)
    lost = run.counters["multiplying"] - steps / paces.speedup
    assert lost > 0.2 * run.cycles
    assert cycles == pytest.approx(run.cycles, rel=0.05)


def test_losses_from_bank_writes():
    """A write costs a tile that takes four steps per cycle at least a quarter of a cycle, and others nothing."""
    counts = np.array([200])
    assert losses_of(np.full((1, 200), 4, np.uint8), counts, 4)[0] == pytest.approx([0.27, 0.75, 0.79], abs=0.01)
    assert losses_of(np.full((1, 200), 1, np.uint8), counts, 4).tolist() == [[0, 0, 0]]
    even = [even_losses(CoreConfig(), speedup)[0] for speedup in (1.0, 2.0, 3.0, 4.0)]
    for slower, faster in pairwise(even):
        assert (slower <= faster).all()


def test_passes_wait_for_the_output_unit_and_for_writes():
    """Compare with cycles counted by hand.

    The cases are passes of 10 cycles with blocks of 4, passes of 2 with blocks of 4, writes that halve the pace, and a
    move that lengthens the output unit's cycles by half.
    """
    no_writes = np.zeros(0), np.zeros((0, 3))

    def end(cycles, losses, block, times, moves=()):
        pace = np.array([float(cycles)]), np.array([[float(losses), 0.0, 0.0]])
        return run_passes(*pace, (2, 3), (100.0, 50.0), block, 0, *times, np.array(moves, np.float64).reshape(-1, 3))

    assert end(10, 0, 4, no_writes) == (160, 168)
    assert end(2, 0, 4, no_writes) == (120, 130)  # The first block starts at 106; the sixth ends 24 cycles later.
    assert end(10, 0.5, 4, (np.array([100.0, 120.0]), np.array([[1.0, 0.0, 0.0]]))) == (170, 178)
    assert end(10, 0.5, 4, (np.array([0.0, 90.0]), np.array([[1.0, 0.0, 0.0]]))) == (160, 168)
    # Slower are the first block, from 106 on, and half of the second; then five blocks and half of the sixth.
    assert end(2, 0, 4, no_writes, [(0, 114, 0.5)]) == (123, 133)
    assert end(10, 0, 4, no_writes, [(106, 166, 0.5)]) == (160, 169)


def test_skipped_passes_take_no_time_of_the_tile():
    """Compare with cycles counted by hand: blocks of 4 cycles, and 1 or 8 cycles to read the masks of a pass."""

    def end(cycles, streams, mask_cycles):
        pace = np.array(cycles, np.float64), np.zeros((streams[0], 3))
        return run_passes(*pace, streams, (100.0, 50.0), 4, mask_cycles, np.zeros(0), *np.zeros((2, 0, 3)))

    assert end([0] * 6, (2, 3), 1) == (106, 125)
    # The first pass that is not skipped waits for its mask until 104, and its block begins at 118.
    assert end([0, 0, 0, 10, 10, 10], (2, 3), 1) == (134, 142)
    assert end([10, 10, 10, 0, 0, 0], (2, 3), 1) == (131, 151)
    assert end([2] * 6, (2, 3), 8) == (150, 158)
    # The masks of 16 passes are read ahead of the blocks: the last ones, once block 23 begins at 1197.
    assert end([1000, *[0] * 39], (1, 40), 1) == (1198, 1265)


def test_sampled_streams_are_scaled_to_all():
    """With more streams than the limit, the sample's cycles are scaled to all."""
    config = load_any_preset("core")
    assert isinstance(config, CoreConfig)
    work = random_work(Random(50), config, (50_000, 300_000))
    image = work.image(config, Memory(SIZE))
    program = emit(best_schedule(work.space(config)), image.tensors).descriptors
    every = scheduled_paces(config, program, image.memory)
    groups = len(image.memory.bytes) // config.group_bytes
    found = np.frombuffer(image.memory.bytes, "<u2")[: groups * 16].reshape(groups, 16) & 0x7FFF != 0
    some = RowStreams(config, program, 0, 24).paces(found)
    assert 10 < len(some.counted) <= 24 < len(every.counted)
    assert some.speedup == pytest.approx(every.speedup, rel=0.05)
    cycles = [timing(config, program, speedup=paces).cycles for paces in (some, every)]
    assert cycles[0] == pytest.approx(cycles[1], rel=0.05)


@pytest.mark.parametrize("operation", OPERANDS)
def test_size_of_the_first_part(operation):
    """The first part's size does not change the number of multiplied steps. A smaller first part ends earlier."""
    layer = Layer(samples=16, channels=16, filters=16, size=(8, 8), kernel=(3, 3))
    problem = Problem(layer=layer, operation=operation, rows=OPERANDS[operation][0])
    space = IterationSpace(problem=problem, core=CoreConfig())
    best = best_schedule(space).tiling
    assert best.first_parts > 1
    cycles, multiplied = [], []
    for first_parts in (1, best.first_parts):
        program = emit(schedule_tiling(space, replace(best, first_parts=first_parts))).descriptors
        decoded = [values for kind, values in map(decode, program) if kind.name == "multiply"]
        multiplied.append(sum(each["a_streams"] * each["b_streams"] * each["steps"] for each in decoded))
        cycles.append(timing(space.core, program, speedup=2.0).cycles)
    assert multiplied[0] == multiplied[1] == space.total_steps
    assert cycles[1] < cycles[0] - 40


@pytest.mark.parametrize("operation", OPERANDS)
def test_large_layers(operation):
    """The extrapolated count is close to the count over all multiplies."""
    layer = Layer(samples=2, channels=40, filters=48, size=(14, 30), kernel=(3, 3), padding=1, stride=2, products=2)
    problem = Problem(layer=layer, operation=operation, rows=OPERANDS[operation][0])
    schedule = best_schedule(IterationSpace(problem=problem, core=CoreConfig()))
    tiled = [each.multiply for each in schedule.multiplies]
    assert len(tiled) > MAX_ROUGH_MULTIPLIES
    assert sum(each.is_last for each in tiled) == len({(each.product, str(each.tiles)) for each in tiled})
    multiplies = [values for kind, values in map(decode, emit(schedule).descriptors) if kind.name == "multiply"]
    assert len(multiplies) == len(tiled)
    steps = sum(values["a_streams"] * values["b_streams"] * values["steps"] for values in multiplies)
    assert schedule.space.total_steps == steps
    first = schedule_tiling(schedule.space, schedule.tiling, MAX_ROUGH_MULTIPLIES)
    assert first.multiplies == schedule.multiplies[:MAX_ROUGH_MULTIPLIES]
    assert rough_cycles(first) == pytest.approx(rough_cycles(schedule), rel=0.15)


def test_too_many_partial_sums():
    problem = Problem(layer=Layer(samples=1, channels=8, filters=68, size=(1, 4)), operation="AxW", rows="A")
    space = IterationSpace(problem=problem, core=CoreConfig())
    sizes = {"row": (1, 1, 1), "column": (17,)}
    tiling = Tiling(tiles=sizes, sets=sizes, chunk=(2,))
    schedule_tiling(space, tiling)
    with pytest.raises(ProgramError, match="there are 16 partial sums, not 17"):
        schedule_tiling(space, replace(tiling, chunk=(1,)))


def test_masks_add_loads():
    """A mask as large as the gradient nearly doubles the loads in both estimates."""
    problem = Problem(
        layer=Layer(samples=2, channels=32, filters=32, size=(16, 16)), operation="WxG", rows="G", speedup=3.0
    )
    plain = best_schedule(IterationSpace(problem=problem, core=CoreConfig()))
    space = IterationSpace(problem=replace(problem, mask=True), core=CoreConfig())
    masked = schedule_tiling(space, plain.tiling)
    for cycles in (rough_cycles, estimate_cycles):
        assert cycles(masked) > 1.2 * cycles(plain)
    loads, sums = [], []
    for schedule in (plain, masked):
        loads.append(timing(CoreConfig(), emit(schedule).descriptors).busy["load"])
        work = UnitWork(schedule)
        for each in schedule.multiplies:
            work.add(each)
        sums.append(work.sums.units["load"])
    assert loads[1] > 1.9 * loads[0]
    assert sums == pytest.approx(loads, rel=0.2)
