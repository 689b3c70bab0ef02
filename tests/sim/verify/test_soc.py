"""Test that the firmware of `tensordash soc` runs a program on the core and finds errors."""

import os
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from tensordash import TensorDashError
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.memory_map import PROGRAM_BASE
from tensordash.extras import is_installed
from tensordash_cli.compile import command as compile_command
from tensordash_cli.soc import command
from tensordash_runtime import compile_step
from tensordash_runtime.program_folder.storage import write_folder
from tensordash_sim.verify.core_example import example_program

from .plain_testbench import change

RISCV_GCC = "riscv64-unknown-elf-gcc"
pytestmark = [
    pytest.mark.skipif(not is_installed("pythondata_cpu_picorv32"), reason="no package pythondata-cpu-picorv32"),
    pytest.mark.skipif(
        which(RISCV_GCC) is None and not is_installed("ziglang"),
        reason=f"no RISC-V compiler: neither {RISCV_GCC} nor the package ziglang",
    ),
]
needs_icarus = pytest.mark.skipif(which("iverilog") is None, reason="no iverilog")
MAX_CYCLES = 1_000_000
SHOWN = ("core", "step", "cycles", "bit-equal", "exit")
ROOT = Path(__file__).parents[3]
MATMUL = ROOT / "examples/firmware/matmul.c"
TUTORIAL = ROOT / "docs/tutorials/soc.md"


def generate(folder: Path, *options: str) -> Path:
    ran = CliRunner().invoke(command, ["--preset", "core", "-o", str(folder), *options], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return folder


def make(folder: Path, target: str, *variables: str, seconds: int = 500) -> subprocess.CompletedProcess[str]:
    line = ["make", target, f"PYTHON={sys.executable}", f"PLUSARGS=+cycles={MAX_CYCLES}", *variables]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds)


def test_a_wrong_memory_size_is_refused_before_long_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensordash_cli.soc._example", None)
    with pytest.raises(TensorDashError, match="must be a power of two"):
        generate(tmp_path / "soc", "--memory-bytes", "200000")
    assert not (tmp_path / "soc").exists()


@pytest.fixture(scope="module")
def icarus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a system, of which `make` builds what has changed since the last run."""
    return generate(tmp_path_factory.mktemp("soc"))


@needs_icarus
def test_firmware_in_icarus(icarus: Path) -> None:
    ran = make(icarus, "run-icarus")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "bit-equal: 3 tensors, 640 bytes" in ran.stdout
    (shown,) = re.findall(r"```\n(core [0-9a-f]{16}\n.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)
    assert re.sub(r"\d+", "N", shown) in re.sub(r"\d+", "N", ran.stdout)  # Cycles depend on the compiler.


def fusesoc(root: Path, place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [str(Path(sys.executable).with_name("fusesoc")), "--cores-root", str(root), "run", *arguments, "soc"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(line, cwd=place, env=environment, capture_output=True, text=True)


needs_fusesoc = pytest.mark.skipif(which("fusesoc") is None and not is_installed("fusesoc"), reason="no fusesoc")


@needs_fusesoc
@pytest.mark.parametrize("target", ["sim", "sim_verilator", "synth", "ulx3s"])
def test_fusesoc_has_all_files(target: str, icarus: Path, tmp_path: Path) -> None:
    """`make` finds its inputs in the script's folder, and tools find all sources in theirs."""
    assert fusesoc(icarus, tmp_path, "--setup", f"--target={target}").returncode == 0
    (build,) = tmp_path.glob(f"build/soc_*/{target}")
    (folder,) = build.glob("src/soc_*")
    assert f"make -C src/{folder.name} firmware HEX=" in (build / "Makefile").read_text()
    assert {"soc.v", "picorv32.v"} <= {path.name for path in folder.iterdir()}
    assert (folder / "soc_ulx3s.lpf").is_file() == (target == "ulx3s")
    if target == "sim":
        assert make(folder, "firmware").returncode == 0


@needs_fusesoc
@pytest.mark.skipif(not is_installed("verilator"), reason="no package verilator")
def test_lint_passes_and_finds_a_fault(icarus: Path, tmp_path: Path) -> None:
    assert fusesoc(icarus, tmp_path, "--target=lint").returncode == 0
    folder = Path(shutil.copytree(icarus, tmp_path / "soc"))
    change(folder / "soc.v", r"read_left - 1'b1", "read_left - 1'b1 + 9'd0")
    found = fusesoc(folder, tmp_path, "--target=lint")
    assert found.returncode != 0
    assert "WIDTHTRUNC" in found.stdout + found.stderr


