"""Energy of logic from synthesis results or, without them, from the paper's power."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..performance.chip import ChipConfig
from .texts import render

__all__ = ["CHIP_AT_65_NM", "CONSTANT", "IDLE", "PARTS", "SERIES", "energies", "energy_ratios", "power_note"]

PARTS = ("core", "sram", "dram")
CONSTANT = "core, constant power"
CHIP_AT_65_NM = "chip, core at the paper's power"
IDLE = "chip, with idle tiles"
SERIES = ("core", CONSTANT, "chip", CHIP_AT_65_NM, IDLE)
"""Definitions of energy:

- energy of logic, with the netlists' power at each operation's zeros;
- energy of logic, with the power without zeros (the paper's definition of efficiency);
- energy of the chip;
- energy of the chip, with logic scaled to the paper's power of the baseline at 65 nm;
- energy of the chip with idle tiles.

In the first four, as in the paper, all tiles draw their power until the last tile is done, and none while they wait for
memory. In the last, tiles draw their power while they have work, and idle power for the rest of the operation.
"""

Results = Iterable[Mapping[str, Any]]
Synthesis = Mapping[str, Any] | None


@dataclass(frozen=True)
class _Curve:
    """Watts of a TensorDash tile and of its baseline: by zeros of the scheduled operand, and while idle."""

    zeros: tuple[float, ...]
    sparse: tuple[float, ...]
    dense: tuple[float, ...]
    idle: tuple[float, float]

    def at(self, zeros: float) -> tuple[float, float]:
        """Return the power of (TensorDash, baseline), interpolated; beyond the measurements, the last one's."""
        return float(np.interp(zeros, self.zeros, self.sparse)), float(np.interp(zeros, self.zeros, self.dense))


def _curve(synthesis: Synthesis) -> _Curve:
    """Return the netlists' power or, without netlists, constant power from the paper's Table IV (`chip.Power`)."""
    runs = [] if synthesis is None else synthesis["power"] or []
    found = []
    for run in runs:
        share, percent, what = run["operands"].partition("%")
        if percent and what == " zeros":
            watts = run["watts"]["total"]
            found.append((float(share) / 100, watts["tensordash"], watts["baseline"]))
    power = ChipConfig().power
    if not found:
        found = [(0.0, power.sparse / 1e3, power.dense / 1e3)]
    zeros, sparse, dense = zip(*sorted(found), strict=True)
    idle = (sparse[0] * power.sparse_idle, dense[0] * power.dense_idle)
    if synthesis is not None and synthesis.get("idle"):
        watts = synthesis["idle"]["watts"]["total"]
        idle = (watts["tensordash"], watts["baseline"])
    return _Curve(zeros, sparse, dense, idle)


def power_note(synthesis: Synthesis) -> str:
    """Return the source of power figures, as a sentence."""
    if synthesis is None or not synthesis["power"]:
        return render("power", reason="no synthesis results" if synthesis is None else synthesis["power_reason"])
    curve = _curve(synthesis)
    ratios = {z: s / d for z, s, d in zip(curve.zeros, curve.sparse, curve.dense, strict=True)}
    idle, dense_idle = (watts / busy for watts, busy in zip(curve.idle, (curve.sparse[0], curve.dense[0]), strict=True))
    has_idle = bool(synthesis.get("idle"))
    return render("power", reason="", ratios=ratios, has_idle=has_idle, idle=idle, dense_idle=dense_idle)


def _skipped(result: Mapping[str, Any]) -> float:
    """Return the share of the dense schedule's positions whose scheduled operand is zero, padding included."""
    return 1 - (1 - result["padding_share"]) / result["ideal_speedup"] if result["ideal_speedup"] else 1.0


def energies(results: Results, synthesis: Synthesis, chip: ChipConfig | None = None) -> dict[str, dict[str, float]]:
    """Return microjoules by component, for TensorDash and for its baseline.

    Parameters
    ----------
    results : iterable of dict
        Results of operations, with the keys of `OperationResult`.
    synthesis : dict or None
        Document of ``tensordash synth --json``.
    chip : ChipConfig, optional
        The simulated chip. By default Table III of the paper.

    Returns
    -------
    dict
        "tensordash" and "baseline", each with "core", "sram", "dram"; "constant" (core with the power without zeros);
        "anchored" (core, scaled so that the baseline's power without zeros matches Table IV). "busy" (tiles while they
        have work) and "idle" (tiles while they wait, or have no pass) replace "core" in the series `IDLE`.
    """
    chip, curve = chip or ChipConfig(), _curve(synthesis)
    tile_us = chip.tiles / chip.clock_mhz  # Tile-microseconds per cycle.
    anchor = chip.power.dense / 1e3 / curve.dense[0]
    names = (*PARTS, "constant", "anchored", "busy", "idle")
    added = {side: dict.fromkeys(names, 0.0) for side in ("tensordash", "baseline")}
    for result in results:
        powers = zip(curve.at(_skipped(result)), (curve.sparse[0], curve.dense[0]), curve.idle, strict=True)
        for (side, of), (watts, constant, idle) in zip(
            (("tensordash", ""), ("baseline", "dense_")), powers, strict=True
        ):
            sums, tile_cycles = added[side], result[f"{of}compute"] * tile_us
            sums["core"] += tile_cycles * watts
            sums["constant"] += tile_cycles * constant
            sums["anchored"] += tile_cycles * watts * anchor
            busy = result[f"{of}busy"] / chip.clock_mhz
            sums["busy"] += busy * watts
            sums["idle"] += (result[f"{of}cycles"] * tile_us - busy) * idle
            for part in ("sram", "dram"):
                sums[part] += result[f"{of}energy"][part]
    return added


def energy_ratios(results: Results, synthesis: Synthesis, chip: ChipConfig | None = None) -> dict[str, float]:
    """Return the baseline's energy over TensorDash's for each of `SERIES`. Parameters are as in `energies`."""
    added = energies(results, synthesis, chip)
    sums = {
        "core": ("core",),
        CONSTANT: ("constant",),
        "chip": PARTS,
        CHIP_AT_65_NM: ("anchored", "sram", "dram"),
        IDLE: ("busy", "idle", "sram", "dram"),
    }
    return {
        name: sum(added["baseline"][part] for part in parts) / sum(added["tensordash"][part] for part in parts)
        for name, parts in sums.items()
    }
