"""`tensordash compile`: compile an operation of a layer, or a training step, to a program folder."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensordash import TensorDashError
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.memory_map import PROGRAM_BASE
from tensordash.extras import require

from .console import (
    FiniteRange,
    WholeRange,
    core_options,
    explicit_parameters,
    json_option,
    own_folder,
    own_folder_option,
    print_json,
)
from .layer_options import checked_rows, geometry_of, layer_options

if TYPE_CHECKING:
    from tensordash_runtime.program_folder.folder import ProgramFolder

__all__ = ["command"]

LAYER_OPTIONS = ("samples", "channels", "filters", "size", "kernel", "stride", "padding", "operation", "rows", "zeros")
"""Parameters that only a layer has."""
STEP_OPTIONS = ("batch", "optimizer", "rate", "weight_decay", "momentum", "loss_scale", "dynamic_loss_scale")
"""Parameters that only a training step has."""


class _Address(click.ParamType):
    """A number of bytes, decimal or hexadecimal with the prefix 0x."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or raise a usage error."""
        try:
            number = value if isinstance(value, int) else int(value, 0)
        except ValueError:
            number = -1
        if number < 0:
            self.fail(f"must be an integer of at least 0, not {value!r}", param, ctx)
        return number


@click.command("compile")
@core_options
@partial(layer_options, required=False)
@click.option(
    "--model",
    type=click.Choice(("mlp", "digits")),
    help="Instead of a layer: a training step of this network on handwritten digits.",
)
@click.option("--batch", type=WholeRange(min=1), help="Digits in a step of --model (default: 16).")
@click.option(
    "--optimizer", type=click.Choice(("sgd", "adamw")), default="sgd", show_default=True, help="Optimizer of --model."
)
@click.option("--rate", type=FiniteRange(0, 1), help="Learning rate (default: 0.1 for 16 digits; adamw: 0.001).")
@click.option("--weight-decay", type=FiniteRange(0, 1), help="Weight decay of the optimizer (default: 0; adamw: 0.01).")
@click.option("--momentum", type=FiniteRange(0, 1), help="Momentum of --optimizer sgd (default: 0).")
@click.option("--loss-scale", type=float, help="A power of two that multiplies gradients of --model (default: 1024).")
@click.option(
    "--dynamic-loss-scale",
    is_flag=True,
    help="Halve the loss scale after an overflow; double it after 2000 steps.",
)
@click.option("--zeros", type=FiniteRange(0, 1), default=0.5, show_default=True, help="Share of zeros of operands.")
@click.option(
    "--seed",
    type=WholeRange(min=0),
    default=0,
    show_default=True,
    help="Seed of the operands' values, or of the weights and the batch of --model.",
)
@click.option(
    "--base", type=_Address(), default=PROGRAM_BASE, help=f"First address of the memory (default: {PROGRAM_BASE:#x})."
)
@click.option("--memory-bytes", type=_Address(), help="Size of the memory (default: as small as possible).")
@own_folder_option
@json_option
@click.pass_context
def command(context: click.Context, config: CoreConfig, output: Path, as_json: bool, **options: Any) -> None:
    """Write a program folder: programs, memory map, contents and expected results, as JSON, binary, C and hex.

    The folder has one operation of a layer or, with --model, a training step: forward pass, backward pass and update.

    docs/program-folder.md describes the files. `tensordash run DIR` executes them.
    """
    model = options.pop("model")
    if model is None:
        _refuse_options(context, STEP_OPTIONS, "--model, not with a layer")
    else:
        _refuse_options(context, LAYER_OPTIONS, "a layer, not with --model")
    require(*(("compile", "numba") if model is None else ("compile --model", "numba", "torch", "sklearn")))
    from tensordash_runtime.program_folder.manifest import FORMAT, expected_figures
    from tensordash_runtime.program_folder.storage import MANIFEST, write_folder

    own_folder(output, "--output", "compile", (MANIFEST, FORMAT))
    step = {name: options.pop(name) for name in STEP_OPTIONS}
    try:
        folder = _compile_layer(config, **options) if model is None else _compile_model(config, model, options, **step)
    except (TypeError, ValueError) as error:
        raise TensorDashError(str(error)) from error
    files = write_folder(folder, output)
    expected = expected_figures(folder)
    if as_json:
        print_json({"digest": config.digest, "files": [str(file) for file in files], "expected": expected})
        return
    memory_map = folder.memory_map
    count = len(memory_map.programs)
    counts = f"{count} program{'s' * (count != 1)}, {len(memory_map.tensors)} tensors"
    click.echo(f"{output}: {counts}, {memory_map.size} bytes of memory")
    click.echo(
        f"estimated: {expected['cycles']} cycles, the dense core {expected['dense_cycles']}; "
        f"loads and stores move {expected['moved_bytes']} bytes"
    )


def _refuse_options(context: click.Context, names: tuple[str, ...], owner: str) -> None:
    """Raise a usage error for the first option in `names` that the user has set."""
    for option in explicit_parameters(context):
        if option.name in names:
            raise click.UsageError(f"{option.opts[0]} goes with {owner}")


def _compile_layer(
    config: CoreConfig,
    *,
    base: int,
    memory_bytes: int | None,
    operation: str,
    rows: str | None,
    zeros: float,
    seed: int,
    **shape: Any,
) -> "ProgramFolder":
    """Compile one operation of a layer, with random operands."""
    from tensordash_runtime.program_folder.folder import build_folder
    from tensordash_runtime.program_folder.single import plan_operation

    for name in ("channels", "filters"):
        if shape[name] is None:
            raise click.UsageError(f"Missing option '--{name}' of a layer; a training step needs --model instead")
    rows = checked_rows(operation, rows)
    plan, values = plan_operation(config, geometry_of(**shape), operation, rows=rows, zeros=zeros, seed=seed)
    return build_folder(plan, values, base=base, memory_bytes=memory_bytes)


def _compile_model(config: CoreConfig, model: str, options: dict[str, Any], **step: Any) -> "ProgramFolder":
    """Compile a training step of a built-in network."""
    from tensordash_runtime.program_folder.compiling import compile_task

    if step["optimizer"] != "sgd" and step["momentum"] is not None:
        raise click.UsageError(f"--momentum goes with --optimizer sgd, not with {step['optimizer']}")
    common = {name: options[name] for name in ("seed", "base", "memory_bytes")}
    return compile_task(model, config, **common, **{name: each for name, each in step.items() if each is not None})
