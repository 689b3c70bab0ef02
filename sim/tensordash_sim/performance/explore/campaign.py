"""A search over structures, which keeps what it has found."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tensordash import TileConfig
from tensordash.configuration.connectivity import auto_options
from tensordash_storage.files import atomic_write

from ...trace import Trace
from ..chip import ChipConfig, Machine, Results, totals
from .search import Found, Structure, search
from .workload import Workload, sample_workload

__all__ = ["Campaign", "Point"]


@dataclass(frozen=True)
class Point:
    """A tile to be judged.

    Attributes
    ----------
    label : str
        What it is called: a preset's name, or its structure.
    config : TileConfig
        The tile.
    row_order : "natural" or "density"
        Which vectors share its rows.
    """

    label: str
    config: TileConfig
    row_order: str


@dataclass(frozen=True)
class Campaign:
    """What all searches share.

    Attributes
    ----------
    base : TileConfig
        For everything that a structure does not say.
    known : mapping of str to TileConfig
        Good tiles by name: a search of their structure begins with them, and with `auto_options`.
    traces : sequence of Trace
        What tiles are to be fast on.
    row_steps : int
        As in `sample_workload`.
    tries : int
        Candidates of a structure.
    seed : int
        Of draws and climbs.
    folder : Path
        Keeps results; those of other traces, settings or tiles stay apart.
    """

    base: TileConfig
    known: Mapping[str, TileConfig]
    traces: Sequence[Trace]
    row_steps: int
    tries: int
    seed: int
    folder: Path

    def find(self, structure: Structure, row_order: str, on_try: Callable[[float], None]) -> Point:
        """The best tile of a structure: what an earlier run found, or a search's."""
        auto = structure.config(
            self.base, auto_options(structure.lanes, structure.depth, ring=structure.staging == "ring")
        )
        starts = [config.options for config in (*self.known.values(), auto) if structure.fits(config)]
        key = [asdict(structure), row_order, starts, self.base.to_mapping(), self.row_steps, self.tries, self.seed]
        text = json.dumps([*key, [trace.digest for trace in self.traces]], sort_keys=True)
        path = self.folder / "search" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        if path.exists():
            found = Found.from_json(json.loads(path.read_text(encoding="utf-8")))
        else:
            found = search(
                structure,
                self.base,
                self._workloads(structure, row_order),
                starts=starts,
                tries=self.tries,
                seed=self.seed,
                on_try=on_try,
            )
            atomic_write(path, json.dumps(asdict(found), indent=2) + "\n")
        return Point(structure.label, structure.config(self.base, found.options), row_order)

    def _workloads(self, structure: Structure, row_order: str) -> list[Workload]:
        tile = structure.config(self.base, ((0, 0),))
        return [
            sample_workload(trace.records, tile, row_order=row_order, row_steps=self.row_steps, seed=self.seed)
            for trace in self.traces
        ]

    def presets(self, points: Sequence[Point]) -> list[Point]:
        """Known tiles in the shapes and row orders of points, where their options fit."""
        orders = dict.fromkeys(point.row_order for point in points)
        shapes = {(point.config.lanes, point.config.rows, point.config.columns) for point in points}
        return [
            Point(f"{name} {rows}x{columns}", replace(config, rows=rows, columns=columns), order)
            for order in orders
            for lanes, rows, columns in sorted(shapes)
            for name, config in self.known.items()
            if config.lanes == lanes
        ]

    def speedups(self, point: Point) -> list[float | None]:
        """Exact speedup of a tile's compute cycles on every trace, on the default chip."""
        machine = Machine(point.config, ChipConfig(), row_order=point.row_order)
        return [
            totals(result for _, result in Results(self.folder / "simulate", trace, machine).run(trace.records))[
                "compute_speedup"
            ]
            for trace in self.traces
        ]
