"""Parts that all subcommands share: configuration options, messages, and checks that fail with one line."""

import functools
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tensordash import TileConfig, load_preset
from tensordash.configuration.any_config import load_any_config
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset, preset_names
from tensordash.extras import install_command, require
from tensordash_storage.jobs import Runner, show_progress

__all__ = [
    "CheckError",
    "FiniteRange",
    "WholeRange",
    "any_config_options",
    "check_drop_steps",
    "chosen_config",
    "config_options",
    "core_options",
    "explicit_parameters",
    "is_writable",
    "json_option",
    "new_folder_option",
    "own_folder",
    "own_folder_option",
    "preset_options",
    "print_json",
    "progress",
    "progress_bar",
    "results_option",
    "runner_options",
    "split_inputs",
    "unknown_name",
    "warn_if_interpreted",
    "waves_file",
    "writable",
    "writable_folder",
]

DEFAULT_JOBS = 2
"""Processes at a time, in every command with --jobs."""
MAX_LISTED_NAMES = 8
"""Names that an error message lists."""

progress = Console(stderr=True, highlight=False, soft_wrap=True)
"""Messages and progress; stdout is for results."""


def warn_if_interpreted() -> None:
    """Print a note if Numba is not installed: Python then interprets the loops."""
    from tensordash_sim.jit import IS_COMPILED

    if not IS_COMPILED:
        hint = install_command("simulate")
        progress.print(f"Python interprets all loops, hundreds of times slower than with: {hint}", markup=False)


progress_bar = functools.partial(show_progress, progress)


class CheckError(Exception):
    """A check ran and failed: exit status 1."""


def preset_options(
    command: Callable[..., Any], kinds: tuple[str, ...] = ("tile",), default: str = "paper"
) -> Callable[..., Any]:
    """Add --preset, of tiles or of other kinds, and --set."""
    names = [name for kind in kinds for name in preset_names(kind)]
    preset = f"A named configuration: {', '.join(names)} (default: {default})."
    for option in (
        click.option(
            "--set",
            "settings",
            metavar="KEY=VALUE",
            multiple=True,
            help="Change a key of the configuration, for instance tile.rows=8.",
        ),
        click.option("--preset", metavar="NAME", help=preset),
    ):
        command = option(command)
    return command


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add CONFIG, --preset and --set to a command, which gets `config: TileConfig`."""
    return _with_config(command, chosen_config, ("tile",))


def any_config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `config_options` for a tile or a core: the command gets `config: TileConfig | CoreConfig`."""
    return _with_config(command, _chosen_of_any_kind, ("tile", "core"))


def core_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `config_options` for a core: the command gets `config: CoreConfig`."""
    return _with_config(command, _chosen_core, ("core",), default="core")


def _with_config(
    command: Callable[..., Any],
    choose: Callable[..., TileConfig | CoreConfig],
    kinds: tuple[str, ...],
    default: str = "paper",
) -> Callable[..., Any]:
    @functools.wraps(command)
    def wrapper(config_file: Path | None, preset: str | None, settings: tuple[str, ...], **arguments: Any) -> Any:
        return command(config=choose(config_file, preset, settings), **arguments)

    argument = click.argument("config_file", metavar="[CONFIG.toml]", required=False, type=Path)
    return argument(preset_options(wrapper, kinds, default))


def chosen_config(config_file: Path | None, preset: str | None, settings: tuple[str, ...]) -> TileConfig:
    """Return the tile that CONFIG, --preset and --set name."""
    _only_one(config_file, preset)
    if config_file is not None:
        return TileConfig.load(config_file, settings)
    return load_preset(preset if preset is not None else "paper", settings)


def _chosen_of_any_kind(
    config_file: Path | None, preset: str | None, settings: tuple[str, ...], default: str = "paper"
) -> TileConfig | CoreConfig:
    _only_one(config_file, preset)
    if config_file is not None:
        return load_any_config(config_file, settings)
    return load_any_preset(preset if preset is not None else default, settings)


def _chosen_core(config_file: Path | None, preset: str | None, settings: tuple[str, ...]) -> CoreConfig:
    config = _chosen_of_any_kind(config_file, preset, settings, default="core")
    if not isinstance(config, CoreConfig):
        names = ", ".join(preset_names("core"))
        raise click.UsageError(
            f"the configuration must be a core, not the tile {config_file or preset}: "
            f"--preset {names}, or a CONFIG with a table [core]"
        )
    return config


def _only_one(config_file: Path | None, preset: str | None) -> None:
    if config_file is not None and preset is not None:
        raise click.UsageError(f"CONFIG and --preset exclude each other: {config_file} and {preset}")


def split_inputs(inputs: tuple[Path, ...], names: str) -> tuple[Path | None, Path | None]:
    """Return a configuration file and a folder; each may be missing. `names` describes both in the error."""
    configs = [path for path in inputs if path.suffix == ".toml" or path.is_file()]
    folders = [path for path in inputs if path not in configs]
    if len(configs) > 1 or len(folders) > 1 or [*configs, *folders] != list(inputs):
        raise click.UsageError(f"give {names}, not {' '.join(map(str, inputs))}")
    return next(iter(configs), None), next(iter(folders), None)


def check_drop_steps(config: TileConfig) -> None:
    """Raise an error that names --drop-steps, unless the tile skips zeros of the row side only."""
    from tensordash_sim.cycles import require_row_side

    try:
        require_row_side(config)
    except ValueError as error:
        raise click.UsageError(f"--drop-steps: {error}") from None


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json to a command, which gets `as_json: bool`."""
    return click.option("--json", "as_json", is_flag=True, help="Print only one JSON document on stdout.")(command)


