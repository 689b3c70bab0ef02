"""Transitive imports of Python files within a package."""

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["imported_files"]


def imported_files(package: Path, *files: Path) -> tuple[Path, ...]:
    """Return the given files of a package and all files of the package that they import, sorted.

    Parameters
    ----------
    package : Path
        Folder of the package.
    *files : Path
        Python files in the package.
    """
    found: set[Path] = set()
    pending = list(files)
    while pending:
        file = pending.pop()
        if file not in found:
            found.add(file)
            pending += _imports(package, file)
    return tuple(sorted(found))


def _imports(package: Path, file: Path) -> Iterator[Path]:
    inside = [package.name, *file.relative_to(package).with_suffix("").parts]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            prefix = inside[: -node.level] if node.level else []
            module = [*prefix, *(node.module or "").split(".")] if node.module else prefix
            # A name that is imported from a package may be a module.
            names = [module, *([*module, alias.name] for alias in node.names)]
        else:
            continue
        for name in names:
            if name[0] == package.name:
                path = package.joinpath(*name[1:])
                yield from (each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file())
