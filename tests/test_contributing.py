"""Test that CONTRIBUTING.md and the pages on extensions name existing files, commands and constants."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tensordash_cli.main import COMMANDS

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXTENSIONS = sorted((ROOT / "docs" / "howto").glob("add-a-*.md"))
PAGE = "\n".join([CONTRIBUTING, *(page.read_text(encoding="utf-8") for page in EXTENSIONS)])
MAX_LINES = 120
FOLDERS = ("bench", "cli", "docs", "formal", "hdl", "runtime", "sim", "synth", "tests")


def named_paths() -> list[str]:
    """Return the paths in the pages that begin at the root of the repository."""
    return sorted(set(re.findall(rf"(?<![\w./-])(?:\.ci|{'|'.join(FOLDERS)})/[\w./-]*[\w/]", PAGE)))


def test_page_is_short() -> None:
    assert len(CONTRIBUTING.splitlines()) <= MAX_LINES


def test_paths_exist() -> None:
    paths = [path for path in named_paths() if "NAME" not in path]
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_commands_and_targets_exist() -> None:
    commands = re.findall(r"\btensordash (\w+) -", PAGE)
    assert {"verify", "prove", "generate", "mutate"} <= set(commands) <= set(COMMANDS)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:^|`)make (\w+)", PAGE, re.MULTILINE))
    assert {"lint", "test", "nightly"} <= targets
    assert [each for each in targets if not re.search(rf"^{each}:", makefile, re.MULTILINE)] == []


def test_constants_are_in_the_files_of_their_row() -> None:
    """A name in capitals in a row of a table is in one of the files of that row."""
    rows = re.findall(r"^\| (`[^|]*/[^|]*`) \| ([^|]*) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 20
    for files, description in rows:
        texts = [path.read_text(encoding="utf-8") for name in re.findall(r"`([^`]+)`", files) for path in _files(name)]
        for constant in re.findall(r"`([A-Z_]{4,})`", description):
            assert any(re.search(rf"\b{constant}\b", text) for text in texts), f"{constant} is not in {files}"


def _files(name: str) -> list[Path]:
    path = ROOT / name
    return sorted(path.glob("*.py")) if path.is_dir() else [path]


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_github_files_are_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_workflow_runs_the_gate_on_the_oldest_python() -> None:
    path = ROOT / ".github/workflows/ci.yml"
    if not path.exists():
        pytest.skip("an archive of the sources has no workflows")
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    (gate,) = [job for job in jobs if ".ci/run" in [step.get("run") for step in job["steps"]]]
    (python,) = [each["with"]["python-version"] for each in gate["steps"] if "setup-python" in each.get("uses", "")]
    required = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert required == f">={python}"
