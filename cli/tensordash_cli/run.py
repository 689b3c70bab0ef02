"""`tensordash run`: execute a program folder, and compare every tensor with its expected value."""

from pathlib import Path
from typing import Any

import click

from tensordash import TensorDashError
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.extras import require

from .console import CheckError, json_option, preset_options, print_json

__all__ = ["command"]

TIMEOUT_SECONDS = 60.0
"""Time limit of a program with --on mmio."""


@click.command("run")
@click.argument("folder", metavar="DIR", type=Path)
@click.option(
    "--on",
    "executor",
    type=click.Choice(("golden", "emulator", "verilator", "mmio")),
    default="emulator",
    show_default=True,
    help="Backend that executes the programs.",
)
@click.option("--address", help="Core of --on mmio: unix:PATH, tcp:HOST:PORT or uio:REGISTERS,MEMORY,PHYSICAL.")
@lambda command: preset_options(command, ("core",), default="the folder's")
@json_option
def command(
    folder: Path, executor: str, address: str | None, preset: str | None, settings: tuple[str, ...], as_json: bool
) -> None:
    """Execute the program folder DIR once, and compare every tensor in memory with the expected contents.

    Exit status 1 if a value differs. --preset and --set describe the core that must run the folder: exit status 2 if
    the folder was compiled for another core.
    """
    if (executor == "mmio") != (address is not None):
        raise click.UsageError("--on mmio and --address go together")
    if executor == "verilator":
        require("run --on verilator", "cocotb", "verilator")
    from tensordash_runtime.program_folder.folder import run_folder
    from tensordash_runtime.program_folder.storage import load_folder

    loaded = load_folder(folder, _core(preset, settings))
    try:
        cycles, difference = run_folder(loaded, executor, **_options(address))
    except ValueError as error:
        raise TensorDashError(f"--address: {error}") from None
    if difference:
        raise CheckError(f"{folder} on {executor}: {difference}")
    count = len(loaded.plan.tensors)
    measured = [each for each in cycles if each is not None]
    if as_json:
        print_json({"executor": executor, "programs": len(cycles), "tensors": count, "cycles": measured or None})
        return
    shown = f", {sum(measured)} cycles" if measured else ""
    programs = f"{len(cycles)} program{'s' * (len(cycles) != 1)}"
    click.echo(f"{folder} on {executor}: {count} tensors bit-equal after {programs}{shown}")


def _options(address: str | None) -> dict[str, Any]:
    return {} if address is None else {"address": address, "timeout": TIMEOUT_SECONDS}


def _core(preset: str | None, settings: tuple[str, ...]) -> CoreConfig | None:
    """Return the core that must run a folder, if options describe one."""
    if preset is None and not settings:
        return None
    config = load_any_preset(preset or "core", settings)
    if not isinstance(config, CoreConfig):
        raise click.UsageError(f"--preset must be a core's, not the tile {preset}")
    return config
