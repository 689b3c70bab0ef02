"""Runs a tool in a separate Python process with a log file, so that a crash ends only that process."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["run_logged"]


def run_logged(
    code: str, arguments: Sequence[str], folder: Path, log: str, *, limit: float, stdin: str = ""
) -> tuple[int, str]:
    """Run Python code in a folder that holds all of its temporary files.

    Parameters
    ----------
    code : str
        The Python code.
    arguments : sequence of str
        Its `sys.argv`, from 1 on.
    folder : Path
        An existing folder.
    log : str
        Name of the log file in the folder.
    limit : float
        Time limit in seconds.
    stdin : str
        Its standard input.

    Returns
    -------
    int
        Its exit status.
    str
        Its output.

    Raises
    ------
    subprocess.TimeoutExpired
        If the process takes longer than `limit`.
    KeyboardInterrupt
        If an interrupt ended the process. A calling thread that is not the main thread gets no interrupt itself.
    """
    path = folder / log
    with path.open("w", encoding="utf-8") as file:
        ended = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            input=stdin,
            text=True,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder)},
            timeout=limit,
        ).returncode
    if ended == -signal.SIGINT:
        raise KeyboardInterrupt
    return ended, path.read_text(encoding="utf-8", errors="replace")
