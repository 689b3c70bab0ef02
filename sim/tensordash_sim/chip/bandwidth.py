"""What memory leaves of a speedup, at several bandwidths."""

from collections.abc import Sequence
from math import ceil
from typing import Any

from .operation import ratio

__all__ = ["BANDWIDTHS", "at_bandwidth", "sufficient_bandwidth"]

BANDWIDTHS = (25.6, 102.4, 256.0)
"""GB/s: four channels of 16 bits of LPDDR4-3200, as many of 64 bits, and a stack of HBM2."""
MOST = 1e6
"""GB/s that `sufficient_bandwidth` looks for."""


def at_bandwidth(results: Sequence[dict[str, Any]], gbps: float, clock_mhz: int) -> dict[str, Any]:
    """Cycles of operations, one after the other, if DRAM had another bandwidth.

    Parameters
    ----------
    results : sequence of dict
        `OperationResult.to_json`.
    gbps : float
        GB/s.
    clock_mhz : int
        Of the chip.

    Returns
    -------
    dict
        "gbps", "dense_cycles", "cycles", and "speedup", None if there is nothing to do.

    Examples
    --------
    >>> operation = {"dense_on_chip": 100, "on_chip": 50, "traffic": {"dram": 8000}}
    >>> at_bandwidth([operation], gbps=50, clock_mhz=500)
    {'gbps': 50, 'dense_cycles': 100, 'cycles': 80, 'speedup': 1.25}
    """
    bytes_per_cycle = gbps * 1e3 / clock_mhz
    dense = cycles = 0
    for result in results:
        dram = ceil(result["traffic"]["dram"] / bytes_per_cycle)
        dense += max(result["dense_on_chip"], dram)
        cycles += max(result["on_chip"], dram)
    return {"gbps": gbps, "dense_cycles": dense, "cycles": cycles, "speedup": ratio(dense, cycles)}


def sufficient_bandwidth(results: Sequence[dict[str, Any]], clock_mhz: int) -> float:
    """GB/s from which DRAM adds at most a hundredth to the cycles of all operations, to three digits.

    Parameters
    ----------
    results : sequence of dict
        `OperationResult.to_json`.
    clock_mhz : int
        Of the chip.

    Examples
    --------
    >>> operation = {"dense_on_chip": 100_000, "on_chip": 50_000, "traffic": {"dram": 8_000_000}}
    >>> sufficient_bandwidth([operation], clock_mhz=500)
    79.2
    """
    enough = sum(result["on_chip"] for result in results) * 1.01
    low, high = 1e-3, MOST
    while high / low > 1.0005:
        middle = (low * high) ** 0.5
        if at_bandwidth(results, middle, clock_mhz)["cycles"] <= enough:
            high = middle
        else:
            low = middle
    return float(f"{high:.3g}")
