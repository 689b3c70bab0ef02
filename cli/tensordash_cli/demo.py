"""`tensordash demo`: one real training step through the emitted Verilog, and what the tile costs."""

import tempfile
from pathlib import Path

import click
import numpy as np

from tensordash import TileConfig, load_preset

from .console import CheckError, json_option, print_json, progress

__all__ = ["command"]


@click.command("demo")
@click.option(
    "-o", "--output", metavar="DIR", default="build/demo", show_default=True, type=Path, help="Where the Verilog goes."
)
@click.option("--simulator", default="auto", show_default=True, help="auto, verilator or icarus.")
@click.option("--no-synth", is_flag=True, help="Leave out the area table.")
@json_option
def command(output: Path, simulator: str, no_synth: bool, as_json: bool) -> None:
    """Train one step of a small ReLU network on scikit-learn's digits and run its products through the paper's tile.

    The operands of AxW, WxG and AxG go through the emitted Verilog of the TensorDash tile and of its dense baseline;
    results are compared with the golden model and with exact rational arithmetic rounded once. Exit status 1 if
    anything differs.
    """
    from tensordash.verilog import generate
    from tensordash_sim.digits import training_step

    sparse = load_preset("paper")
    designs = {"tensordash": sparse, "dense": sparse.baseline}
    folders = {name: output / name for name in designs}
    if output.exists() and not output.is_dir():
        raise click.UsageError(f"--output must be a folder, not the file {output}")
    for name, config in designs.items():
        generate(config, folders[name])
    with progress.status("training one step"):
        products = training_step()
    with progress.status("running the Verilog of both tiles"):
        operations = _operations(products, designs, folders, simulator)
    document = {
        "operations": operations,
        "equal": all(operation["equal"] for operation in operations),
        "verilog": {name: str(folder / "tensordash.v") for name, folder in folders.items()},
    }
    if not as_json:
        _print_operations(operations)
    if not no_synth:
        from tensordash_synth import cost_table, synthesize

        with progress.status("synthesizing both tiles"):
            report = synthesize(sparse)
        document["cost"] = report.to_json()
        if not as_json:
            click.echo("\n" + cost_table(report))
    if as_json:
        print_json(document)
    else:
        click.echo(f"\nVerilog: {folders['tensordash'] / 'tensordash.v'} and {folders['dense'] / 'tensordash.v'}")
    if not document["equal"]:
        raise CheckError("results differ: see the operations that are not equal")


def _operations(products, designs: dict[str, TileConfig], folders: dict[str, Path], simulator: str) -> list[dict]:
    """Run every product on both tiles, all products of a tile in one simulation."""
    from tensordash_sim.digits import as_streams
    from tensordash_sim.golden import matmul, matmul_exact
    from tensordash_sim.verify import Replayer

    reports = []
    with tempfile.TemporaryDirectory(prefix="tensordash-") as scratch:
        replayers = {
            name: Replayer(config, Path(scratch) / name, verilog=folders[name], simulator=simulator)
            for name, config in designs.items()
        }
        for product in products:
            a, b = as_streams(product, designs["tensordash"])
            report = {"operation": product.operation, "scheduled": product.scheduled_name, "zeros": product.zeros}
            bits = zip(a.view(np.uint16), b.view(np.uint16), strict=True)
            exact = np.stack([matmul_exact(*pair, designs["tensordash"]) for pair in bits])
            for name, config in designs.items():
                found = replayers[name].run(a, b)
                golden = matmul(a, b, config)
                report[f"{name}_equals_golden"] = (
                    not found.mismatches
                    and np.array_equal(found.c_bits, golden.c_bits)
                    and np.array_equal(found.counters["cycles"], golden.cycles)
                )
                report[f"{name}_equals_exact"] = np.array_equal(found.c_bits, exact)
                report[f"{name}_cycles"] = cycles = int(found.counters["cycles"].sum())
                report[f"{name}_row_wait"] = float(found.row_wait.sum() / (config.rows * cycles)) if cycles else None
            report["equal"] = all(report[f"{name}_equals_{other}"] for name in designs for other in ("golden", "exact"))
            reports.append(report)
    for product, report in zip(products, reports, strict=True):
        report["speedup"] = (
            report["dense_cycles"] / report["tensordash_cycles"] if report["tensordash_cycles"] else None
        )
        report["ideal_speedup"] = 1 / (1 - product.zeros) if product.zeros < 1 else None
    return reports


def _print_operations(operations: list[dict]) -> None:
    click.echo(
        "One training step of a 64-64-32-10 ReLU network on 32 digits; its 64 x 32 layer on the paper's 4x4 tile."
    )
    click.echo("Cycles are the Verilog's own; waits: steps per cycle that a row lost to the slowest row.\n")
    click.echo(
        "operation  scheduled  zeros   dense  TensorDash  speedup   ideal  waits  Verilog = golden = exact = dense"
    )
    for each in operations:
        click.echo(
            f"{each['operation']:9}  {each['scheduled']:9}  {each['zeros']:5.1%}  {each['dense_cycles']:6}"
            f"  {each['tensordash_cycles']:10}  {each['speedup'] or 0:6.3f}x  {each['ideal_speedup'] or 0:5.2f}x"
            f"  {each['tensordash_row_wait'] or 0:5.2f}  {'yes, bit for bit' if each['equal'] else 'NO'}"
        )
