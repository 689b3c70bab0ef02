"""Runs OpenSTA in a separate process."""

import shutil
import subprocess
from pathlib import Path

from .yosys import SynthesisError

__all__ = ["find_opensta", "run_opensta"]

OPENSTA = "sta"
TIME_LIMIT = 1800.0  # seconds


def find_opensta() -> str | None:
    """Return the path of OpenSTA's program, if it is installed."""
    return shutil.which(OPENSTA)


def run_opensta(script: str, folder: Path, label: str) -> None:
    """Run a Tcl script.

    Parameters
    ----------
    script : str
        The script.
    folder : Path
        Its working folder.
    label : str
        Name of the work in error messages.

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
        raise SynthesisError(f"{label} took OpenSTA more than {TIME_LIMIT:.0f} seconds") from None
    words = " ".join((done.stdout + done.stderr).split())
    if done.returncode or "Error" in words:
        raise SynthesisError(f"{label} failed (OpenSTA ended with {done.returncode}): {words[-500:]}")
