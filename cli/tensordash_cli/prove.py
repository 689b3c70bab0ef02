"""`tensordash prove`: properties of a tile or a core, proven on its emitted Verilog."""

import json
from pathlib import Path

import click

from tensordash import TileConfig, preset_names
from tensordash.configuration.core_config import CoreConfig
from tensordash_storage.files import atomic_write
from tensordash_storage.jobs import Runner

from .console import (
    CheckError,
    any_config_options,
    json_option,
    print_json,
    results_option,
    runner_options,
    writable_folder,
)

__all__ = ["command"]


@click.command("prove")
@any_config_options
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Prove every preset and the corner configurations, and refute the broken variants.",
)
@results_option("Folder of results, see above.")
@runner_options
@json_option
@click.pass_context
def command(
    context: click.Context,
    config: TileConfig | CoreConfig,
    everything: bool,
    output: Path,
    runner: Runner,
    as_json: bool,
) -> None:
    """Prove the properties of docs/proofs.md for a tile or a core, on its emitted Verilog.

    DIR gets prove.json, and in prove/ every property with its result, log and counterexample (VCD). Stored results are
    not computed again, so an interrupted run continues.
    """
    from tensordash_formal import full_suite, suite_of

    if everything and any(context.params[name] for name in ("config_file", "preset", "settings")):
        raise click.UsageError("--all takes no CONFIG, --preset or --set")
    writable_folder(output, "--output")
    name = " ".join(
        [str(context.params["config_file"] or context.params["preset"] or "paper"), *context.params["settings"]]
    )
    suite = full_suite() if everything else suite_of(config, name)
    output.mkdir(parents=True, exist_ok=True)
    report = suite.run(output / "prove", runner)
    document = report.to_json()
    atomic_write(output / "prove.json", json.dumps(document, indent=2) + "\n")
    if as_json:
        print_json(document)
    else:
        configs = {name for name, _ in report.properties}
        cores = len(configs.intersection(preset_names("core"))) if everything else int(isinstance(config, CoreConfig))
        counts = {"tile": len(configs) - cores, "core": cores}
        designs = " and ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in counts.items() if count)
        click.echo(
            f"{len(report.properties)} properties of {designs}, "
            f"{len(report.refutations)} broken variants: {output / 'prove.json'}"
        )
        for line in report.failures():
            click.echo(f"    {line}")
    if failures := report.failures():
        raise CheckError(f"{len(failures)} of {len(report.properties) + len(report.refutations)} failed: {failures[0]}")
