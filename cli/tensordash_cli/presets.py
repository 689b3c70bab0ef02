"""`tensordash presets`: named configurations."""

import click

from tensordash.configuration.preset import load_any_preset, preset_names, preset_text

from .console import json_option, print_json

__all__ = ["command"]


@click.command("presets")
@click.argument("name", required=False)
@click.option("--chip", is_flag=True, help="Print the default chip of `simulate` instead.")
@json_option
def command(name: str | None, chip: bool, as_json: bool) -> None:
    """List the presets of tiles and cores, or print one as TOML to start a configuration of your own.

    A core's preset has a table [core]. The help of a command lists the presets that it takes under --preset.
    """
    if chip:
        if name is not None:
            raise click.UsageError(f"--chip goes with no NAME, not with {name}")
        _chip(as_json)
        return
    if name is not None:
        preset_text(name)  # raises an error for an unknown name
    kinds = {each: kind for kind in ("tile", "core") for each in preset_names(kind)}
    names = [name] if name else list(kinds)
    if as_json:
        print_json({each: {"about": _about(each), **load_any_preset(each).to_mapping()} for each in names})
    elif name:
        click.echo(f"# {_about(name)}\n{load_any_preset(name).to_toml()}", nl=False)
    else:
        width = max(map(len, names))
        for each in names:
            click.echo(f"{each:{width}}  {kinds[each]}  {_about(each)}")


def _chip(as_json: bool) -> None:
    from tensordash_sim.performance.chip import ChipConfig

    chip = ChipConfig()
    if as_json:
        print_json(chip.to_mapping())
    else:
        about = "for simulate --chip; power: of one tile, in mW"
        click.echo(f"# The chip of the paper's Table III, {about}\n{chip.to_toml()}", nl=False)


def _about(name: str) -> str:
    return preset_text(name).splitlines()[0].removeprefix("# ")
