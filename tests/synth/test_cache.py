"""Test that each module is mapped once."""

from pathlib import Path

import pytest

from tensordash_synth.cache import cache_folder, cached_mappings
from tensordash_synth.mapping import Mapped

MAPPED = Mapped(area_um2=1.5, delay_ns=0.25, flip_flop_um2=0.5, recipe="area", netlist="module m();\nendmodule\n")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "tensordash" / "synth"
    return cache_folder()


class Maker:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> tuple[Mapped, ...]:
        self.calls += 1
        return MAPPED, MAPPED


def test_modules_are_mapped_once(folder: Path) -> None:
    make = Maker()
    assert cached_mappings(["a", "b"], make) == (MAPPED, MAPPED) == cached_mappings(["a", "b"], make)
    assert make.calls == 1
    assert cached_mappings(["a", "c"], make) == (MAPPED, MAPPED)
    assert make.calls == 2
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("content", ["", "[", "[{}]", '{"a": 1}', "\x00"])
def test_damaged_entries_are_remapped(folder: Path, content: str) -> None:
    make = Maker()
    cached_mappings(["a"], make)
    (file,) = folder.iterdir()
    file.write_text(content)
    assert cached_mappings(["a"], make) == (MAPPED, MAPPED)
    assert make.calls == 2
    assert cached_mappings(["a"], make) == (MAPPED, MAPPED)
    assert make.calls == 2


def test_other_tools_invalidate_entries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Maker()
    cached_mappings(["a"], make)
    monkeypatch.setattr("tensordash_synth.cache.recipe_digest", lambda: "another Yosys")
    cached_mappings(["a"], make)
    assert make.calls == 2


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder replaces it: this process maps each module once."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    make = Maker()
    assert cached_mappings(["a"], make) == (MAPPED, MAPPED) == cached_mappings(["a"], make)
    assert make.calls == 1
    assert not cache_folder().is_relative_to(tmp_path)
    assert (tmp_path / "file").read_text() == ""