def explicit_parameters(context: click.Context) -> list[click.Parameter]:
    """Return the parameters of a command whose values are not their defaults, in the order of its help."""
    default = click.core.ParameterSource.DEFAULT
    return [each for each in context.command.params if context.get_parameter_source(str(each.name)) is not default]


def new_folder_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add a required -o to a command, which gets `output: Path`."""
    text = "Folder to write to; created if it does not exist."
    return click.option("-o", "--output", metavar="DIR", required=True, type=Path, help=text)(command)


def own_folder_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add a required -o to a command that checks it with `own_folder`; the command gets `output: Path`."""
    text = "Folder to write to: new, empty, or written by this command before."
    return click.option("-o", "--output", metavar="DIR", required=True, type=Path, help=text)(command)


def results_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds -o to a command; the command gets `output: Path`, `build` by default."""
    return click.option("-o", "--output", metavar="DIR", type=Path, default=Path("build"), show_default=True, help=text)


def runner_options(command: Callable[..., Any], *, aliases: tuple[str, ...] = ()) -> Callable[..., Any]:
    """Add --jobs and --cluster to a command, which gets `runner: Runner`."""

    @functools.wraps(command)
    def wrapper(jobs: int, cluster: str | None, **others: Any) -> Any:
        if cluster is not None:
            require("--cluster", "distributed")
        return command(runner=Runner(jobs, cluster, progress), **others)

    names = ("-j", "--jobs", *aliases, "jobs")
    number = WholeRange(min=1)
    jobs = click.option(
        *names, metavar="N", type=number, default=DEFAULT_JOBS, show_default=True, help="Processes at a time."
    )
    return jobs(
        click.option("--cluster", metavar="ADDRESS", help="Use the workers of this Dask scheduler instead.")(wrapper)
    )


def print_json(document: Any) -> None:
    """Print the result as JSON on stdout."""
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


class FiniteRange(click.FloatRange):
    """A range of numbers with an upper end, without NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number, or raise a usage error."""
        try:
            number = super().convert(value, param, ctx)
        except click.BadParameter:
            number = math.nan
        if math.isnan(number):
            self.fail(f"must be a number from {self.min:g} to {self.max:g}, not {value!r}", param, ctx)
        return number


class WholeRange(click.IntRange):
    """A range of integers, with or without an upper end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or raise a usage error."""
        allowed = f"of at least {self.min}" if self.max is None else f"from {self.min} to {self.max}"
        try:
            number: int = super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"must be an integer {allowed}, not {value!r}", param, ctx)
        return number


def unknown_name(option: str, value: str, known: Iterable[str], trace: Path | None) -> click.UsageError:
    """Return the error for an unknown name: it lists all known names, or the closest ones and how to list the rest."""
    names = list(dict.fromkeys(known))
    message = f"{option} must be one of {', '.join(names) or 'nothing'}, not {value}"
    if len(names) > MAX_LISTED_NAMES:
        folded = {name.casefold(): name for name in reversed(names)}
        close = [folded[name] for name in get_close_matches(value.casefold(), folded, n=3, cutoff=0.4)]
        where = trace if trace is not None else "the package's trace"
        message = f"{option} must be one of the {len(names)} of {where}, not {value}"
        message += f"; closest: {', '.join(close)}" if close else ""
        message += f" (tensordash inspect {trace} lists them)" if trace is not None else ""
    return click.UsageError(message)


def waves_file(path: Path, option: str) -> Path:
    """Check a path for waveforms in VCD before the long work begins, and return it."""
    writable(path, option)
    if path.suffix.lower() != ".vcd":
        raise click.UsageError(f"{option} must be a .vcd file, not {path}")
    return path


def writable(path: Path, option: str) -> Path:
    """Check that a file can be written before the long work begins, and return its path."""
    if path.is_dir():
        raise click.UsageError(f"{option} must be a file, not the folder {path}")
    if not path.parent.is_dir():
        raise click.UsageError(f"{option} must be in a folder that exists, not {path}")
    _require_writable(path.parent, path, option)
    return path


def is_writable(path: Path) -> bool:
    """Return whether a folder can be written or created."""
    try:
        writable_folder(path, "folder")
    except click.UsageError:
        return False
    return True


def writable_folder(path: Path, option: str) -> Path:
    """Check that a folder can be written or created before the long work begins, and return its path."""
    parent = next(place for place in (path, *path.parents) if place.exists())
    if not parent.is_dir():
        raise click.UsageError(f"{option} must be a folder, not the file {parent}")
    _require_writable(parent, path, option)
    return path


def own_folder(path: Path, option: str, command: str, marker: tuple[str, str]) -> Path:
    """Check that a folder can be written, and that it is new, empty or an earlier output of a command; return its path.

    Such an output has the file `marker[0]`, and this file the text `marker[1]`.
    """
    writable_folder(path, option)
    names = [each.name for each in path.iterdir() if not each.name.startswith(".tensordash-")] if path.is_dir() else []
    file, text = marker
    try:
        is_own = not names or text in (path / file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        is_own = False
    if not is_own:
        raise click.UsageError(
            f"{option} must be a new or empty folder, or one that `tensordash {command}` wrote (with its {file}), "
            f"not {path}, which has {min(names)}"
        )
    return path


def _require_writable(folder: Path, path: Path, option: str) -> None:
    """Create a folder in an existing one and remove it. Permission bits are no test, because root ignores them."""
    try:
        before = folder.stat()
        with tempfile.TemporaryDirectory(dir=folder, prefix=".tensordash-"):
            pass
        os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))
    except OSError as error:
        raise click.UsageError(
            f"{option} must be where files can be written, not {path}: {folder}: {error.strerror}"
        ) from None
