"""Formal proofs of tiles and cores, on their emitted Verilog."""

from .solver import ProofError
from .suite import Report, Suite, full_suite, suite_of

__all__ = ["ProofError", "Report", "Suite", "full_suite", "suite_of"]
