"""Run the commands in the head of an emitted testbench in the virtual environment, as a user does."""

import os
import re
import subprocess
import sys
from pathlib import Path

__all__ = ["installed_environment", "run_verilator_commands"]


def installed_environment() -> dict[str, str]:
    """Return the environment, with the virtual environment's commands first on the path."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def run_verilator_commands(testbench: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build a testbench by the second command in its head, with more options, and run it by the third."""
    commands = re.findall(r"^//   \$ (.*)$", testbench.read_text(encoding="utf-8"), re.MULTILINE)
    assert [command.split()[0] for command in commands[:2]] == ["iverilog", "verilator"]
    environment = installed_environment()

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=testbench.parent, env=environment, capture_output=True, text=True, timeout=900
        )

    build = run([*commands[1].split(), *options])
    assert build.returncode == 0, build.stdout + build.stderr
    return run([commands[2]])
