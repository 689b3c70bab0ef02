"""`tensordash train`: train a network on a core, emulated or in Verilog, next to plain PyTorch."""

import fnmatch
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.extras import require

from .console import (
    CheckError,
    WholeRange,
    any_config_options,
    json_option,
    print_json,
    progress_bar,
    writable_folder,
)

if TYPE_CHECKING:
    from tensordash_runtime import Device, Run
    from tensordash_runtime.tasks import Task
    from tensordash_runtime.training import Step, Trainer

__all__ = ["command"]

MODELS = ("digits", "mlp", "gpt", "lstm")
BACKENDS = ("emulator", "golden", "verilator")
ROUNDINGS = ("nearest", "zero", "stochastic")
REFERENCES = ("float32", "autocast")
RECIPES = ("nvfp4",)
WIDTH = 100
"""Characters of the table."""


@click.command("train")
@any_config_options
@click.option("--model", type=click.Choice(MODELS), default="digits", show_default=True, help="Network to train.")
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="emulator",
    show_default=True,
    help="Backend that computes the products.",
)
@click.option("--steps", metavar="N", type=WholeRange(min=1), help="Train N steps.")
@click.option("--epochs", metavar="N", type=WholeRange(min=1), help="Train N epochs (default: one).")
@click.option("--batch", metavar="N", type=WholeRange(min=1), help="Samples in a step (default: 16; gpt: 4; lstm: 8).")
@click.option(
    "--seed",
    type=WholeRange(min=0, max=2**32 - 1),
    default=0,
    show_default=True,
    help="Seed of weights, order of samples and rounding.",
)
@click.option(
    "--rounding",
    type=click.Choice(ROUNDINGS),
    show_default="nearest; with --recipe stochastic",
    help="Rounding of results in the operands' format, or of gradients with scales; stochastic uses --seed.",
)
@click.option(
    "--reference",
    type=click.Choice(REFERENCES),
    default=REFERENCES[0],
    show_default=True,
    help="Precision of plain PyTorch: float32, or autocast to the core's fp16 or bf16.",
)
@click.option(
    "--recipe",
    type=click.Choice(RECIPES),
    help="NVFP4's training recipe: 16x16 blocks of weights, a Hadamard transform, layers in bf16, stochastic rounding. "
    "On a core with core.nvfp4, operands are NVFP4 in memory.",
)
@click.option(
    "--bf16-layers",
    metavar="PATTERN",
    multiple=True,
    help="With --recipe: names of layers in bf16, on a core in its format (default: attention and the last layers).",
)
@click.option(
    "--compare",
    type=click.Choice(BACKENDS[1:]),
    help="Run every product on this backend, too; stop where a bit differs.",
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=Path,
    help="Folder of checkpoints, run.json and report.html; an existing run continues.",
)
@json_option
def command(config: TileConfig | CoreConfig, as_json: bool, **options: Any) -> None:
    """Train a network with all of its products on a core, and again in plain PyTorch to compare.

    An fp16 core trains in fp16 with loss scaling and FP32 master weights, a bf16 core in bf16. The command prints loss
    and accuracy of both, cycles, the speedup over the dense core, and zeros. Exit status 1 if --compare finds a
    difference.
    """
    if options["steps"] is not None and options["epochs"] is not None:
        raise click.UsageError("--steps and --epochs exclude each other")
    if options["bf16_layers"] and options["recipe"] is None:
        raise click.UsageError("--bf16-layers needs --recipe")
    if options["compare"] == options["backend"]:
        raise click.UsageError(f"--compare must differ from --backend, not be {options['compare']} as well")
    if isinstance(config, TileConfig):
        for option in ("backend", "compare"):
            if options[option] not in (None, "emulator"):
                raise click.UsageError(
                    f"--{option} must be emulator for a tile, which executes no programs, not {options[option]}: "
                    "choose a core (--preset core)"
                )
    if options["output"] is not None:
        writable_folder(options["output"], "--output")
    trainer, run = _train(config, **options)
    document = _document(trainer, run)
    if options["output"] is not None:
        _write(options["output"], trainer, run, document)
    if as_json:
        print_json(document)
    else:
        _print(trainer, run)


