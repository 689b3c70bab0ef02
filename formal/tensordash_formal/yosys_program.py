"""Yosys, from its library, as SymbiYosys calls it: `-ql LOG SCRIPT`. Several times as fast as one in WebAssembly."""

import os
import sys
from pathlib import Path


def main(_quiet: str, log: str, script: str) -> int:
    """Run a script, and give Yosys' exit code; of an error, the last line of the log is printed."""
    if os.fork() == 0:  # an error ends the process
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
