"""Verification of emitted Verilog against the golden model, with cocotb; works from an installed wheel."""

from .layer import LayerPasses, layer_passes
from .replay import Replayer, ReplayResult, load_operands, replay, save_results
from .run import BENCHES, BenchResult, VerificationError, run_bench, verify
from .simulators import SimulatorError, simulator_names
from .testbench import render_testbench

__all__ = [
    "BENCHES",
    "BenchResult",
    "LayerPasses",
    "ReplayResult",
    "Replayer",
    "SimulatorError",
    "VerificationError",
    "layer_passes",
    "load_operands",
    "render_testbench",
    "replay",
    "run_bench",
    "save_results",
    "simulator_names",
    "verify",
]
