"""Placement of a mapped netlist's cells on the sites of rows: the floor plan, the placer, and checks of legality."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from math import ceil, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tensordash.extras import require

from .cache import cache_folder
from .lef import Lef
from .pins import PinTable
from .yosys import SynthesisError

__all__ = ["DENSITY", "EFFORT", "SEED", "Floorplan", "Placed", "find_placer", "floorplan", "place"]

PLACER = "coloquinte"
DENSITY = 0.78
EFFORT = 1
SEED = 1
TIME_LIMIT = 3600.0  # seconds
WORKER = Path(__file__).with_name("placer_worker.py")
WORKER_VERSION = 1  # version of its results, which are cached
FLIPPED_Y = (1, 3)  # orientations FS and S
FLIPPED_X = (2, 3)  # orientations FN and S


@dataclass(frozen=True, kw_only=True)
class Floorplan:
    """Rows of sites that form nearly a square.

    Parameters
    ----------
    site_um, row_um : float
        Width of a site and height of a row, in micrometres.
    sites, rows : int
        Numbers of sites in a row, and of rows.
    """

    site_um: float
    row_um: float
    sites: int
    rows: int

    @property
    def size_um(self) -> tuple[float, float]:
        """Width and height in micrometres."""
        return self.sites * self.site_um, self.rows * self.row_um

    @property
    def area_um2(self) -> float:
        """Area in square micrometres."""
        width, height = self.size_um
        return width * height

    @property
    def units(self) -> int:
        """Units in a row's height, each about as high as a site is wide."""
        return max(1, round(self.row_um / self.site_um))

    def edge(self, count: int) -> NDArray[np.float64]:
        """Return points around the edge, evenly and counter-clockwise from the lower left; (count, 2) micrometres."""
        width, height = self.size_um
        along = np.arange(count) * (2 * (width + height) / max(count, 1))
        x = np.interp(along, np.cumsum([0, width, height, width, height]), [0, width, width, 0, 0])
        y = np.interp(along, np.cumsum([0, width, height, width, height]), [0, 0, height, height, 0])
        return np.stack([x, y], axis=1)


