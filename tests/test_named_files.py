"""Test that files that pages name exist."""

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


def test_verification_page_has_the_goals_of_the_nightly_soak() -> None:
    makefile, page = ((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "docs/verification.md"))
    goals = {name: int(count) for name, count in re.findall(r"--(cores|positions|descriptors|faults) (\d+)", makefile)}
    text = " ".join(page.split())
    assert goals["positions"] == 10**8
    assert f"10^8 multiply positions of tiles and 10^8 of {goals['cores']} cores" in text
    assert f"{goals['descriptors']:,} descriptors and {goals['faults']:,} faults" in text
