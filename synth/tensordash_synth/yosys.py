"""Yosys in a process of its own: an error inside it ends its process, which must not be ours."""

import re
import subprocess
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

from tensordash import TensorDashError

from .logged import run_logged

__all__ = ["ABC", "SynthesisError", "run_yosys"]

# Commands come by standard input, one a line; everything that Yosys and ABC print is kept in a file.
# Python would let the pass that runs finish first when the user interrupts.
WORKER = """\
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
from pyosys import libyosys
design = libyosys.Design()
for command in sys.stdin.read().splitlines():
    libyosys.run_pass(command, design)
"""
# Found without importing its package, which would load every later library (PyTorch's, matplotlib's) with global
# symbols: exceptions of one are then not understood by another.
ABC = Path(str(distribution("pyosys").locate_file("pyosys/yosys-abc")))
TIME_LIMIT = 1800.0  # seconds
LAST_LINES = 5


class SynthesisError(TensorDashError, RuntimeError):
    """Yosys or ABC failed; the message names the module and ends with the last lines of the log."""


def run_yosys(commands: Sequence[str], folder: Path, module: str) -> str:
    """Run Yosys commands.

    Parameters
    ----------
    commands : sequence of str
        Commands, one each.
    folder : Path
        An existing folder, in which they run and in which all temporary files lie.
    module : str
        What error messages name.

    Returns
    -------
    str
        Everything that was printed.

    Raises
    ------
    SynthesisError
        If a command fails, or the time limit is over.
    KeyboardInterrupt
        If the user interrupts; the process gets it too, and this may be another thread than the main one.
    """
    try:
        code, text = run_logged(WORKER, [], folder, "yosys.log", limit=TIME_LIMIT, stdin="\n".join(commands))
    except subprocess.TimeoutExpired:
        raise SynthesisError(f"synthesis of {module} took more than {TIME_LIMIT:.0f} seconds") from None
    if code:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        wrong = [line for line in lines if re.search(r"error", line, re.IGNORECASE)]
        tail = "\n".join((wrong[-1:] if wrong and wrong[-1] not in lines[-LAST_LINES:] else []) + lines[-LAST_LINES:])
        raise SynthesisError(f"synthesis of {module} failed (Yosys ended with {code}):\n{tail}")
    return text
