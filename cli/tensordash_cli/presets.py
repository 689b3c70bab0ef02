"""`tensordash presets`: named configurations."""

import click

from tensordash.configuration.preset import load_preset, preset_names, preset_text

from .console import json_option, print_json

__all__ = ["command"]


@click.command("presets")
@click.argument("name", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the presets, or print one as TOML to start a configuration of your own."""
    if name is not None:
        preset_text(name)  # complains of an unknown name
    names = [name] if name else preset_names()
    if as_json:
        print_json({each: {"about": _about(each), **load_preset(each).to_mapping()} for each in names})
    elif name:
        click.echo(f"# {_about(name)}\n{load_preset(name).to_toml()}", nl=False)
    else:
        width = max(map(len, names))
        for each in names:
            click.echo(f"{each:{width}}  {_about(each)}")


def _about(name: str) -> str:
    return preset_text(name).splitlines()[0].removeprefix("# ")
