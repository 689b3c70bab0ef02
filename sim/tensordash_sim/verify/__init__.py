"""Verification of emitted Verilog against the golden model, with cocotb; works from an installed wheel."""

from .run import BENCHES, BenchResult, VerificationError, run_bench, verify
from .simulators import SimulatorError, simulator_names

__all__ = ["BENCHES", "BenchResult", "SimulatorError", "VerificationError", "run_bench", "simulator_names", "verify"]
