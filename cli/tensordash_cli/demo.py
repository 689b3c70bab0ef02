"""`tensordash demo`: recorded operands of a training step through the emitted Verilog, and what the tile costs."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig, load_preset
from tensordash.configuration.numerics import Exact

from .console import CheckError, json_option, print_json, progress, writable_folder

if TYPE_CHECKING:
    from tensordash_sim.cycles import Counts
    from tensordash_sim.trace import Record

__all__ = ["command"]

LAYERS = ("CNN.conv2", "CNN.fc1")
PASSES, ALL = 32, 1 << 30
"""Passes of each operation that go through the Verilog, and through the cycle simulator."""


@click.command("demo")
@click.option(
    "-o", "--output", metavar="DIR", default="build/demo", show_default=True, type=Path, help="Where the Verilog goes."
)
@click.option("--preset", metavar="NAME", default="paper", show_default=True, help="The sparse tile.")
@click.option("--simulator", default="auto", show_default=True, help="auto, verilator or icarus.")
@click.option("--no-synth", is_flag=True, help="Leave out the area table.")
@json_option
def command(output: Path, preset: str, simulator: str, no_synth: bool, as_json: bool) -> None:
    """Run a recorded training step of a small CNN on digits through the paper's tile.

    Of a convolution and a fully connected layer, some passes of AxW, WxG and AxG go through the emitted Verilog of the
    TensorDash tile and of its dense baseline; results are compared with the golden model and with exact rational
    arithmetic rounded once. Where the accumulator rounds in every cycle, the largest relative error takes the place of
    the latter. The cycle simulator counts all passes. Exit status 1 if anything differs.
    """
    from tensordash.emission.verilog import generate
    from tensordash_sim.trace import Trace, example_trace

    sparse = load_preset(preset)
    if sparse.sparsity == "none" or sparse.initial:
        raise click.UsageError(f"--preset must be a sparse tile without a C input, not {preset}")
    designs = {"tensordash": sparse, "dense": sparse.baseline}
    folders = {name: output / name for name in designs}
    writable_folder(output, "--output")
    trace = Trace.open(example_trace())
    # By layer, in the order of a training step.
    records = sorted((one for one in trace.records if one.layer in LAYERS), key=lambda one: LAYERS.index(one.layer))
    for name, config in designs.items():
        generate(config, folders[name])
    with progress.status("running the Verilog of both tiles"):
        operations = _operations(records, designs, folders, simulator)
    document = {
        "trace": str(trace.path),
        "operations": operations,
        "equal": all(operation["equal"] for operation in operations),
        "verilog": {name: str(folder / "tensordash.v") for name, folder in folders.items()},
    }
    if not as_json:
        _print_operations(operations, preset, sparse)
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
        click.echo(f"Trace, for `tensordash simulate`, `inspect` and `verify --trace`: {trace.path}")
    if not document["equal"]:
        raise CheckError("results differ: see the operations that are not equal")


def _operations(
    records: list["Record"], designs: dict[str, TileConfig], folders: dict[str, Path], simulator: str
) -> list[dict]:
    """Run passes of every record on both tiles; the Verilog of a tile is built once."""
    from tensordash_sim.cycles import count_words, pack
    from tensordash_sim.golden import matmul, matmul_exact
    from tensordash_sim.quantization import non_zeros
    from tensordash_sim.verify import Replayer
    from tensordash_sim.verify.layer import layer_passes

    sparse = designs["tensordash"]
    rounds_once = isinstance(sparse.numerics.accumulator, Exact)

    def counted(a: NDArray, b: NDArray) -> "Counts":
        return count_words([pack(non_zeros(b, sparse.b_format))], sparse, a=[pack(non_zeros(a, sparse.a_format))])

    reports = []
    with tempfile.TemporaryDirectory(prefix="tensordash-") as scratch:
        replayers = {
            name: Replayer(config, Path(scratch) / name, verilog=folders[name], simulator=simulator)
            for name, config in designs.items()
        }
        for record in records:
            # Without a stride, an operation is one product, and its passes are all of one length.
            ((all_a, all_b),) = layer_passes(record, sparse, sample=ALL, seed=0)
            ((a, b),) = layer_passes(record, sparse, sample=PASSES, seed=0)
            whole, sampled = counted(all_a, all_b), counted(a, b)
            exact = np.stack([matmul_exact(*pair, sparse) for pair in zip(a, b, strict=True)])
            report: dict[str, Any] = {
                "layer": record.layer,
                "operation": str(record.operation),
                "scheduled": record.sparser,
                "passes": len(b),
                "of_passes": len(all_b),
                "zeros": (zeros := 1 - float(non_zeros(b, sparse.b_format).mean())),
            }
            for name, config in designs.items():
                found = replayers[name].run(a, b)
                golden = matmul(a, b, config)
                report[f"{name}_equals_golden"] = (
                    not found.mismatches
                    and np.array_equal(found.c_bits, golden.c_bits)
                    and np.array_equal(found.counters["cycles"], golden.cycles)
                )
                if rounds_once:
                    report[f"{name}_equals_exact"] = np.array_equal(found.c_bits, exact)
                else:
                    report[f"{name}_relative_error"] = _relative_error(golden.c_bits, exact)
                report[f"{name}_cycles"] = cycles = int(found.counters["cycles"].sum())
                report[f"{name}_row_wait"] = float(found.row_wait.sum() / (config.rows * cycles))
            report["tensordash_equals_simulator"] = report["tensordash_cycles"] == sampled.cycles
            report["equal"] = all(value for key, value in report.items() if "_equals_" in key)
            report["speedup"] = report["dense_cycles"] / report["tensordash_cycles"]
            report["ideal_speedup"] = 1 / (1 - zeros) if zeros < 1 else None
            report["speedup_of_all_passes"] = whole.speedup
            reports.append(report)
    return reports


def _relative_error(found: NDArray[np.uint32], exact: NDArray[np.uint32]) -> float:
    """The largest error of FP32 results relative to the exact ones, those that are zero left out."""
    values, wanted = (bits.view(np.float32).astype(np.float64) for bits in (found, exact))
    counted = wanted != 0
    return float(np.max(np.abs(values - wanted)[counted] / np.abs(wanted)[counted], initial=0.0))


def _print_operations(operations: list[dict], preset: str, config: TileConfig) -> None:
    tile = f"{'the paper' if preset == 'paper' else preset}'s {config.rows}x{config.columns} tile"
    click.echo(f"A recorded training step of a small CNN on digits; of each operation, some passes of {tile}.")
    click.echo("Cycles are the Verilog's own; zeros: in these passes, padding included; waits: steps per cycle that a")
    click.echo("row lost to the slowest row; all: the speedup of all passes, from the cycle simulator.")
    verdict = "Verilog = golden = exact = dense"
    rounds_once = "dense_equals_exact" in operations[0]
    if not rounds_once:
        click.echo("The accumulator rounds in every cycle; errors: the largest, relative to the exact result.")
        verdict = "Verilog = golden    error  dense error"
    columns = "operation  row side   passes   zeros   dense  TensorDash  speedup   ideal  waits    all"
    click.echo(f"\nlayer      {columns}  {verdict}")
    for each in operations:
        errors = "" if rounds_once else "  {tensordash_relative_error:7.1e}  {dense_relative_error:11.1e}"
        click.echo(
            f"{each['layer']:9}  {each['operation']:9}  {each['scheduled']:9}"
            f"  {each['passes']:2}/{each['of_passes']:<4}  {each['zeros']:5.1%}  {each['dense_cycles']:6}"
            f"  {each['tensordash_cycles']:10}  {each['speedup']:6.3f}x  {each['ideal_speedup'] or 0:5.2f}x"
            f"  {each['tensordash_row_wait']:5.2f}  {each['speedup_of_all_passes']:4.2f}x"
            f"  {'yes, bit for bit' if each['equal'] else 'NO':16}{errors.format(**each)}".rstrip()
        )
