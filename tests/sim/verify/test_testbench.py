"""Test that the testbench in plain Verilog passes on its tile and fails on broken ones."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tensordash import TileConfig, generate, load_preset
from tensordash_sim.verify import render_testbench, simulator_names

from ...emitted_commands import run_verilator_commands
from .plain_testbench import change, change_digit, check_fails, needs_icarus, run_icarus

FILES = ("mine_tile_tb.v", "mine.v")

SMALL = TileConfig(rows=2, columns=1, format="fp8_e4m3")
CONFIGS = {
    "rows": TileConfig(rows=2, columns=3),
    "ring": replace(load_preset("recommended"), rows=2, columns=1, format="fp8_e4m3"),
    "c": TileConfig(rows=4, columns=1, format="fp8_e4m3", initial=True, out_rows=2),
    "both": TileConfig(rows=2, columns=2, sparsity="both", format="int8", pipeline=1),
    "dense": TileConfig(rows=2, columns=1, sparsity="none", initial=True),
    "fused": TileConfig(rows=2, columns=1, format="bf16", accumulator="volta", initial=True, pipeline=3),
    "fused, at once": TileConfig(rows=2, columns=1, format="bf16", accumulator="volta", full_window=False),
    "buffered, copied": TileConfig(rows=2, columns=1, format="int8", registered_ready=True, counters="snapshot"),
    "no counters": TileConfig(rows=2, columns=1, format="int8", initial=True, counters=False),
    "8 lanes": TileConfig(rows=1, columns=1, lanes=8, depth=3, connectivity=((0, 0), (1, 0), (2, -1))),
}


def write(folder: Path, config: TileConfig, seed: int = 0) -> None:
    generate(config, folder, "mine", render_testbench(config, "mine", seed))


def check_passes(config: TileConfig, folder: Path) -> None:
    write(folder, config)
    status, output = run_icarus(folder, *FILES)
    assert status == 0, output
    found = re.fullmatch(
        r"PASS: 8 streams of 65 steps, (\d+) beats compared, (\d+) cycles of schedules instead of 65\n", output
    )
    assert found, output
    beats = 8 * config.rows // config.out_rows
    assert 2.5 * beats <= int(found[1]) < 3 * beats  # All beats appear twice, and half of them also before the reset.
    assert (int(found[2]) < 65) == (config.sparsity != "none")


@needs_icarus
def test_passes(tmp_path: Path) -> None:
    check_passes(CONFIGS["ring"], tmp_path)


@needs_icarus
@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_passes_on_other_configurations(name: str, tmp_path: Path) -> None:
    check_passes(CONFIGS[name], tmp_path)


@needs_icarus
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_seeds(seed: int, tmp_path: Path) -> None:
    """Operands and pauses differ between seeds."""
    write(tmp_path, SMALL, seed)
    status, output = run_icarus(tmp_path, *FILES)
    assert status == 0, output


def test_same_files_for_the_same_seed() -> None:
    texts = [render_testbench(SMALL, "mine", seed) for seed in (0, 1, 1)]
    assert texts[0] != texts[1] == texts[2]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Emit a small tile once; return its files."""
    folder = tmp_path_factory.mktemp("small")
    write(folder, SMALL)
    return folder


@pytest.fixture
def folder(small: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small, tmp_path / "small"))


@needs_icarus
def test_wrong_results(folder: Path) -> None:
    """One bit differs in each of two beats. A reset drops the second beat before its run ends."""
    for line in (0, 15):
        change_digit(folder / "mine_tile_tb_out.hex", line)
    status, output = run_icarus(folder, *FILES)
    assert status == 1
    assert output.count(": beat 0 is ") == 3
    assert output.count(": beat 15 is ") == 2
    assert "FAIL: 5 errors" in output
    assert "PASS" not in output


BROKEN = {
    "counter": (r'check\("effectual", effectual, (\d+)\)', r'check("effectual", effectual, \g<1>0)', "effectual is"),
    "flag": (r'("overflow", .*), 0\)', r"\1, 1)", "overflow is 0, expected 1"),
    "an endless wait": (r"out_ready <= !pause\(0\)", "out_ready <= 0", "no results: 0 of 16 beats"),
    "a lost step": (r"next = next \+ ", "next = next + (beat == 9) + ", r"beat \d+ is|no results"),
    "ports that disagree": (r"b_last\[port\] <= ", "b_last[port] <= port > 0 && ", r"protocol_error is 1, expected 0"),
}


@needs_icarus
@pytest.mark.parametrize("name", BROKEN)
def test_fails_on_broken_files(name: str, folder: Path) -> None:
    """Each check and each stimulus of the testbench matters."""
    pattern, replacement, message = BROKEN[name]
    change(folder / "mine_tile_tb.v", pattern, replacement)
    check_fails(folder, message, *FILES)


@pytest.mark.slow
@pytest.mark.skipif("verilator" not in simulator_names(), reason="Verilator cannot run here")
@pytest.mark.parametrize("name", ["rows", "c"])
def test_verilator(name: str, tmp_path: Path) -> None:
    """Run the commands that the testbench's header lists."""
    write(tmp_path, CONFIGS[name])
    bench = tmp_path / "mine_tile_tb.v"
    run = run_verilator_commands(bench)
    assert run.returncode == 0
    assert run.stdout.startswith("PASS: 8 streams of 65 steps")
    change_digit(tmp_path / "mine_tile_tb_out.hex", 0)
    run = run_verilator_commands(bench)
    assert run.returncode != 0
    assert "FAIL: " in run.stdout


def test_documented_icarus_command_matches_the_tests(small: Path) -> None:
    text = (small / "mine_tile_tb.v").read_text()
    assert "//   $ iverilog -o bench mine_tile_tb.v mine.v && vvp -n bench\n" in text
    assert "@" not in re.sub(r"@\(\w+ clk\)", "", text)
