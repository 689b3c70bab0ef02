"""Files that are whole or not there, and the digest of the code that made them."""

import fcntl
import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["code_digest", "copy_whole", "naming", "scratch", "whole", "write_whole"]

LOCK = ".lock"
"""In a scratch folder; locked as long as the process lives that made it."""
FRESH = 60
"""Seconds in which a scratch folder is left alone, whatever its lock: it may just be made."""


@contextmanager
def naming(path: Path, *, if_nameless: bool = False) -> Iterator[None]:
    """What cannot be written is called by its name: a full disk alone says no more than that it is full.

    Parameters
    ----------
    path : Path
        The file; or a folder that many are written to.
    if_nameless : bool
        Only errors that name no file are changed.

    Raises
    ------
    OSError
        The one that the block raises, with `path` as its file.

    Examples
    --------
    >>> with naming(Path("results.json")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'results.json'
    """
    try:
        yield
    except OSError as error:
        if if_nameless and error.filename is not None:
            raise
        if error.errno is None:  # NumPy's
            raise OSError(f"{path}: cannot be written: {error}") from error
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def scratch(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A folder for a while. First, what processes that were killed have left beside it is removed.

    Parameters
    ----------
    prefix : str
        What its name begins with, and those of the others.
    parent : Path, optional
        Where; the system's folder for temporary files if left out.

    Examples
    --------
    >>> with scratch("made-", getfixture("tmp_path")) as folder:
    ...     folder.is_dir(), folder.name[:5]
    (True, 'made-')
    >>> folder.exists()
    False
    """
    parent = parent or Path(tempfile.gettempdir())
    for left in parent.glob(f"{prefix}*"):
        if _is_left(left):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as name, (Path(name) / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(name)


def _is_left(folder: Path) -> bool:
    """Whether nobody works in a scratch folder any more."""
    with suppress(OSError):  # it is gone, somebody else's, or locked
        if time.time() - folder.stat().st_mtime > FRESH:
            with (folder / LOCK).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
    return False


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place to write a file to, which comes to lie at `path` when all of it is there. Its folder is made if need be.

    Raises
    ------
    OSError
        It cannot be written; names `path`, where there is then what was there before.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> with whole(folder / "made" / "results.json") as place:
    ...     _ = place.write_text("{}")
    >>> [path.name for path in (folder / "made").iterdir()]
    ['results.json']
    """
    with naming(path):
        if path.exists() and not path.is_file():  # a pipe or a device; of a folder the error comes
            yield path
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch(".tensordash-", path.parent) as folder:
            complete = folder / path.name
            yield complete
            complete.replace(path)


def write_whole(path: Path, text: str) -> None:
    """Write a text file at once, as `whole` does: whoever looks finds all of it, or what was there before."""
    with whole(path) as place:
        place.write_text(text, encoding="utf-8", newline="\n")


def copy_whole(source: Path, path: Path) -> None:
    """Copy a file at once, as `whole` does."""
    with whole(path) as place:
        shutil.copyfile(source, place)


def code_digest(*places: Path) -> str:
    """Of the code that results depend on, so that results of other code are never taken for this one's.

    Parameters
    ----------
    *places : Path
        Python files, and folders of which all Python files count.
    """
    hashed = hashlib.sha256()
    for place in places:
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            content = file.read_bytes()
            hashed.update(f"{file.name} {len(content)} ".encode() + content)
    return hashed.hexdigest()
