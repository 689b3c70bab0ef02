"""Test several cores on the emitted Verilog: results, predicted cycles, shared reads, and the end of sharing."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_runtime import Device, DeviceError, offload
from tensordash_runtime.backends import Golden
from tensordash_runtime.jobs import DeviceJob
from tensordash_runtime.multicore import Multicore
from tensordash_sim.compiler.layer import OPERANDS, RESULTS, Layer
from tensordash_sim.compiler.parts import divide, part_of
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.performance.chip import simulate_cores
from tensordash_sim.verify.programs.random_programs import PROGRAM, random_program
from tensordash_sim.verify.simulators import simulator_names
from tensordash_sim.verify.verilated_multicore import VerilatedMulticore

BENCH = "system"
pytestmark = pytest.mark.skipif("verilator" not in simulator_names(), reason="Verilator is not installed")
CONFIG = CoreConfig.from_toml("[core]\nbuffer = 8\nstream_buffer = 4\npartial_sums = 16\nregions = 2\nwindow = 8")
LAYER = Layer(samples=2, channels=8, filters=16, size=(6, 6), kernel=(3, 3), padding=1)
CORES = 2
SIZE = 1 << 17
LAYERS = list(json.loads((Path(__file__).parents[2] / "docs/cores.json").read_text(encoding="utf-8"))["cores"]["2"])
"""Layers and operations of docs/core-results.md."""
TOLERANCE = 0.05
"""Largest relative error of the chip's model."""
RING = slice(PROGRAM, PROGRAM + 4096)


