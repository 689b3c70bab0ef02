"""Test the Linux driver with files instead of devices, on the Verilated core, under sanitizers; and the binding."""

import os
import re
import subprocess
from pathlib import Path
from shutil import which

import pytest
import yaml

from tensordash.emission.c_header import c_header, device_tree_files, driver_files

from ....replaced_text import replace_in_file
from ..conftest import core_preset
from .test_driver import C99, SANITIZERS, SIZE, cases_header

CHECKS = Path(__file__).with_name("linux_checks.c")
CHANGES = [
    ("(void)close(file);", ""),
    ("(write(devices->interrupt, &enable, sizeof enable) == (ssize_t)sizeof enable) &&\n", ""),
    ("(void)!read(", "(void)(0 ? -1 : 0); if (false) (void)!read("),
    ("poll(&waited, 1, MAX_SLEEP_MS)", "poll(&waited, 1, 0)"),
    pytest.param("MAP_SHARED", "MAP_PRIVATE", marks=pytest.mark.slow),  # The checks wait for a time limit.
    ("errno = reason;", "errno = 0;"),
]
"""Mistakes in the driver that the checks must find."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write the driver, its checks, and files for registers and memory into a folder."""
    config = core_preset("core")
    for name, text in {"tensordash.h": c_header(config), "cases.h": cases_header(config), **driver_files()}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / CHECKS.name).write_bytes(CHECKS.read_bytes())
    (tmp_path / "registers").write_bytes(bytes(4096))
    (tmp_path / "memory").write_bytes(bytes(SIZE))
    return tmp_path


def compile_and_run(folder: Path, library: Path) -> subprocess.CompletedProcess[str]:
    sources = [CHECKS.name, "tensordash_linux.c", "tensordash_driver.c", str(library)]
    subprocess.run(["gcc", *C99, "-Wno-unused", *SANITIZERS, "-o", "checks", *sources], cwd=folder, check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    return subprocess.run(["./checks"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_driver_runs_on_files(folder: Path, library: Path) -> None:
    ran = compile_and_run(folder, library)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "PASS" in ran.stdout


@pytest.mark.parametrize(("right", "wrong"), CHANGES)
def test_broken_drivers_fail_the_checks(right: str, wrong: str, folder: Path, library: Path) -> None:
    replace_in_file(folder / "tensordash_linux.c", right, wrong)
    assert compile_and_run(folder, library).returncode != 0


def test_driver_compiles_without_warnings(folder: Path) -> None:
    subprocess.run(["gcc", *C99, "-c", "tensordash_linux.c"], cwd=folder, check=True)


# The device tree


def test_example_node_matches_the_binding() -> None:
    texts = device_tree_files()
    binding = yaml.safe_load(texts["tensordash_binding.yaml"])
    (node,) = re.findall(r"core@40000000 \{(.*?)\};", texts["tensordash_node.dtsi"], re.DOTALL)
    used = re.findall(r"^\s+([\w,-]+)(?: = .*)?;", node, re.MULTILINE)
    assert {*binding["required"]} <= {*used} <= {*binding["properties"]}
    assert f'compatible = "{binding["properties"]["compatible"]["const"]}"' in node


@pytest.mark.skipif(which("dt-doc-validate") is None, reason="no dt-doc-validate: the package dtschema")
def test_binding_passes_dt_doc_validate(tmp_path: Path) -> None:
    binding = tmp_path / "misc/tensordash,core.yaml"
    binding.parent.mkdir()
    binding.write_text(device_tree_files()["tensordash_binding.yaml"])
    ran = subprocess.run(["dt-doc-validate", "-u", str(tmp_path), str(binding)], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
