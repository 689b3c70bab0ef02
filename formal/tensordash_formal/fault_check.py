"""Run one check, a pytest node or a tensordash command, in a copy of the sources."""

import os
import re
import shlex
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PACKAGE_FOLDERS", "Outcome", "run_check"]

PACKAGE_FOLDERS = ("hdl", "sim", "runtime", "synth", "formal", "cli")
"""Folders of the repository that hold its packages."""

CHECK_SECONDS = 1800
"""Seconds after which a check is stopped."""

HARNESS_ERRORS = (
    "AttributeError",
    "ImportError",
    "IndentationError",
    "ModuleNotFoundError",
    "NameError",
    "SimulatorError",
    "SyntaxError",
    "SynthesisError",
)
"""Exceptions that show that a check could not run. A check that raises one of them has not found the fault."""


@dataclass(frozen=True)
class Outcome:
    """How a check ended.

    Parameters
    ----------
    status : str
        "passed"; "failed": the check ran and found a difference; "error": the check could not run or timed out.
    reason : str
        First line of the failure.
    """

    status: str
    reason: str = ""


def run_check(check: str, root: Path, scratch: Path, cache: Path) -> Outcome:
    """Run a check on the sources below a root.

    Parameters
    ----------
    check : str
        A check as defined in `fault_list`.
    root : Path
        Copy of the repository. Python imports its packages before any installed ones.
    scratch : Path
        Empty folder for logs.
    cache : Path
        Folder for compiled files: the check's XDG_CACHE_HOME and numba cache. Use one folder for each copy of sources.
    """
    words = shlex.split(check)
    results = scratch / "results.xml"
    if words[0] == "tensordash":
        command = [sys.executable, "-c", "from tensordash_cli.main import run; run()", *words[1:]]
    else:
        options = ("-q", "-x", "-p", "no:cacheprovider", f"--junitxml={results}")
        command = [sys.executable, "-m", "pytest", *options, *words]
    log = scratch / "log"
    status = _run(command, root, log, _environment(root, cache))
    text = log.read_text(encoding="utf-8", errors="replace")
    if status is None:
        return Outcome("error", f"stopped after {CHECK_SECONDS} s")
    return _outcome_of_command(status, text) if words[0] == "tensordash" else _outcome_of_pytest(status, text, results)


def _environment(root: Path, cache: Path) -> dict[str, str]:
    ignored = ("PYTEST_", "COCOTB_", "NUMBA_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ignored)}
    return environment | {
        "PYTHONPATH": os.pathsep.join(str(root / name) for name in PACKAGE_FOLDERS),
        "XDG_CACHE_HOME": str(cache),
        "TENSORDASH_TEST_CACHE": str(cache),
        "NUMBA_CACHE_DIR": str(cache / "numba"),
        "NO_COLOR": "1",
    }


def _run(command: list[str], root: Path, log: Path, environment: Mapping[str, str]) -> int | None:
    """Run a command in its own process group; return its exit status, or None if it exceeded the time limit."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=root, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return process.wait(CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _outcome_of_command(status: int, text: str) -> Outcome:
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    if status == 0:
        return Outcome("passed")
    if status == 1 and last.startswith("tensordash: ") and "Traceback (most recent call last)" not in text:
        return Outcome("failed", last.removeprefix("tensordash: "))
    return Outcome("error", f"exit status {status}: {last}")


def _outcome_of_pytest(status: int, text: str, results: Path) -> Outcome:
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    if status not in (0, 1) or not results.is_file():
        return Outcome("error", f"exit status {status}: {last}")
    cases = list(ElementTree.parse(results).iter("testcase"))
    failures = [(case.get("name"), each) for case in cases for each in case if each.tag in ("failure", "error")]
    if not failures:
        skipped = sum(case.find("skipped") is not None for case in cases)
        return Outcome("passed") if len(cases) > skipped else Outcome("error", f"no test ran: {last}")
    name, failure = failures[0]
    message = failure.get("message", "")
    reason = f"{name}: {' '.join(message.split())[:200]}"
    kind = re.match(r"[\w.]+", message)
    is_harness = kind is not None and kind[0].rpartition(".")[2] in HARNESS_ERRORS
    return Outcome("error" if failure.tag == "error" or is_harness else "failed", reason)
