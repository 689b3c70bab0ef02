"""Table IV: area and power by component."""

from collections.abc import Mapping
from typing import Any

from ..report.figure import Point
from .experiment import Answers, Experiment
from .power import power_note
from .settings import Settings
from .texts import notes

__all__ = ["TABLE4", "TILES", "chip_area_ratio"]

TILES = 256
NAND2_MM2 = 1.44e-6
"""Area of a gate equivalent at 65 nm."""
PAPER_AREA = {
    "compute_cores": (68.74, 68.74),
    "transposers": (0.37, 0.37),
    "schedulers_b_muxes": (1.37, None),
    "a_muxes": (3.63, None),
    "staging_buffers": (4.91, None),
    "control": (None, None),
    "total": (79.01, 69.11),
}
PAPER_POWER = {
    "compute_cores": (23_748, 23_748),
    "transposers": (44.4, 44.4),
    "schedulers_b_muxes": (187.9, None),
    "a_muxes": (283.8, None),
    "staging_buffers": (1_638.4, None),
    "control": (None, None),
    "total": (26_144, 23_793),
}
"""mW of 256 tiles at 65 nm and 500 MHz: (TensorDash, baseline). `PAPER_AREA` has their mm2."""
RATIOS = {"area": 1.14, "power": 1.09, "chip": 1.048}
BANKS_MM2 = 3 * 58.6
"""Area of AM, BM and CM of the paper's chip."""
SCRATCHPADS_MM2 = (5.9, 3.95)
"""Area of the scratchpads of the paper's chip, with TensorDash and without."""
SIDES = ("tensordash", "baseline")


def chip_area_ratio(costs: Mapping[str, Any], tiles: int) -> float:
    """Return a chip's area over its baseline's, memories included.

    Parameters
    ----------
    costs : dict
        Document of ``tensordash synth --json``.
    tiles : int
        Number of tiles of the chip.
    """
    total = costs["components"]["total"]
    logic = [total[f"{side}_ge"] * NAND2_MM2 * tiles for side in SIDES]
    sparse, dense = (BANKS_MM2 + pads + area for pads, area in zip(SCRATCHPADS_MM2, logic, strict=True))
    return float(sparse / dense)


def _areas(costs: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    return {
        row: (areas["tensordash_ge"] * NAND2_MM2 * TILES, areas["baseline_ge"] * NAND2_MM2 * TILES)
        for row, areas in costs["components"].items()
    }


def _powers(costs: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return mW of 256 tiles on operands without zeros, the first run. Netlists have no transposers."""
    runs = costs["power"] or [{"watts": {}}]
    return {
        row: (watts["tensordash"] * 1e3 * TILES, watts["baseline"] * 1e3 * TILES)
        for row, watts in runs[0]["watts"].items()
        if row != "transposers"
    }


def _points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    costs = settings.synthesis.get("paper")
    areas, powers = (_areas(costs), _powers(costs)) if costs is not None else ({}, {})
    points = []
    for metric, paper, found in (
        ("area, mm2 at 65 nm", PAPER_AREA, areas),
        ("power, mW", PAPER_POWER, powers),
    ):
        for row, claims in paper.items():
            for side, claim, index in zip(SIDES, claims, (0, 1), strict=True):
                ours = found[row][index] if row in found else None
                if claim is None and not ours:
                    continue
                share = ours / found["total"][1] if ours is not None else None
                more = {"share_of_baseline": share}
                points.append(
                    Point(metric=metric, series=side, x=row.replace("_", " "), paper=claim, ours=ours, more=more)
                )
    for key, claim in RATIOS.items():
        ours = None if costs is None else costs["ratio"][key]
        points.append(Point(metric="TensorDash over the baseline", series="ratio", x=key, paper=claim, ours=ours))
    return points, notes("table4", power=power_note(costs))


TABLE4 = Experiment.of("table4", lambda settings: {}, _points)
