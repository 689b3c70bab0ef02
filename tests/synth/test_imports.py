"""No two files of the package import each other, directly or through others."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import tensordash_synth

ROOT = Path(tensordash_synth.__file__).parent


def imported(file: Path) -> set[str]:
    """The files beside it that it imports, also where only types are needed."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module} if node.module else {alias.name for alias in node.names}
    return found


def test_no_circle():
    files = {file.stem: imported(file) for file in ROOT.glob("*.py")}
    assert files["report"] >= {"hierarchy", "mapping"}
    TopologicalSorter(files).prepare()
