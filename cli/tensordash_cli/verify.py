"""`tensordash verify`: the emitted Verilog against the golden model."""

from pathlib import Path

import click

from tensordash import TileConfig

from .console import CheckError, FiniteRange, config_options, json_option, print_json, progress, writable

__all__ = ["command"]


@click.command("verify")
@config_options
@click.option("--bench", "benches", metavar="NAME", multiple=True, help="Run this bench only; may be repeated.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the benches' stimulus.")
@click.option("--effort", type=FiniteRange(0.05, 1000), default=1.0, show_default=True, help="More or less of it.")
@click.option("--simulator", default="auto", show_default=True, help="auto, verilator or icarus.")
@click.option("--operands", metavar="FILE.npz", type=Path, help="Replay these operands instead: arrays a, b (, c).")
@click.option("-o", "--output", metavar="OUT.npz", type=Path, help="With --operands: results and counters.")
@click.option("--waves", metavar="FILE.vcd", type=Path, help="Dump the run (with one bench, or --operands).")
@json_option
def command(
    config: TileConfig,
    benches: tuple[str, ...],
    seed: int,
    effort: float,
    simulator: str,
    operands: Path | None,
    output: Path | None,
    waves: Path | None,
    as_json: bool,
) -> None:
    """Emit a tile's Verilog and run it in a simulator, compared with the golden model in every cycle.

    --operands takes b (rows, T, lanes) and a (columns, T, lanes) as bit patterns (unsigned integers) or floats (int8:
    signed integers) and, exactly if tile.initial = true, c (rows, columns) as FP32 bits or floats (int8: integers); a
    leading axis is a batch of back-to-back streams. --output gets the results c and c_bits, and each stream's counters.
    """
    for path, option in ((output, "--output"), (waves, "--waves")):
        if path is not None:
            writable(path, option)
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


def _benches(config: TileConfig, benches, seed: int, effort: float, simulator: str, waves, as_json: bool) -> None:
    from tensordash_sim.verify import verify

    with progress.status("emitting Verilog") as status:
        results = verify(
            config,
            benches,
            seed=seed,
            effort=effort,
            simulator=simulator,
            waves=waves,
            progress=lambda bench: status.update(f"bench {bench}"),
        )
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
        raise CheckError(f"Verilog and golden model differ in: {', '.join(failed)} (seed {seed})")


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
    if result.mismatches:
        raise CheckError(f"Verilog and golden model differ: {result.mismatches[0]}")
