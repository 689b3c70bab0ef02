"""Yosys, from its library, as SymbiYosys calls it: `-ql LOG SCRIPT`. Several times as fast as one in WebAssembly."""

import os
import sys
from pathlib import Path

_program, _quiet, log, script = sys.argv
if os.fork() == 0:  # an error ends the process
    from pyosys import libyosys

    libyosys.run_pass(f"tee -q -o {log} script {script}", libyosys.Design())
    sys.exit()
_child, status = os.wait()
if status:
    print("".join(Path(log).read_text(encoding="utf-8").splitlines(keepends=True)[-1:]), end="", file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
