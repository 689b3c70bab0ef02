"""Energy of logic: from results of synthesis where they are there, else the paper's power."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..chip import ChipConfig

__all__ = ["CHIP_AT_65_NM", "CONSTANT", "PARTS", "SERIES", "energies", "energy_ratios", "power_note"]

PARTS = ("core", "sram", "dram")
CONSTANT, CHIP_AT_65_NM = "core, constant power", "chip, core at the paper's power"
SERIES = ("core", CONSTANT, "chip", CHIP_AT_65_NM)
"""Energy of logic with the power that netlists took at such zeros, or (the paper's definition of efficiency) at none;
energy of the whole chip, and that with the power of the paper's baseline at 65 nm and our ratio to it."""

Results = Iterable[Mapping[str, Any]]
Synthesis = Mapping[str, Any] | None


@dataclass(frozen=True)
class _Curve:
    """Watts of a TensorDash tile and of its baseline, by share of zeros of the scheduled operand."""

    zeros: tuple[float, ...]
    sparse: tuple[float, ...]
    dense: tuple[float, ...]

    def at(self, zeros: float) -> tuple[float, float]:
        """(TensorDash, baseline), interpolated; beyond the last measurement as there."""
        return float(np.interp(zeros, self.zeros, self.sparse)), float(np.interp(zeros, self.zeros, self.dense))


def _curve(synthesis: Synthesis) -> _Curve:
    """Of netlists; the paper's Table IV, the same at all zeros, without."""
    runs = [] if synthesis is None else synthesis["power"] or []
    found = []
    for run in runs:
        share, percent, what = run["operands"].partition("%")
        if percent and what == " zeros":
            watts = run["watts"]["total"]
            found.append((float(share) / 100, watts["tensordash"], watts["baseline"]))
    if not found:
        power = ChipConfig().power
        found = [(0.0, power.sparse / 1e3, power.dense / 1e3)]
    zeros, sparse, dense = zip(*sorted(found), strict=True)
    return _Curve(zeros, sparse, dense)


def power_note(synthesis: Synthesis) -> list[str]:
    """Where power comes from."""
    if synthesis is None or not synthesis["power"]:
        reason = "no synthesis results" if synthesis is None else synthesis["power_reason"]
        return [f"Power of logic is that of the paper's Table IV, provisionally: {reason}."]
    curve = _curve(synthesis)
    ratios = ", ".join(
        f"{s / d:.3f} at {z:.0%}" for z, s, d in zip(curve.zeros, curve.sparse, curve.dense, strict=True)
    )
    return [f"Power of logic: our netlists (45 nm); TensorDash over the baseline is {ratios} zeros."]


def _skipped(result: Mapping[str, Any]) -> float:
    """Share of the dense schedule's positions whose scheduled operand is zero, padding too."""
    return 1 - (1 - result["padding_share"]) / result["ideal_speedup"] if result["ideal_speedup"] else 1.0


def energies(results: Results, synthesis: Synthesis) -> dict[str, dict[str, float]]:
    """Microjoules by component, of TensorDash and of its baseline.

    Parameters
    ----------
    results : iterable of dict
        Of operations, with the keys of `OperationResult`.
    synthesis : dict or None
        Document of ``tensordash synth --json``.

    Returns
    -------
    dict
        "tensordash" and "baseline": core, sram, dram, `constant` (core with the power of no zeros), and `anchored`
        (core, scaled so that the baseline's power without zeros is that of Table IV).
    """
    chip, curve = ChipConfig(), _curve(synthesis)
    tile_us = chip.tiles / chip.clock_mhz  # microseconds of tiles in a cycle
    anchor = chip.power.dense / 1e3 / curve.dense[0]
    added = {side: dict.fromkeys((*PARTS, "constant", "anchored"), 0.0) for side in ("tensordash", "baseline")}
    for result in results:
        pairs = zip(curve.at(_skipped(result)), (curve.sparse[0], curve.dense[0]), strict=True)
        for (side, cycles, of), (watts, constant) in zip(
            (("tensordash", "compute", "energy"), ("baseline", "dense_compute", "dense_energy")), pairs, strict=True
        ):
            sums = added[side]
            sums["core"] += result[cycles] * tile_us * watts
            sums["constant"] += result[cycles] * tile_us * constant
            sums["anchored"] += result[cycles] * tile_us * watts * anchor
            for part in ("sram", "dram"):
                sums[part] += result[of][part]
    return added


def energy_ratios(results: Results, synthesis: Synthesis) -> dict[str, float]:
    """The baseline's energy over TensorDash's, for each of `SERIES`."""
    added = energies(results, synthesis)
    sums = {
        "core": ("core",),
        CONSTANT: ("constant",),
        "chip": PARTS,
        CHIP_AT_65_NM: ("anchored", "sram", "dram"),
    }
    return {
        name: sum(added["baseline"][part] for part in parts) / sum(added["tensordash"][part] for part in parts)
        for name, parts in sums.items()
    }
