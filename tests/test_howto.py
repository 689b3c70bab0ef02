"""Test that the how-to pages show working code and the output of their commands."""

import re
import shlex
import shutil
import subprocess
import sys
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.configuration.connectivity import Connectivity
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FORMATS, FloatFormat
from tensordash.configuration.preset import load_any_preset
from tensordash.schedule.step_select import StepSelect
from tensordash_cli.main import cli
from tensordash_formal.harness import Fault, Harness
from tensordash_formal.proof import BrokenVariant, Proof
from tensordash_formal.solver import Solver
from tensordash_runtime.traced_products import expect_product
from tensordash_sim.performance.explore import CoreShape
from tensordash_sim.trace import Trace, example_trace

from .emitted_commands import installed_environment
from .pages import fences
from .sim.golden import test_formats

ROOT = Path(__file__).parents[1]
MACROS = """
module sram_1rw_128x256(
  input clk0, input csb0, input web0, input [6:0] addr0, input [255:0] din0, output reg [255:0] dout0
);
  reg [255:0] words [0:127];
  always @(posedge clk0)
    if (!csb0 && !web0) words[addr0] <= din0;
    else if (!csb0) dout0 <= words[addr0];
endmodule

module sram_1r1w_512x64(
  input clk0, input csb0, input [8:0] addr0, input [63:0] din0,
  input clk1, input csb1, input [8:0] addr1, output reg [63:0] dout1
);
  reg [63:0] words [0:511];
  always @(posedge clk0)
    if (!csb0) words[addr0] <= din0;
  always @(posedge clk1)
    if (!csb1) dout1 <= words[addr1];
endmodule
"""
"""The memory macros of the page on integration: chip select and write enable are active low."""


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return fences(page(name), language)


