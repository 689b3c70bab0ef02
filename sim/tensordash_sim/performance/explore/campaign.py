"""A search over structures that stores its results."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

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
    """A tile to evaluate.

    Attributes
    ----------
    label : str
        Name of the tile: a preset's name, or its structure.
    config : TileConfig
        The tile.
    row_order : "natural" or "density"
        The order in which vectors are grouped onto its rows.
    """

    label: str
    config: TileConfig
    row_order: str


@dataclass(frozen=True)
class Campaign:
    """Settings that all searches share.

    Attributes
    ----------
    base : TileConfig
        Supplies all fields that a structure does not define.
    known : mapping of str to TileConfig
        Good tiles by name. A search of their structure starts from them and from `auto_options`.
    traces : sequence of Trace
        The traces for which tiles are optimised.
    row_steps : int
        As in `sample_workload`.
    tries : int
        Number of candidates for each structure.
    seed : int
        Seed of the samples and the hill climbing.
    folder : Path
        Folder of results, separate for each set of traces, settings and tile. Absolute, like the paths of traces.
    drop_steps : bool
        Whether to search tiles that drop steps which are empty in all rows.
    """

    base: TileConfig
    known: Mapping[str, TileConfig]
    traces: Sequence[Trace]
    row_steps: int
    tries: int
    seed: int
    folder: Path
    drop_steps: bool = False

    def find(self, structures: Iterable[tuple[Structure, str]], runner: Runner = LOCAL) -> list[Point]:
        """Find the best tile of each structure and row order; reuse results of earlier runs in `folder`.

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
        text = json.dumps([*key, self.drop_steps, [trace.digest for trace in self.traces]], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return Job(digest, self._search, (structure, row_order, starts))

    def _search(self, structure: Structure, row_order: str, starts: Sequence[tuple[Option, ...]]) -> Found:
        workloads = self._workloads(structure, row_order)
        return search(
            structure,
            self.base,
            workloads,
            starts=starts,
            tries=self.tries,
            seed=self.seed,
            drop_steps=self.drop_steps,
        )

    def _workloads(self, structure: Structure, row_order: str) -> list[Workload]:
        tile = structure.config(self.base, ((0, 0),))
        return [
            sample_workload(trace.records, tile, row_order=row_order, row_steps=self.row_steps, seed=self.seed)
            for trace in self.traces
        ]

    def presets(self, points: Sequence[Point]) -> list[Point]:
        """Return the known tiles with the shapes and row orders of points, for equal numbers of lanes."""
        orders = dict.fromkeys(point.row_order for point in points)
        shapes = {(point.config.lanes, point.config.rows, point.config.columns) for point in points}
        return [
            Point(f"{name} {rows}x{columns}", replace(config, rows=rows, columns=columns), order)
            for order in orders
            for lanes, rows, columns in sorted(shapes)
            for name, config in self.known.items()
            if config.lanes == lanes
        ]

    def simulate(self, points: Sequence[Point], runner: Runner = LOCAL) -> list[list[dict[str, Any]]]:
        """Simulate each point's tile exactly on the default chip; return the totals of every trace.

        Raises
        ------
        JobError
            As in `Runner.run`.
        """
        # Two processes must not write results of the same tile.
        keys = [f"{point.config.digest} {point.row_order}" for point in points]
        jobs = [Job(key, self._simulate, (point,)) for key, point in zip(keys, points, strict=True)]
        found = dict(runner.run(jobs, title="judging"))
        return [found[key] for key in keys]

    def _simulate(self, point: Point) -> list[dict[str, Any]]:
        machine = Machine(point.config, ChipConfig(), row_order=point.row_order, drop_steps=self.drop_steps)
        return [
            totals(result for _, result in Results(self.folder / "simulate", trace, machine).run(trace.records))
            for trace in self.traces
        ]
