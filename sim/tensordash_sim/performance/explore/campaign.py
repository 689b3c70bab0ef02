"""A search over structures, which keeps what it has found."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tensordash import TileConfig
from tensordash.configuration.connectivity import Option, auto_options
from tensordash_storage.jobs import LOCAL, AnswerStore, Job, Runner

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
        Keeps results; those of other traces, settings or tiles stay apart. Absolute, like the paths of traces.
    """

    base: TileConfig
    known: Mapping[str, TileConfig]
    traces: Sequence[Trace]
    row_steps: int
    tries: int
    seed: int
    folder: Path

    def find(self, structures: Iterable[tuple[Structure, str]], runner: Runner = LOCAL) -> list[Point]:
        """Find the best tile of each structure and row order; answers of earlier runs are read from `folder`.

        Raises
        ------
        JobError
            As in `Runner.run`.
        """
        searched = list(structures)
        jobs = [self._job(*each) for each in searched]
        store = AnswerStore(self.folder / "search", Found.from_json)
        found = dict(runner.run(jobs, store, title="searching"))
        return [
            Point(structure.label, structure.config(self.base, found[job.key].options), row_order)
            for (structure, row_order), job in zip(searched, jobs, strict=True)
        ]

    def _job(self, structure: Structure, row_order: str) -> Job:
        auto = structure.config(
            self.base, auto_options(structure.lanes, structure.depth, ring=structure.staging == "ring")
        )
        starts = [config.options for config in (*self.known.values(), auto) if structure.fits(config)]
        key = [asdict(structure), row_order, starts, self.base.to_mapping(), self.row_steps, self.tries, self.seed]
        text = json.dumps([*key, [trace.digest for trace in self.traces]], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return Job(digest, self._search, (structure, row_order, starts))

    def _search(self, structure: Structure, row_order: str, starts: Sequence[tuple[Option, ...]]) -> Found:
        workloads = self._workloads(structure, row_order)
        return search(structure, self.base, workloads, starts=starts, tries=self.tries, seed=self.seed)

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

    def speedups(self, points: Sequence[Point], runner: Runner = LOCAL) -> list[list[float | None]]:
        """Simulate each point's tile on the default chip: exact speedups of its compute cycles on every trace.

        Raises
        ------
        JobError
            As in `Runner.run`.
        """
        # Two processes must not write the results of one tile.
        keys = [f"{point.config.digest} {point.row_order}" for point in points]
        jobs = [Job(key, self._speedups, (point,)) for key, point in zip(keys, points, strict=True)]
        speedups = dict(runner.run(jobs, title="judging"))
        return [speedups[key] for key in keys]

    def _speedups(self, point: Point) -> list[float | None]:
        machine = Machine(point.config, ChipConfig(), row_order=point.row_order)
        return [
            totals(result for _, result in Results(self.folder / "simulate", trace, machine).run(trace.records))[
                "compute_speedup"
            ]
            for trace in self.traces
        ]
