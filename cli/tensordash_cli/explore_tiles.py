"""`tensordash explore` of tiles: connectivity, depth, lanes, geometry and row order, by speedup on traces and area."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from tensordash import TileConfig, load_preset
from tensordash.configuration.config import STAGINGS
from tensordash_storage.jobs import Runner

from .cached_areas import cached_areas
from .explore_front import Search, speedup_of

if TYPE_CHECKING:
    from tensordash_sim.performance.explore import Campaign, Point
    from tensordash_sim.trace import Trace

__all__ = ["search_tiles"]

START_PRESETS = ("paper", "recommended", "paper-depth2", "paper-depth3", "paper-depth5", "paper-16lane")
"""Presets whose options are starting points of the search, and rows of its results."""
TILE_AREAS = "areas are of tiles: the gates that drop steps are in a core's layouts and multiplies"
"""Note on areas of tiles that drop steps."""
DEFAULT_SHAPE = {"rows": (4,), "columns": (4,)}
"""Rows and columns of PEs to search by default."""


class TileSearch(Search):
    """A finished search for tiles."""

    reference = "the baseline"

    def table(self, traces: Sequence[str]) -> Table:
        """Return a table of all tiles, the fastest first."""
        has_area = "area_ratio" in self.rows[0]
        table = Table(box=None, pad_edge=False)
        for header in ("tile", "row order"):
            table.add_column(header)
        headers = [*map(escape, traces), "speedup"]
        kinds = ["", "dropped_"] if "dropped_speedup" in self.rows[0] else [""]
        if len(kinds) > 1:
            headers += [f"{header}, dropped" for header in headers]
        for header in (*headers, *(("area", "added GE", "front") if has_area else ())):
            table.add_column(header, justify="right")
        table.add_column("options", overflow="fold")
        for row in sorted(self.rows, key=lambda row: -(speedup_of(row) or 0)):
            found = [each for kind in kinds for each in (*row[f"{kind}speedups"], row[f"{kind}speedup"])]
            speedups = ["-" if each is None else f"{each:.3f}x" for each in found]
            cost = [f"{row['area_ratio']:.3f}", f"{row['added_ge_per_pe']:,.0f}"] if has_area else []
            front = ["*" * row.get("on_front", False) + "~" * bool(row.get("ties"))] if has_area else []
            options = " ".join(f"({step},{offset})" for step, offset in row["options"])
            table.add_row(row["label"], row["row_order"], *speedups, *cost, *front, options)
        return table


def search_tiles(
    config: TileConfig, traces: "Sequence[Trace]", arguments: dict[str, Any], area: bool, folder: Path, runner: Runner
) -> TileSearch:
    """Search for tiles with the command's arguments."""
    from tensordash_sim.performance.chip import ROW_ORDERS
    from tensordash_sim.performance.explore import Campaign

    arguments = arguments | {name: arguments[name] or numbers for name, numbers in DEFAULT_SHAPE.items()}
    orders = _parse_choices("--row-order", arguments["orders"], ROW_ORDERS)
    stagings = _parse_choices("--staging", arguments["stagings"], STAGINGS)
    conditions = {name: arguments[name] for name in ("seed", "tries", "row_steps", "drop_steps")}
    campaign = Campaign(
        base=config,
        known={name: _with_options_of(config, name) for name in START_PRESETS},
        traces=traces,
        folder=folder,
        **conditions,
    )
    points = _search(campaign, orders, stagings, arguments, runner)
    points += campaign.presets(points)
    rows = _measure(campaign, points, area, runner)
    notes = (TILE_AREAS,) if area and arguments["drop_steps"] else ()
    return TileSearch(conditions, rows, [point.config for point in points], notes)


def _parse_choices(option: str, text: str, allowed: Sequence[str]) -> tuple[str, ...]:
    choices = tuple(dict.fromkeys(text.split(",")))
    if not set(choices) <= set(allowed):
        raise click.UsageError(f"{option} must be one or more of {', '.join(allowed)}, not {text!r}")
    return choices


def _with_options_of(base: TileConfig, name: str) -> TileConfig:
    """Return the base with the lanes, depth, options and staging of a preset."""
    preset = load_preset(name)
    return replace(base, lanes=preset.lanes, depth=preset.depth, connectivity=preset.options, staging=preset.staging)


def _search(
    campaign: "Campaign", orders: Sequence[str], stagings: Sequence[str], arguments: dict[str, Any], runner: Runner
) -> "list[Point]":
    from tensordash_sim.performance.explore import Structure, start_options

    shapes = product(*(arguments[name] for name in ("lanes", "depths", "rows", "columns", "sources")), stagings)
    structures = [Structure(*shape) for shape in shapes]
    possible = [structure for structure in structures if structure.is_possible]
    if not possible:
        max_sources = max(len(structure.positions) + 1 for structure in structures)
        sources = ",".join(map(str, arguments["sources"]))
        raise click.UsageError(
            f"--sources must be at most {max_sources} for these lanes and depths, and for a ring a multiple "
            f"of its depth, not {sources}"
        )
    for structure in possible:
        try:
            structure.config(campaign.base, start_options(structure))
        except (TypeError, ValueError) as error:  # CONFIG does not fit the shape.
            raise click.UsageError(f"{structure.label}: {error}") from None
    return campaign.find([(structure, order) for order in orders for structure in possible], runner)


def _measure(campaign: "Campaign", points: "Sequence[Point]", area: bool, runner: Runner) -> list[dict[str, Any]]:
    """Return every point's exact speedups and its area."""
    totals_of = campaign.simulate(points, runner)
    configs = [point.config for point in points]
    areas = cached_areas(configs, campaign.folder / "areas", runner) if area else [{} for _ in points]
    rows: list[dict[str, Any]] = []
    for point, totals, figures in zip(points, totals_of, areas, strict=True):
        rows.append(
            {
                "label": point.label,
                "row_order": point.row_order,
                "tile": point.config.to_mapping()["tile"],
                "options": [list(option) for option in point.config.options],
                **_speedups("", [each["compute_speedup"] for each in totals]),
                **(_speedups("dropped_", [each["dropped_speedup"] for each in totals]) if campaign.drop_steps else {}),
                **figures,
            }
        )
    return rows


def _speedups(prefix: str, speedups: list[float | None]) -> dict[str, Any]:
    """Return the speedups on each trace, and their mean."""
    simulated = [speedup for speedup in speedups if speedup is not None]
    mean = sum(simulated) / len(simulated) if simulated else None
    return {f"{prefix}speedups": speedups, f"{prefix}speedup": mean}