def floorplan(lef: Lef, sites: int, density: float) -> Floorplan:
    """Return the smallest floor on which cells of `sites` sites in total have at most this density.

    Raises
    ------
    ValueError
        If the density is not above 0 and at most 0.95.
    """
    if not 0 < density <= 0.95:
        raise ValueError(f"placement density must be above 0 and at most 0.95, not {density!r}")
    needed = max(sites, 1) / density
    rows = max(1, round(sqrt(needed * lef.site_um / lef.row_um)))
    return Floorplan(site_um=lef.site_um, row_um=lef.row_um, sites=ceil(needed / rows), rows=rows)


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Places of all cells.

    Parameters
    ----------
    floor : Floorplan
        Their rows.
    widths : array of int (cells,)
        Width of each cell, in sites.
    columns, rows : array of int (cells,)
        The leftmost site and the row of each.
    orientations : array of int8 (cells,)
        0 to 3: N, FS (mirrored vertically, as in every second row), FN (mirrored horizontally), S (both).
    """

    floor: Floorplan
    widths: NDArray[np.int64]
    columns: NDArray[np.int64]
    rows: NDArray[np.int64]
    orientations: NDArray[np.int8]

    @property
    def density(self) -> float:
        """Share of the sites that cells cover."""
        return float(self.widths.sum()) / (self.floor.sites * self.floor.rows)

    @cached_property
    def faults(self) -> list[str]:
        """Describe cells that are outside the rows, overlap or are upside down; empty if the placement is legal."""
        found = []
        ends = self.columns + self.widths
        if outside := np.flatnonzero(
            (self.columns < 0) | (ends > self.floor.sites) | (self.rows < 0) | (self.rows >= self.floor.rows)
        ).tolist():
            found.append(f"{len(outside)} cells are outside the rows, cell {outside[0]} first")
        order = np.lexsort((self.columns, self.rows))
        adjacent = self.rows[order][1:] == self.rows[order][:-1]
        if overlaps := np.flatnonzero(adjacent & (self.columns[order][1:] < ends[order][:-1])).tolist():
            pair = order[overlaps[0]], order[overlaps[0] + 1]
            found.append(f"{len(overlaps)} cells stand on others, cell {pair[1]} on {pair[0]} first")
        if wrong := np.flatnonzero(np.isin(self.orientations, FLIPPED_Y) != (self.rows % 2 == 1)).tolist():
            found.append(f"{len(wrong)} cells have power and ground exchanged, cell {wrong[0]} first")
        return found

    def pins_um(self, pins: PinTable) -> NDArray[np.float64]:
        """Return the places of all pins; (pins, 2) micrometres. Ports are around the edge."""
        cells = len(self.widths)
        at = np.zeros((len(pins.places), 2))
        port = pins.places >= cells
        at[port] = self.floor.edge(pins.ports)[pins.places[port] - cells]
        on = ~port
        cell, offsets = pins.places[on], pins.offsets[on]
        cell_orientations = self.orientations[cell]
        width = self.widths[cell] * self.floor.site_um
        x = np.where(np.isin(cell_orientations, FLIPPED_X), width - offsets[:, 0], offsets[:, 0])
        y = np.where(np.isin(cell_orientations, FLIPPED_Y), self.floor.row_um - offsets[:, 1], offsets[:, 1])
        at[on, 0] = self.columns[cell] * self.floor.site_um + x
        at[on, 1] = self.rows[cell] * self.floor.row_um + y
        return at


def find_placer() -> str | None:
    """Return the version of the placer, or None if it is not installed."""
    try:
        return version(PLACER)
    except PackageNotFoundError:
        return None


def place(
    pins: PinTable,
    widths: Sequence[int],
    floor: Floorplan,
    folder: Path,
    *,
    rough: bool = False,
    effort: int = EFFORT,
    seed: int = SEED,
) -> Placed:
    """Place cells with Coloquinte so that nets are short. Placements are cached.

    Parameters
    ----------
    pins : PinTable
        Connections of the cells. The clock has no influence on places.
    widths : sequence of int
        Width of every cell in sites.
    floor : Floorplan
        Their rows.
    folder : Path
        An existing folder for temporary files.
    rough : bool
        Skip swaps and shifts. They shorten wires by some percent.
    effort : int
        The placer's effort, 1 to 9.
    seed : int
        Seed of the placer's random numbers.

    Raises
    ------
    MissingExtraError
        If the placer is not installed.
    SynthesisError
        If the placer fails, or its placement is not legal.

    Source: G. Gouvine, Coloquinte: alternating quadratic placement and rough legalisation, as in SimPL (M.-C. Kim,
    D.-J. Lee, I. L. Markov, "SimPL: an effective placement algorithm", IEEE TCAD 2012); swaps and shifts in rows.
    """
    require("placing wires", PLACER)
    problem = _problem(pins, np.asarray(widths, np.int64), floor)
    problem |= {"effort": np.array(effort), "seed": np.array(seed), "rough": np.array(rough)}
    x, y, orientations = _solve(problem, folder)
    placed = Placed(floor=floor, widths=problem["widths"], columns=x, rows=y // floor.units, orientations=orientations)
    if (y % floor.units).any() or placed.faults:
        raise SynthesisError(f"the placement is not legal: {', '.join(placed.faults) or 'cells are between rows'}")
    return placed


def _problem(pins: PinTable, widths: NDArray[np.int64], floor: Floorplan) -> dict[str, NDArray]:
    unit = np.array([floor.site_um, floor.row_um / floor.units])
    edge = np.rint(floor.edge(pins.ports) / unit).astype(np.int64)
    starts, order = pins.pulling
    offsets = np.rint(pins.offsets[order] / unit).astype(np.int64)
    return {
        "height": np.array(floor.units),
        "rows": np.array(floor.rows),
        "sites": np.array(floor.sites),
        "widths": widths,
        "pad_x": edge[:, 0],
        "pad_y": edge[:, 1],
        "starts": starts,
        "places": pins.places[order],
        "offset_x": offsets[:, 0],
        "offset_y": offsets[:, 1],
    }


def _solve(problem: dict[str, NDArray], folder: Path) -> tuple[NDArray, NDArray, NDArray]:
    """Return the worker's placement, from the cache if it has one."""
    digest = hashlib.sha256(f"{find_placer()} {WORKER_VERSION} ".encode())
    for name, values in problem.items():
        digest.update(name.encode() + values.astype(np.int64).tobytes())
    cached = cache_folder() / f"{digest.hexdigest()}.npz"
    with suppress(OSError, ValueError, KeyError):
        return _read(cached)
    task, answer = folder / "problem.npz", folder / "solution.npz"
    np.savez(task, allow_pickle=False, **problem)
    _run(task, answer, folder)
    found = _read(answer)
    with suppress(OSError):
        part = cached.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(answer.read_bytes())
        part.replace(cached)
    return found


def _read(path: Path) -> tuple[NDArray, NDArray, NDArray]:
    with np.load(path) as file:
        return file["x"], file["y"], file["orientation"]


def _run(task: Path, answer: Path, folder: Path) -> None:
    command = [sys.executable, str(WORKER), str(task), str(answer)]
    try:
        completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        raise SynthesisError(f"placement took more than {TIME_LIMIT:.0f} seconds") from None
    if completed.returncode == -signal.SIGINT:
        raise KeyboardInterrupt
    if completed.returncode:
        message = (completed.stderr.strip() or completed.stdout.strip() or "nothing was printed").splitlines()[-1]
        raise SynthesisError(f"placement failed (the placer ended with {completed.returncode}): {message}")
