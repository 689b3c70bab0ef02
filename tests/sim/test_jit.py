"""Test the message that loops are being compiled."""

import subprocess
import sys

PROGRAM = """
from tensordash_sim.jit import njit

@njit()
def double(x):
    return 2 * x

print(double(2), double(1.5))
"""


def test_the_first_compilation_is_logged():
    """Python's default handler prints one line to stderr, although two loops are compiled."""
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert result.stdout == "4 3.0\n"
    assert len(result.stderr.splitlines()) == 1
    assert "compiling loops" in result.stderr
