"""`tensordash soak`: a long random campaign that compares the emitted Verilog with the golden model."""

import json
import re
from pathlib import Path
from typing import Any

import click

from tensordash_storage.files import atomic_copy, atomic_write
from tensordash_storage.jobs import Runner

from .console import (
    CheckError,
    WholeRange,
    json_option,
    print_json,
    progress,
    runner_options,
    waves_file,
    writable_folder,
)
from .soak_cores import check_coverage, coverage_table, print_unmet, replay_core, soak_cores, tile_name

__all__ = ["command"]


class _JobName(click.ParamType):
    """SEED:INDEX of a job."""

    name = "SEED:INDEX"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Return the two numbers, or raise a usage error."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(\d{1,18}):(\d{1,9})", value)
        if match is None:
            self.fail(
                f"{value!r} must be SEED:INDEX, two numbers such as 1:12: the name of a campaign's job", param, ctx
            )
        return int(match[1]), int(match[2])


@click.command("soak")
@click.option(
    "--seed", type=WholeRange(min=0, max=10**18 - 1), default=0, show_default=True, help="Seed of all random choices."
)
@click.option(
    "--positions",
    metavar="N",
    type=WholeRange(min=1, max=10**12),
    default=1_000_000,
    show_default=True,
    help="Minimum number of multiply positions to feed: rows x columns x lanes x steps.",
)
@click.option(
    "--cores", metavar="N", type=WholeRange(1, 10**6), help="Number of random cores to run, instead of tiles."
)
@click.option(
    "--descriptors",
    metavar="N",
    type=WholeRange(1, 10**12),
    help="Minimum number of descriptors to run on all cores together (default: 10,000).",
)
@click.option(
    "--faults",
    metavar="N",
    type=WholeRange(1, 10**12),
    help="Minimum number of faults to run on all cores together (default: 1,000).",
)
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    type=Path,
    default=Path("build/soak"),
    show_default=True,
    help="Folder of jobs and coverage; an interrupted run continues there.",
)
@runner_options
@click.option("--simulator", default="auto", show_default=True, help="auto, verilator or icarus.")
@click.option("--cover", is_flag=True, help="Also fail if a reachable point of the coverage was not reached.")
@click.option("--replay", metavar="SEED:INDEX", type=_JobName(), help="Repeat one job of a campaign instead.")
@click.option("--waves", metavar="FILE.vcd", type=Path, help="With --replay: write waveforms of the run.")
@json_option
@click.pass_context
def command(
    context: click.Context,
    seed: int,
    positions: int,
    cores: int | None,
    descriptors: int | None,
    faults: int | None,
    output: Path,
    runner: Runner,
    simulator: str,
    cover: bool,
    replay: tuple[int, int] | None,
    waves: Path | None,
    as_json: bool,
) -> None:
    """Run random tiles on random streams, with random arrival, stalls and resets, against the golden model.

    Every job is one tile; all of its outputs are compared in every cycle. Finished jobs are stored in DIR, so the same
    command continues an interrupted run. A difference does not stop the campaign: the command that repeats its job is
    printed. DIR/soak-SEED.json has the coverage. With --cover, a tile runs again with new streams while one of its
    lanes has an option that no tile has exercised.

    With --cores every job is one core. Its Verilog executes layers, random programs and faults until --positions,
    --descriptors and --faults are reached. Faults are errors in every field, a memory that fails or does not respond,
    wrong use of the queue, and soft resets in every state. Memory, buffer, error and index must equal the golden
    core's, and a legal program must run afterwards. DIR/soak-cores-SEED.json has the summary. --replay with the same
    other options repeats a job.
    """
    if cores is None and (conflicting := [name for name in ("descriptors", "faults") if _is_set(context, name)]):
        raise click.UsageError(f"--{conflicting[0]} needs --cores")
    if cores is not None and (conflicting := [name for name in ("simulator", "waves") if _is_set(context, name)]):
        raise click.UsageError(f"--cores excludes --{conflicting[0]}, which applies to tiles only")
    if replay is not None:
        excluded = ("seed", "output", "jobs", "cluster", "cover", *(() if cores else ("positions",)))
        conflicting = [name for name in excluded if _is_set(context, name)]
        if conflicting:
            raise click.UsageError(f"--replay excludes --{conflicting[0]}: SEED:INDEX selects the job")
        if cores is not None:
            replay_core(*replay, cores, (positions, descriptors, faults), as_json)
            return
        _replay(*replay, simulator, waves, as_json)
        return
    if waves is not None:
        raise click.UsageError("--waves needs --replay")
    writable_folder(output, "--output")
    if cores is not None:
        soak_cores(seed, cores, (positions, descriptors, faults), output, runner, cover, as_json)
        return
    _campaign(seed, positions, output, runner, simulator, cover, as_json)


