"""Run a command in this process."""

import pytest

from tensordash_cli.main import run
from tensordash_sim.verify import simulator_names

FAST_SIMULATOR = "icarus" if "icarus" in simulator_names() else "auto"
"""Icarus starts immediately; Verilator compiles for seconds."""


def run_command(arguments: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run a command; return its exit status, standard output and standard error."""
    with pytest.raises(SystemExit) as stop:
        run(arguments.split())
    out, err = capfd.readouterr()
    return int(stop.value.code or 0), out, err


def call(arguments: str, capfd: pytest.CaptureFixture[str], status: int = 0) -> tuple[str, str]:
    """Run a command that must exit with `status`; return its standard output and standard error."""
    found, out, err = run_command(arguments, capfd)
    assert found == status, err
    return out, err


def call_text(arguments: str, capfd: pytest.CaptureFixture[str], status: int = 0) -> str:
    """Run a command. Return its standard output or, with a `status`, its error message of one line."""
    out, err = call(arguments, capfd, status)
    if not status:
        return out
    assert out == ""
    lines = [line for line in err.splitlines() if line.strip()]
    assert len(lines) == 1, err
    assert lines[0].startswith("tensordash: ")
    return lines[0]
