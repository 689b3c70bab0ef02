"""`tensordash soak --cores`: a campaign of random cores, and its report."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensordash_storage.files import atomic_write
from tensordash_storage.jobs import Runner

from .console import CheckError, print_json, progress

if TYPE_CHECKING:
    from tensordash_sim.verify.soak.cores import CoreGoals

__all__ = ["check_coverage", "coverage_table", "print_unmet", "replay_core", "soak_cores", "tile_name"]

DEFAULT_DESCRIPTORS = 10_000
"""Descriptors of a campaign without --descriptors."""
DEFAULT_FAULTS = 1_000
"""Faults of a campaign without --faults."""
Goals = tuple[int, int | None, int | None]
"""Goals from the command line: positions, descriptors and faults."""


def soak_cores(seed: int, cores: int, options: Goals, output: Path, runner: Runner, cover: bool, as_json: bool) -> None:
    """Run a campaign, or resume one."""
    from tensordash_sim.verify.soak.cores import CoreCampaign

    campaign = CoreCampaign(output, seed, cores, _goals(options))
    output.mkdir(parents=True, exist_ok=True)

    def describe(job, record) -> str:
        faults = sum(record.faults.values())
        result = f"{record.positions:,} positions, {record.descriptors:,} descriptors, {faults:,} faults"
        return (
            f"job {job.seed}:{job.index}, core around {tile_name(job.config.tile)}: "
            f"{f'FAILED: {record.failure}' if record.failure else result}; "
            f"{record.build_seconds:.0f} + {record.seconds:.0f} s"
        )

    summary = campaign.run(runner, describe=describe)
    document = summary.to_json()
    atomic_write(output / f"soak-cores-{seed}.json", json.dumps(document, indent=2) + "\n")
    if as_json:
        print_json(document)
    else:
        _print(document, cover)
    if summary.failures:
        name, failure = next(iter(summary.failures.items()))
        goals = " ".join(f"--{name} {value}" for name, value in vars(_goals(options)).items())
        replay = f"tensordash soak --cores {cores} {goals} --replay {name}"
        count = len(summary.failures)
        raise CheckError(f"{count} of {cores} cores differ from golden: {failure}; repeat with: {replay}")
    if cover:
        check_coverage(document["never"])


def _goals(options: Goals) -> "CoreGoals":
    from tensordash_sim.verify.soak.cores import CoreGoals

    positions, descriptors, faults = options
    return CoreGoals(
        positions=positions, descriptors=descriptors or DEFAULT_DESCRIPTORS, faults=faults or DEFAULT_FAULTS
    )


def _print(document: dict[str, Any], cover: bool) -> None:
    from rich.console import Console

    console = Console(highlight=False, width=max(Console().width, 110))
    table = coverage_table(document["coverage"])
    fuzzed = document["bits_fuzzed"]
    table.add_row("bit of a descriptor fuzzed", f"{fuzzed['of']:,}", f"{fuzzed['met']:,}")
    console.print(table)
    click.echo()
    for kind, count in document["faults"].items():
        click.echo(f"{count:9,} {kind}")
    print_unmet(document["never"], cover)
    click.echo(
        f"\nseed {document['seed']}: {document['positions']:,} multiply positions, {document['descriptors']:,} "
        f"descriptors and {sum(document['faults'].values()):,} faults in {document['programs']:,} programs "
        f"({document['cycles']:,} cycles) on {document['cores']} cores; {len(document['failures'])} cores differ from "
        f"golden\n{document['build_seconds']:,.0f} s of building, {document['seconds']:,.0f} s of running"
    )


def print_unmet(never: dict[str, list[str]], cover: bool) -> None:
    """Print the coverage points that were never met, or their number, by group."""
    for group, points in never.items():
        click.echo(f"never met, {group}: {'; '.join(points) if cover else len(points)}")


def check_coverage(never: dict[str, list[str]]) -> None:
    """Raise an error if a coverage point was never met."""
    if never:
        group, points = next(iter(never.items()))
        count = sum(map(len, never.values()))
        raise CheckError(f"{count} points that can be reached were never met: {group}: {points[0]}")


def coverage_table(coverage: dict[str, dict[str, int]]) -> Any:
    """Return a table with a row for each group of coverage points."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for header in ("coverage", "points", "met", "hits", "fewest", "of"):
        table.add_column(header, justify="left" if header in ("coverage", "of") else "right")
    for group, counts in coverage.items():
        fewest = min(counts, key=lambda each: counts[each])
        row = (len(counts), sum(count > 0 for count in counts.values()), sum(counts.values()), counts[fewest])
        table.add_row(group, *(f"{number:,}" for number in row), fewest)
    return table


def replay_core(seed: int, index: int, cores: int, options: Goals, as_json: bool) -> None:
    """Repeat one job of a campaign."""
    from tensordash_sim.verify.soak.cores import draw_core_job, run_core_job

    job = draw_core_job(seed, index, _goals(options).share(cores))
    with progress.status(f"job {seed}:{index}, core around {tile_name(job.config.tile)}"):
        record = run_core_job(job)
    if as_json:
        print_json({"config": job.config.to_mapping(), **record.to_json()})
    elif not record.failure:
        click.echo(f"job {seed}:{index}: {record.programs:,} programs in {record.cycles:,} cycles, equal to golden")
    else:
        click.echo(job.config.to_toml())
    if record.failure:
        raise CheckError(f"job {seed}:{index}: {record.failure}")


def tile_name(config: Any) -> str:
    """Return a short description of a tile."""
    accumulator = config.accumulator if isinstance(config.accumulator, str) else "fused"
    formats = config.format if isinstance(config.format, str) else " x ".join(config.format)
    shape = f"{config.rows}x{config.columns} PEs of {config.lanes} lanes"
    return f"{shape}, {config.window_depth} deep, {formats} {accumulator}, {config.sparsity}"
