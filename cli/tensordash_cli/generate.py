"""`tensordash generate`: Verilog and the files that accompany it."""

from pathlib import Path

import click

from tensordash import TileConfig
from tensordash.configuration.core_config import MAX_CORES, CoreConfig

from .console import any_config_options, json_option, new_folder_option, print_json, writable_folder

__all__ = ["command"]


@click.command("generate")
@any_config_options
@new_folder_option
@click.option("--name", "prefix", default="tensordash", show_default=True, help="Prefix of file and module names.")
@click.option(
    "--testbench",
    is_flag=True,
    help="Add a self-checking testbench in plain Verilog, with the golden model's results.",
)
@click.option(
    "--cores",
    type=click.IntRange(1, MAX_CORES),
    default=1,
    show_default=True,
    help="Add several cores at one memory port: NAME_multicore.v.",
)
@json_option
def command(
    config: TileConfig | CoreConfig, output: Path, prefix: str, testbench: bool, cores: int, as_json: bool
) -> None:
    """Write a tile or a core as Verilog: NAME.v with the tops, and files for other tools.

    A tile comes with the transposer, lint waivers, a file list, a FuseSoC core, timing constraints, a configuration for
    LibreLane, tables of the ports, and its configuration. A core (a configuration with a table [core]) adds its
    memories and a C header of its registers and descriptors.
    """
    from tensordash.emission.verilog import check_prefix, generate

    try:
        check_prefix(prefix)
    except ValueError as error:
        raise click.UsageError(f"--name: {error}") from None
    writable_folder(output, "--output")
    if cores > 1 and isinstance(config, TileConfig):
        raise click.UsageError("--cores needs a core: a configuration with a table [core], or a preset such as core")
    files = generate(config, output, prefix, _bench(config, prefix, cores) if testbench else {}, cores)
    if as_json:
        print_json({"digest": config.digest, "files": [str(file) for file in files]})
    else:
        for file in files:
            click.echo(file)


def _bench(config: TileConfig | CoreConfig, prefix: str, cores: int) -> dict[str, str]:
    if isinstance(config, CoreConfig):
        from tensordash_sim.verify.core_testbench import render_core_testbench

        return {
            name: text
            for number in sorted({1, cores})
            for name, text in render_core_testbench(config, prefix, cores=number).items()
        }
    from tensordash_sim.verify.testbench import render_testbench

    return render_testbench(config, prefix)
