"""`tensordash mutate`: wrong bits in the emitted Verilog, and what finds them."""

import json
from pathlib import Path

import click

from tensordash import TileConfig
from tensordash.storage.files import write_whole

from .console import (
    CheckError,
    FiniteRange,
    WholeRange,
    config_options,
    json_option,
    print_json,
    progress_bar,
    writable_folder,
)

__all__ = ["command"]


@click.command("mutate")
@config_options
@click.option("--count", type=WholeRange(1, 60_000), default=300, show_default=True, help="Mutants.")
@click.option("--component", "components", metavar="NAME", multiple=True, help="Of this one only; may be repeated.")
@click.option("--seed", type=WholeRange(min=0), default=0, show_default=True, help="Seed of mutants and benches.")
@click.option("--effort", type=FiniteRange(0.05, 1000), default=0.3, show_default=True, help="Of the benches.")
@click.option("--proofs/--no-proofs", default=True, help="Ask proofs about what benches let pass (default).")
@click.option("-o", "--output", metavar="DIR", type=Path, default=Path("build"), show_default=True, help="See below.")
@click.option("--jobs", type=WholeRange(min=1), help="Mutants at a time (default: one per core).")
@json_option
def command(
    config: TileConfig,
    count: int,
    components: tuple[str, ...],
    seed: int,
    effort: float,
    proofs: bool,
    output: Path,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Make mutants of a tile's Verilog, each with one wrong bit, and see whether benches and proofs find them.

    Scheduler, staging buffer, PE, transposer and the rest of the tile get the same number each. What the component's
    bench lets pass is compared with what was emitted, and if it differs, the proofs are asked. Take a small tile:
    `make mutate` does. DIR gets mutate.json, and in mutate/ what became of each mutant; what has been answered there is
    not asked again, so that an interrupted run goes on where it was.

    Exit status 1 if a mutant survives that is not proven equivalent.
    """
    from tensordash_formal.mutants import COMPONENTS
    from tensordash_formal.mutation import mutate

    if config.sparsity != "rows":
        raise click.UsageError(f'tile.sparsity must be "rows" to have all components, not {config.sparsity!r}')
    if unknown := set(components) - set(COMPONENTS):
        raise click.UsageError(f"--component must be one of {', '.join(COMPONENTS)}, not {min(unknown)!r}")
    writable_folder(output, "--output")
    output.mkdir(parents=True, exist_ok=True)
    with progress_bar() as bar:
        task = bar.add_task("mutants", total=count)
        report = mutate(
            config,
            output / "mutate",
            count=count,
            seed=seed,
            effort=effort,
            jobs=jobs,
            components=components or tuple(COMPONENTS),
            proofs=proofs,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    document = report.to_json()
    write_whole(output / "mutate.json", json.dumps(document, indent=2) + "\n")
    if as_json:
        print_json(document)
    else:
        click.echo(report.table())
    if report.survivors:
        raise CheckError(f"{len(report.survivors)} of {len(report.fates)} mutants survive (seed {seed})")
