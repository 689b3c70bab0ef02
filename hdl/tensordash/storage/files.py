"""Files that are whole or not there, and the digest of the code that made them."""

import hashlib
import tempfile
from pathlib import Path

__all__ = ["code_digest", "write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Write a file at once: whoever looks finds it whole, or what was there before. Its folder is made if need be.

    Raises
    ------
    OSError
        It cannot be written.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> write_whole(folder / "made" / "results.json", "{}")
    >>> [path.name for path in (folder / "made").iterdir()]
    ['results.json']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".tensordash-") as scratch:
        complete = Path(scratch) / path.name
        complete.write_text(text, encoding="utf-8", newline="\n")
        complete.replace(path)


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
