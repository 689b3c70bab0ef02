"""Atomic writes of files, scratch folders, and the digest of code."""

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["annotate_oserror", "atomic_copy", "atomic_path", "atomic_write", "code_digest", "scratch", "write_files"]

LOCK = ".lock"
"""File in a scratch folder that its process locks until it ends."""
MIN_AGE_SECONDS = 60
"""Age below which a scratch folder is never removed: its process may not have locked it yet."""


@contextmanager
def annotate_oserror(path: Path, *, if_nameless: bool = False) -> Iterator[None]:
    """Set the file name of an OSError that the block raises. The error of a full disk has none.

    Parameters
    ----------
    path : Path
        The file, or the folder of several files.
    if_nameless : bool
        Change only errors without a file name.

    Raises
    ------
    OSError
        The error that the block raises, with `path` as its file name.

    Examples
    --------
    >>> with annotate_oserror(Path("results.json")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'results.json'
    """
    try:
        yield
    except OSError as error:
        if if_nameless and error.filename is not None:
            raise
        if error.errno is None:  # NumPy raises such errors.
            raise OSError(f"{path}: cannot be written: {error}") from error
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextmanager
def scratch(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield a new temporary folder. Remove the folders of killed processes first.

    Parameters
    ----------
    prefix : str
        Prefix of the folder's name, and of the names of folders to remove.
    parent : Path, optional
        Its parent. By default the system's folder for temporary files.

    Examples
    --------
    >>> with scratch("made-", getfixture("tmp_path")) as folder:
    ...     folder.is_dir(), folder.name[:5]
    (True, 'made-')
    >>> folder.exists()
    False
    """
    parent = parent or Path(tempfile.gettempdir())
    for folder in parent.glob(f"{prefix}*"):
        if _is_stale(folder):
            shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as name, (Path(name) / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(name)


def _is_stale(folder: Path) -> bool:
    """Return whether the process of a scratch folder has ended."""
    with suppress(OSError):  # The folder is removed, another user's, or locked.
        if time.time() - folder.stat().st_mtime > MIN_AGE_SECONDS:
            with (folder / LOCK).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
    return False


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path. A file written there replaces `path` when the block ends. Create the folder of `path`.

    Raises
    ------
    OSError
        If the file cannot be written. The error names `path`, whose content is unchanged.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> with atomic_path(folder / "made" / "results.json") as temporary:
    ...     _ = temporary.write_text("{}")
    >>> [path.name for path in (folder / "made").iterdir()]
    ['results.json']
    """
    with annotate_oserror(path):
        # Write to a pipe or a device directly; for a folder, writing raises the error.
        if path.exists() and not path.is_file():
            yield path
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch(".tensordash-", path.parent) as folder:
            complete = folder / path.name
            yield complete
            complete.replace(path)


def atomic_write(path: Path, text: str) -> None:
    """Write a text file atomically: readers find the complete old or new text."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_files(
    folder: Path, files: Mapping[str, str | bytes | memoryview], *, optional: Collection[str] = ()
) -> list[Path]:
    """Write files to a folder, all or none; create the folder. Return their paths.

    Only an interruption between two renames leaves a part of the files. The last file is then missing.

    Parameters
    ----------
    folder : Path
        The folder. Its other files are unchanged.
    files : mapping of str to str, bytes or memoryview
        Contents by path in the folder.
    optional : collection of str
        Paths of files to delete if they are not in `files`.

    Raises
    ------
    OSError
        If a file cannot be written. The error names the file.

    Examples
    --------
    >>> folder = getfixture("tmp_path") / "made"
    >>> [path.name for path in write_files(folder, {"program/data.bin": b"0", "Makefile": "all:"})]
    ['data.bin', 'Makefile']
    >>> sorted(path.name for path in folder.iterdir())
    ['Makefile', 'program']
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in files]
    for path in paths:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with scratch(".tensordash-", folder) as temporary:
        for path, (name, content) in zip(paths, files.items(), strict=True):
            complete = temporary / name
            with annotate_oserror(path):
                complete.parent.mkdir(parents=True, exist_ok=True)
                complete.write_bytes(content.encode() if isinstance(content, str) else content)
        for path in (paths[-1], *(folder / name for name in optional if name not in files)):
            path.unlink(missing_ok=True)
        for path, name in zip(paths, files, strict=True):
            path.parent.mkdir(exist_ok=True)
            (temporary / name).replace(path)
    return paths


def atomic_copy(source: Path, path: Path) -> None:
    """Copy a file atomically."""
    with atomic_path(path) as temporary:
        shutil.copyfile(source, temporary)


def code_digest(*paths: Path) -> str:
    """Hash the code that results depend on, so that no result of other code is reused.

    Parameters
    ----------
    *paths : Path
        Python files, and folders whose Python files are all hashed.
    """
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            content = file.read_bytes()
            digest.update(f"{file.name} {len(content)} ".encode() + content)
    return digest.hexdigest()
