"""Writing of a figure's files: numbers and picture."""

import csv
import io
import json
from pathlib import Path

from tensordash_storage.files import atomic_path, atomic_write

from ..report.figure import Figure
from .draw import draw

__all__ = ["write_figure"]


def write_figure(figure: Figure, folder: Path) -> list[Path]:
    """Write NAME.json, NAME.csv, NAME.svg and NAME.png, each atomically.

    Parameters
    ----------
    figure : Figure
        The figure.
    folder : Path
        Output folder. Created if it is missing.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    TensorDashError
        If matplotlib is not installed.
    OSError
        If a file cannot be written. The message names it.
    """
    files = [folder / f"{figure.name}.{ending}" for ending in ("json", "csv", "svg", "png")]
    lines = [point.to_json() for point in figure.points]
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, list(dict.fromkeys(key for line in lines for key in line)))
    writer.writeheader()
    writer.writerows(lines)
    for file in files[2:]:
        with atomic_path(file) as place:
            draw(figure, [place])
    atomic_write(files[0], json.dumps(figure.to_json(), indent=2) + "\n")
    atomic_write(files[1], table.getvalue())
    return files
