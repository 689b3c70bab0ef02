"""A campaign: the jobs of a seed, several at a time, kept as they come, and what they covered together."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tensordash
from tensordash.storage import files
from tensordash.storage.journal import Journal

from .. import golden, verify
from ..verify.simulators import SimulatorError, choose_simulator
from .coverage import Counts, lane_options, merged, universe
from .draw import SoakJob, jobs_for
from .job import Record

__all__ = ["Campaign", "Summary"]

POLL = 0.1  # seconds between looks at a job's process


@cache
def code_digest() -> str:
    """Of all code that a job's outcome depends on: hardware, golden model, benches and what draws jobs."""
    folders = [Path(module.__file__ or "").parent for module in (tensordash, golden, verify)]
    return files.code_digest(*folders, Path(__file__).parent)[:16]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a campaign found.

    Parameters
    ----------
    seed : int
        Its seed.
    records : tuple of Record
        Of all its jobs, in their order.
    """

    seed: int
    records: tuple[Record, ...]

    @property
    def positions(self) -> int:
        """Multiply positions that were consumed with everything equal to golden."""
        return sum(record.positions for record in self.records)

    @property
    def failures(self) -> dict[str, str]:
        """What differed first, by the command that runs this job again."""
        return {replay_command(self.seed, record): record.failure for record in self.records if record.failure}

    @property
    def counts(self) -> Counts:
        """How often each point was met, those of the universe that were never met included."""
        return merged(record.coverage for record in self.records)

    @property
    def options(self) -> tuple[int, int]:
        """Pairs of a lane and one of its options, of every job's tile: those met, and all."""
        pairs = [lane_options(record.options) for record in self.records]
        return sum(met for met, _ in pairs), sum(of for _, of in pairs)

    @property
    def never(self) -> dict[str, list[str]]:
        """Points that can be reached and were not met, by group; of a lane's options those that it took on no tile."""
        counts = self.counts
        points = {group: [point for point in all_ if not counts[group][point]] for group, all_ in universe().items()}
        taken: Counter[tuple[int, int]] = Counter()
        for record in self.records:
            for lane, options in enumerate(record.options):
                taken.update({(lane, option): count for option, count in enumerate(options)})
        points["option of a lane"] = [
            f"lane {lane}, option {option}" for (lane, option), n in sorted(taken.items()) if not n
        ]
        return {group: missed for group, missed in points.items() if missed}

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON types."""
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
    """The command that runs a job again."""
    return f"tensordash soak --replay {seed}:{record.index} --simulator {record.simulator}"


class Campaign:
    """Jobs of a seed until so many multiply positions are consumed, in a file that a later run goes on with.

    The file has a line for each job that is done, in the order in which they ended. It is named after the seed, the
    simulator and the code, so that what another version of the hardware did is never taken for this one's.

    Parameters
    ----------
    folder : Path
        For that file and, while they run and if they fail, the jobs.
    seed : int
        Decides every job.
    positions : int
        Multiply positions to consume, at least.
    simulator : str
        "auto", "verilator" or "icarus".

    Attributes
    ----------
    path : Path
        The file.
    jobs : tuple of SoakJob
        All of them.
    done : dict of int to Record
        Of the jobs that are done.
    """

    def __init__(self, folder: Path, seed: int, positions: int, simulator: str = "auto") -> None:
        self.folder, self.seed, self.simulator = folder, seed, choose_simulator(simulator)
        self.jobs = tuple(jobs_for(seed, positions))
        self.path = folder / f"soak-{seed}-{self.simulator}-{code_digest()}.jsonl"
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._journal = Journal(self.path, lambda line: Record(**line))
        self.done = {record.index: record for record in self._journal.entries()}

    @property
    def left(self) -> Sequence[SoakJob]:
        """Jobs that are still to be run."""
        return [job for job in self.jobs if job.index not in self.done]

    def run(
        self, *, workers: int = 1, progress: Callable[[SoakJob, Record], None] = lambda job, record: None
    ) -> Summary:
        """Run the jobs that are left.

        Parameters
        ----------
        workers : int
            Jobs at a time.
        progress : callable
            Is called with each job that is done and its record, one call at a time.

        Raises
        ------
        SimulatorError
            If a job could not run.
        """
        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(self._run, job, progress) for job in self.left]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                self._stopped.set()
                pool.shutdown(cancel_futures=True)
                raise
        return Summary(seed=self.seed, records=tuple(self.done[job.index] for job in self.jobs))

    def _run(self, job: SoakJob, progress: Callable[[SoakJob, Record], None]) -> None:
        place = self.folder / f"job-{job.seed}-{job.index}"
        if self._stopped.is_set():
            return
        try:
            record = self._execute(job, place)
        except BaseException:
            self._stopped.set()  # before another job starts
            raise
        if record is None:
            return
        if not record.failure:
            shutil.rmtree(place, ignore_errors=True)
        with self._lock:
            self.done[job.index] = record
            self._journal.append(record.to_json())
            progress(job, record)

    def _execute(self, job: SoakJob, place: Path) -> Record | None:
        """Run a job in a process of its own, with all that it starts in one group; None if the campaign is stopped."""
        place.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{place.name}.log"
        command = [sys.executable, "-m", __package__, job.name, str(place), self.simulator]
        with log.open("w", encoding="utf-8") as file:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                while process.poll() is None:
                    if self._stopped.wait(POLL):
                        return None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if process.returncode:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise SimulatorError(f"soak job {job.name} could not run: {lines[-1] if lines else process.returncode}")
        log.unlink()
        return Record(**json.loads((place / "record.json").read_text(encoding="utf-8")))
