"""Costs of wires: both placed designs, next to their figures without wires."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .placed_design import PlacedDesign

__all__ = ["WIRE_NOTES", "WirePower", "WireReport", "rounded", "wire_table", "wires_json"]

DESIGNS = ("tensordash", "baseline")
WIRE_NOTES = (
    "wires: cells placed flat by Coloquinte, ports around the edge; half perimeters, times the factor of "
    "trees with that number of pins (RISA), with the library's own capacitance and resistance of a micrometre",
    "drivers are as strong as their wires ask for, and have buffers where no driver is: cells with wires; the floor is "
    "rows with the gaps that a legal placement has; no routing, no clock tree, no power grid",
    "clock here: OpenSTA, clk-to-q and setup included, an ideal clock, of the very netlist whose area and power are "
    "given; modules of paths across modules that were late without wires are mapped for speed",
)


@dataclass(frozen=True, kw_only=True)
class WirePower:
    """Power of both placed designs on the same operands.

    Parameters
    ----------
    name : str
        Name of the operands.
    without, with_wires : (float, float)
        (TensorDash, baseline) watts of the mapped netlists, and of the placed netlists with wires.
    cycles : (int, int)
        (TensorDash, baseline) cycles.
    """

    name: str
    without: tuple[float, float]
    with_wires: tuple[float, float]
    cycles: tuple[int, int]

    @property
    def ratio(self) -> float:
        """TensorDash's power over the baseline's, with wires."""
        return self.with_wires[0] / self.with_wires[1]

    @property
    def energy_ratio(self) -> float:
        """The baseline's energy over TensorDash's for the same work, with wires, at the same clock."""
        return self.cycles[1] / self.cycles[0] / self.ratio


@dataclass(frozen=True, kw_only=True)
class WireReport:
    """Both placed designs.

    Parameters
    ----------
    designs : (PlacedDesign, PlacedDesign)
        TensorDash and the baseline.
    power : tuple of WirePower
        Power by operands, the first without zeros; empty if it was not measured.
    """

    designs: tuple[PlacedDesign, PlacedDesign]
    power: tuple[WirePower, ...] = ()

    @property
    def ratios(self) -> dict[str, float]:
        """TensorDash over the baseline: area of the floor, highest clock, power without zeros."""
        ours, theirs = self.designs
        found = {
            "area_with_wires": ours.placed.floor.area_um2 / theirs.placed.floor.area_um2,
            "clock_with_wires": theirs.with_wires.period_ns / ours.with_wires.period_ns,
        }
        return found | ({"power_with_wires": self.power[0].ratio} if self.power else {})

    @property
    def density(self) -> float:
        """The lower of both placements' densities."""
        return min(design.density for design in self.designs)

    def to_json(self) -> dict[str, Any]:
        """Return plain values: areas in um2, lengths in mm, periods in ns, clocks in MHz, power in watts."""
        return {
            **{name: _design(design) for name, design in zip(DESIGNS, self.designs, strict=True)},
            "power": [
                {
                    "operands": run.name,
                    "watts_without_wires": _pair(run.without),
                    "watts": _pair(run.with_wires),
                    "power_ratio": round(run.ratio, 4),
                    "energy_ratio": round(run.energy_ratio, 4),
                }
                for run in self.power
            ],
            "notes": list(WIRE_NOTES),
        }


def _pair(watts: tuple[float, float]) -> Mapping[str, float]:
    return dict(zip(DESIGNS, (round(watt, 6) for watt in watts), strict=True))


def _design(design: PlacedDesign) -> dict[str, Any]:
    mapped, grown = design.cells_um2
    return {
        "cells": len(design.gates.cells),
        "cells_um2_without_wires": round(mapped, 1),
        "cells_um2": round(grown, 1),
        "stronger": design.grown.stronger,
        "buffers": design.grown.buffers,
        "area_um2": round(design.placed.floor.area_um2, 1),
        "size_um": [round(side, 2) for side in design.placed.floor.size_um],
        "placement_density": round(design.density, 4),
        "half_perimeter_mm": round(design.half_mm, 2),
        "wire_mm": round(design.wire_mm, 2),
        "period_ns_without_wires": round(design.without.period_ns, 4),
        "period_ns": round(design.with_wires.period_ns, 4),
        "clock_mhz_without_wires": round(1000 / design.without.period_ns, 1),
        "clock_mhz": round(1000 / design.with_wires.period_ns, 1),
        "critical_path": list(design.critical),
        "mapped_for_speed": list(design.faster),
    }


def wires_json(report: WireReport) -> dict[str, Any]:
    """Return the part about wires of a report's document."""
    return {"placement_density": round(report.density, 4), "wires": report.to_json()}


def rounded(ratios: Mapping[str, float]) -> dict[str, float]:
    """Round ratios for a document."""
    return {name: round(ratio, 4) for name, ratio in ratios.items()}


def wire_table(report: WireReport) -> list[str]:
    """Format areas, clocks and power with and without wires as lines of plain text."""
    ours, theirs = report.designs
    rows: list[tuple[str, float, float, str]] = []

    def add(label: str, figures: tuple[float, float], form: str) -> None:
        rows.append((label, *figures, form))

    mapped, grown = zip(ours.cells_um2, theirs.cells_um2, strict=True)
    add("cells, without wires, um2", mapped, ",.0f")
    add("cells, with wires, um2", grown, ",.0f")
    add("floor, um2", (ours.placed.floor.area_um2, theirs.placed.floor.area_um2), ",.0f")
    add("wires, mm", (ours.wire_mm, theirs.wire_mm), ",.0f")
    add("clock, without wires, MHz", (1000 / ours.without.period_ns, 1000 / theirs.without.period_ns), ",.0f")
    add("clock, with wires, MHz", (1000 / ours.with_wires.period_ns, 1000 / theirs.with_wires.period_ns), ",.0f")
    for run in report.power:
        add(f"{run.name}, without wires, mW", (1e3 * run.without[0], 1e3 * run.without[1]), ",.1f")
        add(f"{run.name}, with wires, mW", (1e3 * run.with_wires[0], 1e3 * run.with_wires[1]), ",.1f")
    lines = [f"{'placed':34} {'TensorDash':>11} {'baseline':>11} {'ratio':>7}"]
    lines += [
        f"{label:34} {format(one, form):>11} {format(other, form):>11} {one / other:7.3f}"
        for label, one, other, form in rows
    ]
    lines.append(f"{'density':34} {ours.density:11.1%} {theirs.density:11.1%}")
    for run in report.power:
        lines.append(f"{run.name}: energy ratio with wires {run.energy_ratio:.3f}")
    for name, design in (("TensorDash", ours), ("baseline", theirs)):
        start, end = (instance or "top" for instance in design.critical)
        lines.append(
            f"{name}: {design.grown.stronger:,} cells stronger, {design.grown.buffers:,} buffers; longest path from "
            f"{start} to {end}; mapped for speed: {', '.join(design.faster) or 'nothing'}"
        )
    return lines
