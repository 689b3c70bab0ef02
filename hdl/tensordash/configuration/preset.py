"""Named configurations, kept as TOML files in the package so that they can be read and copied."""

from collections.abc import Iterable
from importlib.resources import files

from .config import ConfigError, TileConfig

__all__ = ["load_preset", "preset_names", "preset_text"]

_FOLDER = files("tensordash.configuration") / "presets"


def preset_names() -> list[str]:
    """Names of all presets, `paper` first.

    >>> preset_names()[0]
    'paper'
    """
    names = sorted(entry.name.removesuffix(".toml") for entry in _FOLDER.iterdir() if entry.name.endswith(".toml"))
    return sorted(names, key=lambda name: name != "paper")


def preset_text(name: str) -> str:
    """A preset's TOML; its first line is a comment that says what it is."""
    if name not in preset_names():
        raise ConfigError(f"preset must be one of {', '.join(preset_names())}, not {name!r}")
    return (_FOLDER / f"{name}.toml").read_text(encoding="utf-8")


def load_preset(name: str, settings: Iterable[str] = ()) -> TileConfig:
    """A preset's configuration, with `settings` such as ``"tile.rows=8"`` on top.

    >>> load_preset("paper-16lane").lanes
    16
    """
    return TileConfig.from_toml(preset_text(name), settings)
