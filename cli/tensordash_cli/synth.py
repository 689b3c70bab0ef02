"""`tensordash synth`: area and delay next to the dense baseline."""

from pathlib import Path

import click

from tensordash import TileConfig

from .console import FiniteRange, config_options, json_option, print_json, progress

__all__ = ["command"]


@click.command("synth")
@config_options
@click.option("--liberty", metavar="FILE.lib", type=Path, help="Your own cell library (default: Nangate 45 nm).")
@click.option("--clock", "clock_ns", metavar="NS", type=FiniteRange(0.05, 100), default=2.0, show_default=True)
@json_option
def command(config: TileConfig, liberty: Path | None, clock_ns: float, as_json: bool) -> None:
    """Map a tile and its dense baseline to a cell library and print both in the shape of the paper's Table IV."""
    from tensordash_synth import cost_table, synthesize

    with progress.status("synthesizing") as status:
        report = synthesize(config, liberty=liberty, clock_ns=clock_ns, progress=lambda done: status.update(done))
    if as_json:
        print_json(report.to_json())
    else:
        click.echo(cost_table(report))
