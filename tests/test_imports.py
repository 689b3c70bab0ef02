"""No module imports one that imports it, in the whole distribution: functions and type checking count as well.

And nothing but processes of their own imports Yosys' library: it makes global the symbols of every library loaded after
it, and PyTorch's and matplotlib's exceptions are then not understood any more.
"""

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

PACKAGES = (
    "tensordash",
    "tensordash_sim",
    "tensordash_runtime",
    "tensordash_synth",
    "tensordash_axi",
    "tensordash_formal",
    "tensordash_cli",
)


def modules_of(folder: Path) -> dict[str, Path]:
    """Every module of a package, by its name; of a package that its `__init__` is."""
    found: dict[str, Path] = {}
    for file in sorted(folder.rglob("*.py")):
        parts = [folder.name, *file.relative_to(folder).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(name: str, file: Path, known: set[str]) -> set[str]:
    """Which modules one imports by their own name: `from . import x` imports x, if it is a module."""
    package = name.split(".") if file.stem == "__init__" else name.split(".")[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            below = {f"{source}.{alias.name}" for alias in node.names}
            found |= (below & known) | ({source} if below - known else set())
    return found & known - {name}


def circles(graph: dict[str, set[str]]) -> list[str]:
    """The shortest way around each circle, once."""
    found: dict[frozenset[str], str] = {}
    for start in graph:
        paths = [[start]]
        seen = {start}
        while paths:
            path = paths.pop(0)
            for following in sorted(graph[path[-1]]):
                if following == start:
                    least = path.index(min(path))
                    turned = [*path[least:], *path[:least]]
                    found.setdefault(frozenset(path), " -> ".join([*turned, turned[0]]))
                elif following not in seen:
                    seen.add(following)
                    paths.append([*path, following])
    return sorted(found.values())


def graph_of(folders: list[Path]) -> dict[str, set[str]]:
    modules = {name: file for folder in folders for name, file in modules_of(folder).items()}
    return {name: imports(name, file, set(modules)) for name, file in modules.items()}


def of_packages() -> list[Path]:
    folders = []
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        folders.append(Path(spec.origin).parent)
    return folders


def test_yosys_stays_outside() -> None:
    modules = {name: file for folder in of_packages() for name, file in modules_of(folder).items()}
    library = {"pyosys", "pyosys.libyosys"}
    assert [name for name in modules if imports(name, modules[name], library)] == ["tensordash_formal.yosys_program"]


def test_no_circle() -> None:
    graph = graph_of(of_packages())
    assert len(graph) > 200
    assert sum(map(len, graph.values())) > 500
    assert circles(graph) == []


@pytest.mark.parametrize(
    ("b", "expected"),
    [
        ("from . import a", ["p.a -> p.b -> p.a"]),
        ("from .a import x", ["p.a -> p.b -> p.a"]),
        ("import p.a", ["p.a -> p.b -> p.a"]),
        ("def later():\n    from .a import x", ["p.a -> p.b -> p.a"]),
        ("from .c import x", ["p.a -> p.b -> p.c -> p.a"]),
        ("import os", []),
    ],
)
def test_circles_are_found(b: str, expected: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    for name, text in {"__init__": "", "a": "from .b import x", "b": b, "c": "from p import a"}.items():
        (folder / f"{name}.py").write_text(text)
    assert circles(graph_of([folder])) == expected