def _is_set(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


def _campaign(
    seed: int, positions: int, output: Path, runner: Runner, simulator: str, cover: bool, as_json: bool
) -> None:
    from tensordash_sim.verify.soak import Campaign

    campaign = Campaign(output, seed, positions, simulator)
    output.mkdir(parents=True, exist_ok=True)

    def describe(job, record) -> str:
        result = f"FAILED: {record.failure}" if record.failure else f"{record.positions:,} positions"
        return f"job {job.name}, {tile_name(job.config)}: {result}, {record.build_seconds:.0f} + {record.seconds:.0f} s"

    summary = campaign.run(runner, describe=describe, cover=cover)
    document = summary.to_json()
    atomic_write(output / f"soak-{seed}.json", json.dumps(document, indent=2) + "\n")
    if as_json:
        print_json(document)
    else:
        _print_summary(document, cover)
    if summary.failures:
        replay = next(iter(summary.failures))
        raise CheckError(
            f"Verilog and golden model differ in {len(summary.failures)} of {len(summary.records)} jobs; "
            f"repeat one with: {replay}"
        )
    if cover:
        check_coverage(document["never"])


def _print_summary(document: dict[str, Any], cover: bool) -> None:
    from rich.console import Console

    table = coverage_table(document["coverage"])
    pairs = document["lane_options"]
    table.add_row("option of a lane", f"{pairs['of']:,}", f"{pairs['met']:,}")
    Console(highlight=False, width=max(Console().width, 110)).print(table)
    print_unmet(document["never"], cover)
    for replay, failure in document["failures"].items():
        click.echo(f"FAILED: {failure}; repeat with: {replay}")
    rate = document["positions"] / max(document["seconds"], 1e-9)
    click.echo(
        f"\nseed {document['seed']}: {document['positions']:,} multiply positions ({document['steps']:,} steps, "
        f"{document['cycles']:,} cycles) on {document['tiles']} tiles, at most {document['largest_share']:.1%} on one; "
        f"{len(document['failures'])} jobs differ from golden\n"
        f"{document['build_seconds']:,.0f} s of building, {document['seconds']:,.0f} s of running "
        f"({rate:,.0f} positions/s), {', '.join(document['simulators'])}"
    )


def _replay(seed: int, index: int, simulator: str, waves: Path | None, as_json: bool) -> None:
    from tempfile import TemporaryDirectory

    from tensordash_sim.verify import SimulatorError
    from tensordash_sim.verify.soak import draw_job, run_job

    if waves is not None:
        waves_file(waves, "--waves")
    job = draw_job(seed, index)
    with (
        progress.status(f"job {job.name}, {tile_name(job.config)}"),
        TemporaryDirectory(prefix="tensordash-") as scratch,
    ):
        record = run_job(job, Path(scratch) / "job", simulator=simulator, waves=waves is not None)
        if waves is not None:
            dump = Path(scratch) / "job" / "run" / "dump.vcd"
            if not dump.exists():
                raise SimulatorError(f"job {job.name} left no waveforms")
            atomic_copy(dump, waves)
    if as_json:
        print_json({"config": job.config.to_mapping(), **record.to_json()})
    elif not record.failure:
        click.echo(f"job {job.name}: {record.positions:,} positions in {record.cycles:,} cycles, equal to golden")
    else:
        click.echo(job.config.to_toml())
    if record.failure:
        raise CheckError(f"Verilog and golden model differ in job {job.name}: {record.failure}")
