"""OpenSTA in a process of its own."""

import shutil
import subprocess
from pathlib import Path

from .yosys import SynthesisError

__all__ = ["find_opensta", "run_opensta"]

OPENSTA = "sta"
TIME_LIMIT = 1800.0  # seconds


def find_opensta() -> str | None:
    """Path of OpenSTA's program, if it is installed."""
    return shutil.which(OPENSTA)


def run_opensta(script: str, folder: Path, what: str) -> None:
    """Run a script.

    Parameters
    ----------
    script : str
        Tcl.
    folder : Path
        Where it runs.
    what : str
        What error messages name.

    Raises
    ------
    SynthesisError
        If it fails, prints an error, or takes too long.
    """
    (folder / "opensta.tcl").write_text(script, encoding="utf-8")
    command = [OPENSTA, "-no_splash", "-exit", "opensta.tcl"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        raise SynthesisError(f"{what} took OpenSTA more than {TIME_LIMIT:.0f} seconds") from None
    words = " ".join((done.stdout + done.stderr).split())
    if done.returncode or "Error" in words:
        raise SynthesisError(f"{what} failed (OpenSTA ended with {done.returncode}): {words[-500:]}")
