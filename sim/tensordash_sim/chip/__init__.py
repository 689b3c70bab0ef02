"""The accelerator of Table III: tiles, memories and DRAM; cycles and energy of an operation, next to the baseline."""

from .config import ChipConfig, Energy, Memory, Power
from .operation import SIDES, Machine, OperationResult, simulate_operation
from .passes import ROW_ORDERS
from .results import Results, code_digest, totals
from .traffic import Traffic

__all__ = [
    "ROW_ORDERS",
    "SIDES",
    "ChipConfig",
    "Energy",
    "Machine",
    "Memory",
    "OperationResult",
    "Power",
    "Results",
    "Traffic",
    "code_digest",
    "simulate_operation",
    "totals",
]
