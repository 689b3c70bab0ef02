"""Runs Yosys in a separate process, so that a crash in it ends only that process."""

import re
import subprocess
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

from tensordash import TensorDashError

from .logged import run_logged

__all__ = ["ABC", "SynthesisError", "run_yosys"]

# The worker reads commands from standard input, one in each line. The output of Yosys and ABC goes to a file. Without
# the signal handler, Python would finish the running pass before it handles an interrupt.
WORKER = """\
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
from pyosys import libyosys
design = libyosys.Design()
for command in sys.stdin.read().splitlines():
    libyosys.run_pass(command, design)
"""
# The path is found without an import of the package. The import would load all later libraries (PyTorch's,
# matplotlib's) with global symbols, which breaks their C++ exceptions.
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
        The commands.
    folder : Path
        An existing folder, their working folder for all temporary files.
    module : str
        Name of the module in error messages.

    Returns
    -------
    str
        The output.

    Raises
    ------
    SynthesisError
        If a command fails, or takes longer than the time limit.
    KeyboardInterrupt
        If an interrupt ended the process.
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
