"""Verification of emitted Verilog against the golden model, with cocotb; works from an installed wheel.

`layer` is imported by its own name: it reads traces, which takes longer to import than many a bench runs.
"""

from .replay import Replayer, ReplayResult, load_operands, replay, save_results
from .run import BENCHES, BenchResult, VerificationError, run_bench, verify
from .simulators import SimulatorError, simulator_names
from .testbench import render_testbench

__all__ = [
    "BENCHES",
    "BenchResult",
    "ReplayResult",
    "Replayer",
    "SimulatorError",
    "VerificationError",
    "load_operands",
    "render_testbench",
    "replay",
    "run_bench",
    "save_results",
    "simulator_names",
    "verify",
]
