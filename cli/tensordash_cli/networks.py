"""Built-in networks for `tensordash trace`: their list, training, and zeros next to the paper's."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensordash import TensorDashError

from .console import CheckError, print_json, progress, progress_bar

if TYPE_CHECKING:
    from tensordash_sim.trace import Trace

__all__ = ["document", "print_zeros", "show", "train"]


def show(as_json: bool) -> None:
    """Print the list of built-in networks."""
    from tensordash_sim.networks import NAMES, describe

    networks = {name: vars(describe(name)) for name in NAMES}
    if as_json:
        print_json(networks)
        return
    width = max(map(len, networks))
    for name, about in networks.items():
        click.echo(f"{name:{width}}  {about['title']}")
        click.echo(f"{'':{width}}  data: {about['data']}")


def train(
    path: Path,
    name: str,
    *,
    scale: str,
    seed: int,
    after: int,
    steps: int,
    every: int,
    settings: tuple[str, ...],
    **options: Any,
) -> None:
    """Train a network and record some of its steps."""
    from tensordash_sim.networks import load
    from tensordash_sim.trace import record

    try:
        with progress.status(f"building {name}"):
            run = load(name, scale, seed, **dict(map(_setting, settings)))
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    chosen = range(after, after + (steps - 1) * every + 1, every)
    recorder = record(path, model=run.model, steps=chosen, conditions=run.conditions, **options)
    try:
        bar = progress_bar()
        with warnings.catch_warnings(), bar, recorder:
            warnings.filterwarnings("ignore", ".*nothing was recorded")  # The command raises an error instead.
            task = bar.add_task(f"training {name}", total=chosen[-1] + 1)
            for _ in range(chosen[-1] + 1):
                loss = run.step()
                bar.update(task, advance=1, description=f"training {name}, loss {loss:.3f}")
    except KeyboardInterrupt:
        if recorder.recorded:
            progress.print(f"{path} holds {recorder.recorded} of {steps} steps", markup=False)
        raise
    if not recorder.recorded:
        raise CheckError(f"nothing was recorded: {recorder.shortage}")


def _setting(text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE, where VALUE is a number, true, false or a string."""
    key, equals, value = text.partition("=")
    if not equals:
        raise TensorDashError(f"--set must be KEY=VALUE, not {text!r}")
    for kind in (int, float):
        try:
            return key, kind(value)
        except ValueError:
            continue
    return key, {"true": True, "false": False}.get(value, value)


def document(trace: "Trace", name: str) -> dict[str, Any]:
    """Return a network's recording conditions, and its zeros next to the paper's."""
    from tensordash_sim.networks import describe
    from tensordash_sim.networks.zeros import zeros_beside_the_papers

    zeros = [
        {
            "tensor": each.claim.tensor,
            "layers": each.claim.what,
            "zeros": each.share,
            "paper": each.claim.paper,
            "word": each.claim.word,
        }
        for each in zeros_beside_the_papers(trace, name)
    ]
    return {"conditions": dict(trace.conditions), "zeros": zeros, "paper_speedup": describe(name).paper_speedup}


def print_zeros(document: dict[str, Any]) -> None:
    """Print the table of `document`."""
    about = document["conditions"]
    click.echo(f"{about['model']}, scale {about['scale']}, seed {about['seed']}; data: {about['data']}\n")
    lines = [("zeros", "in", "here", "paper", "")]
    for row in document["zeros"]:
        here = "-" if row["zeros"] is None else f"{row['zeros']:.1%}"
        lines.append((row["tensor"], row["layers"], here, row["paper"], row["word"]))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for tensor, layers, here, paper, word in lines:
        line = f"{tensor:{widths[0]}}  {layers:{widths[1]}}  {here:>{widths[2]}}  {paper:{widths[3]}}  {word}"
        click.echo(line.rstrip())
    click.echo(f"\npotential speedup in the paper: {document['paper_speedup']}; here: `ideal` of tensordash simulate")
