"""`tensordash soc`: a system of a core, a processor, memory, UART and timer, with firmware and a Makefile."""

from pathlib import Path

import click

from tensordash import TensorDashError
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.memory_map import PROGRAM_BASE
from tensordash.emission.soc_files import MAX_MEMORY_BYTES, MIN_MEMORY_BYTES, render_soc, require_memory_bytes
from tensordash_storage.files import write_files

from .console import WholeRange, core_options, json_option, own_folder, own_folder_option, print_json

__all__ = ["command"]

MARKER = ("soc.core", "tensordash_core")
"""A file that only this command writes, and a text in it."""
OPTIONAL = ("program/host.c", "program/steps.h", "program/steps.c")
"""Files that the Makefile compiles if they exist."""
MEMORY_BYTES = 1 << 20
EXAMPLE_SAMPLES = 8
EXAMPLE_CHANNELS = 16
EXAMPLE_FILTERS = 8


@click.command("soc")
@core_options
@own_folder_option
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
    own_folder(output, "--output", "soc", MARKER)
    sources = _example(config) if program is None else _sources(program, config, memory_bytes, steps, batches)
    files = render_soc(config, memory_bytes, sources)
    files["picorv32.v"] = Path(data_file("picorv32.v")).read_text(encoding="utf-8")
    makefile = files.pop("Makefile")
    # The marker is first and the Makefile last: `make` refuses a part of the files, and this command replaces them.
    paths = write_files(output, {MARKER[0]: "", **files, "Makefile": makefile}, optional=OPTIONAL)
    if as_json:
        print_json({"digest": config.digest, "files": [str(path) for path in paths]})
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


def _sources(
    program: Path, config: CoreConfig, memory_bytes: int, steps: int | None, batches: Path | None
) -> dict[str, str]:
    """Return the C files of a program folder for this core: calls, inputs of each batch, and checksums of each step."""
    from tensordash_runtime.program_folder.steps import compute_checksums, read_batches, render_steps, step_bytes
    from tensordash_runtime.program_folder.storage import load_folder, read_files

    try:
        folder, contents = load_folder(program, config), read_files(program)
    except TensorDashError as error:
        raise TensorDashError(f"--program: {error}") from None
    files = {name: data.decode() for name, data in contents.items() if name.endswith((".c", ".h"))}
    inputs = [] if batches is None else read_batches(folder, batches)
    count = steps or len(inputs)
    used = inputs[:count]
    base, size = folder.memory_map.base, folder.memory_map.size
    if base < PROGRAM_BASE:
        raise TensorDashError(
            f"{program}: memory.base must be at least {PROGRAM_BASE:#x}, not {base:#x}: compile it with another --base"
        )
    end = base + size + step_bytes(folder, count, used)
    if end > memory_bytes:
        fitting = 1 << (end - 1).bit_length()
        ending = f"{program}{f' with checksums and inputs of {count} steps' if count else ''} ends at {end:#x}"
        raise TensorDashError(
            f"--memory-bytes must be at least {fitting}, not {memory_bytes}: {ending}"
            if fitting <= MAX_MEMORY_BYTES
            else f"{ending}, but --memory-bytes is at most {MAX_MEMORY_BYTES}"
        )
    return files | (render_steps(folder, compute_checksums(folder, count, used), used) if count else {})
