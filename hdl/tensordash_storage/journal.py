"""Journals from which an interrupted run resumes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from .files import annotate_oserror

__all__ = ["Journal"]

Entry = TypeVar("Entry")


class Journal(Generic[Entry]):
    """A file with a line of JSON for each entry, in order of arrival.

    Parameters
    ----------
    path : Path
        The file. Its folder is created with the first entry.
    read : callable
        Returns the entry of a line's document. Raises ValueError, KeyError or TypeError for an invalid document.
    """

    def __init__(self, path: Path, read: Callable[[Any], Entry]) -> None:
        self.path, self._read = path, read

    def entries(self) -> list[Entry]:
        """Return the complete entries. Truncate an incomplete rest, such as half a line of a killed run.

        Raises
        ------
        OSError
            If the file exists and cannot be read.
        """
        if not self.path.exists():
            return []
        found: list[Entry] = []
        valid_bytes, content = 0, self.path.read_bytes()
        for line in content.splitlines(keepends=True):
            try:
                entry = self._read(json.loads(line))
            except (ValueError, KeyError, TypeError):
                break
            if not line.endswith(b"\n"):
                break
            valid_bytes += len(line)
            found.append(entry)
        if valid_bytes < len(content):
            with self.path.open("r+b") as file:
                file.truncate(valid_bytes)
        return found

    def append(self, document: Any) -> None:
        """Add an entry.

        Parameters
        ----------
        document : Any
            A document for `read`, of JSON types.
        """
        with annotate_oserror(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(document) + "\n")
