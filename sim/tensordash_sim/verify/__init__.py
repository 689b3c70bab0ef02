"""Verification of emitted Verilog against the golden model, with cocotb; works from an installed wheel.

Modules that start simulators are loaded on first use. They import Amaranth, which takes longer than many benches run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .replayer import Replayer, ReplayResult, load_operands, replay, save_results
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

_LAZY = {
    ".replayer": ("Replayer", "ReplayResult", "load_operands", "replay", "save_results"),
    ".run": ("BENCHES", "BenchResult", "VerificationError", "run_bench", "verify"),
    ".simulators": ("SimulatorError", "simulator_names"),
    ".testbench": ("render_testbench",),
}


def __getattr__(name: str) -> Any:
    for module, names in _LAZY.items():
        if name in names:
            return getattr(import_module(module, __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
