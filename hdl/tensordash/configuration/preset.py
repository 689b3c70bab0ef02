"""Presets: named configurations, stored in the package as TOML files that users can read and copy."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from .any_config import any_config_from_toml, is_of_core
from .config import ConfigError, TileConfig
from .core_config import CoreConfig

__all__ = ["load_any_preset", "load_preset", "preset_names", "preset_text"]

_FOLDER = files("tensordash.configuration") / "presets"
KINDS = ("tile", "core")


def preset_names(kind: str = "tile") -> list[str]:
    """Return the names of all presets of a kind, the default first: `paper` for tiles, `core` for cores.

    Parameters
    ----------
    kind : str
        "tile" or "core".

    Examples
    --------
    >>> preset_names()[0], preset_names("core")[:4]
    ('paper', ['core', 'core-bf16', 'core-dense', 'core-dense-bf16'])
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    usual = {"tile": "paper", "core": "core"}[kind]
    names = sorted(name for name, text in _texts().items() if is_of_core(text) == (kind == "core"))
    return sorted(names, key=lambda name: name != usual)


def preset_text(name: str) -> str:
    """Return the TOML of a tile's or a core's preset. Its first line is a comment that describes it."""
    if name not in _texts():
        known = [known for kind in KINDS for known in preset_names(kind)]
        raise ConfigError(f"preset must be one of {', '.join(known)}, not {name!r}")
    return _texts()[name]


def load_preset(name: str, settings: Iterable[str] = ()) -> TileConfig:
    """Return the configuration of a tile's preset, overridden by `settings` such as ``"tile.rows=8"``.

    Raises
    ------
    ConfigError
        For an unknown preset, or a core's preset.

    Examples
    --------
    >>> load_preset("paper-16lane").lanes
    16
    """
    if name not in preset_names():
        core = ", the preset of a core" if name in preset_names("core") else ""
        raise ConfigError(f"preset must be one of {', '.join(preset_names())}, not {name!r}{core}")
    return TileConfig.from_toml(preset_text(name), settings)


def load_any_preset(name: str, settings: Iterable[str] = ()) -> TileConfig | CoreConfig:
    """Return the configuration of a tile's or a core's preset, overridden by `settings`.

    >>> load_any_preset("core", ["core.buffer=32"]).groups
    1024
    """
    return any_config_from_toml(preset_text(name), settings)


@cache
def _texts() -> dict[str, str]:
    """Return the presets' TOML by name."""
    return {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in _FOLDER.iterdir()
        if entry.name.endswith(".toml")
    }
