"""Test that the firmware example runs programs on several Verilated cores, which share their weights."""

import os
import subprocess
from pathlib import Path

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.core_files import render_core
from tensordash_sim.verify.core_example import example_programs
from tensordash_sim.verify.core_library import build_library, verilog_of

from ....replaced_text import replace_in_file
from .test_driver import C99, HOST, SANITIZERS

EXAMPLE = HOST.parent / "multicore.c"
CHECKS = Path(__file__).with_name("multicore_checks.c")
CORES = 2
CONFIG = CoreConfig.from_toml("[core]\nbuffer = 8\nstream_buffer = 1\nmask = false\nstochastic = false")
MISTAKES = [
    ("SHARED_BASE_HIGH, (uint32_t)(begin >> 32)", "SHARED_BASE_HIGH, 1u"),
    ("MULTICORE_PATIENCE, PATIENCE", "MULTICORE_PATIENCE, 0u"),
    ("tensordash_wait(&devices[k], limit)", "tensordash_wait(&devices[CORES - 1], limit)"),
]


def cases_header() -> str:
    """Return the programs' places, and memory before and after them."""
    examples = example_programs(CONFIG, CORES)
    first = next(iter(examples.values()))
    begin = next(iter(examples))
    lines = [
        f"#define COUNT {len(first.program.descriptors)}u",
        f"#define SHARED_END {begin}u",
        f"static const uint32_t BASES[] = {{{', '.join(map(str, examples))}}};",
    ]
    for when in ("before", "after"):
        image = first.shared.ljust(begin, b"\0") + b"".join(getattr(each, when) for each in examples.values())
        lines.append(f"static const uint8_t {when.upper()}[] = {{{', '.join(map(str, image))}}};")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = render_core(CONFIG, cores=CORES) | {"cases.h": cases_header(), "multicore.c": EXAMPLE.read_text()}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def compiled_output(folder: Path, library: Path, *options: str) -> str:
    command = [
        "gcc",
        *C99,
        *options,
        "-I.",
        f"-I{HOST}",
        "-o",
        "checks",
        str(CHECKS),
        "tensordash_driver.c",
        str(library),
    ]
    subprocess.run(command, cwd=folder, check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    run = subprocess.run(["./checks"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.slow
def test_cores_share_their_weights(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    library = build_library(verilog_of(CONFIG, CORES), tmp_path_factory.mktemp("cores"), quick=True)
    right = "status 0, shared 1, differs 0\nstatus 0, shared 0\nstatus 2\n"
    assert compiled_output(folder, library, *SANITIZERS) == right
    for correct, wrong in MISTAKES:
        replace_in_file(folder / "multicore.c", correct, wrong)
        assert compiled_output(folder, library) != right
        (folder / "multicore.c").write_text(EXAMPLE.read_text())


def test_example_compiles_without_a_library(folder: Path) -> None:
    subprocess.run(["gcc", *C99, "-ffreestanding", "-I.", "-c", "multicore.c"], cwd=folder, check=True)
