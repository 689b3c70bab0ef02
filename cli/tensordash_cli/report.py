"""`tensordash report`: results and schedules as one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensordash import TileConfig

from .console import (
    WholeRange,
    chosen_config,
    json_option,
    not_among,
    preset_options,
    print_json,
    progress,
    split_inputs,
    writable,
)

if TYPE_CHECKING:
    from tensordash_sim.report import ScheduleRun

__all__ = ["command"]


@click.command("report")
@click.argument("inputs", metavar="[CONFIG.toml] [DIR]", nargs=-1, type=Path)
@preset_options
@click.option("-o", "--output", metavar="FILE.html", type=Path, required=True, help="The page.")
@click.option("--trace", metavar="RUN.trace", type=Path, help="Schedules of this trace (default: the package's).")
@click.option("--layer", metavar="NAME", help="Layer whose schedules are shown (of the package's trace: CNN.conv2).")
@click.option("--op", "operations", metavar="OP", multiple=True, help="Only AxW, WxG or AxG; may be repeated.")
@click.option("--passes", type=WholeRange(1, 1000), default=8, show_default=True, help="Passes of an operation.")
@click.option("--seed", type=WholeRange(min=0), default=0, show_default=True, help="Which passes.")
@json_option
def command(
    inputs: tuple[Path, ...],
    preset: str | None,
    settings: tuple[str, ...],
    output: Path,
    trace: Path | None,
    layer: str | None,
    operations: tuple[str, ...],
    passes: int,
    seed: int,
    as_json: bool,
) -> None:
    """Write one HTML page that needs no network: results of `tensordash evaluate`, and schedules to step through.

    DIR holds the results; without it, the page has the schedules alone. They are the golden model's, of passes that
    are drawn from a layer of a trace's first step, on the configured tile; and the example of the paper's Fig. 3.
    """
    from tensordash_sim.report import figure_3_run, load_results, write_report

    config_file, folder = split_inputs(inputs, "[CONFIG.toml] [DIR]")
    config = chosen_config(config_file, preset, settings)
    writable(output, "--output")
    results = load_results(folder) if folder is not None else []
    runs = _runs(config, trace, layer, operations, passes, seed)
    title = "TensorDash: evaluation" if results else "TensorDash: schedules"
    with progress.status("writing the page"):
        write_report(results, output, runs=[*runs, figure_3_run()], title=title)
    document: dict[str, Any] = {
        "path": str(output),
        "digest": config.digest,
        "results": [result.name for result in results],
        "schedules": [{"title": run.title, "steps": run.counters.steps, "cycles": run.counters.cycles} for run in runs],
    }
    if as_json:
        print_json(document)
        return
    click.echo(f"{output}: {len(results)} results, {output.stat().st_size / 1e6:.1f} MB")
    for run in runs:
        steps, cycles = run.counters.steps, run.counters.cycles
        click.echo(f"{run.title}: {steps} dense steps in {cycles} cycles ({steps / cycles:.3f}x)")


def _runs(
    config: TileConfig, trace: Path | None, layer: str | None, operations: tuple[str, ...], passes: int, seed: int
) -> list["ScheduleRun"]:
    """Schedules of the chosen layer's operations."""
    from tensordash_sim.lowering import Operation
    from tensordash_sim.report import LAYER, layer_runs
    from tensordash_sim.trace import Trace, example_trace

    for operation in operations:
        if operation not in list(Operation):
            raise click.UsageError(f"--op must be one of {', '.join(Operation)}, not {operation!r}")
    steps = Trace.open(trace if trace is not None else example_trace()).steps
    records = list(steps[0].records) if steps else []
    wanted = LAYER if layer is None and trace is None else layer
    chosen = [one for one in records if one.layer == wanted and (not operations or one.operation in operations)]
    if not chosen:
        places = (f"{one.layer} {one.operation}" for one in records)
        given = " ".join((str(wanted), *operations))
        raise not_among("--layer and --op", given, places, trace or example_trace())
    # A layer that is called repeatedly has a record for each call; the first stands for all.
    first = {one.operation: one for one in reversed(chosen)}
    with progress.status("making schedules"):
        return layer_runs([one for one in chosen if first[one.operation] is one], config, passes=passes, seed=seed)
