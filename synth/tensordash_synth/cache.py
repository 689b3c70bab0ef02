"""Cache of mappings and figures, by the content that decides them."""

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

__all__ = ["cache_folder", "cached_document", "cached_mappings", "cached_numbers", "recipe_digest"]


def cache_folder() -> Path:
    """Return the folder of cached mappings: ``tensordash/synth`` in the cache folder, which may be a temporary one."""
    return usable_cache("synth")


@cache
def recipe_digest() -> str:
    """Hash what decides a mapping, except for its module: Yosys, and the code of the recipe."""
    code = Path(mapping.__file__).read_bytes()
    return f"{version('pyosys')} {hashlib.sha256(code).hexdigest()}"


def cached_mappings(key: list[str], make: Callable[[], tuple[Mapped, ...]]) -> tuple[Mapped, ...]:
    """Return the mappings of a key from the cache; make them if the cache lacks them.

    Parameters
    ----------
    key : list of str
        Everything that decides them, except for the tools.
    make : callable
        Makes the values.
    """
    digest = hashlib.sha256(json.dumps([recipe_digest(), *key]).encode()).hexdigest()
    path = cache_folder() / f"{digest}.json"
    with suppress(OSError, ValueError, TypeError):
        return tuple(Mapped(**entry) for entry in json.loads(path.read_text(encoding="utf-8")))
    mapped = make()
    with suppress(OSError):  # A folder that cannot be written costs time only.
        atomic_write(path, json.dumps([asdict(each) for each in mapped]))
    return mapped


def cached_numbers(key: list[str], make: Callable[[], list[float]]) -> list[float]:
    """Return the numbers of a key from the cache; make them if the cache lacks them.

    Parameters
    ----------
    key : list of str
        Everything that decides the values, and their name.
    make : callable
        Makes the values.
    """
    path = cache_folder() / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()}.numbers.json"
    with suppress(OSError, ValueError, TypeError):
        return [float(each) for each in json.loads(path.read_text(encoding="utf-8"))]
    numbers = make()
    with suppress(OSError):
        atomic_write(path, json.dumps(numbers))
    return numbers


def cached_document(key: list[str], make: Callable[[], Any]) -> Any:
    """Return the JSON document of a key from the cache; make it if the cache lacks it.

    Parameters
    ----------
    key : list of str
        Everything that decides the values, and their name.
    make : callable
        Makes the document.
    """
    path = cache_folder() / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()}.document.json"
    with suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    document = make()
    with suppress(OSError):
        atomic_write(path, json.dumps(document))
    return document
