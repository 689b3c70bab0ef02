"""Test that each design is built once, and that "auto" takes the faster simulator."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensordash import TileConfig, generate
from tensordash.arithmetic.multiplier import Multiplier
from tensordash.schedule.scheduler import Scheduler
from tensordash_sim.verify import BenchResult, Replayer, builds, run_bench, simulator_names, simulators, verify
from tensordash_sim.verify.builds import Program

CONFIG = TileConfig(rows=1, columns=1)
TOP = "tensordash_scheduler"
needs_verilator = pytest.mark.skipif("verilator" not in simulator_names(), reason="Verilator cannot run here")
needs_both = pytest.mark.skipif(len(simulator_names()) < 2, reason="there is no choice")


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Return a cache for this file's tests, which damage cached files."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cache(home, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home / "tensordash" / "simulators"


@pytest.fixture
def ran(monkeypatch) -> list[str]:
    """Record the tools that builds run."""
    commands: list[str] = []
    original = Program._run

    def counted(self, command, *rest):
        commands.append(command[0])
        original(self, command, *rest)

    monkeypatch.setattr(Program, "_run", counted)
    return commands


@pytest.fixture(scope="module")
def verilog(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("verilog")
    generate(CONFIG, folder)
    return folder


def bench(verilog: Path, folder: Path, config: TileConfig = CONFIG) -> BenchResult:
    return run_bench("scheduler", config, verilog, folder, effort=0.05, simulator="verilator")


@pytest.mark.sampled(5)
@needs_verilator
class TestCachedBuilds:
    def test_a_second_verify_builds_nothing(self, ran):
        for expected in (["verilator", "make"], []):
            ran.clear()
            (found,) = verify(CONFIG, ["scheduler"], effort=0.05, simulator="verilator")
            assert found.passed
            assert ran == expected

    def test_other_verilog_is_another_build(self, verilog, tmp_path, ran, sabotage, monkeypatch):
        assert bench(verilog, tmp_path / "first").passed
        ran.clear()
        with monkeypatch.context():
            sabotage(Scheduler, lambda scheduler: scheduler.advance.eq(0))
            generate(CONFIG, tmp_path / "broken")
        assert not bench(tmp_path / "broken", tmp_path / "second").passed
        assert ran == ["verilator", "make"]
        ran.clear()
        assert bench(verilog, tmp_path / "third").passed
        assert ran == []

    @pytest.mark.parametrize(
        "change", [{"CXXFLAGS": "-DOTHER"}, {"top": "another"}, {"control": "// more\n"}, {"waves": True}]
    )
    def test_every_option_counts(self, change, verilog, monkeypatch):
        options: dict[str, Any] = {"top": TOP, "sources": [verilog / "tensordash.v"]}
        first = Program(**options)._key
        if "CXXFLAGS" in change:
            monkeypatch.setenv("CXXFLAGS", change["CXXFLAGS"])
        else:
            options |= change
        assert Program(**options)._key != first

    def test_another_version_counts(self, verilog, monkeypatch):
        first = Program(TOP, [verilog / "tensordash.v"])._key
        builds._tools.cache_clear()
        monkeypatch.setattr(builds, "version", lambda package: "another")
        try:
            assert Program(TOP, [verilog / "tensordash.v"])._key != first
        finally:
            builds._tools.cache_clear()

    @pytest.mark.parametrize("damage", ["cut", "changed"])
    def test_damaged_build_is_rebuilt(self, damage, verilog, tmp_path, cache, ran):
        assert bench(verilog, tmp_path / "first").passed
        content = (tmp_path / "first" / TOP).read_bytes()
        (program,) = (path for path in cache.iterdir() if path.read_bytes() == content)
        program.unlink()  # The run's folder may have a link to the file, so replace it.
        program.write_bytes(content[:1000] if damage == "cut" else content[:-1] + b"?")
        ran.clear()
        assert bench(verilog, tmp_path / "second").passed
        assert ran == ["verilator", "make"]
        ran.clear()
        assert bench(verilog, tmp_path / "third").passed
        assert ran == []

    def test_two_concurrent_builds(self, tmp_path, cache, ran):
        config = TileConfig(rows=1, columns=1, pipeline=1)  # No other test builds this configuration.
        generate(config, tmp_path / "verilog")
        together = threading.Barrier(2)

        def one(name: str) -> BenchResult:
            together.wait()
            return bench(tmp_path / "verilog", tmp_path / name, config)

        with ThreadPoolExecutor(2) as pool:
            assert all(found.passed for found in pool.map(one, ("first", "second")))
        assert ran == ["verilator", "make"]  # The second thread waited for the first.
        assert all(path.is_file() and "-" in path.name for path in cache.iterdir())

    def test_build_without_caching(self, tmp_path, cache):
        (tmp_path / "tiny.v").write_text(
            "module tiny(input clk, output reg q); always @(posedge clk) q <= !q; endmodule\n"
        )
        program = Program("tiny", [tmp_path / "tiny.v"])
        program.build(tmp_path, tmp_path / "log", keep=False)
        assert (tmp_path / "tiny").is_file()
        assert not program.is_cached
        program.build(tmp_path, tmp_path / "log")
        assert program.is_cached

    def test_the_main_program_is_not_shared(self):
        """The model's size depends on the ports. Another design's main program would write beyond its end."""
        assert Path(builds.MAIN).stem not in builds._runtime()
        assert "verilated" in builds._runtime()

    def test_the_runtime_is_compiled_once(self, verilog, tmp_path, cache):
        assert bench(verilog, tmp_path / "first").passed  # This caches the runtime in any order of tests.
        (tmp_path / "tiny.v").write_text(
            "module tiny(input clk, output reg q); always @(posedge clk) q <= clk; endmodule\n"
        )
        Program("tiny", [tmp_path / "tiny.v"]).build(tmp_path, tmp_path / "log")
        log = (tmp_path / "log").read_text(encoding="utf-8")
        assert "Vtop__ALL.o" in log
        assert "-o verilated.o" not in log


@needs_verilator
def test_least_recently_used_build_is_removed(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(builds, "_folder", lambda: tmp_path / "kept")
    monkeypatch.setattr(builds, "MAX_CACHED_BUILDS", 2)
    for i, key in enumerate(("a", "b", "c")):
        file = tmp_path / key
        file.write_text(key)
        if key == "c":
            assert builds.load_cached("a", tmp_path / "again", link=False)  # Now b is the oldest.
        builds.store_cached(key, file)
        for path in (tmp_path / "kept").glob(f"{key}-*"):
            os.utime(path, (i, i) if key != "c" else None)
    assert sorted(path.name[0] for path in (tmp_path / "kept").iterdir()) == ["a", "c"]


@needs_verilator
def test_full_disk_disables_the_cache(tmp_path, monkeypatch):
    """If the disk is full after the build, the build works but is not cached."""
    (tmp_path / "tiny.v").write_text("module tiny(input clk, output reg q); always @(posedge clk) q <= 1; endmodule\n")

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(builds.shutil, "copy", full)
    program = Program("tiny", [tmp_path / "tiny.v"])
    program.build(tmp_path, tmp_path / "log")
    assert (tmp_path / "tiny").is_file()
    assert not program.is_cached


@needs_both
class TestAuto:
    """Test "auto", which counts the time of building."""

    def chosen(self, verilog: Path, **work) -> str:
        return simulators.quicker_simulator("auto", "tensordash_tile", [verilog / "tensordash.v"], **work)

    def test_icarus_is_chosen_for_short_work(self, verilog):
        assert self.chosen(verilog, cycles=100, positions=64) == "icarus"

    def test_verilator_is_chosen_for_long_work(self, verilog):
        assert self.chosen(verilog, cycles=100_000, positions=64) == "verilator"

    def test_verilator_is_chosen_for_a_cached_build(self, verilog, monkeypatch):
        monkeypatch.setattr(Program, "is_cached", True)
        assert self.chosen(verilog, cycles=100, positions=64) == "verilator"

    @pytest.mark.parametrize("name", simulator_names())
    def test_explicit_simulator_is_used(self, name, verilog):
        work = {"cycles": 100, "positions": 64}
        assert simulators.quicker_simulator(name, "tensordash_tile", [verilog / "tensordash.v"], **work) == name

    def test_only_available_simulator_is_chosen(self, verilog, monkeypatch):
        for only in ("icarus", "verilator"):
            monkeypatch.setattr(simulators, "simulator_names", lambda only=only: [only])
            assert self.chosen(verilog, cycles=100, positions=64) == only

    def test_icarus_runs_a_short_replay(self, tmp_path):
        a = b = np.ones((1, 3, 4), np.float16)
        assert Replayer(CONFIG, tmp_path, steps=3).run(a, b).simulator == "icarus"

    def test_icarus_runs_short_benches(self):
        found = verify(CONFIG, ["staging_buffer", "transposer"], effort=0.05)
        assert [(each.passed, each.simulator) for each in found] == [(True, "icarus")] * 2


@pytest.mark.skipif("icarus" not in simulator_names(), reason="Icarus Verilog is not installed")
def test_joint_replays_match_single_replays(tmp_path):
    random = np.random.default_rng(5)
    operands = [
        tuple(
            (random.integers(-4, 5, (n, 1, steps, 4)) * (random.random((n, 1, steps, 4)) < 0.5)).astype(np.float16)
            for _ in "ab"
        )
        for n, steps in ((3, 9), (1, 4), (2, 30))
    ]
    operands.append((operands[0][0][0], operands[0][1][0]))  # This operand has no leading axis.
    replayer = Replayer(CONFIG, tmp_path, simulator="icarus")
    for together, one in zip(replayer.run_each(operands), operands, strict=True):
        alone = replayer.run(*one)
        assert not together.mismatches
        np.testing.assert_array_equal(together.c_bits, alone.c_bits)
        np.testing.assert_array_equal(together.row_wait, alone.row_wait)
        for name, counted in alone.counters.items():
            np.testing.assert_array_equal(together.counters[name], counted)
        assert (together.elapsed, together.overflow) == (alone.elapsed, alone.overflow)


@pytest.mark.skipif("icarus" not in simulator_names(), reason="Icarus Verilog is not installed")
def test_one_replay_that_differs(tmp_path, sabotage):
    """The Verilog has no signs, and one of three operands has negative values."""
    sabotage(Multiplier, lambda multiplier: multiplier.product.sign.eq(0))
    generate(CONFIG, tmp_path / "verilog")
    ones = np.ones((1, 3, 4), np.float16)
    replayer = Replayer(CONFIG, tmp_path, verilog=tmp_path / "verilog", simulator="icarus")
    found = replayer.run_each([(ones, ones), (-ones, ones), (ones, ones)])
    assert [bool(each.mismatches) for each in found] == [False, True, False]
    assert found[2].c.tolist() == [[12.0]]
    assert found[1].c_bits.size == 0
