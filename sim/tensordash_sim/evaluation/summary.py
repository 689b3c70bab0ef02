"""The verdict in plain sentences: speed, energy, their causes, and layers that hardly use the multipliers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..performance.chip import ChipConfig, totals
from ..report.figure import Figure
from .power import IDLE, energy_ratios
from .texts import verdict_figure

__all__ = ["CAUSES", "summary"]

CAUSES = {
    "options": "no option of the lane had work",
    "waits": "the row waited for the slowest row",
    "rows": "the tile has more rows than the operation fills",
    "columns": "the tile has more columns than the operation fills",
    "stalls": "results could not leave",
    "reads": "tiles that share reads waited for each other",
    "tail": "no pass was left",
    "memory": "DRAM was slower than the tiles",
}
"""Explanations of why a multiplier's slot is idle, by cause."""
LOW_UTILISATION = 0.1
"""Share of busy slots below which the verdict names an operation."""
MAX_NAMED_OPERATIONS = 6
"""Maximum number of operations that the verdict names."""
EQUAL_RATIO_TOLERANCE = 0.005
"""Ratios this close to 1 count as equal."""


def summary(
    results: Sequence[dict[str, Any]], synthesis: Mapping[str, Any] | None, chip: ChipConfig, where: str
) -> Figure:
    """Build the verdict: a figure without points.

    Parameters
    ----------
    results : sequence of dict
        `OperationResult.to_json` of each operation, with `layer` and `operation`.
    synthesis : mapping or None
        Document of ``tensordash synth --json`` of the tile.
    chip : ChipConfig
        The chip around the tiles.
    where : str
        Name of the step in the text.
    """
    total = totals(results)
    low = sorted((each for each in results if each["utilisation"] < LOW_UTILISATION), key=lambda each: -each["cycles"])
    cycles = sum(each["cycles"] for each in results)
    ratios = {} if synthesis is None else synthesis["ratio"]
    return verdict_figure(
        "verdict",
        where,
        [],
        speedup=total["speedup"] or 1.0,
        on_chip=total["shared_speedup"] or 1.0,
        gbps=chip.dram_bytes_per_cycle * chip.clock_mhz / 1e3,
        energy=1 / energy_ratios(results, synthesis, chip)[IDLE],
        is_measured=bool(synthesis and synthesis["power"]),
        loss=_largest_loss(results),
        costs={name: ratio for name, ratio in ratios.items() if isinstance(ratio, int | float)},
        low=[(each, _largest_loss([each])) for each in low],
        low_share=sum(each["cycles"] for each in low) / cycles if cycles else 0.0,
        count=len(results),
        causes=CAUSES,
        low_utilisation=LOW_UTILISATION,
        max_named=MAX_NAMED_OPERATIONS,
        same_within=EQUAL_RATIO_TOLERANCE,
    )


class _Loss(NamedTuple):
    """The share of busy slots, the most frequent cause of idle ones, and its share."""

    busy: float
    cause: str | None
    share: float


def _largest_loss(results: Sequence[dict[str, Any]]) -> _Loss:
    cycles = sum(each["cycles"] for each in results) or 1
    busy = sum(each["utilisation"] * each["cycles"] for each in results) / cycles
    shares = {
        cause: sum(each["idle"].get(cause, 0.0) * each["cycles"] for each in results) / cycles for cause in CAUSES
    }
    cause = max(shares, key=lambda name: shares[name])
    return _Loss(busy, cause, shares[cause]) if shares[cause] > 0 else _Loss(busy, None, 0.0)
