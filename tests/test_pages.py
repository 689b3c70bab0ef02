"""Files that pages name exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = "bench|cli|docs|examples|formal|hdl|runtime|sim|synth|tests"
NAMED = re.compile(rf"(?<![\w/.:])(?:{FOLDERS})/[\w./*-]+\.(?:py|md|toml|json|j2|svg)")
MIN_NAMED = 50


def test_named_files_exist() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = {
        (page.name, path)
        for page in pages
        if page.name != "CHANGELOG.md"
        for path in NAMED.findall(page.read_text(encoding="utf-8"))
    }
    assert len(named) >= MIN_NAMED
    assert not sorted(each for each in named if not list(ROOT.glob(each[1].replace("NAME", "*"))))
