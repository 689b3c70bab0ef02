"""Speedup and energy of operations at several DRAM bandwidths."""

from collections.abc import Sequence
from math import ceil
from typing import Any

from .energy import ENERGY_PARTS, idle_energy
from .machine import Machine
from .operation import ratio

__all__ = ["BANDWIDTHS", "at_bandwidth", "cycles_at", "energy_at_bandwidth", "sufficient_bandwidth"]

BANDWIDTHS = (25.6, 102.4, 256.0)
"""GB/s of four 16-bit channels of LPDDR4-3200, of four 64-bit channels, and of a stack of HBM2."""
MAX_GBPS = 1e6
"""Highest bandwidth that `sufficient_bandwidth` tries."""


def at_bandwidth(results: Sequence[dict[str, Any]], gbps: float, clock_mhz: int) -> dict[str, Any]:
    """Return the total cycles of operations at another DRAM bandwidth.

    Parameters
    ----------
    results : sequence of dict
        `OperationResult.to_json`.
    gbps : float
        GB/s.
    clock_mhz : int
        Clock of the chip.

    Returns
    -------
    dict
        "gbps", "dense_cycles", "cycles" and "speedup". "speedup" is None if "cycles" is 0.

    Examples
    --------
    >>> operation = {"dense_on_chip": 100, "on_chip": 50, "traffic": {"dram": 8000}}
    >>> at_bandwidth([operation], gbps=50, clock_mhz=500)
    {'gbps': 50, 'dense_cycles': 100, 'cycles': 80, 'speedup': 1.25}
    """
    pairs = [cycles_at(result, gbps, clock_mhz) for result in results]
    dense, cycles = (sum(pair[place] for pair in pairs) for place in (0, 1))
    return {"gbps": gbps, "dense_cycles": dense, "cycles": cycles, "speedup": ratio(dense, cycles)}


def cycles_at(result: dict[str, Any], gbps: float, clock_mhz: int) -> tuple[int, int]:
    """Return the cycles of an operation at another DRAM bandwidth: (baseline, TensorDash).

    `result` is one of the results of `at_bandwidth`; the other parameters are the same.
    """
    bytes_per_cycle = gbps * 1e3 / clock_mhz
    dram = ceil(result["traffic"]["dram"] / bytes_per_cycle)
    return max(result["dense_on_chip"], dram), max(result["on_chip"], dram)


def energy_at_bandwidth(results: Sequence[dict[str, Any]], gbps: float, machine: Machine) -> dict[str, Any]:
    """Return the energy of operations at another DRAM bandwidth; tiles that wait longer draw idle power longer.

    Parameters
    ----------
    results : sequence of dict
        `OperationResult.to_json`, of that machine.
    gbps : float
        GB/s.
    machine : Machine
        The machine of the results.

    Returns
    -------
    dict
        "gbps"; "dense_energy" and "energy", of all parts, in microjoule; "energy_ratio", None if "energy" is 0.
    """
    chip, skips = machine.chip, machine.config.sparsity != "none"
    sums = [0.0, 0.0]
    for result in results:
        sides = (("dense_energy", "dense_busy", False), ("energy", "busy", skips))
        for place, (cycles, (of, busy, is_sparse)) in enumerate(
            zip(cycles_at(result, gbps, chip.clock_mhz), sides, strict=True)
        ):
            sums[place] += sum(result[of][part] for part in ENERGY_PARTS if part != "idle")
            sums[place] += idle_energy(result[busy], cycles, chip, skips=is_sparse)
    dense, own = sums
    return {"gbps": gbps, "dense_energy": dense, "energy": own, "energy_ratio": ratio(dense, own)}


def sufficient_bandwidth(results: Sequence[dict[str, Any]], clock_mhz: int) -> float:
    """Return the GB/s, to three digits, from which DRAM adds at most 1% to the cycles of all operations.

    Parameters
    ----------
    results : sequence of dict
        `OperationResult.to_json`.
    clock_mhz : int
        Clock of the chip.

    Examples
    --------
    >>> operation = {"dense_on_chip": 100_000, "on_chip": 50_000, "traffic": {"dram": 8_000_000}}
    >>> sufficient_bandwidth([operation], clock_mhz=500)
    79.2
    """
    enough = sum(result["on_chip"] for result in results) * 1.01
    low, high = 1e-3, MAX_GBPS
    while high / low > 1.0005:
        middle = (low * high) ** 0.5
        if at_bandwidth(results, middle, clock_mhz)["cycles"] <= enough:
            high = middle
        else:
            low = middle
    return float(f"{high:.3g}")
