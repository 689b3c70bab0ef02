"""`tensordash soc`: a system of a core, a processor, memory, UART and timer, with firmware and a Makefile."""

from pathlib import Path

import click

from tensordash import TensorDashError
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.memory_map import PROGRAM_BASE
from tensordash.emission.soc_files import MAX_MEMORY_BYTES, MIN_MEMORY_BYTES, render_soc, require_memory_bytes
from tensordash_storage.files import atomic_write

from .console import WholeRange, core_options, json_option, new_folder_option, print_json, writable_folder

__all__ = ["command"]

MEMORY_BYTES = 1 << 20
EXAMPLE_SAMPLES = 8
EXAMPLE_CHANNELS = 16
EXAMPLE_FILTERS = 8


@click.command("soc")
@core_options
@new_folder_option
@click.option(
    "--program",
    metavar="FOLDER",
    type=Path,
    help="A program folder of `tensordash compile` to execute. Default: a matrix product.",
)
@click.option(
    "--memory-bytes",
    type=WholeRange(min=MIN_MEMORY_BYTES, max=MAX_MEMORY_BYTES),
    default=MEMORY_BYTES,
    show_default=True,
    help="Size of the memory: a power of two.",
)
@click.option(
    "--steps",
    type=WholeRange(min=1),
    help="Steps of --program to run and to compare with the emulator (default: one, or one for each batch).",
)
@click.option(
    "--batches",
    metavar="FILE",
    type=Path,
    help="Archive of numpy.savez with the inputs of --program, (batches, *shape): a batch for each step, in turn "
    "(default: the folder's inputs in all steps).",
)
@json_option
def command(
    config: CoreConfig,
    output: Path,
    program: Path | None,
    memory_bytes: int,
    steps: int | None,
    batches: Path | None,
    as_json: bool,
) -> None:
    """Write a system of a core, the processor PicoRV32, memory, UART and timer, with firmware that uses the C driver.

    In the folder, `make run` builds both and runs them in Verilator, and `make run-icarus` in Icarus.
    """
    from pythondata_cpu_picorv32 import data_file

    if program is None and (steps is not None or batches is not None):
        raise click.UsageError(f"--{'batches' if steps is None else 'steps'} goes with --program")
    require_memory_bytes(memory_bytes)
    writable_folder(output, "--output")
    sources = _example(config) if program is None else _sources(program, config, memory_bytes)
    if program is not None and (steps is not None or batches is not None):
        sources |= _steps(program, config, steps, batches, memory_bytes)
    files = render_soc(config, memory_bytes, sources)
    files["picorv32.v"] = Path(data_file("picorv32.v")).read_text(encoding="utf-8")
    # The Makefile compiles these files if they exist, so delete the files of an earlier program.
    for name in {"program/host.c", "program/steps.h", "program/steps.c"} - files.keys():
        (output / name).unlink(missing_ok=True)
    for name, text in files.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        atomic_write(output / name, text)
    if as_json:
        print_json({"digest": config.digest, "files": [str(output / name) for name in files]})
    else:
        click.echo(f"{output}: a system with the core {config.digest}. Next: make -C {output} run")


def _example(config: CoreConfig) -> dict[str, str]:
    """Return the C files of a matrix product."""
    from tensordash_runtime.program_folder.c_source import render_c
    from tensordash_runtime.program_folder.folder import build_folder
    from tensordash_runtime.program_folder.single import plan_operation
    from tensordash_sim.lowering import MatrixProduct

    product = MatrixProduct(
        batch=1, samples=EXAMPLE_SAMPLES, in_features=EXAMPLE_CHANNELS, out_features=EXAMPLE_FILTERS
    )
    plan, values = plan_operation(config, product, "AxW")
    return render_c(build_folder(plan, values, base=PROGRAM_BASE))


def _sources(folder: Path, config: CoreConfig, memory_bytes: int) -> dict[str, str]:
    """Return the C files of a program folder that was compiled for this core and fits its memory."""
    from tensordash_runtime.errors import ProgramFolderError
    from tensordash_runtime.program_folder.storage import read_manifest

    try:
        manifest = read_manifest(folder)
    except ProgramFolderError as error:
        raise TensorDashError(f"--program: {error}") from None
    try:
        digest, base, size = manifest["configuration"]["digest"], manifest["memory"]["base"], manifest["memory"]["size"]
        end = base + size
    except (KeyError, TypeError) as error:
        raise TensorDashError(f"{folder}/manifest.json: not the manifest of a program folder: {error!r}") from None
    if digest != config.digest:
        raise TensorDashError(
            f"{folder}: compiled for the configuration {digest}, but the core is {config.digest}: "
            f"choose the core of {folder}/config.toml, or compile the folder for this core"
        )
    if base < PROGRAM_BASE or end > memory_bytes:
        raise TensorDashError(
            f"{folder}: memory.base must be at least {PROGRAM_BASE:#x}, and the end {end:#x} "
            f"at most --memory-bytes {memory_bytes}, not {base:#x}"
        )
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.[ch]"))}


def _steps(
    program: Path, config: CoreConfig, steps: int | None, batches: Path | None, memory_bytes: int
) -> dict[str, str]:
    """Return the C files of steps: the inputs of each batch, and the checksums after each step."""
    from tensordash_runtime.program_folder.steps import compute_checksums, read_batches, render_steps, step_bytes
    from tensordash_runtime.program_folder.storage import load_folder

    folder = load_folder(program, config)
    inputs = [] if batches is None else read_batches(folder, batches)
    count = len(inputs) if steps is None else steps
    used = inputs[:count]
    end = folder.memory_map.base + folder.memory_map.size + step_bytes(folder, count, used)
    if end > memory_bytes:
        raise TensorDashError(
            f"{program}: checksums and inputs of {count} steps end at {end:#x}, and --memory-bytes is {memory_bytes}: "
            "choose fewer steps or more memory"
        )
    return render_steps(folder, compute_checksums(folder, count, used), used)
