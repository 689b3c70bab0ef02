"""Campaign: run the jobs of a seed in parallel, store each record, and merge their coverage."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensordash import TensorDashError
from tensordash_storage.jobs import LOCAL, AnswerStore, Job, Runner

from ..simulators import SimulatorError, choose_simulator
from .code import code_digest
from .coverage import Counts, lane_options, merged, universe
from .draw import REDRAW_OFFSET, SoakJob, draw_job, jobs_for
from .job import Record, run_job

__all__ = ["Campaign", "Summary"]

TURNS = 4
"""Maximum number of times that a tile is rerun with new streams."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Result of a campaign.

    Parameters
    ----------
    seed : int
        Its seed.
    records : tuple of Record
        Records of all its jobs, in order.
    """

    seed: int
    records: tuple[Record, ...]

    @property
    def positions(self) -> int:
        """Multiply positions that the tiles consumed, equal to golden."""
        return sum(record.positions for record in self.records)

    @property
    def failures(self) -> dict[str, str]:
        """First difference of each failed job, by the command that replays the job."""
        return {replay_command(self.seed, record): record.failure for record in self.records if record.failure}

    @property
    def counts(self) -> Counts:
        """Count of each point, including points of the universe that were never met."""
        return merged(record.coverage for record in self.records)

    @property
    def options(self) -> tuple[int, int]:
        """Number of (lane, option) pairs of all jobs' tiles: pairs met, and all pairs."""
        pairs = [lane_options(record.options) for record in self.records]
        return sum(met for met, _ in pairs), sum(of for _, of in pairs)

    @property
    def never(self) -> dict[str, list[str]]:
        """Reachable points that were not met, by group, and lanes' options that were taken on no tile."""
        counts = self.counts
        points = {group: [point for point in all_ if not counts[group][point]] for group, all_ in universe().items()}
        points["option of a lane"] = [f"lane {lane}, option {option}" for lane, option in self._never_taken]
        return {group: missed for group, missed in points.items() if missed}

    @property
    def _never_taken(self) -> list[tuple[int, int]]:
        """(lane, option) pairs that exist on some tile and were taken on none."""
        taken: Counter[tuple[int, int]] = Counter()
        for record in self.records:
            for lane, options in enumerate(record.options):
                taken.update({(lane, option): count for option, count in enumerate(options)})
        return sorted(pair for pair, count in taken.items() if not count)

    @property
    def short(self) -> list[int]:
        """Numbers of the jobs whose tiles have a (lane, option) pair that was taken on no tile."""
        never = self._never_taken
        return [
            record.index
            for record in self.records
            if record.index < REDRAW_OFFSET
            and any(lane < len(record.options) and option < len(record.options[0]) for lane, option in never)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the summary as JSON types."""
        met, of = self.options
        passed = [record for record in self.records if not record.failure]
        return {
            "seed": self.seed,
            "passed": not self.failures,
            "jobs": len(self.records),
            "tiles": len({record.digest for record in self.records}),
            "simulators": sorted({record.simulator for record in self.records}),
            "positions": self.positions,
            "steps": sum(record.steps for record in self.records),
            "cycles": sum(record.cycles for record in self.records),
            "largest_share": max((record.positions for record in passed), default=0) / max(1, self.positions),
            "build_seconds": round(sum(record.build_seconds for record in self.records), 1),
            "seconds": round(sum(record.seconds for record in self.records), 1),
            "failures": self.failures,
            "lane_options": {"met": met, "of": of},
            "never": self.never,
            "coverage": {group: dict(counts) for group, counts in self.counts.items()},
        }


def replay_command(seed: int, record: Record) -> str:
    """Return the command that replays a job."""
    return f"tensordash soak --replay {seed}:{record.index} --simulator {record.simulator}"


class Campaign:
    """Campaign of a seed's jobs for `positions` multiply positions and, with `cover`, for all options of each lane.

    The folder of the records is named after the seed, the simulator and a digest of the code, so that records of
    another version are never used.

    Parameters
    ----------
    folder : Path
        Folder for records, and for the files of running and failed jobs.
    seed : int
        Seed that determines every job.
    positions : int
        Least number of multiply positions to consume.
    simulator : str
        "auto", "verilator" or "icarus".
    """

    def __init__(self, folder: Path, seed: int, positions: int, simulator: str = "auto") -> None:
        self.folder, self.seed, self.simulator = folder.resolve(), seed, choose_simulator(simulator)
        self.jobs = tuple(jobs_for(seed, positions))
        self.store = AnswerStore(
            self.folder / f"soak-{seed}-{self.simulator}-{code_digest()}", lambda document: Record(**document)
        )

    def run(
        self,
        runner: Runner = LOCAL,
        *,
        describe: Callable[[SoakJob, Record], str] = lambda job, record: job.name,
        cover: bool = False,
    ) -> Summary:
        """Run the jobs without a record.

        Parameters
        ----------
        runner : Runner
            Runner of the jobs.
        describe : callable
            A function that returns a line about a job and its new record.
        cover : bool
            Rerun a tile with new streams, up to `TURNS` times, while one of its lanes has an option that no tile has
            exercised. With many lanes and options, the last options are rare.

        Raises
        ------
        SimulatorError
            If a job cannot run.
        JobError
            See `Runner.run`.
        """
        records = self._run(self.jobs, runner, describe)
        for turn in range(1, TURNS + 1):
            short = Summary(seed=self.seed, records=records).short if cover else []
            if not short:
                break
            redrawn = [draw_job(self.seed, REDRAW_OFFSET * turn + index) for index in short]
            records += self._run(redrawn, runner, describe)
        return Summary(seed=self.seed, records=records)

    def _run(
        self, jobs: Iterable[SoakJob], runner: Runner, describe: Callable[[SoakJob, Record], str]
    ) -> tuple[Record, ...]:
        work = [Job(str(job.index), _run_job, (job, self.folder, self.simulator), job.positions) for job in jobs]
        answers = runner.run(
            work, self.store, title="positions", describe=lambda job, record: describe(job.arguments[0], record)
        )
        records = dict(answers)
        return tuple(records[job.key] for job in work)


def _run_job(job: SoakJob, folder: Path, simulator: str) -> Record:
    """Run a job, and delete its folder unless it fails."""
    place = folder / f"job-{job.seed}-{job.index}"
    try:
        record = run_job(job, place, simulator=simulator)
    except (TensorDashError, OSError) as error:
        raise SimulatorError(f"soak job {job.name} could not run: {error}") from error
    if not record.failure:
        shutil.rmtree(place)
    return record
