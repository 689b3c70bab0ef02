"""Readers of a tile's or a core's configuration. A document with a table [core] is a core's."""

from collections.abc import Iterable
from pathlib import Path

from .config import TileConfig
from .core_config import CoreConfig
from .document import ConfigError, loaded, parsed

__all__ = ["any_config_from_toml", "is_of_core", "load_any_config"]


def is_of_core(text: str) -> bool:
    """Return whether a TOML document configures a core.

    >>> is_of_core("[tile]\\nrows = 4"), is_of_core("[core]")
    (False, True)
    """
    return "core" in parsed(text)


def any_config_from_toml(text: str, settings: Iterable[str] = ()) -> TileConfig | CoreConfig:
    """Build a tile's or a core's configuration from TOML, overridden by `settings` such as ``"tile.rows=8"``.

    Raises
    ------
    ConfigError
        If the document is invalid, or a tile gets a setting of a core.

    Examples
    --------
    >>> any_config_from_toml("[tile]\\nrows = 2", ["core.buffer=32"])
    Traceback (most recent call last):
    tensordash.configuration.document.ConfigError: core.buffer=32 must go with a core's configuration, which has a table [core] (preset core), not with a tile's
    """  # noqa: E501
    settings = list(settings)
    if is_of_core(text):
        return CoreConfig.from_toml(text, settings)
    for setting in settings:
        if setting.partition("=")[0].partition(".")[0].strip() == "core":
            wants = "a core's configuration, which has a table [core] (preset core)"
            raise ConfigError(f"{setting} must go with {wants}, not with a tile's")
    return TileConfig.from_toml(text, settings)


def load_any_config(path: str | Path, settings: Iterable[str] = ()) -> TileConfig | CoreConfig:
    """Read a tile's or a core's configuration from a TOML file, overridden by `settings`.

    Raises
    ------
    ConfigError
        If the file cannot be read or is invalid. The message names the file.
    """
    settings = list(settings)
    return loaded(path, lambda text: any_config_from_toml(text, settings), settings=settings)
