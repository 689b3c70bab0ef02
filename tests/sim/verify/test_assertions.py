"""Test that the emitted assertions compile, hold for emitted designs, and fail for broken ones."""

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tensordash import Tile, TileConfig, generate
from tensordash.emission.verilog import render
from tensordash.streams.axi_stream import AxiStreamTile
from tensordash.streams.feeder import Feeder
from tensordash.tile.control import Control
from tensordash_sim.verify import run_bench, simulator_names
from tensordash_sim.verify.builds import verilator_environment

pytestmark = pytest.mark.skipif("verilator" not in simulator_names(), reason="Verilator cannot run here")

SMALL = TileConfig(rows=2, columns=1, lanes=2, depth=3, connectivity=((0, 0), (1, 0), (2, 0)), initial=True)
RING = replace(SMALL, staging="ring", counters="snapshot", initial=False, registered_ready=True)
MIXED = TileConfig(
    rows=2, columns=1, lanes=2, format={"a": "fp4_e2m1", "b": "fp8_e5m2"}, accumulator="hopper", scale="e8m0"
)
"""A step has 2 bytes on side a and 3 on side b, a scale included."""
PADDED = TileConfig(rows=2, columns=1, lanes=2, format="tf32", accumulator="ampere")
"""A step has 38 bits in 5 bytes."""
LEGAL = "random_traffic|null_beats|reset|clear|single_steps"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("config", [SMALL, RING, TileConfig(rows=16, columns=1, lanes=2)], ids=["c", "ring", "tall"])
def test_assertions_lint(config, tmp_path):
    generate(config, tmp_path, "mine")
    assert "mine_assertions.sv" not in (tmp_path / "mine.f").read_text()
    text = (tmp_path / "mine_assertions.sv").read_text()
    assert max(map(len, text.splitlines())) <= 160
    for top in ("mine_tile", "mine_axi_stream_tile"):
        assert f"\nbind {top} {top}_assertions rules (.*);\n" in text
        run = subprocess.run(
            ["verilator", "--lint-only", "--assert", "-Wall", "--top-module", top, "mine_assertions.sv", "mine.v"],
            cwd=tmp_path,
            env=verilator_environment(),
            capture_output=True,
            text=True,
        )
        assert "mine_assertions.sv:" not in run.stderr, run.stderr


STIMULUS = """
module stimulus;
  reg clk = 0;
  reg rst = 1;
{declarations}
  {top} stand ({connections});
  initial begin
    repeat (3000) begin
      #1 clk = 1;
      #1 rst = ($urandom % 40) == 0;
{draws}
      clk = 0;
    end
    $finish;
  end
endmodule
"""


