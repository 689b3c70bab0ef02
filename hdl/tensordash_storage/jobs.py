"""Jobs of a campaign: runs those without a stored answer, in processes of this machine or on a Dask cluster."""

import json
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from .files import atomic_write

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

__all__ = ["LOCAL", "AnswerStore", "Job", "JobError", "Runner", "show_progress"]

CONNECT_SECONDS = 20
"""Seconds in which a cluster's scheduler must answer."""
_one_at_a_time = Lock()
"""Dask's workers have several threads, but Numba's thread pool and limits of CPU time serve one job at a time."""


class JobError(Exception):
    """Jobs cannot run in the requested place. The message is one line, and the command exits with status 2."""


@dataclass(frozen=True)
class Job:
    """A piece of work.

    Parameters
    ----------
    key : str
        Identifies the job in a run, and its answer in a store. For a store it must depend on everything that the answer
        depends on.
    function : callable
        Does the work and returns the answer. Both the function and the answer must be picklable.
    arguments : tuple
        Arguments of the function. Paths are absolute.
    size : int
        Share of the progress bar.
    """

    key: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    size: int = 1


class AnswerStore:
    """Answers in a folder, one JSON file each.

    Parameters
    ----------
    folder : Path
        Created with the first answer.
    read : callable
        Returns the answer of a file's document. Raises ValueError, KeyError or TypeError for an invalid document.
    is_final : callable
        Returns whether to store an answer. A job without a stored answer runs again.
    """

    def __init__(
        self,
        folder: Path,
        read: Callable[[Any], Any] = lambda document: document,
        is_final: Callable[[Any], bool] = lambda answer: True,
    ) -> None:
        self.folder, self._read, self._is_final = folder, read, is_final

    def get(self, key: str) -> Any:
        """Return the answer of a job, or None if it is missing or its file is damaged."""
        try:
            return self._read(json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, answer: Any) -> None:
        """Store an answer of JSON types and dataclasses."""
        if self._is_final(answer):
            atomic_write(self.folder / f"{key}.json", json.dumps(answer, default=asdict) + "\n")


@dataclass(frozen=True)
class Runner:
    """Runs jobs on this machine or on a cluster.

    Parameters
    ----------
    workers : int
        Processes on this machine; 1 runs all jobs in this process.
    cluster : str, optional
        Address of a Dask scheduler, such as ``tcp://host:8786``, whose workers run the jobs instead. They need this
        package, and must find input and output folders under the same paths.
    console : Console, optional
        Shows progress.
    """

    workers: int = 2
    cluster: str | None = None
    console: "Console | None" = None

    def run(
        self,
        jobs: Iterable[Job],
        store: AnswerStore | None = None,
        *,
        title: str = "jobs",
        describe: Callable[[Job, Any], str] | None = None,
    ) -> Iterator[tuple[str, Any]]:
        """Run the jobs without a stored answer, and store each answer immediately.

        Parameters
        ----------
        jobs : iterable of Job
            The jobs. Of several jobs with the same key, only one runs.
        store : AnswerStore, optional
            Stored answers. Without it all jobs run.
        title : str
            Text of the progress bar.
        describe : callable, optional
            Returns a line about a job and its new answer, for the console.

        Yields
        ------
        str, Any
            A job's key and its answer: first the stored answers, then others as they arrive.

        Raises
        ------
        JobError
            If the scheduler does not answer, Dask is not installed, or a process ends while it runs a job.
        Exception
            The error of a job. Earlier answers are stored.
        """
        by_key = {job.key: job for job in jobs}
        known = {} if store is None else {key: each for key in by_key if (each := store.get(key)) is not None}
        missing = [job for key, job in by_key.items() if key not in known]
        console = self.console if describe else None
        with show_progress(self.console) as bar:
            completed = sum(by_key[key].size for key in known)
            task = bar.add_task(title, total=sum(job.size for job in by_key.values()), completed=completed)
            if known and console:
                console.print(f"{len(known)} of {len(by_key)} jobs are done")
            yield from known.items()
            answers = self._answers(missing)
            try:
                for done, (number, answer) in enumerate(answers, len(known) + 1):
                    job = missing[number]
                    if store is not None:
                        store.put(job.key, answer)
                    bar.advance(task, job.size)
                    if describe and console:
                        console.print(f"[{done}/{len(by_key)}] {describe(job, answer)}", markup=False)
                    yield job.key, answer
            finally:
                with warnings.catch_warnings(action="ignore"):  # Joblib warns about the jobs that it cancels.
                    answers.close()

    def _answers(self, jobs: Sequence[Job]) -> Generator[tuple[int, Any], None, None]:
        if jobs and self.cluster is not None:
            yield from _on_cluster(jobs, self.cluster)
        elif min(self.workers, len(jobs)) > 1:
            yield from _in_processes(jobs, self.workers)
        else:
            yield from (_answer(number, job) for number, job in enumerate(jobs))


LOCAL = Runner()
"""Two processes, without progress."""


def _answer(number: int, job: Job) -> tuple[int, Any]:
    with _one_at_a_time:
        return number, job.function(*job.arguments)


def _in_processes(jobs: Sequence[Job], workers: int) -> Generator[tuple[int, Any], None, None]:
    from joblib import Parallel, delayed, parallel_config

    # The processes share the cores already: Numba and BLAS get one thread in each.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
        try:
            yield from parallel(delayed(_answer)(number, job) for number, job in enumerate(jobs))
        except BrokenExecutor as error:
            raise JobError(f"a process ended while it ran a job: {error}") from error


def _on_cluster(jobs: Sequence[Job], address: str) -> Generator[tuple[int, Any], None, None]:
    from distributed import Client, KilledWorker, as_completed

    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise JobError(f"--cluster must be the address of a Dask scheduler, not {address}: {error}") from None
    with client:
        # An answer depends only on its job, so a job whose worker is lost may run again.
        futures = [client.submit(_answer, number, job, pure=False) for number, job in enumerate(jobs)]
        try:
            for future in as_completed(futures):
                yield future.result()
        except (KilledWorker, CancelledError) as error:
            raise JobError(f"the cluster {address} lost a job: {error}") from error


def show_progress(console: "Console | None") -> "Progress":
    """Return a progress bar with the remaining time. It vanishes when it ends, and stays hidden without a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    return Progress(*columns, console=console, transient=True, disable=console is None or not console.is_terminal)
