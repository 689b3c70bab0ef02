"""A tool in a Python process of its own, whose output is kept in a file: an error inside it ends its process alone."""

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
        What runs.
    arguments : sequence of str
        Its `sys.argv`, from 1 on.
    folder : Path
        An existing folder.
    log : str
        Name of the file in it that is written.
    limit : float
        Seconds that it may take.
    stdin : str
        Its standard input.

    Returns
    -------
    int
        How it ended.
    str
        Everything that was printed.

    Raises
    ------
    subprocess.TimeoutExpired
        If it takes longer.
    KeyboardInterrupt
        If the user interrupts; the process gets it too, and this may be another thread than the main one.
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
