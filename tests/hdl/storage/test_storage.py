"""Files are whole or as they were; journals go on after a run that was killed."""

import json
from pathlib import Path

import pytest

from tensordash.storage.files import code_digest, write_whole
from tensordash.storage.journal import Journal


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "kept.json"
    write_whole(path, "first")

    def broken(self, text, **_):
        with self.open("w") as file:
            file.write(text[:3])
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_text", broken)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, "second")
    assert path.read_text() == "first"
    assert [each.name for each in tmp_path.iterdir()] == ["kept.json"]


@pytest.mark.parametrize("tail", ['{"n": 4', '{"n": 4}', '{"m": 4}\n', "\xff\n", "[]\n"])
def test_a_journal_drops_what_follows_its_last_whole_entry(tmp_path, tail):
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


def test_code_digest_is_of_every_file_by_name_and_content(tmp_path):
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