@pytest.mark.parametrize("operation", OPERANDS)
@pytest.mark.parametrize("layer", [LAYER, replace(LAYER, channels=24)])
def test_parts_equal_pytorch_and_take_the_predicted_cycles(bench, operation, layer):
    """A shared operand has less than a page, or some pages and a part of one."""
    rng = np.random.default_rng(1)
    values = {
        name: np.where(rng.random(layer.shape(name)) < 0.5, 0, rng.standard_normal(layer.shape(name))).astype(
            np.float16
        )
        for name in OPERANDS[operation]
    }
    problem = Problem(layer=layer, operation=operation, rows=OPERANDS[operation][0])
    job = DeviceJob(problem=problem, values=values)
    apart, together = (bench.run_parts(CONFIG, job, CORES, shares=way, quick=True) for way in (False, True))
    division = divide(layer, operation, CORES, CONFIG.tile.lanes)
    # Each value of the shared operand is read once less.
    assert apart.traffic - together.traffic >= values[division.shared].nbytes
    golden, moved = Golden(CONFIG, SIZE), 0
    for number in range(CORES):
        part, chosen = part_of(layer, operation, values, division, number)
        moved += golden.run(DeviceJob(problem=replace(problem, layer=part), values=chosen)).traffic
    assert apart.traffic == moved
    nonzero = {name: value != 0 for name, value in values.items()}
    for shares, each in ((False, apart), (True, together)):
        predicted = simulate_cores(problem, CONFIG, CORES, nonzero=nonzero, shares=shares)
        assert predicted.division == division
        assert predicted.traffic == each.traffic
        assert predicted.cycles == pytest.approx(each.cycles, rel=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("title", LAYERS)
def test_predictions_of_the_page(bench, title):
    """On one, two and four cores of the preset `core`."""
    config = load_any_preset("core")
    (each,) = (each for each in bench.larger_workloads(config) if f"{each.name} {each.operation}" == title)
    for cores, figures in bench.measure(config, each, list(bench.CORES)).items():
        for name in ("cycles", "cycles_apart", "one_core_cycles"):
            predicted = figures[name.replace("cycles", "predicted")]
            assert predicted == pytest.approx(figures[name], rel=TOLERANCE), f"{cores} cores: {name}"


def test_sharing_that_ends_early(bench, monkeypatch):
    """Cores start some cycles after each other. Without patience they go on alone, with the same results."""
    monkeypatch.setattr("tensordash_runtime.multicore.PATIENCE", 1)
    values = {name: np.ones(LAYER.shape(name), np.float16) for name in OPERANDS["AxW"]}
    job = DeviceJob(problem=Problem(layer=LAYER, operation="AxW", rows="A"), values=values)
    with pytest.raises(SystemExit, match="sharing ended early"):
        bench.run_parts(CONFIG, job, CORES, shares=True, quick=True)


def test_an_error_of_a_core():
    """Memory answers reads of the second core's tensors with an error."""
    backend = Multicore(CONFIG, SIZE, CORES, quick=True)
    with contextlib.closing(backend):
        backend._cores.fail(range((SIZE + 4096) * 8 // CONFIG.axi_bits, (SIZE + 8192) * 8 // CONFIG.axi_bits))
        values = {name: np.ones(LAYER.shape(name), np.float16) for name in OPERANDS["AxW"]}
        with pytest.raises(DeviceError, match="error read in descriptor"):
            backend.run(DeviceJob(problem=Problem(layer=LAYER, operation="AxW", rows="A"), values=values))


@pytest.mark.parametrize(
    ("seeds", "memory"),
    [
        (range(6), {"latency": (0, 200), "pause": 0.3}),
        pytest.param(range(100, 200), {"latency": (0, 120), "pause": 0.2}, marks=pytest.mark.slow),
    ],
)
def test_random_programs(seeds, memory):
    """Each core has a program of its own. All addresses are shared, so patience ends."""
    with VerilatedMulticore(CONFIG, CORES, CORES * SIZE, quick=True, seed=seeds.start, **memory) as multicore:
        multicore.behave(**memory, unruly=True)
        for seed in seeds:
            cases = [random_program(Random(CORES * seed + core), CONFIG, SIZE, at=core * SIZE) for core in range(CORES)]
            expected = []
            for core, case in enumerate(cases):
                golden = GoldenCore(CONFIG, Memory(SIZE, core * SIZE))
                golden.memory.bytes[:] = case.memory.bytes
                expected.append((golden.run(case.program.descriptors), golden.memory.bytes))
                multicore.memory[core * SIZE :][:SIZE] = np.frombuffer(case.memory.bytes, np.uint8)
            multicore.share(0, CORES * SIZE, 40)
            programs = [case.program.descriptors for case in cases]
            runs = multicore.run_all(programs, [core * SIZE + PROGRAM for core in range(CORES)], most=1_000_000)
            assert multicore.patience == 0, f"seed {seed}"
            for core, (run, (outcome, memory_after)) in enumerate(zip(runs, expected, strict=True)):
                assert run.outcome == outcome, f"seed {seed}, core {core}: {cases[core].title}"
                found = multicore.memory[core * SIZE :][:SIZE].copy()
                found[RING] = np.frombuffer(memory_after, np.uint8)[RING]
                assert found.tobytes() == bytes(memory_after), f"seed {seed}, core {core}: {cases[core].title}"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 40))])
def test_reset_of_one_core(seed):
    """Both cores execute one program on one memory. One is reset in the middle; the other one ends alone."""
    random = Random(seed)
    case = random_program(random, CONFIG, SIZE)
    golden = GoldenCore(CONFIG, Memory(SIZE))
    golden.memory.bytes[:] = case.memory.bytes
    outcome = golden.run(case.program.descriptors)
    with VerilatedMulticore(CONFIG, CORES, SIZE, quick=True, seed=seed, latency=(0, 60), pause=0.1) as multicore:
        multicore.memory[:] = np.frombuffer(case.memory.bytes, np.uint8)
        multicore.share(0, SIZE, 300)
        multicore.put(case.program.descriptors, PROGRAM)
        for core in range(CORES):
            multicore.select(core)
            multicore.begin(PROGRAM, len(case.program.descriptors))
        multicore.wait(random.randrange(1, 1500))
        reset, other = random.sample(range(CORES), CORES)
        multicore.select(reset)
        multicore.reset()
        multicore.select(other)
        while not multicore.read("cause"):
            multicore.wait(1000)
            assert multicore.cycle < 100_000, f"seed {seed}"
        assert multicore.outcome() == outcome, f"seed {seed}: {case.title}"
        multicore.memory[RING] = np.frombuffer(golden.memory.bytes, np.uint8)[RING]
        assert multicore.memory.tobytes() == bytes(golden.memory.bytes), f"seed {seed}: {case.title}"


