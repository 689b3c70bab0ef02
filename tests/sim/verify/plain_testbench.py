"""Run a testbench in plain Verilog, and put faults into it."""

import re
import subprocess
from pathlib import Path

import pytest

from tensordash_sim.verify import simulator_names

needs_icarus = pytest.mark.skipif("icarus" not in simulator_names(), reason="Icarus Verilog is not installed")


def run_icarus(folder: Path, *files: str) -> tuple[int, str]:
    """Run a testbench; return its exit status and output."""
    build = ["iverilog", "-g2005", "-Wall", "-o", "bench", *files]
    assert subprocess.run(build, cwd=folder, capture_output=True, text=True).stderr == ""
    run = subprocess.run(["vvp", "-n", "bench"], cwd=folder, capture_output=True, text=True, timeout=300)
    return run.returncode, run.stdout + run.stderr


def change(file: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, file.read_text(), count=1)
    assert count == 1
    file.write_text(text)


def change_digit(file: Path, line: int) -> None:
    """Change a bit of the last digit of a line."""
    lines = file.read_text().splitlines()
    lines[line] = f"{lines[line][:-1]}{int(lines[line][-1], 16) ^ 1:x}"
    file.write_text("\n".join(lines) + "\n")


def check_fails(folder: Path, message: str, *files: str) -> None:
    status, output = run_icarus(folder, *files)
    assert status == 1
    assert re.search(message, output), output
    assert "FAIL: " in output
