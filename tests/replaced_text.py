"""Put faults into texts and files."""

from pathlib import Path


def replace_once(text: str, right: str, wrong: str) -> str:
    """Replace a part that the text has exactly once."""
    assert text.count(right) == 1, right
    return text.replace(right, wrong)


def replace_in_file(file: Path, right: str, wrong: str) -> None:
    """Replace a part that the file has exactly once."""
    file.write_text(replace_once(file.read_text(), right, wrong))
