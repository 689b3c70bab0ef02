"""Test that an interrupted run continues with stored results, and that other runs never use them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.lowering import MatrixProduct, Operation
from tensordash_sim.performance.chip import ChipConfig, Machine, Results, results, totals
from tensordash_sim.trace import Trace, TraceWriter

from .conftest import LAYERS, random_masks

MACHINE = Machine(TileConfig(), ChipConfig(tiles=2))
LINEAR = MatrixProduct(batch=1, samples=8, in_features=8, out_features=8)


def make_trace(path: Path, seed: int = 0) -> Trace:
    """Write a trace of two layers, of which each step uses the second twice."""
    rng = np.random.default_rng(seed)
    with TraceWriter(path) as writer:
        for index in (0, 3):
            with writer.step(index) as step:
                for name, geometry in (("conv", LAYERS["3x3"]), ("fc", LINEAR), ("fc", LINEAR)):
                    for operation in Operation:
                        step.record(name, operation, geometry, random_masks(rng, geometry, operation))
    return Trace.open(path)


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return make_trace(tmp_path / "run.trace")


class Simulator:
    """Count calls of `simulate_operation`, and interrupt the call `stop`."""

    def __init__(self, stop: int = 0) -> None:
        self.calls, self.stop = 0, stop
        self.real = results.simulate_operation

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        if self.calls == self.stop:
            raise KeyboardInterrupt
        return self.real(*arguments)


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> Simulator:
    counting = Simulator()
    monkeypatch.setattr(results, "simulate_operation", counting)
    return counting


def run(folder: Path, trace: Trace, machine: Machine = MACHINE) -> list[dict[str, Any]]:
    return [result for _, result in Results(folder, trace, machine).run(trace.records)]


def test_every_operation_in_order(tmp_path, trace, simulator):
    pairs = list(Results(tmp_path / "results", trace, MACHINE).run(trace.records))
    assert [record for record, _ in pairs] == list(trace.records)
    for record, result in pairs:
        masks = {name: record.mask(name) for name in record.operands}
        assert result == simulator.real(record.geometry, record.operation, masks, MACHINE).to_json()
    assert simulator.calls == len(pairs) == 18


def test_interrupted(tmp_path, trace, simulator):
    want = run(tmp_path / "whole", trace)
    simulator.calls, simulator.stop = 0, 8
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", trace)
    simulator.calls, simulator.stop = 0, 0
    assert run(tmp_path / "parts", trace) == want
    assert simulator.calls == 18 - 7
    assert run(tmp_path / "parts", trace) == want
    assert simulator.calls == 18 - 7


def test_results_are_stored_immediately(tmp_path, trace, simulator):
    """Stored results are available before the generator ends."""
    next(Results(tmp_path, trace, MACHINE).run(trace.records))
    assert simulator.calls == 1
    run(tmp_path, trace)
    assert simulator.calls == 18


def test_some_operations_then_all(tmp_path, trace, simulator):
    """Run some operations, then all. Operations of a layer that is used twice stay distinct."""
    want = run(tmp_path / "whole", trace)
    assert want[3] != want[6]
    chosen = [record for record in trace.records if record.layer == "fc"]
    list(Results(tmp_path / "parts", trace, MACHINE).run(chosen))
    assert simulator.calls == 18 + 12
    assert run(tmp_path / "parts", trace) == want
    assert simulator.calls == 18 + 18


@pytest.mark.parametrize(
    "cut",
    [
        lambda data: data[:-40],
        lambda data: data[:-1],
        lambda data: data[: data.rindex(b"\n", 0, -1)] + b"\n\x00\xff\n",
        lambda data: data[: data.rindex(b"\n", 0, -1)] + b"\n[1]\n",
    ],
    ids=["half a line", "its end missing", "no text", "another document"],
)
def test_half_written(cut, tmp_path, trace, simulator):
    want = run(tmp_path / "results", trace)
    (file,) = (tmp_path / "results").iterdir()
    whole = file.read_bytes()
    file.write_bytes(cut(whole))
    simulator.calls = 0
    assert run(tmp_path / "results", trace) == want
    assert simulator.calls == 1
    assert file.read_bytes() == whole


def test_different_runs_have_different_files(tmp_path, trace, monkeypatch):
    folder = tmp_path / "results"
    paths = {Results(folder, trace, MACHINE).path}
    assert paths == {
        Results(folder, make_trace(tmp_path / "same.trace"), Machine(TileConfig(), ChipConfig(tiles=2))).path
    }
    paths.add(Results(folder, make_trace(tmp_path / "other.trace", seed=1), MACHINE).path)
    paths.add(Results(folder, trace, Machine(TileConfig(), ChipConfig(tiles=3))).path)
    paths.add(Results(folder, trace, Machine(TileConfig(rows=2), ChipConfig(tiles=2))).path)
    paths.add(Results(folder, trace, Machine(TileConfig(), ChipConfig(tiles=2), side="left")).path)
    monkeypatch.setattr(results, "code_digest", lambda: "other code")
    paths.add(Results(folder, trace, MACHINE).path)
    assert len(paths) == 6
    assert not folder.exists()


def test_results_are_plain_json(tmp_path, trace):
    found = run(tmp_path / "results", trace)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


class TestTotals:
    def result(self, **changes: Any) -> dict[str, Any]:
        energy = {"core": 1.0, "idle": 1.0, "sram": 2.0, "dram": 3.0}
        return {
            "macs": 100,
            "ideal_speedup": 2.0,
            "dense_compute": 10,
            "compute": 5,
            "dense_shared": 11,
            "shared": 6,
            "dense_unpadded": 8,
            "dense_busy": 10,
            "busy": 5,
            "dense_cycles": 12,
            "cycles": 8,
            "dense_energy": energy | {"core": 4.0},
            "energy": energy,
        } | changes

    def test_ratios_of_sums(self):
        added = totals([self.result(), self.result(macs=300, ideal_speedup=None, compute=35, dense_compute=40)])
        assert (added["macs"], added["dense_compute"], added["compute"]) == (400, 50, 40)
        assert added["compute_speedup"] == 50 / 40
        assert added["speedup"] == 24 / 16
        assert added["shared_speedup"] == 22 / 12
        assert added["unpadded_speedup"] == 16 / 40
        assert added["ideal_speedup"] == 400 / 50  # All values of the second are zero.
        assert added["energy"] == {"core": 2, "idle": 2, "sram": 4, "dram": 6}
        assert added["core_energy_ratio"] == 4
        assert added["logic_energy_ratio"] == 10 / 4
        assert added["energy_ratio"] == 20 / 14

    def test_ratios_without_work_are_none(self):
        nothing = dict.fromkeys(("core", "idle", "sram", "dram"), 0.0)
        added = totals([self.result(macs=0, ideal_speedup=None, compute=0, dense_energy=nothing, energy=nothing)])
        assert [added[name] for name in ("ideal_speedup", "compute_speedup", "core_energy_ratio", "energy_ratio")] == [
            None
        ] * 4