@needs_icarus
def test_pins_match_the_top_of_the_board(icarus: Path, tmp_path: Path) -> None:
    """Each bit of a port has its own site. The top module compiles with the system."""
    located = re.findall(
        r'^LOCATE COMP "([\w\[\]]+)" SITE "(\w+)";$', (icarus / "soc_ulx3s.lpf").read_text(), re.MULTILINE
    )
    assert sorted(name for name, _ in located) == ["btn_pwr_n", "clk_25mhz", "ftdi_rxd", "led[0]", "led[1]"]
    assert len({site for _, site in located}) == len(located)
    files = ["tensordash.v", "tensordash_memories.v", "picorv32.v", "soc.v", "soc_ulx3s.v"]
    line = ["iverilog", "-g2005", "-Wall", "-Wno-timescale", "-s", "soc_ulx3s", "-o", str(tmp_path / "out"), *files]
    ran = subprocess.run(line, cwd=icarus, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "soc_ulx3s.v" not in ran.stderr


@pytest.mark.slow
@needs_icarus
def test_a_bus_as_wide_as_the_processor_s(tmp_path: Path) -> None:
    folder = generate(tmp_path / "soc", "--set", "core.axi_bits=32")
    ran = make(folder, "run-icarus")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "bit-equal: 3 tensors, 640 bytes" in ran.stdout


@needs_icarus
def test_the_example_sleeps_until_the_interrupt(icarus: Path) -> None:
    ran = make(icarus, "run-icarus", f"FIRMWARE={MATMUL}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.search(r"^result( [0-9a-f]{8}){4}$", ran.stdout, re.MULTILINE)
    (slept,) = re.findall(r"asleep for (\d+) cycles", ran.stdout)
    assert int(slept) > 20


@needs_icarus
def test_other_firmware_and_steps_are_built_again(icarus: Path) -> None:
    ran = [make(icarus, "firmware", *options) for options in ((), (f"FIRMWARE={MATMUL}",), ("STEPS=2",), ("STEPS=2",))]
    assert [each.returncode for each in ran] == [0] * 4
    assert ["firmware.elf" in each.stdout for each in ran] == [True, True, True, False]


@needs_icarus
def test_a_missing_compiler_is_named_before_long_work(icarus: Path) -> None:
    ran = make(icarus, "run", "RISCV=missing-", "PYTHON=false", "BUILD=other", "HEX=other.hex")
    assert ran.returncode == 2
    assert "no compiler for RISC-V: install missing-gcc" in ran.stderr
    assert not (icarus / "other/verilated").exists()


@needs_icarus
def test_without_the_interrupt_the_example_sleeps_for_ever(icarus: Path) -> None:
    """The system's interrupt is not wired."""
    source = icarus / "soc.v"
    text = source.read_text()
    source.write_text(text.replace("{27'd0, alarm_irq, core_irq, 3'd0}", "{27'd0, alarm_irq, 1'b0, 3'd0}"))
    try:
        ran = make(icarus, "run-icarus", f"FIRMWARE={MATMUL}", "PLUSARGS=+cycles=20000")
    finally:
        source.write_text(text)
    assert ran.returncode != 0
    assert "no exit after 20000 cycles" in ran.stdout


PROGRAM = r"{UINT64_C\(0x\w+\), (UINT64_C\(0x\w+\), \d+), 0}"


@needs_icarus
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (r"PROGRAM_DIGEST UINT32_C\(0x\w+\)", "PROGRAM_DIGEST UINT32_C(0)", "the program is compiled for another"),
        (r"TENSORDASH_DIGEST UINT64_C\(0x\w+\)", "TENSORDASH_DIGEST UINT64_C(1)", "a core of another configuration"),
        (PROGRAM, r"{UINT64_C(0x10001), \1, 0}", "bad argument"),
        (PROGRAM, r"{UINT64_C(0x10000), \1, 0}", "failed: operation, descriptor 0 (), field operation"),
    ],
)
def test_firmware_reports_errors(icarus: Path, right: str, wrong: str, message: str) -> None:
    """Firmware reports another digest, a misaligned program, and arbitrary data in place of a program."""
    files = [icarus / name for name in ("tensordash.h", "program/program.h", "program/program.c")]
    texts = {file: file.read_text() for file in files}
    changed = {file: re.sub(right, wrong, text) for file, text in texts.items()}
    assert changed != texts
    try:
        for file, text in changed.items():
            file.write_text(text)
        ran = make(icarus, "run-icarus")
    finally:
        for file, text in texts.items():
            file.write_text(text)
    assert ran.returncode != 0
    assert message in ran.stdout


