"""Which files of a package some of its files import, directly or through others."""

import ast
from collections.abc import Iterator
from pathlib import Path

__all__ = ["imported_files"]


def imported_files(package: Path, *files: Path) -> tuple[Path, ...]:
    """Files of a package, and all of it that they import, in order; what is imported from elsewhere is left out.

    Parameters
    ----------
    package : Path
        The package's folder.
    *files : Path
        Python files in it.
    """
    found: set[Path] = set()
    waiting = list(files)
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _imports(package, file)
    return tuple(sorted(found))


def _imports(package: Path, file: Path) -> Iterator[Path]:
    inside = [package.name, *file.relative_to(package).with_suffix("").parts]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            begin = inside[: -node.level] if node.level else []
            module = [*begin, *(node.module or "").split(".")] if node.module else begin
            # What is imported from a package may be a module in it.
            names = [module, *([*module, alias.name] for alias in node.names)]
        else:
            continue
        for name in names:
            if name[0] == package.name:
                path = package.joinpath(*name[1:])
                yield from (each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file())
