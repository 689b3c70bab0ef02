"""`tensordash simulate`: exact cycles of a trace on the chip, or of streams on one tile."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import click

from tensordash import TileConfig
from tensordash.extras import require

from .console import (
    FiniteRange,
    WholeRange,
    check_drop_steps,
    chosen_config,
    explicit_parameters,
    is_writable,
    json_option,
    preset_options,
    print_json,
    progress,
    progress_bar,
    results_option,
    split_inputs,
    unknown_name,
    warn_if_interpreted,
    writable,
    writable_folder,
)
from .simulation_results import Result, format_ratio, print_results, print_uncaptured, results_document, write_csv

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tensordash_sim.cycles import Counts

__all__ = ["command"]

TRACE_OPTIONS = ("chip", "side", "join_samples", "layers", "operations", "csv_file", "output")
RANDOM_OPTIONS = ("steps", "length", "seed", "cluster")
MAX_HELD_STEPS = 1 << 27
"""Steps of all row ports that --random holds in memory."""


@click.command("simulate")
@click.argument("inputs", metavar="[CONFIG.toml] [RUN.trace]", nargs=-1, type=Path)
@preset_options
@click.option(
    "--chip",
    metavar="CHIP.toml",
    type=Path,
    help="The chip around the tiles (default: the paper's Table III, which\n    `tensordash presets --chip` prints).",
)
@click.option(
    "--side",
    default="sparser",
    show_default=True,
    help="The operand on the row side, whose zeros are skipped: sparser, left, right, or faster (both are tried).",
)
@click.option(
    "--join-samples",
    default="never",
    show_default=True,
    help="Reduce AxG of a convolution over all samples in one stream: never, always, or faster (both are tried).",
)
@click.option(
    "--row-order", default="natural", show_default=True, help="natural, or density: similar rows share a tile."
)
@click.option(
    "--drop-steps",
    is_flag=True,
    help="Also count a tile that drops steps which are empty in all rows, as in a core with core.drop_steps.",
)
@click.option("--layer", "layers", metavar="NAME", multiple=True, help="Only this layer; may be repeated.")
@click.option("--op", "operations", metavar="OP", multiple=True, help="Only AxW, WxG or AxG; may be repeated.")
@click.option("--csv", "csv_file", metavar="FILE.csv", type=Path, help="Also write the table to this file.")
@results_option("Folder of results; an interrupted run continues there.")
@click.option(
    "--stream",
    metavar="MASK.npy",
    type=Path,
    help="Instead of a trace: the row side of one stream, true where values are not zero.",
)
@click.option("--stream-a", metavar="MASK.npy", type=Path, help='Column side, needed with tile.sparsity = "both".')
@click.option("--random", "zeros", metavar="SHARE", type=FiniteRange(0, 1), help="Instead of a trace: random zeros.")
@click.option(
    "--steps", type=WholeRange(min=1), default=1_000_000, show_default=True, help="With --random: steps to draw."
)
@click.option("--length", type=WholeRange(min=1), help="With --random: steps of a stream (default: all in one).")
@click.option("--seed", type=WholeRange(min=0), default=0, show_default=True, help="With --random: seed of the zeros.")
@click.option(
    "--cluster",
    default="none",
    show_default=True,
    help="With --random: density of zeros: equal everywhere (none), or different by rows or time.",
)
@click.option("--threads", type=WholeRange(min=1), help="Threads (default: one per core).")
@json_option
@click.pass_context
def command(
    context: click.Context,
    inputs: tuple[Path, ...],
    preset: str | None,
    settings: tuple[str, ...],
    threads: int | None,
    **arguments: Any,
) -> None:
    """Count cycles exactly, next to the dense baseline.

    RUN.trace: every layer and operation on the chip. `speedup` is the speedup of tiles that do not wait for each other;
    `shared` is the speedup of tiles that share reads. `with memory` is the chip's speedup: the slowest of tiles, DRAM,
    banks and transposers (`limit`) determines the cycles of an operation. `row side` is the operand whose zeros are
    skipped. For several steps, sums of each layer follow. Operations that the trace did not capture are listed.
    DIR/simulate stores finished operations, if it can be written, so an interrupted run continues.

    --stream and --stream-a take arrays of bool for one tile, (rows, T, lanes) and (columns, T, lanes).

    --random draws streams for one tile.

    With --drop-steps, `drop steps` is the speedup of tiles that drop steps which are empty in all rows and do not wait
    for each other. The other columns are for tiles that drop no steps.
    """
    config_file, trace = split_inputs(inputs, "[CONFIG.toml] [RUN.trace]")
    config = chosen_config(config_file, preset, settings)
    options = {str(option.name): option for option in explicit_parameters(context)}
    sources = {"RUN.trace": trace, "--stream": arguments["stream"], "--random": arguments["zeros"]}
    chosen = [name for name, value in sources.items() if value is not None]
    if len(chosen) != 1:
        raise click.UsageError(f"give one of RUN.trace, --stream and --random, not {' and '.join(chosen) or 'none'}")
    allowed = {"RUN.trace": (*TRACE_OPTIONS, "row_order"), "--stream": ("stream_a",)}
    allowed["--random"] = (*RANDOM_OPTIONS, "row_order")
    for name in sorted({*TRACE_OPTIONS, *RANDOM_OPTIONS, "row_order", "stream_a"} & options.keys()):
        if name not in allowed[chosen[0]]:
            raise click.UsageError(f"{options[name].opts[-1]} does not go with {chosen[0]}")
    _choice("--row-order", arguments["row_order"], ("natural", "density"))
    if arguments["drop_steps"]:
        check_drop_steps(config)
    _set_threads(threads)
    if trace is not None:
        _trace(config, trace, arguments, has_output="output" in options)
    elif arguments["stream"] is not None:
        _stream(config, arguments)
    else:
        _random(config, arguments)


def _choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise click.UsageError(f"{option} must be one of {', '.join(allowed)}, not {value!r}")


def _set_threads(threads: int | None) -> None:
    if threads is None:
        return
    require("--threads", "numba")
    import numba
    from numba import config

    cores = config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]  # Numba sets it at run time.
    if threads > cores:
        raise click.UsageError(f"--threads must be from 1 to {cores}, the number of cores, not {threads}")
    numba.set_num_threads(threads)


def _trace(config: TileConfig, path: Path, arguments: dict[str, Any], has_output: bool) -> None:
    require("simulate RUN.trace", "zarr")
    from tensordash_sim.lowering import Operation
    from tensordash_sim.performance.chip import JOINS, SIDES, ChipConfig, Machine, Results
    from tensordash_sim.trace import Trace

    _choice("--side", arguments["side"], SIDES)
    _choice("--join-samples", arguments["join_samples"], JOINS)
    for operation in arguments["operations"]:
        _choice("--op", operation, tuple(Operation))
    chip = ChipConfig.load(arguments["chip"]) if arguments["chip"] is not None else ChipConfig()
    if arguments["csv_file"] is not None:
        writable(arguments["csv_file"], "--csv")
    if has_output:
        writable_folder(arguments["output"], "--output")
    options = {name: arguments[name] for name in ("side", "row_order", "join_samples", "drop_steps")}
    warn_if_interpreted()
    machine = Machine(config, chip, **options)
    trace = Trace.open(path)
    records = list(trace.records)
    known = dict.fromkeys(record.layer for record in records)
    for layer in arguments["layers"]:
        if layer not in known:
            raise unknown_name("--layer", repr(layer), known, path)
    chosen = [
        record
        for record in records
        if record.layer in (arguments["layers"] or known) and record.operation in (arguments["operations"] or Operation)
    ]
    if not chosen:
        raise click.UsageError(f"{path} has no operation to simulate")
    # Another order is shown next to the natural one, which is the paper's.
    machines = dict.fromkeys([replace(machine, row_order="natural"), machine])
    runs: list[list[Result]] = []
    with _output_folder(arguments["output"], has_output) as folder, progress_bar() as bar:
        task = bar.add_task("simulating", total=len(chosen) * len(machines))
        for each in machines:
            runs.append([])
            for record, result in Results(folder, trace, each).run(chosen):
                runs[-1].append((record, result))
                bar.update(task, advance=1, description=f"{record.layer} {record.operation}")
    natural, results = runs[0], runs[-1]
    if arguments["csv_file"] is not None:
        write_csv(arguments["csv_file"], results)
    if arguments["as_json"]:
        print_json(results_document(trace, machine, results, natural))
    else:
        print_results(results, natural, machine)
        print_uncaptured(trace)


@contextmanager
def _output_folder(output: Path, is_required: bool) -> Iterator[Path]:
    """Yield the folder of results; a temporary one if the default folder cannot be written."""
    if is_required or is_writable(output):
        yield output / "simulate"
        return
    progress.print(f"{output} cannot be written: results are not stored (-o DIR)", markup=False)
    with TemporaryDirectory(prefix="tensordash-") as scratch:
        yield Path(scratch)


def _stream(config: TileConfig, arguments: dict[str, Any]) -> None:
    from tensordash_sim.cycles import count

    stream = _mask("--stream", arguments["stream"])
    both = config.sparsity == "both"
    if both != (arguments["stream_a"] is not None):
        verb = "needs" if both else "takes no"
        raise click.UsageError(f'tile.sparsity = "{config.sparsity}" {verb} --stream-a')
    sides = [_mask("--stream-a", arguments["stream_a"])] if both else None
    warn_if_interpreted()
    began = time.perf_counter()
    try:
        counts = count([stream], config, a=sides)
        dropped = count([stream], config, drop_steps=True) if arguments["drop_steps"] else None
    except ValueError as error:
        name, _, rest = str(error).partition(" ")
        options = {"streams[0]": f"--stream {arguments['stream']}", "a[0]": f"--stream-a {arguments['stream_a']}"}
        raise click.UsageError(f"{options.get(name, name)} {rest}") from None
    source = {"stream": str(arguments["stream"])}
    _print_counts(config, counts, dropped, began, source, arguments["as_json"])


def _mask(option: str, path: Path) -> "NDArray[np.bool_]":
    import numpy as np

    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
    except OSError as error:
        raise click.UsageError(f"{option} cannot read {path}: {error.strerror}") from None
    except (ValueError, EOFError, MemoryError, BadZipFile) as error:
        raise click.UsageError(f"{option} must be a .npy file with an array of bool: {path}: {error}") from None
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise click.UsageError(f"{option} must be a .npy file with one array, not {path}")
    return loaded


def _random(config: TileConfig, arguments: dict[str, Any]) -> None:
    from tensordash_sim.cycles import CLUSTERS, random_counts

    _choice("--cluster", arguments["cluster"], CLUSTERS)
    steps, length = arguments["steps"], arguments["length"] or arguments["steps"]
    if steps % length:
        raise click.UsageError(f"--length must divide --steps = {steps}, not {length}")
    ports = config.rows + (config.columns if config.sparsity == "both" else 0)
    if ports * steps > MAX_HELD_STEPS:
        raise click.UsageError(f"--steps must be at most {MAX_HELD_STEPS // ports} for this tile, not {steps}")
    drawn = {name: arguments[name] for name in ("zeros", "seed", "cluster", "row_order")} | {"length": length}
    warn_if_interpreted()
    began = time.perf_counter()
    counts = random_counts(config, steps=steps, **drawn)
    dropped = random_counts(config, steps=steps, drop_steps=True, **drawn) if arguments["drop_steps"] else None
    _print_counts(config, counts, dropped, began, drawn, arguments["as_json"])


def _print_counts(
    config: TileConfig,
    counts: "Counts",
    dropped: "Counts | None",
    began: float,
    source: dict[str, Any],
    as_json: bool,
) -> None:
    document = source | counts.to_json(config)
    if dropped is not None:
        document |= {"dropped": dropped.cycles, "dropped_speedup": dropped.speedup}
    if as_json:
        seconds = time.perf_counter() - began
        speed = {"seconds": seconds, "row_steps_per_second": counts.steps * config.rows / seconds}
        print_json(document | {"dense_cycles": counts.steps} | speed)
        return
    click.echo(
        f"{counts.steps:,} steps in {counts.cycles:,} cycles: {format_ratio(counts.speedup, 3)} "
        f"(ideal {format_ratio(document['ideal_speedup'], 3)}); "
        f"{counts.stall_output:,} output stalls; rows waited {', '.join(f'{wait:,}' for wait in counts.row_wait)} steps"
    )
    if dropped is not None:
        click.echo(f"with empty steps dropped: {dropped.cycles:,} cycles, {format_ratio(dropped.speedup, 3)}")