STORED_C = """\
#include "program.h"
TENSORDASH_PROGRAM_SECTION const uint32_t tensordash_initial[] = {{{words}}};
const struct tensordash_call tensordash_calls[] = {{{{{base}, 0, {descriptors}, 0}}}};
const struct tensordash_tensor tensordash_tensors[] = {{{{"memory", {base}, {size}, {crc}, 1, 0, 1}}}};
"""


@pytest.mark.slow
@needs_icarus
@pytest.mark.parametrize("honours_strobes", [True, False])
def test_partial_beats(honours_strobes: bool, icarus: Path, tmp_path: Path) -> None:
    """A compressed store writes partial beats, which needs a memory that honours strobes."""
    folder = Path(shutil.copytree(icarus, tmp_path / "soc"))
    example = example_program(CoreConfig.from_toml((folder / "config.toml").read_text()), base=PROGRAM_BASE)
    text = STORED_C.format(
        words=",".join(map(str, np.frombuffer(example.before, "<u4").tolist())),
        base=PROGRAM_BASE,
        descriptors=len(example.program.descriptors),
        size=len(example.after),
        crc=zlib.crc32(example.after),
    )
    (folder / "program/program.c").write_text(text)
    change(folder / "program/program.h", r"PROGRAM_TENSORS 3", "PROGRAM_TENSORS 1")
    if not honours_strobes:
        change(folder / "soc.v", r"if \(wstrb\[b\] && !write_bad\)", "if (!write_bad)")
    ran = make(folder, "run-icarus")
    assert (ran.returncode == 0) == honours_strobes, ran.stdout + ran.stderr
    assert (f"bit-equal: 1 tensors, {len(example.after)} bytes" if honours_strobes else "differs: memory") in ran.stdout


RESETS = """
  integer bursts = 0;
  integer resets = 0;
  wire resets_now = resets < 3 && bursts == 3 * resets + 2;
  always @(posedge clk) begin
    bursts <= rst ? 0 : bursts + ((dut.arvalid && dut.arready) || (dut.awvalid && dut.awready));
    if (resets_now) begin
      resets <= resets + 1;
      $display("reset");
    end
  end
endmodule
"""


@pytest.mark.slow
@needs_icarus
def test_resets_in_the_middle(icarus: Path, tmp_path: Path) -> None:
    """The system restarts three times, each time after more bursts of the core."""
    folder = Path(shutil.copytree(icarus, tmp_path / "soc"))
    change(folder / "soc_tb.v", r"rst <= cycles < 4;", "rst <= cycles < 4 || resets_now;")
    change(folder / "soc_tb.v", r"\nendmodule\n", RESETS)
    ran = make(folder, "run-icarus")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("reset\n") == 3
    assert "bit-equal: 3 tensors, 640 bytes" in ran.stdout


@needs_icarus
def test_firmware_finds_a_wrong_result(icarus: Path) -> None:
    source = icarus / "program/program.c"
    text = source.read_text()
    value = re.search(r"\b0x[1-9a-f]\w*", text)
    assert value is not None
    source.write_text(text.replace(value[0], f"{int(value[0], 16) ^ 1:#x}", 1))
    try:
        ran = make(icarus, "run-icarus")
    finally:
        source.write_text(text)
    assert ran.returncode != 0
    assert "differs: A" in ran.stdout


