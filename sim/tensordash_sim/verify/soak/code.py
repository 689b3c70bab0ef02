"""Digest of the code that soaks depend on, so that records of other code are not used."""

from functools import cache
from pathlib import Path

import tensordash
from tensordash_storage import files

from ... import compiler, emulator, golden, verify

__all__ = ["code_digest"]


@cache
def code_digest() -> str:
    """Return a digest of the code that determines a job's outcome: hardware, models, compiler, and `verify`."""
    folders = [Path(package.__file__ or "").parent for package in (tensordash, golden, compiler, emulator, verify)]
    return files.code_digest(*folders, folders[-1] / "core_harness.cpp")[:16]
