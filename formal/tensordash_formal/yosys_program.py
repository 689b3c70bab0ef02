"""Run Yosys from its native library with the arguments that SymbiYosys passes: `-ql LOG SCRIPT`.

The native library is faster than Yosys in WebAssembly.
"""

import os
import sys
from pathlib import Path


def main(_quiet: str, log: str, script: str) -> int:
    """Run a script and return Yosys' exit code; on an error, print the last line of the log."""
    if os.fork() == 0:  # on an error, Yosys exits its process
        from pyosys import libyosys

        libyosys.run_pass(f"tee -q -o {log} script {script}", libyosys.Design())
        sys.exit()
    _child, status = os.wait()
    if status:
        lines = Path(log).read_text(encoding="utf-8").splitlines(keepends=True)
        print("".join(lines[-1:]), end="", file=sys.stderr)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
