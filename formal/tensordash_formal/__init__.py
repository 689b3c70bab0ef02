"""Proofs: what holds for a tile in every cycle of every run, shown on its emitted Verilog."""

from .solver import ProofError
from .suite import Report, Suite, full_suite, suite_of

__all__ = ["ProofError", "Report", "Suite", "full_suite", "suite_of"]