def failed_rules(top: str, files: dict[str, str], widths: dict[str, int], folder: Path) -> set[str]:
    """Return the rules that fail in 3000 cycles with all zeros, all ones or random values on some ports."""
    draws, declarations = [], []
    for port, width in widths.items():
        words = ", ".join(["$urandom"] * -(-width // 32))
        declarations.append(f"  reg [{width - 1}:0] {port};")
        draws.append(f"      {port} = $urandom % 3 == 0 ? '0 : $urandom % 2 == 0 ? '1 : {width}'({{{words}}});")
    stimulus = STIMULUS.format(
        top=top,
        declarations="\n".join(declarations),
        connections=", ".join(f".{port}({port})" for port in ("clk", "rst", *widths)),
        draws="\n".join(draws),
    )
    for name, text in {**files, "stimulus.sv": stimulus}.items():
        (folder / name).write_text(text)
    command = ["verilator", "--binary", "--assert", "-Wno-fatal", "-Wno-lint", "--top-module", "stimulus", "-o", "run"]
    command += ["-CFLAGS", "-std=c++20 -O0", "stimulus.sv", *files]
    built = subprocess.run(command, cwd=folder, env=verilator_environment(), capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    command = [str(folder / "obj_dir" / "run"), "+verilator+error+limit+1000000"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return set(re.findall(r"Assertion failed in .*\.rules\.(\w+)", run.stdout + run.stderr))


def rules_of(top: str, text: str, kind: str = r"\w+") -> set[str]:
    """Return a file's rules for a top module."""
    module = text.split(f"module {top}_assertions")[1].split("endmodule")[0]
    return set(re.findall(rf"^  (\w+): {kind} property", module, re.M))


@pytest.mark.slow
@pytest.mark.parametrize("top", ["tensordash_tile", "tensordash_axi_stream_tile"])
def test_every_rule_can_fail(top, tmp_path):
    """With free ports in place of the tile, each rule fails at some time."""
    text = render(replace(SMALL, staging="ring"))["tensordash_assertions.sv"]
    module = text.split(f"module {top}_assertions")[1].split("endmodule")[0]
    found = re.findall(r"input wire (?:\[(\d+):0\] )?(\w+)", module)
    widths = {name: int(high or 0) + 1 for high, name in found if name not in ("clk", "rst")}
    ports = ", ".join(f"input wire [{width - 1}:0] {name}" for name, width in widths.items())
    stub = f"module {top} (input wire clk, input wire rst, {ports});\nendmodule\n"
    rules = f"module {top}_assertions{module}endmodule\nbind {top} {top}_assertions rules (.*);\n"
    failed = failed_rules(top, {"stand.sv": stub, "rules.sv": rules}, widths, tmp_path)
    assert failed == rules_of(top, text)
    assert len(failed) > 30


def broken_rules(bench: str, config: TileConfig, folder: Path) -> set[str]:
    """Return the rules in emitted Verilog that fail for arbitrary inputs."""
    top, texts = f"tensordash_{bench}", render(config)
    ports = json.loads(texts["config.json"])["modules"][top].items()
    widths = {name: port["width"] for name, port in ports if port["direction"] == "input"}
    widths = {name: width for name, width in widths.items() if name not in ("clk", "rst")}
    files = {name: texts[name] for name in ("tensordash.v", "tensordash_assertions.sv")}
    failed = failed_rules(top, files, widths, folder)
    assumed = rules_of("tensordash_tile", files["tensordash_assertions.sv"], "assume")
    assumed |= rules_of("tensordash_axi_stream_tile", files["tensordash_assertions.sv"], "assume")
    assert bench == "tile" or failed & assumed
    return failed - assumed


@pytest.mark.parametrize(
    ("bench", "config"),
    [
        ("axi_stream_tile", RING),
        pytest.param("axi_stream_tile", SMALL, marks=pytest.mark.slow),
        pytest.param("tile", SMALL, marks=pytest.mark.slow),
        pytest.param("tile", RING, marks=pytest.mark.slow),
    ],
)
def test_assertions_hold_for_any_input(bench, config, tmp_path):
    assert broken_rules(bench, config, tmp_path) == set()


FAULTS: dict[str, tuple[str, TileConfig, type, Callable]] = {
    "out_valid_stays": ("tile", SMALL, Tile, lambda self: self.out.payload.last.eq(self.out.ready)),
    "out_last": ("tile", SMALL, Tile, lambda self: self.out.payload.last.eq(0)),
    "b_1_gives_nothing_in_reset": ("tile", SMALL, Control, lambda self: self.taken.eq(self.available[0])),
    "entry_line_moves_on": ("tile", RING, Tile, lambda self: self.entry_line.eq(2)),
    "protocol_error_stays": ("tile", SMALL, Tile, lambda self: self.protocol_error.eq(self.flags.raised[0])),
    "s_axis_a0_waits_in_reset": ("axi_stream_tile", SMALL, Feeder, lambda self: self.s_axis.tready.eq(1)),
    "idle_is_empty": ("axi_stream_tile", SMALL, AxiStreamTile, lambda self: self.idle.eq(1)),
}
BENCHES = ("tile", "axi_stream")
IN_CI = ("out_valid_stays",)


@pytest.mark.parametrize(
    "rule", [pytest.param(rule, marks=() if rule in IN_CI else pytest.mark.slow) for rule in FAULTS]
)
def test_a_rule_fails_where_the_tile_is_broken(rule, tmp_path, sabotage):
    bench, config, kind, fault = FAULTS[rule]
    sabotage(kind, fault)
    assert rule in broken_rules(bench, config, tmp_path)


@pytest.mark.parametrize(
    ("bench", "config"),
    [
        *(pytest.param(bench, SMALL, marks=pytest.mark.slow, id=f"{bench}-c") for bench in BENCHES),
        *(pytest.param(bench, RING, marks=pytest.mark.slow, id=f"{bench}-ring") for bench in BENCHES),
        pytest.param("axi_stream", PADDED, marks=pytest.mark.slow, id="axi_stream-padded"),
        pytest.param("axi_stream", MIXED, marks=pytest.mark.slow, id="axi_stream-mixed"),
    ],
)
def test_legal_benches_break_no_rule(bench, config, tmp_path, monkeypatch):
    """Legal tests of a bench break neither the tile's rules nor those of its environment."""
    monkeypatch.setenv("COCOTB_TEST_FILTER", LEGAL)
    verilog = tmp_path / "verilog"
    generate(config, verilog)
    companions = [verilog / "tensordash_assertions.sv"]
    options = {"seed": 5, "effort": 0.15, "simulator": "verilator", "companions": companions, "options": ["--assert"]}
    result = run_bench(bench, config, verilog, tmp_path / "run", **options)
    assert result.passed, result.failures
    assert result.tests >= 5
    assert "Assertion failed" not in (tmp_path / "run" / f"{bench}.log").read_text()
