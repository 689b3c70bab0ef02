"""Test that driver, firmware and a program folder above 4 GiB compile for RV64 without warnings."""

import subprocess
from pathlib import Path
from shutil import which

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.core_files import render_core
from tensordash_runtime.program_folder.c_source import render_c
from tensordash_runtime.program_folder.compiling import compile_task

COMPILER = "riscv64-unknown-elf-gcc"
TARGET = ("-march=rv64imac", "-mabi=lp64", "-mcmodel=medany", "-std=c99", "-ffreestanding", "-O2")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
BASE = 6 << 30
ROOT = Path(__file__).parents[4]
FIRMWARE = ROOT / "hdl/tensordash/emission/soc/firmware"
EXAMPLES = ROOT / "examples/firmware"

pytestmark = pytest.mark.skipif(which(COMPILER) is None, reason=f"no compiler for RV64: {COMPILER}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write all C files of a system whose program is a training step with host calls."""
    config, path = CoreConfig(), tmp_path_factory.mktemp("rv64")
    program = render_c(compile_task("mlp", config, seed=0, batch=2, base=BASE))
    for name, text in {**render_core(config, cores=2), **program}.items():
        if name.endswith((".h", ".c")) and "linux" not in name:  # The Linux driver is not freestanding.
            (path / name).write_text(text)
    for file in (*FIRMWARE.glob("*.[ch]"), *EXAMPLES.glob("*.c")):
        (path / file.name).write_bytes(file.read_bytes())
    return path


def compile_file(folder: Path, file: str) -> subprocess.CompletedProcess[str]:
    options = ("-DWITH_HOST_CALLS", "-c", "-o", "/dev/null")
    command = [COMPILER, *TARGET, *WARNINGS, *options, file]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_all_files_compile(folder: Path) -> None:
    files = [file.name for file in folder.glob("*.c")]
    assert {"tensordash_driver.c", "main.c", "soc.c", "host.c", "program.c", "matmul.c", "train.c", "multicore.c"} <= {
        *files
    }
    assert f"PROGRAM_BASE UINT64_C({BASE:#x})" in (folder / "program.h").read_text()
    for file in files:
        ran = compile_file(folder, file)
        assert ran.returncode == 0, ran.stderr


def test_a_truncated_address_is_an_error(folder: Path) -> None:
    text = (folder / "matmul.c").read_text()
    assert text.count("uint32_t started = SOC_CYCLES") == 1
    changed = text.replace("uint32_t started = SOC_CYCLES", "uint32_t started = call->address")
    (folder / "truncated.c").write_text(changed)
    ran = compile_file(folder, "truncated.c")
    (folder / "truncated.c").unlink()
    assert "conversion" in ran.stderr
    assert ran.returncode != 0
