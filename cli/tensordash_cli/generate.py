"""`tensordash generate`: Verilog and its companions."""

from pathlib import Path

import click

from tensordash import TileConfig

from .console import config_options, json_option, print_json, writable_folder

__all__ = ["command"]


@click.command("generate")
@config_options
@click.option("-o", "--output", metavar="DIR", required=True, type=Path, help="Folder to write to; made if need be.")
@click.option(
    "--name", "prefix", default="tensordash", show_default=True, help="What file and module names begin with."
)
@click.option(
    "--testbench",
    is_flag=True,
    help="Also a self-checking testbench in plain Verilog, with the golden model's results.",
)
@json_option
def command(config: TileConfig, output: Path, prefix: str, testbench: bool, as_json: bool) -> None:
    """Write a tile as Verilog: NAME.v with both tops, and what goes with it.

    That is: the transposer, lint waivers, a file list, a FuseSoC core, timing constraints, tables of the ports, and the
    configuration.
    """
    from tensordash.emission.verilog import check_prefix, generate

    try:
        check_prefix(prefix)
    except ValueError as error:
        raise click.UsageError(f"--name: {error}") from None
    writable_folder(output, "--output")
    bench: dict[str, str] = {}
    if testbench:
        from tensordash_sim.verify.testbench import render_testbench

        bench = render_testbench(config, prefix)
    files = generate(config, output, prefix, bench)
    if as_json:
        print_json({"digest": config.digest, "files": [str(file) for file in files]})
    else:
        for file in files:
            click.echo(file)
