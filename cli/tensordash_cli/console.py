"""What every subcommand shares: choosing a configuration, talking to the user, failing in one line."""

import functools
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from tensordash import TileConfig, load_preset
from tensordash.preset import preset_names

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = [
    "CheckError",
    "FiniteRange",
    "chosen_config",
    "config_options",
    "json_option",
    "preset_options",
    "print_json",
    "progress",
    "progress_bar",
    "writable",
]

progress = Console(stderr=True, highlight=False, soft_wrap=True)
"""Messages and progress; stdout is for results."""


def progress_bar() -> "Progress":
    """A bar with the time that is left, gone when it is done; nothing where messages go to a file."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    return Progress(*columns, console=progress, transient=True, disable=not progress.is_terminal)


class CheckError(Exception):
    """Everything ran, and something is not as it must be: exit status 1."""


def preset_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --preset and --set."""
    preset = f"Instead of CONFIG: {', '.join(preset_names())} (default: paper)."
    for option in (
        click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="On top, for instance tile.rows=8."),
        click.option("--preset", metavar="NAME", help=preset),
    ):
        command = option(command)
    return command


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add CONFIG, --preset and --set to a command, which gets `config: TileConfig`."""

    @click.argument("config_file", metavar="[CONFIG.toml]", required=False, type=Path)
    @preset_options
    @functools.wraps(command)
    def wrapper(config_file: Path | None, preset: str | None, settings: tuple[str, ...], **arguments: Any) -> Any:
        return command(config=chosen_config(config_file, preset, settings), **arguments)

    return wrapper


def chosen_config(config_file: Path | None, preset: str | None, settings: tuple[str, ...]) -> TileConfig:
    """The configuration that CONFIG, --preset and --set name."""
    if config_file is not None and preset is not None:
        raise click.UsageError(f"CONFIG and --preset exclude each other: {config_file} and {preset}")
    if config_file is not None:
        return TileConfig.load(config_file, settings)
    return load_preset(preset if preset is not None else "paper", settings)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json to a command, which gets `as_json: bool`."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, nothing else there.")(
        command
    )


def print_json(document: Any) -> None:
    """The result, as JSON on stdout."""
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


class FiniteRange(click.FloatRange):
    """A range of numbers that NaN is not in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or a usage error."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


def writable(path: Path, option: str) -> Path:
    """A file that can be written later, checked before the long work begins."""
    if path.is_dir():
        raise click.UsageError(f"{option} must be a file, not the folder {path}")
    if not path.parent.is_dir():
        raise click.UsageError(f"{option} must be in a folder that exists, not {path}")
    return path
