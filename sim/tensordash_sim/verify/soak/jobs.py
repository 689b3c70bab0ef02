"""Jobs of a seed, several at a time, each in a process of its own, in a file that a later run goes on with."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from tensordash_storage.journal import Journal

from ..simulators import SimulatorError

__all__ = ["Jobs"]

POLL = 0.1  # seconds between looks at a job's process


class Jobs:
    """Jobs that are done one by one, and kept.

    The file has a line for each job that is done, in the order in which they ended.

    Parameters
    ----------
    path : Path
        The file; beside it, while they run and if they fail, the jobs.
    jobs : sequence
        All of them; each has a `seed`, an `index`, and a `name` that says everything of it.
    record : type
        Of what a job finds: made from and to JSON, with `index` and `failure`.
    module : str
        What a process runs, with the job's name, its folder and `arguments`; it leaves ``record.json`` there.
    arguments : sequence of str
        See there.
    kind : str
        What the folders of jobs begin with.

    Attributes
    ----------
    done : dict of int to record
        Of the jobs that are done.
    """

    def __init__(
        self,
        path: Path,
        jobs: Sequence[Any],
        record: Callable[..., Any],
        module: str,
        arguments: Sequence[str] = (),
        kind: str = "job",
    ) -> None:
        self.path, self.folder, self.jobs = path, path.parent, tuple(jobs)
        self._record, self._command = record, [sys.executable, "-m", module]
        self._arguments, self._kind = tuple(arguments), kind
        self._lock, self._stopped = threading.Lock(), threading.Event()
        self._journal = Journal(self.path, lambda line: record(**line))
        self.done = {each.index: each for each in self._journal.entries()}

    @property
    def left(self) -> Sequence[Any]:
        """Jobs that are still to be run."""
        return [job for job in self.jobs if job.index not in self.done]

    def finish(self, workers: int, progress: Callable[[Any, Any], None]) -> tuple[Any, ...]:
        """Run the jobs that are left; the records of all, in the order of the jobs.

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
        return tuple(self.done[job.index] for job in self.jobs)

    def _run(self, job: Any, progress: Callable[[Any, Any], None]) -> None:
        place = self.folder / f"{self._kind}-{job.seed}-{job.index}"
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

    def _execute(self, job: Any, place: Path) -> Any:
        """Run a job in a process of its own, with all that it starts in one group; None if the campaign is stopped."""
        place.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{place.name}.log"
        command = [*self._command, job.name, str(place), *self._arguments]
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
        return self._record(**json.loads((place / "record.json").read_text(encoding="utf-8")))