@pytest.mark.slow
@needs_icarus
def test_every_step_is_compared(tmp_path: Path) -> None:
    """With checksums of two steps, the third is not compared. A wrong second checksum is found."""
    options = ["--preset", "core", "--channels", "4", "--filters", "4", "-o", str(tmp_path / "product")]
    ran = CliRunner().invoke(compile_command, options, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    folder = generate(tmp_path / "soc", "--program", str(tmp_path / "product"), "--steps", "2")
    right = make(folder, "run-icarus", "STEPS=3")
    assert right.returncode == 0, right.stdout + right.stderr
    assert right.stdout.count("bit-equal: 3 tensors") == 2
    assert "not compared" in right.stdout
    file = folder / "program/steps.c"
    sums = re.findall(r"^  {(0x.*)},$", file.read_text(), re.MULTILINE)
    first, *others = sums[1].split(", ")
    changed = ", ".join([f"{int(first, 16) ^ 1:#x}", *others])
    file.write_text(file.read_text().replace(f"  {{{sums[1]}}},\n}}", f"  {{{changed}}},\n}}"))
    wrong = make(folder, "run-icarus")
    assert wrong.returncode != 0
    assert "differs: A\n" in wrong.stdout
    assert wrong.stdout.count("bit-equal") == 1
    generate(folder)
    assert not file.exists()


@needs_icarus
def test_each_step_uses_its_batch(tmp_path: Path) -> None:
    """Three steps take two batches in turn. A changed value in the second batch is found in the second step."""
    options = ["--preset", "core", "--channels", "4", "--filters", "4", "-o", str(tmp_path / "product")]
    ran = CliRunner().invoke(compile_command, options, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    random = np.random.default_rng(0)
    shapes = {"A": (2, 1, 1, 4), "W": (2, 1, 4, 4)}
    arrays: dict[str, Any] = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    np.savez(tmp_path / "batches.npz", **arrays)
    batches = str(tmp_path / "batches.npz")
    folder = generate(tmp_path / "soc", "--program", str(tmp_path / "product"), "--batches", batches, "--steps", "3")
    right = make(folder, "run-icarus")
    assert right.returncode == 0, right.stdout + right.stderr
    sums = re.findall(r"bit-equal: 3 tensors, .*checksum ([0-9a-f]{8})", right.stdout)
    assert len(sums) == 3
    assert sums[0] == sums[2] != sums[1]
    file = folder / "program/steps.c"
    first, second = re.findall(r"^  {(0x\w+), ", file.read_text(), re.MULTILINE)[-2:]
    assert first != second
    file.write_text(file.read_text().replace(f"{{{second}, ", f"{{{first}, "))
    wrong = make(folder, "run-icarus")
    assert wrong.returncode != 0
    assert wrong.stdout.count("bit-equal") == 1


@pytest.mark.slow
@needs_icarus
def test_another_network_trains(tmp_path: Path) -> None:
    """Two steps of another network are bit-equal. Stopping the core's clock, off by default, changes no cycle."""
    torch = pytest.importorskip("torch")
    layers = torch.nn.Flatten(), torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2)
    model = torch.nn.Sequential(*layers)
    example = torch.rand(2, 1, 3), torch.tensor([0, 1])
    step = compile_step(model, torch.nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.5), example)
    write_folder(step, tmp_path / "step")
    folder = generate(tmp_path / "soc", "--program", str(tmp_path / "step"), "--steps", "2")
    stopping = make(folder, "run-icarus")
    assert stopping.returncode == 0, stopping.stdout + stopping.stderr
    assert stopping.stdout.count(f"bit-equal: {len(step.plan.tensors)} tensors") == 2
    first, second = map(float, re.findall(r"loss ([\d.]+)", stopping.stdout))
    assert second < first
    assert re.search(r"parameter STOP_CORE_CLOCK = 0\b", (folder / "soc.v").read_text())
    bench = folder / "soc_tb.v"
    bench.write_text(bench.read_text().replace(", .STOP_CORE_CLOCK(1)", ""))
    running = make(folder, "run-icarus")
    shown = [line for line in stopping.stdout.splitlines() if line.startswith(SHOWN)]
    assert shown == [line for line in running.stdout.splitlines() if line.startswith(SHOWN)]
    assert len(shown) == 8


def test_too_many_steps(tmp_path: Path) -> None:
    """The error occurs before a system is written."""
    options = ["--preset", "core", "--channels", "4", "--filters", "4", "-o", str(tmp_path / "product")]
    assert CliRunner().invoke(compile_command, options).exit_code == 0
    options = ["--preset", "core", "-o", str(tmp_path / "soc"), "--program", str(tmp_path / "product")]
    ran = CliRunner().invoke(command, [*options, "--steps", "100000000"])
    assert isinstance(ran.exception, TensorDashError)
    assert "steps ends at 0x" in str(ran.exception)
    assert "but --memory-bytes is at most 268435456" in str(ran.exception)
    assert not list((tmp_path / "soc").glob("*"))


@pytest.mark.slow
@pytest.mark.skipif(not is_installed("verilator"), reason="no package verilator")
def test_firmware_in_verilator(tmp_path: Path) -> None:
    """Build and first result take at most three minutes of CPU time, and cycles are fast."""
    folder = generate(tmp_path / "soc")
    began = os.times()
    ran = make(folder, "run", seconds=1200)
    built = os.times()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "bit-equal: 3 tensors, 640 bytes" in ran.stdout
    cycles = int(re.findall(r"exit 0 after (\d+) cycles", ran.stdout)[0])
    assert subprocess.run(["build/verilated/Vsoc_tb"], cwd=folder, check=True, capture_output=True)
    ended = os.times()
    seconds = [after.children_user - before.children_user for before, after in ((began, built), (built, ended))]
    print(f"{seconds[0]:.1f} s of CPU to the first result; {cycles / seconds[1]:.0f} cycles per CPU second")
    assert seconds[0] < 180
    assert cycles / seconds[1] > 100_000
