"""Test that files are complete or unchanged, and that journals continue after a killed run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tensordash_storage import user_cache as user_cache_module
from tensordash_storage.files import atomic_write, code_digest
from tensordash_storage.journal import Journal
from tensordash_storage.user_cache import usable_cache, user_cache


def test_failed_atomic_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "kept.json"
    atomic_write(path, "first")

    def broken(self, text, **_):
        with self.open("w") as file:
            file.write(text[:3])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", broken)
    with pytest.raises(OSError, match="no space"):
        atomic_write(path, "second")
    assert path.read_text() == "first"
    assert [each.name for each in tmp_path.iterdir()] == ["kept.json"]


@pytest.mark.parametrize("tail", ['{"n": 4', '{"n": 4}', '{"m": 4}\n', "\xff\n", "[]\n"])
def test_journal_drops_an_incomplete_last_entry(tmp_path, tail):
    path = tmp_path / "made" / "journal.jsonl"

    def journal():
        return Journal(path, lambda line: line["n"])

    assert journal().entries() == []
    for n in range(3):
        journal().append({"n": n})
    with path.open("a", encoding="latin-1") as file:
        file.write(tail)
    assert journal().entries() == [0, 1, 2]
    journal().append({"n": 3})
    assert [json.loads(line)["n"] for line in path.read_text().splitlines()] == [0, 1, 2, 3]


def test_code_digest_covers_names_and_contents_of_files(tmp_path):
    (tmp_path / "inner").mkdir()
    for name, text in {"a.py": "1", "b.py": "2", "inner/c.py": "3", "notes.txt": "4"}.items():
        (tmp_path / name).write_text(text)
    digests = [code_digest(tmp_path)]
    (tmp_path / "notes.txt").write_text("5")
    assert code_digest(tmp_path) == digests[0]
    for change in (
        lambda: (tmp_path / "inner/c.py").write_text("6"),
        lambda: (tmp_path / "a.py").rename(tmp_path / "d.py"),
    ):
        change()
        assert code_digest(tmp_path) not in digests
        digests.append(code_digest(tmp_path))
    assert code_digest(tmp_path / "b.py") == code_digest(tmp_path / "b.py") != code_digest(tmp_path / "d.py")


class TestUserCache:
    @pytest.fixture(autouse=True)
    def restored(self, monkeypatch, tmp_path):
        """Restore XDG_CACHE_HOME and the list of replaced folders after the test."""
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "made" / "cache"))
        monkeypatch.setattr(user_cache_module, "_replaced", {})

    def test_writable_cache(self, tmp_path):
        assert user_cache_module.usable_cache_home()
        assert usable_cache("synth") == user_cache("synth") == tmp_path / "made" / "cache" / "tensordash" / "synth"
        assert list((tmp_path / "made" / "cache").iterdir()) == []

    def test_relative_cache_path_is_ignored(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_CACHE_HOME", "here")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert usable_cache("synth") == tmp_path / ".cache" / "tensordash" / "synth"

    @pytest.mark.parametrize("home", ["XDG_CACHE_HOME", "HOME", "none"])
    def test_unwritable_cache(self, home, monkeypatch, tmp_path):
        (tmp_path / "file").write_text("")
        if home == "none":  # as for a user ID without an account
            monkeypatch.delenv("XDG_CACHE_HOME")

            def no_home():
                raise RuntimeError("Could not determine home directory.")

            monkeypatch.setattr(Path, "home", no_home)
            with pytest.raises(FileNotFoundError, match="no cache folder: set HOME or XDG_CACHE_HOME"):
                user_cache("data")
        else:
            monkeypatch.setenv("XDG_CACHE_HOME", "")
            monkeypatch.setenv(home, str(tmp_path / "file"))
        assert not user_cache_module.usable_cache_home()
        used = usable_cache("synth")
        assert used.is_relative_to(os.environ["XDG_CACHE_HOME"])
        used.mkdir(parents=True)
        assert usable_cache("synth") == used, "the same folder"
        if home != "none":  # Data sets must not go to a temporary folder.
            assert user_cache("data").is_relative_to(tmp_path / "file")
        shutil.rmtree(os.environ["XDG_CACHE_HOME"])

    def test_temporary_cache_is_removed_at_exit(self, tmp_path):
        (tmp_path / "file").write_text("")
        code = (
            "from tensordash_storage.user_cache import usable_cache as u; p = u('x'); p.mkdir(parents=True); print(p)"
        )
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file")}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert "tensordash-cache-" in run.stdout
        assert not Path(run.stdout.strip()).parent.exists()
        assert run.stderr == ""
