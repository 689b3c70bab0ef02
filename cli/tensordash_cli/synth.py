"""`tensordash synth`: area, delay and power next to the dense baseline, or of every kind of numbers."""

from pathlib import Path

import click

from tensordash import TileConfig

from .console import FiniteRange, config_options, json_option, print_json, progress

__all__ = ["command"]


@click.command("synth")
@config_options
@click.option("--liberty", metavar="FILE.lib", type=Path, help="Your own cell library (default: Nangate 45 nm).")
@click.option("--clock", "clock_ns", metavar="NS", type=FiniteRange(0.05, 100), default=2.0, show_default=True)
@click.option("--power/--no-power", default=True, help="Measure power, if OpenSTA is installed (minutes; default).")
@click.option("--numerics", is_flag=True, help="Instead: the PE for every format and accumulator (minutes).")
@json_option
def command(
    config: TileConfig, liberty: Path | None, clock_ns: float, power: bool, numerics: bool, as_json: bool
) -> None:
    """Map a tile and its dense baseline to a cell library and print both in the shape of the paper's Table IV.

    Power comes from a simulation of the mapped netlists, which must equal the golden model, and OpenSTA.

    With --numerics, map a PE with the tile's lanes and pipeline for every format and accumulator that go together.
    """
    from tensordash_synth import cost_table, every_numerics, numerics_costs, numerics_table, synthesize

    with progress.status("synthesizing") as status:
        if numerics:
            cores = numerics_costs(every_numerics(config), liberty=liberty, clock_ns=clock_ns, progress=status.update)
            document, text = cores.to_json(), numerics_table(cores)
        else:
            report = synthesize(config, liberty=liberty, clock_ns=clock_ns, power=power, progress=status.update)
            document, text = report.to_json(), cost_table(report)
    if as_json:
        print_json(document)
    else:
        click.echo(text)
