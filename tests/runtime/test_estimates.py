"""Test that the emulator's estimated cycles are close to the cycles of the core's Verilog."""

from types import ModuleType
from typing import Any

import pytest
import torch

from tensordash.configuration.core_config import CoreConfig
from tensordash_runtime import Device, offload
from tensordash_sim.compiler.layer import Layer
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.row_streams import RowStreams

BENCH = "mapper"  # It draws and runs the layers.
SEEDS = range(500, 506)
OTHERS = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("core-dense", "core-wide", "core-fp8", "core-bf16", "core-drop")
]


@pytest.mark.parametrize("shape", [(96, 24, 128), (64, 3, 160), (1, 300, 200)])
def test_rectangular_products(shape: tuple[int, int, int]) -> None:
    """The tile skips the zeros that pad a short stream's last word."""
    torch.manual_seed(0)
    n, k, m = shape
    a, b = torch.randn(n, k).half(), torch.randn(k, m).half()
    cycles = {}
    for backend in ("emulator", "verilator"):
        with Device("core", backend) as device, offload(device) as run:
            a @ b
        cycles[backend] = run.to_json()["contractions"][0]["cycles"]
    assert cycles["emulator"] == pytest.approx(cycles["verilator"], rel=0.05)


@pytest.mark.parametrize("preset", ["core", *OTHERS])
def test_random_layers(bench: ModuleType, preset: str) -> None:
    """For small layers of the bench, each estimate is within 5%, or within 100 cycles."""
    comparison = bench.Comparison(preset)
    found = [comparison.layer(seed, 0.2) for seed in SEEDS]
    for each in found:
        for name in bench.ESTIMATES:
            assert each[name] == pytest.approx(each["cycles"], rel=bench.WORST_GOAL, abs=100), each
    document = bench.summary(found)
    assert document["layers"] == len(SEEDS)
    assert document["expected"]["median_error"] < 2 * bench.MEDIAN_GOAL, found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100129, 100155])
def test_estimates_where_the_output_unit_limits(bench: ModuleType, seed: int) -> None:
    """On core-wide, the cycles of these layers depend on the output unit."""
    found = bench.Comparison("core-wide").layer(seed)
    assert found["estimate"] == pytest.approx(found["cycles"], rel=bench.WORST_GOAL / 2), found


def test_summary_reports_whether_goals_are_met(bench: ModuleType) -> None:
    layers = [{"expected_error": error, "estimate_error": -error} for error in (0.001, 0.02, 0.06)]
    for name in bench.ESTIMATES:
        assert bench.summary(layers)[name] == {
            "median_error": 0.02,
            "worst_error": 0.06,
            "median_goal_met": False,
            "worst_goal_met": False,
        }
        assert bench.summary(layers[:1])[name]["worst_goal_met"]


def test_counts_are_independent_of_mask_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensordash_runtime import expected

    a, b = torch.randn(16, 64).half(), torch.randn(64, 16).half()
    a[torch.rand(a.shape) < 0.7] = 0
    cycles = []
    for most in (expected.MAX_MASK_BYTES, 0):
        monkeypatch.setattr(expected, "MAX_MASK_BYTES", most)
        with Device("core") as device, offload(device) as run:
            for _ in range(3):
                a @ b
        assert device.expectations is not None
        assert len(device.expectations._masks) == (3 if most else 0)
        cycles.append([each["cycles"] for each in run.to_json()["contractions"]])
        assert not device.expectations._masks
    assert cycles[0] == cycles[1]


def test_streams_of_each_layer_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two steps of a network with 40 layers, each layer's streams are built once."""
    from tensordash_runtime import expected

    found = []

    def counted(*arguments: Any) -> RowStreams:
        found.append(arguments)
        return RowStreams(*arguments)

    monkeypatch.setattr(expected, "RowStreams", counted)
    expectations = expected.Expectations(CoreConfig())
    layers = [Layer(samples=1, channels=4, filters=4, size=(1, size)) for size in range(1, 41)]
    for _ in range(2):
        for layer in layers:
            expectations._row_streams(Problem(layer=layer, operation="AxW", rows="A", fp32=False))
    assert len(found) == len(layers)
