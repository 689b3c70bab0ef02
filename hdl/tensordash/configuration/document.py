"""TOML documents of configurations: parsing, overriding settings, and one-line errors."""

import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import tomlkit

from .errors import TensorDashError

__all__ = ["ConfigError", "TomlConfig", "checked_table", "loaded", "parsed"]

Config = TypeVar("Config")


class ConfigError(TensorDashError, ValueError):
    """A configuration file, or a setting, that cannot be used. The message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))  # the message may contain a key, which can be any text


def loaded(
    path: str | Path, build: Callable[[str], Config], what: str = "configuration", settings: Collection[str] = ()
) -> Config:
    """Build an object from a file's text. Error messages call the file `what`, and name the `settings` of `build`.

    Raises
    ------
    ConfigError
        If the file cannot be read or used. The message names the file.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise ConfigError(f"cannot read the {what} {path}: {reason}") from None
    try:
        return build(text)
    except ConfigError as error:
        where = f"{path} with {', '.join(settings)}" if settings else path
        raise ConfigError(f"{where}: {error}") from None


def parsed(text: str, settings: Iterable[str] = ()) -> dict[str, Any]:
    """Return a document, overridden by `settings` such as ``"tile.rows=8"``.

    Raises
    ------
    ConfigError
        If the text is not TOML, or a setting is not valid.

    Examples
    --------
    >>> parsed("[tile]\\nrows = 2", ["tile.columns=3"])
    {'tile': {'rows': 2, 'columns': 3}}
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also excessive numbers and nesting
        raise ConfigError(f"not valid TOML: {error}") from None
    for setting in settings:
        _apply(document, setting)
    return document


def checked_table(document: Mapping[str, Any], name: str, known: Collection[str]) -> Mapping[str, Any]:
    """Return a table of a document, or an empty one if the document lacks it.

    Raises
    ------
    ConfigError
        If it is not a table, or has an unknown key.
    """
    table = document.get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{name} must be a table, not {table!r}")
    for key in table:
        if key not in known:
            raise ConfigError(f"unknown key {name}.{key}: allowed are {', '.join(known)}")
    return table


class TomlConfig:
    """A configuration stored in TOML files. Subclasses define `from_mapping` and `to_mapping`."""

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> Self:
        """Build a configuration from a parsed document."""
        raise NotImplementedError

    def to_mapping(self) -> dict[str, Any]:
        """Return the document of this configuration."""
        raise NotImplementedError

    @classmethod
    def from_toml(cls, text: str, settings: Iterable[str] = ()) -> Self:
        """Build a configuration from TOML, overridden by `settings` such as ``"tile.rows=8"``."""
        return cls.from_mapping(parsed(text, settings))

    @classmethod
    def load(cls, path: str | Path, settings: Iterable[str] = ()) -> Self:
        """Read a TOML file, overridden by `settings`.

        Raises
        ------
        ConfigError
            If the file cannot be read or used. The message names the file.
        """
        settings = list(settings)
        return loaded(path, lambda text: cls.from_toml(text, settings), settings=settings)

    def to_toml(self) -> str:
        """Return the document of `to_mapping` as TOML."""
        return tomlkit.dumps(self.to_mapping())


def _apply(document: dict[str, Any], setting: str) -> None:
    """Set ``a.b=value`` in a parsed document. The value is TOML, or a bare word."""
    path, equals, text = setting.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or not all(keys):
        raise ConfigError(f"a setting must look like tile.rows=8, not {setting!r}")
    try:
        parsed = tomllib.loads(f"value = {text}")
        if set(parsed) != {"value"}:
            raise ConfigError(f"a setting must be one key and its value, not {setting!r}")
        value = parsed["value"]
    except ConfigError:
        raise
    except (ValueError, RecursionError):
        value = text.strip()
    table = document
    for key in keys[:-1]:
        child = table.setdefault(key, {})
        if not isinstance(child, dict):
            child = table[key] = {}
        table = child
    table[keys[-1]] = value