def _train(
    config: TileConfig | CoreConfig,
    *,
    model: str,
    backend: str,
    steps: int | None,
    epochs: int | None,
    batch: int | None,
    seed: int,
    rounding: str | None,
    reference: str,
    recipe: str | None,
    bf16_layers: tuple[str, ...],
    compare: str | None,
    output: Path | None,
) -> "tuple[Trainer, Run]":
    from contextlib import ExitStack

    from tensordash_runtime import Recipe
    from tensordash_runtime.compare import DifferenceError, comparison
    from tensordash_runtime.recipe import default_rounding
    from tensordash_runtime.tasks import load_task
    from tensordash_runtime.training import Trainer

    try:
        task = load_task(model, seed, batch)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    layers = _bf16_layers(task, bf16_layers) if recipe else ()
    chosen = Recipe(bf16_layers=layers, seed=seed) if recipe else None
    rounding = rounding or default_rounding(chosen)
    settings = {"model": model, "seed": seed, "batch": batch, "rounding": rounding, "reference": reference}
    settings |= {"configuration": config.digest, "recipe": recipe, "bf16_layers": layers or None}
    numerics = {"rounding": rounding, "rounding_seed": seed, "recipe": chosen}
    with ExitStack() as stack:
        device = stack.enter_context(_device(config, backend, **numerics))
        other = None if compare is None else stack.enter_context(_device(config, compare, **numerics))
        watcher = None if other is None else comparison(other)
        try:
            trainer = Trainer(task, device, settings=settings, folder=output, watcher=watcher, reference=reference)
        except ValueError as error:
            raise click.UsageError(f"--{error}") from error
        trainer.resume()
        total = steps if steps is not None else (epochs or 1) * task.steps_per_epoch
        bar = stack.enter_context(progress_bar())
        line = bar.add_task(f"training {model}", total=total, completed=len(trainer.history))

        def show_progress(step: "Step") -> None:
            bar.update(line, advance=1, description=f"training {model}, loss {step.loss:.3f}")

        try:
            run = trainer.train(total, show_progress)
        except DifferenceError as error:
            raise CheckError(f"step {len(trainer.history)}, {backend} and {compare}: {error}") from None
        except KeyboardInterrupt:
            trainer.save()
            raise
    return trainer, run


def _bf16_layers(task: "Task", patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the user's patterns of bf16 layers, or the task's. Products without weights have a "/" in their names."""
    names = [path.removesuffix(".weight") for path, weight in task.model.named_parameters() if weight.ndim > 1]
    for pattern in patterns:
        if "/" not in pattern and not fnmatch.filter(names, pattern):
            raise click.UsageError(f"--bf16-layers must match a layer ({', '.join(names)}), not {pattern!r}")
    return patterns or task.bf16_layers


def _device(config: TileConfig | CoreConfig, backend: str, **numerics: Any) -> "Device":
    if backend == "verilator":
        require("--backend verilator", "cocotb", "verilator")
    from tensordash_runtime import Device

    try:
        return Device(config, backend, **numerics)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _document(trainer: "Trainer", run: "Run") -> dict[str, Any]:
    every = trainer.history
    cycles, dense, tile, dense_tile = _cycles(every)
    return {
        "model": trainer.task.name,
        "data": trainer.task.data,
        "backend": run.device.backend,
        "reference": trainer.reference,
        "steps": len(every),
        "cycles": cycles,
        "dense_cycles": dense,
        "speedup": round(dense / cycles, 4),
        "tile_speedup": round(dense_tile / tile, 4),
        "accuracy": trainer.accuracies[-1][1],
        "plain_accuracy": trainer.accuracies[-1][2],
        "accuracies": trainer.accuracies,
        "history": [asdict(step) for step in every],
    }


def _cycles(steps: "Sequence[Step]") -> list[int]:
    """Return the cycles of the core, the dense core and their tiles, summed over steps."""
    names = ("cycles", "dense_cycles", "tile_cycles", "dense_tile_cycles")
    return [sum(getattr(step, name) for step in steps) for name in names]


def _write(folder: Path, trainer: "Trainer", run: "Run", document: dict[str, Any]) -> None:
    import json

    from tensordash_storage.files import atomic_write

    atomic_write(folder / "run.json", json.dumps(document | {"run": run.to_json()}, indent=1) + "\n")
    plain = f"PyTorch, {trainer.reference}"
    losses = {"device": [s.loss for s in trainer.history], plain: [s.plain_loss for s in trainer.history]}
    run.page(folder / "report.html", curves={"loss": losses})


def _print(trainer: "Trainer", run: "Run") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{trainer.task.name}, {trainer.task.data}", title_justify="left")
    for name in ("steps", "loss", "PyTorch's", "accuracy", "PyTorch's", "cycles", "speedup", "tile's", "zeros"):
        table.add_column(name, justify="right")
    before = 0
    for after, accuracy, plain in trainer.accuracies:
        steps = trainer.history[before:after]
        if not steps:
            continue
        loss, plain_loss, zeros = (
            sum(getattr(step, name) for step in steps) / len(steps) for name in ("loss", "plain_loss", "zeros")
        )
        cycles, dense, tile, dense_tile = _cycles(steps)
        numbers = f"{loss:.4f}", f"{plain_loss:.4f}", f"{accuracy:.1%}", f"{plain:.1%}", f"{cycles:,}"
        table.add_row(
            f"{before}-{after - 1}", *numbers, f"{dense / cycles:.2f}", f"{dense_tile / tile:.2f}", f"{zeros:.1%}"
        )
        before = after
    Console(highlight=False, width=WIDTH).print(table)
    if run.contractions:
        click.echo(str(run))
