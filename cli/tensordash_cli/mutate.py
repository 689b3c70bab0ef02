"""`tensordash mutate`: wrong bits in the emitted Verilog, and the checks that find them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash_storage.files import atomic_write
from tensordash_storage.jobs import Runner

from .console import (
    CheckError,
    FiniteRange,
    WholeRange,
    any_config_options,
    explicit_parameters,
    json_option,
    print_json,
    results_option,
    runner_options,
    writable_folder,
)

if TYPE_CHECKING:
    from tensordash_formal.fault_campaign import FaultReport
    from tensordash_formal.mutant_results import MutationReport

__all__ = ["command"]


@click.command("mutate")
@any_config_options
@click.option("--by-hand", is_flag=True, help="Apply faults made by hand to the sources instead, see above.")
@click.option("--all", "everything", is_flag=True, help="Run the campaigns of docs/verification.md instead.")
@click.option("--kind", type=click.Choice(["bits", "wires"]), help="Kind of mutants (default: bits).")
@click.option("--count", type=WholeRange(1, 60_000), help="Number of mutants (default: 300).")
@click.option(
    "--component", "components", metavar="NAME", multiple=True, help="Only mutants of this component; may be repeated."
)
@click.option(
    "--name", "names", metavar="NAME", multiple=True, help="With --by-hand: apply this fault only; may be repeated."
)
@click.option("--sample", type=WholeRange(1, 10_000), help="With --by-hand: draw this many faults (--seed).")
@click.option("--list", "list_only", is_flag=True, help="With --by-hand: print the faults, and run nothing.")
@click.option(
    "--page", metavar="FILE.md", type=Path, help="With --list: write the table into this page, between its marks."
)
@click.option("--seed", type=WholeRange(min=0), default=0, show_default=True, help="Seed of mutants and benches.")
@click.option("--effort", type=FiniteRange(0.05, 1000), default=0.3, show_default=True, help="Effort of the benches.")
@click.option("--proofs/--no-proofs", default=True, help="Run proofs on mutants that pass the benches (default).")
@results_option("Folder of results, see above.")
@runner_options
@json_option
@click.pass_context
def command(
    context: click.Context,
    config: TileConfig | CoreConfig,
    by_hand: bool,
    everything: bool,
    kind: str | None,
    count: int | None,
    components: tuple[str, ...],
    names: tuple[str, ...],
    sample: int | None,
    list_only: bool,
    page: Path | None,
    seed: int,
    effort: float,
    proofs: bool,
    output: Path,
    runner: Runner,
    as_json: bool,
) -> None:
    """Make mutants of a tile or a core, each with one change, and check whether benches and proofs find them.

    A mutant changes one bit of an operator. With --kind wires, it changes one connection of an instance: dropped,
    stuck, replaced by its neighbour, swapped with it, or one of its bits stuck. Each component gets the same number. A
    mutant that passes its component's bench is compared with the emitted Verilog; if it differs, the proofs run. DIR
    gets mutate.json, and in mutate/ the result of each mutant. Stored results are not computed again, so an interrupted
    run continues.

    --by-hand applies faults made by hand, one at a time, to a private copy of the Python sources, and runs the checks
    that must find each: tests, benches and proofs. It needs a checkout. DIR gets mutate-by-hand.json, and answers in
    mutate-by-hand/.

    Exit status 1 if a mutant survives that is not proven equivalent, or if a fault made by hand is not found.
    """
    writable_folder(output, "--output")
    if by_hand:
        _refuse_options(
            context, ("config_file", "preset", "settings", "everything", "kind", "count", "effort", "proofs")
        )
        if page is not None and not list_only:
            raise click.UsageError("--page needs --list")
        _by_hand(components, names, sample, list_only, page, seed, output, runner, as_json)
        return
    for option, value in (("--name", names), ("--sample", sample), ("--list", list_only), ("--page", page)):
        if value:
            raise click.UsageError(f"{option} needs --by-hand")
    from tensordash_formal.campaigns import campaign_of, full_campaigns
    from tensordash_formal.mutation import mutate

    chosen = ("config_file", "preset", "settings", "kind", "count", "components")
    if everything and any(context.params[name] for name in chosen):
        raise click.UsageError("--all takes no CONFIG, --preset, --set, --kind, --count or --component")
    name = " ".join(
        [str(context.params["config_file"] or context.params["preset"] or "paper"), *context.params["settings"]]
    )
    if everything:
        campaigns = full_campaigns()
    else:
        try:
            campaigns = (campaign_of(config, name, kind or "bits", count or 300, components),)
        except ValueError as error:
            raise click.UsageError(f"--component {error}") from None
    output.mkdir(parents=True, exist_ok=True)
    report = mutate(campaigns, output / "mutate", seed=seed, effort=effort, proofs=proofs, runner=runner)
    _show(report, output / "mutate.json", as_json)
    if report.survivors:
        raise CheckError(f"{len(report.survivors)} of {len(report.results)} mutants survive (seed {seed})")


def _show(report: "FaultReport | MutationReport", path: Path, as_json: bool) -> None:
    """Write a campaign's report, and print it as a table or as JSON."""
    document = report.to_json()
    atomic_write(path, json.dumps(document, indent=2) + "\n")
    if as_json:
        print_json(document)
    else:
        click.echo(report.table())


def _refuse_options(context: click.Context, parameters: tuple[str, ...]) -> None:
    """Raise a usage error for the first parameter that --by-hand excludes."""
    for option in explicit_parameters(context):
        if option.name in parameters:
            name = option.opts[-1] if isinstance(option, click.Option) else "CONFIG"
            raise click.UsageError(f"--by-hand excludes {name}")


def _by_hand(
    components: tuple[str, ...],
    names: tuple[str, ...],
    sample: int | None,
    list_only: bool,
    page: Path | None,
    seed: int,
    output: Path,
    runner: Runner,
    as_json: bool,
) -> None:
    """Run the campaign of faults made by hand, or list them."""
    from tensordash_formal.fault_campaign import checkout_root, run_faults
    from tensordash_formal.fault_list import faults_table, load_faults, sample_faults, select_faults, with_table

    root = checkout_root()
    try:
        faults = select_faults(load_faults(), components, names)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if sample is not None:
        faults = sample_faults(faults, sample, seed)
    if list_only:
        if page is not None:
            atomic_write(page, with_table(page.read_text(encoding="utf-8"), faults))
        elif as_json:
            print_json([asdict(fault) for fault in faults])
        else:
            click.echo(faults_table(faults))
        return
    output.mkdir(parents=True, exist_ok=True)
    report = run_faults(faults, output / "mutate-by-hand", root=root, runner=runner)
    _show(report, output / "mutate-by-hand.json", as_json)
    if report.failures:
        raise CheckError(f"{len(report.failures)} of {len(report.results)} faults made by hand are not found")
