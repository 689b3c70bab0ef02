"""Files that are whole or not there, and the digest of the code that made them."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["code_digest", "copy_whole", "naming", "whole", "write_whole"]


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
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".tensordash-") as scratch:
            complete = Path(scratch) / path.name
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
