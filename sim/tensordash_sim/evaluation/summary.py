"""The verdict in plain sentences: how fast, how much energy, why, and which layers hardly use the multipliers."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..performance.chip import ChipConfig, totals
from ..report.figure import Figure
from .power import IDLE, energy_ratios

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
"""Why a multiplier's slot is idle."""
LOW_UTILISATION = 0.1
"""Share of the multipliers' slots below which an operation is named."""
MAX_NAMED = 6
"""Operations that are named."""
SAME = 0.005
"""Ratios this close to 1 count as equal."""


def summary(
    results: Sequence[dict[str, Any]], synthesis: Mapping[str, Any] | None, chip: ChipConfig, where: str
) -> Figure:
    """The verdict as a figure without points.

    Parameters
    ----------
    results : sequence of dict
        `OperationResult.to_json` of each operation, with `layer` and `operation`.
    synthesis : mapping or None
        Document of ``tensordash synth --json`` of the tile.
    chip : ChipConfig
        What is around the tiles.
    where : str
        The step.
    """
    notes = [_speed(results, chip), _energy(results, synthesis, chip), _reason(results)]
    if synthesis is not None:
        notes += _cost(synthesis)
    notes += _low(results)
    return Figure(
        name="verdict", title="Verdict", source=where, kind="table", x_label="", y_label="", points=[], notes=notes
    )


def _change(ratio: float, more: str, less: str, same: str) -> str:
    """A ratio as a percentage.

    >>> [_change(ratio, "faster", "slower", "as fast") for ratio in (1.72, 0.9, 1.001)]
    ['72% faster', '10% slower', 'as fast']
    """
    if abs(ratio - 1) <= SAME:
        return same
    return f"{ratio - 1:.0%} {more}" if ratio > 1 else f"{1 - ratio:.0%} {less}"


def _speed(results: Sequence[dict[str, Any]], chip: ChipConfig) -> str:
    every = totals(results)
    speedup, on_chip = every["speedup"] or 1.0, every["shared_speedup"] or 1.0
    gbps = chip.dram_bytes_per_cycle * chip.clock_mhz / 1e3
    change = _change(speedup, "faster than", "slower than", "as fast as")
    with_dram = f"{change} the dense baseline ({speedup:.2f}x) with DRAM of {gbps:g} GB/s"
    return f"Speed: {with_dram}; {on_chip:.2f}x where DRAM never limits."


def _energy(results: Sequence[dict[str, Any]], synthesis: Mapping[str, Any] | None, chip: ChipConfig) -> str:
    taken = 1 / energy_ratios(results, synthesis, chip)[IDLE]
    change = _change(taken, "more energy than", "less energy than", "the energy of")
    return f"Energy: the chip takes {change} the dense baseline's for this step, DRAM and waiting tiles included."


def _reason(results: Sequence[dict[str, Any]]) -> str:
    busy, cause, share = _largest_loss(results)
    said = f"Why: {busy:.0%} of the multipliers' slots do work"
    return f"{said}." if cause is None else f"{said}. The largest loss is {share:.0%}: {CAUSES[cause]} (`{cause}`)."


def _cost(synthesis: Mapping[str, Any]) -> list[str]:
    """Area and clock, as far as they were synthesized."""
    names = {"area": ("larger", "smaller", "of the same area"), "clock": ("higher", "lower", "the same")}
    found = {
        name: _change(ratio, *words)
        for name, words in names.items()
        if isinstance(ratio := synthesis["ratio"].get(name), int | float)
    }
    parts = [f"the tile is {found['area']}"] * ("area" in found)
    parts += [f"its highest clock is {found['clock']}"] * ("clock" in found)
    return [f"Cost: {', and '.join(parts)}, against the dense baseline."] if parts else []


def _low(results: Sequence[dict[str, Any]]) -> list[str]:
    low = sorted((each for each in results if each["utilisation"] < LOW_UTILISATION), key=lambda each: -each["cycles"])
    if not low:
        return []
    every = sum(each["cycles"] for each in results)
    share = sum(each["cycles"] for each in low) / every if every else 0.0
    head = f"{len(low)} of {len(results)} operations use less than {LOW_UTILISATION:.0%} of the multipliers"
    more = [f"{len(low) - MAX_NAMED} more are not named."] if len(low) > MAX_NAMED else []
    return [f"{head} and take {share:.0%} of the cycles.", *map(_named, low[:MAX_NAMED]), *more]


def _named(result: dict[str, Any]) -> str:
    """An operation that hardly uses the multipliers, and why."""
    busy, cause, share = _largest_loss([result])
    reason = "" if cause is None else f" {share:.0%} of the slots are idle: {CAUSES[cause]}."
    macs, cycles = result["macs"], result["cycles"]
    return f"`{result['layer']}` {result['operation']}: {busy:.1%}, {macs:,} MACs in {cycles:,.0f} cycles.{reason}"


def _largest_loss(results: Sequence[dict[str, Any]]) -> tuple[float, str | None, float]:
    """The share of slots that do work, the cause that most of the others are idle for, and its share."""
    cycles = sum(each["cycles"] for each in results) or 1
    busy = sum(each["utilisation"] * each["cycles"] for each in results) / cycles
    shares = {
        cause: sum(each["idle"].get(cause, 0.0) * each["cycles"] for each in results) / cycles for cause in CAUSES
    }
    cause = max(shares, key=lambda name: shares[name])
    return (busy, cause, shares[cause]) if shares[cause] > 0 else (busy, None, 0.0)
