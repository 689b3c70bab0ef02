"""Results of synthesis for the evaluation: read from a folder, or measured and stored."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

import tensordash
from tensordash import TileConfig, load_preset
from tensordash_storage.files import atomic_write, code_digest

from .console import progress

__all__ = ["read", "synthesis_results"]

WITHOUT_POWER = ("paper-16lane",)
"""The simulation of this wide netlist would take longest, and the evaluation reads only its area."""


def read(presets: Iterable[str], folder: Path) -> dict[str, dict[str, Any]]:
    """Return the documents PRESET.json of a folder by preset, except for missing files."""
    if not folder.is_dir():
        raise click.UsageError(f"--synth must be a folder of PRESET.json, not {folder}")
    found = {}
    for preset in presets:
        path = folder / f"{preset}.json"
        if not path.exists():
            continue
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            document["config"], document["ratio"], document["components"], document["power"]
        except (OSError, ValueError, KeyError, TypeError):
            raise click.UsageError(f"{path} must be what tensordash synth --preset {preset} --json prints") from None
        if document["config"] != (digest := load_preset(preset).digest):
            raise click.UsageError(f"{path} must be of the configuration {digest}, {preset}, not {document['config']}")
        found[preset] = document
    return found


def synthesis_results(presets: Iterable[str], folder: Path) -> dict[str, dict[str, Any]]:
    """Return the documents by preset; synthesize presets that the folder has no result for."""
    found = {}
    for preset in presets:
        config = load_preset(preset)
        path = folder / f"{preset}-{_key(config)}.json"
        try:
            found[preset] = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            found[preset] = _synthesize(config, preset)
            atomic_write(path, json.dumps(found[preset]))
    return found


def _synthesize(config: TileConfig, preset: str) -> dict[str, Any]:
    from tensordash_synth import synthesize

    with progress.status(f"synthesizing {preset}") as status:
        report = synthesize(config, power=preset not in WITHOUT_POWER, progress=status.update)
    document: dict[str, Any] = json.loads(json.dumps(report.to_json()))  # Equal to a document read from a file.
    return document


def _key(config: TileConfig) -> str:
    """Return a key of the configuration, the generator, the flow, and whether power can be measured."""
    import tensordash_synth
    from tensordash_synth.power import find_opensta

    code = code_digest(*(Path(package.__file__ or "").parent for package in (tensordash, tensordash_synth)))
    return f"{config.digest}-{'power' if find_opensta() else 'area'}-{code[:16]}"
