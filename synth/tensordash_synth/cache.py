"""Mappings that were made before, kept by their content."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tensordash.storage.files import atomic_write
from tensordash.storage.user_cache import usable_cache

from . import mapping
from .mapping import Mapped

__all__ = ["cache_folder", "cached", "kept_document", "kept_numbers", "recipe_digest"]


def cache_folder() -> Path:
    """Where mappings are kept: ``tensordash/synth`` in the cache folder, which may be a temporary one."""
    return usable_cache("synth")


@cache
def recipe_digest() -> str:
    """Of what decides a mapping beside its module: Yosys, and the recipe as it stands in the code."""
    code = Path(mapping.__file__).read_bytes()
    return f"{version('pyosys')} {hashlib.sha256(code).hexdigest()}"


def cached(key: list[str], make: Callable[[], tuple[Mapped, ...]]) -> tuple[Mapped, ...]:
    """Mappings under a key; they are made where they are not kept yet, or cannot be read.

    Parameters
    ----------
    key : list of str
        Everything that decides them, but the tools.
    make : callable
        Makes them.
    """
    digest = hashlib.sha256(json.dumps([recipe_digest(), *key]).encode()).hexdigest()
    path = cache_folder() / f"{digest}.json"
    with suppress(OSError, ValueError, TypeError):
        return tuple(Mapped(**entry) for entry in json.loads(path.read_text(encoding="utf-8")))
    mapped = make()
    with suppress(OSError):  # a folder that cannot be written costs time, and nothing else
        atomic_write(path, json.dumps([asdict(each) for each in mapped]))
    return mapped


def kept_numbers(key: list[str], make: Callable[[], list[float]]) -> list[float]:
    """Numbers under a key, which is everything that decides them; they are made where they are not kept yet.

    Parameters
    ----------
    key : list of str
        What they are, and all that goes in.
    make : callable
        Makes them.
    """
    path = cache_folder() / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()}.numbers.json"
    with suppress(OSError, ValueError, TypeError):
        return [float(each) for each in json.loads(path.read_text(encoding="utf-8"))]
    numbers = make()
    with suppress(OSError):
        atomic_write(path, json.dumps(numbers))
    return numbers


def kept_document(key: list[str], make: Callable[[], Any]) -> Any:
    """Plain values under a key, which is everything that decides them; they are made where they are not kept yet.

    Parameters
    ----------
    key : list of str
        What they are, and all that goes in.
    make : callable
        Makes them: what JSON can hold.
    """
    path = cache_folder() / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()}.document.json"
    with suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    document = make()
    with suppress(OSError):
        atomic_write(path, json.dumps(document))
    return document
