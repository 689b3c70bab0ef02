"""The accelerator of Table III: tiles, memories and DRAM; cycles and energy of an operation and of the baseline.

`operation` runs the products of an operation (`run`). `passes` counts the cycles of each tile pass with the scheduler
of `tensordash_sim.cycles`. `spread` assigns passes to tiles, and `traffic` counts bytes. The slowest of tiles, DRAM,
banks and transposers sets the cycles.

`cores` has another chip: several cores at one memory port, as in the emitted Verilog. It times every descriptor.
"""

from .bandwidth import BANDWIDTHS, at_bandwidth, cycles_at, energy_at_bandwidth, sufficient_bandwidth
from .config import ChipConfig, Energy, Memory, Power
from .cores import CoresResult, simulate_cores
from .machine import JOINS, SIDES, Machine
from .masked import masked_rounds
from .operation import OperationResult, simulate_operation
from .passes import ROW_ORDERS
from .results import Results, code_digest, totals
from .traffic import Traffic

__all__ = [
    "BANDWIDTHS",
    "JOINS",
    "ROW_ORDERS",
    "SIDES",
    "ChipConfig",
    "CoresResult",
    "Energy",
    "Machine",
    "Memory",
    "OperationResult",
    "Power",
    "Results",
    "Traffic",
    "at_bandwidth",
    "code_digest",
    "cycles_at",
    "energy_at_bandwidth",
    "masked_rounds",
    "simulate_cores",
    "simulate_operation",
    "sufficient_bandwidth",
    "totals",
]