def test_device_equals_the_emulator():
    """All operations, also of sizes that cannot be divided equally, biases, ReLU, masks and stochastic rounding."""
    rng = np.random.default_rng(3)

    def draw(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * (rng.random(shape) < 0.6)).astype(np.float16)

    with (
        Device(CONFIG, "verilator", cores=CORES, quick=True, memory_bytes=SIZE - 100) as device,
        Device(CONFIG) as emulator,
    ):
        for shape in ((16, 24, 8), (5, 7, 3), (1, 1, 1), (3, 4, 8, 4)):
            a, b = draw(*shape[:-1]), draw(*shape[:-3], *shape[-2:])
            assert np.array_equal(device.matmul(a, b), emulator.matmul(a, b)), shape
        geometry = MatrixProduct(batch=1, samples=8, in_features=6, out_features=8)
        for operation, pair in OPERANDS.items():
            operands = {name: draw(*geometry.shapes[name]) for name in pair}
            more = {"mask": draw(*geometry.shapes[RESULTS[operation]])}
            more |= {"bias": rng.standard_normal(8).astype(np.float32), "relu": True} if operation == "AxW" else {}
            results = [each.contract(geometry, operation, operands, **more).result for each in (device, emulator)]
            assert np.array_equal(*results), operation
            results = [each.contract(geometry, operation, operands, scale=3).result for each in (device, emulator)]
            assert np.array_equal(*results), operation
            results = [each.contract(geometry, operation, operands, fp32=True).result for each in (device, emulator)]
            assert np.array_equal(*results), operation
    a, b = draw(12, 8), draw(8, 8)
    options = {"rounding": "stochastic", "rounding_seed": 7}
    device = Device(CONFIG, "verilator", cores=CORES, quick=True, memory_bytes=SIZE, **options)
    with device, Device(CONFIG, **options) as emulator:
        assert np.array_equal(device.matmul(a, b), emulator.matmul(a, b))


@pytest.mark.slow
def test_a_step_of_resnet18_on_four_cores(bench):
    """All parameters, running statistics and the loss equal the emulator's after a step on images of 32x32."""
    from step_programs import build_resnet18

    def train(device: Device) -> tuple[float, dict[str, torch.Tensor]]:
        torch.manual_seed(0)
        model = build_resnet18()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        with offload(device) as run:
            loss = F.cross_entropy(model(torch.randn(4, 3, 32, 32)), torch.randint(0, 10, (4,)))
            loss.backward()
            optimizer.step()
        assert not run.missed
        return loss.item(), model.state_dict()

    with Device("core") as emulator, Device("core", "verilator", cores=4) as device:
        (loss, tensors), (other_loss, others) = train(emulator), train(device)
    assert loss == other_loss
    assert all(torch.equal(tensors[name], others[name]) for name in tensors)


def test_no_room():
    a, b = np.zeros((64, 64), np.float16), np.zeros((64, 32), np.float16)
    device = Device(CONFIG, "verilator", cores=CORES, quick=True, memory_bytes=1 << 13)
    with device, pytest.raises(DeviceError, match="out of device memory"):
        device.matmul(a, b)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cores": 2}, "cores must be 1 unless the backend is verilator, not 2 on emulator"),
        ({"backend": "verilator", "cores": 17}, "cores must be an integer from 1 to 16, not 17"),
        ({"backend": "verilator", "cores": 2, "waves": True}, "waves must be false on several cores"),
    ],
)
def test_devices_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Device(CONFIG, **options)


def test_bad_arguments():
    with VerilatedMulticore(CONFIG, CORES, 1 << 16, quick=True) as multicore:
        with pytest.raises(IndexError, match="core must be from 0 to 1, not 2"):
            multicore.select(2)
        with pytest.raises(
            ValueError, match="base and end must be multiples of 4096, the end above, not 0x1000 and 0x1"
        ):
            multicore.share(4096, 4096, 1)