def tensordash(arguments: str) -> str:
    result = CliRunner().invoke(cli, shlex.split(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def random_speedup(options: str, share: str = "0.5") -> list[str]:
    """Return the speedup and the ideal speedup that a simulation prints."""
    return re.findall(r"(\d+\.\d{3}x)", tensordash(f"simulate --random {share} {options}"))


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that the first command of the page on SoCs writes."""
    folder = tmp_path_factory.mktemp("soc") / "my_core"
    (generate, *_) = blocks("howto/core-in-a-soc", "sh")[0].splitlines()
    assert generate.endswith(" -o my_core")
    tensordash(f"{generate.removeprefix('tensordash ').removesuffix('my_core')} {folder}")
    return folder


def run_testbench(folder: Path, commands: list[str]) -> str:
    if shutil.which("iverilog") is None:
        pytest.skip("no Icarus Verilog")
    for command in commands:
        printed = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True, check=True).stdout
    return printed


def test_core_testbench_passes_as_shown(core: Path) -> None:
    commands = blocks("howto/core-in-a-soc", "sh")[0].splitlines()[2:]
    assert run_testbench(core, commands) in blocks("howto/core-in-a-soc", "")


def test_macros_replace_memories(core: Path) -> None:
    memories = (core / "my_core_memories.v").read_text(encoding="utf-8")
    wrappers = blocks("integration", "verilog")
    assert len(wrappers) == 2
    for wrapper in wrappers:
        (name,) = re.findall(r"^module (\w+)\(", wrapper)
        memories, count = re.subn(rf"module {name}\(.*?\nendmodule\n", "", memories, flags=re.DOTALL)
        assert count == 1
    (core / "macros.v").write_text("\n".join([memories, *wrappers, MACROS]), encoding="utf-8")
    commands = blocks("howto/core-in-a-soc", "sh")[0].splitlines()[2:]
    printed = run_testbench(core, [commands[0].replace("my_core_memories.v", "macros.v"), commands[1]])
    assert printed.startswith("PASS")


def test_host_program_compiles(core: Path) -> None:
    (source,) = blocks("howto/core-in-a-soc", "c")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    command = [compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", str(core), "-x", "c", "-"]
    subprocess.run(command, input=source, text=True, check=True)


def test_a_layer_is_compiled_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    np = pytest.importorskip("numpy")
    from torch import from_numpy
    from torch.nn.functional import conv2d

    monkeypatch.chdir(tmp_path)
    (code,) = blocks("howto/core-in-a-soc", "python")
    found: dict[str, Any] = {}
    exec(compile(code, "core-in-a-soc.md", "exec"), found)
    assert capsys.readouterr().out in blocks("howto/core-in-a-soc", "")
    a, w = (from_numpy(found["values"][name]).double() for name in "AW")
    expected = conv2d(a, w, padding=1).numpy().astype(np.float16)
    np.testing.assert_allclose(np.load("expected.npy"), expected, rtol=2**-10)
    assert len(Path("memory.bin").read_bytes()) == 1 << 20


def test_speedups_on_random_zeros() -> None:
    rows = re.findall(r"^\| (\d+)% \| (\S+) \| (\S+) \| (\S+) \|$", page("when-it-pays"), re.MULTILINE)
    assert len(rows) == 5
    for percent, even, uneven, ideal in rows:
        share = str(int(percent) / 100)
        assert random_speedup("", share)[:2] == [even, ideal]
        assert random_speedup("--cluster rows --length 100", share)[0] == uneven


def test_speedups_of_shapes() -> None:
    rows = re.findall(r"^\| (none|`tile\.[^|]*`) \| (\S+) \|$", page("howto/explore-shapes"), re.MULTILINE)
    assert len(rows) == 8
    for change, speedup in rows:
        options = " ".join(f"--set {key}" for key in re.findall(r"`([^`]+)`", change))
        assert random_speedup(options)[0] == speedup, change


@pytest.mark.parametrize("rows", ["presets", pytest.param("all", marks=pytest.mark.slow)])
def test_cycles_of_cores(rows: str) -> None:
    """The table of cores has the cycles that `tensordash explore` estimates."""
    table = re.findall(
        r"^\| ([\w-]+: )?(\d+x\d+, bus .*?) \| ([\d,]+) \| (\S+) ", page("howto/explore-shapes"), re.MULTILINE
    )
    assert [name for name, *_ in table if name] == ["core-wide: ", "core: "]
    base = load_any_preset("core")
    assert isinstance(base, CoreConfig)
    start = int(table[-1][2].replace(",", ""))
    for name, label, cycles, speedup in table:
        number = int(cycles.replace(",", ""))
        assert speedup == f"{start / number:.2f}"
        if rows == "all" or name:
            shape = CoreShape(*map(int, re.findall(r"\d+", label)))
            assert shape.label == label
            records = Trace.open(example_trace()).records
            assert number == sum(expect_product(shape.config(base), record).cycles for record in records), label


def test_new_format_needs_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    (entry,) = blocks("howto/add-a-format", "python")
    fmt = eval(entry, {"FloatFormat": FloatFormat})
    monkeypatch.setitem(FORMATS, fmt.name, fmt)
    printed, failed = blocks("howto/add-a-format", "")
    command = blocks("howto/add-a-format", "sh")[0].splitlines()[0]
    assert tensordash(command.removeprefix("tensordash ")) == printed
    assert failed == "FAILED tests/sim/golden/test_formats.py::test_all_formats_have_a_reference\n"
    with pytest.raises(AssertionError):
        test_formats.test_all_formats_have_a_reference()


def test_new_preset_is_a_valid_configuration() -> None:
    (text,) = blocks("howto/add-a-preset", "toml")
    assert text.startswith("# ")
    assert TileConfig.from_toml(text) == TileConfig(rows=1, columns=8, staging="ring")


@pytest.mark.slow
def test_the_proof_holds_and_its_broken_variant_does_not(tmp_path: Path) -> None:
    names: dict[str, Any] = {"Any": Any, "reduce": reduce, "or_": or_, "Module": None}
    kinds = (TileConfig, Block, Connectivity, StepSelect, Harness, BrokenVariant, Proof)
    names |= {kind.__name__: kind for kind in kinds} | {"Fault": Fault}
    for code in blocks("howto/add-a-proof", "python"):
        exec(compile(code, "add-a-proof.md", "exec"), names)
    proof, solver = names["PROOF"], Solver(tmp_path)
    results = proof.prove(TileConfig(), solver)
    assert {(result.result, result.cover is None) for result in results} == {("proven", False)}
    assert proof.refute(proof.broken_variants[0], solver).cycle is not None


@pytest.mark.slow
def test_verdict_on_the_example_is_as_shown(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "examples" / "record_your_model.py")], cwd=tmp_path, check=True)
    reordered = "simulate run.trace --side faster --join-samples faster --row-order density"
    explore = next(line for line in page("howto/explore-shapes").splitlines() if line.startswith("tensordash explore "))
    commands = (
        "inspect run.trace",
        "simulate run.trace",
        "report run.trace --no-synth -o verdict.html",
        explore.partition(" ")[2],
        reordered,
    )
    printed = {}
    for command in commands:
        environment = installed_environment()
        printed[command] = subprocess.run(
            ["tensordash", *command.split()], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout
    judge = page("howto/judge-your-run")
    shown = [
        line
        for name in ("judge-your-run", "explore-shapes")
        for block in blocks(f"howto/{name}", "")
        for line in block.splitlines()
    ]
    lines = {" ".join(line.split()) for text in printed.values() for line in text.splitlines()}
    assert len(shown) == 13
    assert [line for line in shown if " ".join(line.split()) not in lines] == []
    totals = [
        re.findall(r"^ +total +all +(.*)$", printed[command], re.MULTILINE)[0].split()
        for command in (commands[1], reordered)
    ]
    first, second = totals
    assert re.findall(r"^\| `[^|]*` \| (\S+x) \|", judge, re.MULTILINE) == [first[0], *first[3:6]]
    for text in (
        f"{second[2]} cycles instead of {first[2]}",
        f"{second[3]}, but do not compare it with {first[3]}",
        f"to {second[1]} cycles",
    ):
        assert text in " ".join(judge.split())
