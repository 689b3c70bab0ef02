"""Cache of mappings and figures, keyed by everything that determines them."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tensordash_storage.files import atomic_write
from tensordash_storage.user_cache import usable_cache

from . import mapping
from .mapping import Mapped

__all__ = ["cache_folder", "cached_document", "cached_mappings", "recipe_digest"]


def cache_folder() -> Path:
    """Return the folder of cached mappings: ``tensordash/synth`` in the cache folder, which may be a temporary one."""
    return usable_cache("synth")


@cache
def recipe_digest() -> str:
    """Hash Yosys' version and the code of the recipe, which determine a mapping of a module."""
    code = Path(mapping.__file__).read_bytes()
    return f"{version('pyosys')} {hashlib.sha256(code).hexdigest()}"


def cached_mappings(key: list[str], make: Callable[[], tuple[Mapped, ...]]) -> tuple[Mapped, ...]:
    """Return the mappings of a key from the cache; make them if the cache lacks them.

    Parameters
    ----------
    key : list of str
        Everything that determines them, except for the tools.
    make : callable
        Computes the mappings.
    """
    return _cached(
        [recipe_digest(), *key],
        "json",
        make,
        lambda entries: tuple(Mapped(**entry) for entry in entries),
        lambda mapped: [asdict(each) for each in mapped],
    )


def cached_document(key: list[str], make: Callable[[], Any]) -> Any:
    """Return the JSON document of a key from the cache; make it if the cache lacks it.

    Parameters
    ----------
    key : list of str
        Everything that determines the values, and their name.
    make : callable
        Computes the document.
    """
    return _cached(key, "document.json", make)


def _cached(
    key: list[str],
    suffix: str,
    make: Callable[[], Any],
    from_json: Callable[[Any], Any] = lambda document: document,
    to_json: Callable[[Any], Any] = lambda document: document,
) -> Any:
    path = cache_folder() / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()}.{suffix}"
    with suppress(OSError, ValueError, TypeError):
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    value = make()
    with suppress(OSError):  # A folder that cannot be written costs time only.
        atomic_write(path, json.dumps(to_json(value)))
    return value
