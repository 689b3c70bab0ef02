"""Test that the firmware examples leave the emulator's bits in memory, and link for RV32."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, which

import pytest

from tensordash.emission.c_header import c_header, driver_files
from tensordash_runtime.program_folder.c_source import render_c
from tensordash_runtime.program_folder.compiling import compile_task
from tensordash_runtime.program_folder.execution import EmulatedMemory, run_plan
from tensordash_runtime.program_folder.folder import ProgramFolder, build_folder
from tensordash_runtime.program_folder.single import plan_operation
from tensordash_sim.lowering import MatrixProduct

from ..conftest import core_preset

ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "examples/firmware"
FIRMWARE = ROOT / "hdl/tensordash/emission/soc/firmware"
COMPILER = "riscv64-unknown-elf-gcc"
RV32 = ("-march=rv32imc", "-mabi=ilp32", "-std=c99", "-O2", "-ffreestanding", "-fno-builtin", "-ffp-contract=off")
SECTION = '-DTENSORDASH_PROGRAM_SECTION=__attribute__((section(".program")))'
STEPS = 3
"""Number of steps in train.c."""


def matmul_folder(base: int) -> ProgramFolder:
    geometry = MatrixProduct(batch=1, samples=8, in_features=16, out_features=8)
    plan, values = plan_operation(core_preset("core"), geometry, "AxW")
    return build_folder(plan, values, base=base)


def train_folder(base: int) -> ProgramFolder:
    return compile_task("mlp", core_preset("core"), seed=0, batch=2, base=base)


EXECUTED: dict[str, tuple[Callable[[int], ProgramFolder], int]] = {
    "matmul": (matmul_folder, 1),
    "train": (train_folder, STEPS),
}
"""For each example, the function that makes its program folder, and how often it runs the calls."""


def write_system(path: Path, folder: ProgramFolder) -> None:
    """Write the files of `tensordash soc` that the examples use."""
    for name, text in {"tensordash.h": c_header(folder.plan.config), **driver_files()}.items():
        (path / name).write_text(text)
    (path / "program").mkdir()
    for name, text in render_c(folder).items():
        (path / "program" / name).write_text(text)


@pytest.mark.parametrize("base", [1 << 20, 6 << 30])
@pytest.mark.parametrize("example", EXECUTED)
def test_examples_run_on_this_machine(example: str, base: int, library: Path, tmp_path: Path) -> None:
    """Compare every tensor, with memory below and above 4 GiB."""
    make_folder, steps = EXECUTED[example]
    folder = make_folder(base)
    write_system(tmp_path, folder)
    copytree(EXAMPLES, tmp_path / "examples")
    variables = [f"SOC={tmp_path}", f"CORE={library}", f"MEMORY={tmp_path}/memory.bin"]
    ran = subprocess.run(
        ["make", f"host-{example}", *variables], cwd=tmp_path / "examples", capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("loss") == (steps if example == "train" else 0)
    left = (tmp_path / "memory.bin").read_bytes()
    emulated = EmulatedMemory(folder.plan, folder.memory_map)
    emulated.write(base, folder.initial)
    for _ in range(steps):
        run_plan(emulated, folder.plan, folder.memory_map)
    for name, region in folder.memory_map.tensors.items():
        found = left[region.address - base :][: region.bytes]
        assert found == emulated.read(region.address, region.bytes), name


@pytest.mark.skipif(which(COMPILER) is None, reason=f"no compiler for RV32: {COMPILER}")
@pytest.mark.parametrize("example", EXECUTED)
def test_examples_link_for_rv32(example: str, tmp_path: Path) -> None:
    """The linker script reports firmware that overlaps the program."""
    base = 0x10000
    write_system(tmp_path, EXECUTED[example][0](base))
    script = (FIRMWARE / "link.ld").read_text().replace("PROGRAM_BASE", f"{base:#x}")
    (tmp_path / "link.ld").write_text(script.replace("PROGRAM_BYTES", f"{1 << 20:#x}"))
    sources = [FIRMWARE / "start.S", FIRMWARE / "soc.c", *tmp_path.glob("*_driver.c"), *tmp_path.glob("program/*.c")]
    options = [*RV32, "-Wall", "-Wextra", "-Werror", SECTION, f"-I{FIRMWARE}", "-I.", "-Iprogram"]
    linked = ["-static", "-nostdlib", "-Wl,--gc-sections", "-ffunction-sections", "-fdata-sections", "-T", "link.ld"]
    command = [COMPILER, *options, *linked, *map(str, sources), str(EXAMPLES / f"{example}.c"), "-lgcc", "-o", "made"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
