"""Runs jobs: those that are not kept yet, several at a time, here or on a cluster."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from threading import Lock
from typing import Any

from tensordash import TensorDashError

from .job import Job, Store

__all__ = ["run_jobs"]

Answered = tuple[int, dict[str, Any]]


def run_jobs(
    jobs: Iterable[Job],
    store: Store,
    *,
    workers: int = 1,
    cluster: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, dict[str, Any]]:
    """Answer all jobs; what is answered is kept at once, so that an interrupted run goes on where it was.

    Parameters
    ----------
    jobs : iterable of Job
        Equal ones are done once.
    store : Store
        Where answers are kept.
    workers : int
        Processes on this machine; 1 does the work in this one.
    cluster : str, optional
        Address of a Dask scheduler, such as ``tcp://host:8786``, whose workers do the work instead. They need this
        package and must see traces under the same paths.
    progress : callable
        Is called with the jobs that are done, and all of them: first with those that were kept.

    Returns
    -------
    dict of str to dict
        Answers by the key of their job.

    Raises
    ------
    TensorDashError
        Dask or joblib is not installed, or no scheduler answers at the address.
    """
    wanted = {job.key: job for job in jobs}
    answers = {key: answer for key, job in wanted.items() if (answer := store.get(job)) is not None}
    missing = [job for key, job in wanted.items() if key not in answers]
    progress(len(answers), len(wanted))
    if not missing:
        return answers
    if cluster is not None:
        arriving = _on_cluster(missing, cluster)
    elif workers > 1 and len(missing) > 1:
        arriving = _in_processes(missing, workers)
    else:
        arriving = ((number, job.run()) for number, job in enumerate(missing))
    with closing(arriving):
        for number, answer in arriving:
            job = missing[number]
            store.put(job, answer)
            answers[job.key] = answer
            progress(len(answers), len(wanted))
    return answers


_one_at_a_time = Lock()
"""Dask's workers have several threads; Numba's thread pool must not be entered by two of them."""


def _answer(number: int, job: Job) -> Answered:
    with _one_at_a_time:
        return number, job.run()


def _in_processes(jobs: Sequence[Job], workers: int) -> Generator[Answered, None, None]:
    try:
        from joblib import Parallel, delayed, parallel_config
    except ImportError:
        raise TensorDashError(
            "several workers need joblib: pip install '.[evaluate]' in TensorDash's checkout"
        ) from None
    # Numba's threads are the workers' business: each has one.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
        yield from parallel(delayed(_answer)(number, job) for number, job in enumerate(jobs))


def _on_cluster(jobs: Sequence[Job], address: str) -> Generator[Answered, None, None]:
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise TensorDashError("a cluster needs Dask: pip install '.[cluster]' in TensorDash's checkout") from None
    try:
        client = Client(address, timeout=20)
    except (OSError, ValueError) as error:
        raise TensorDashError(f"--cluster must be the address of a Dask scheduler, not {address}: {error}") from None
    with client:
        # An answer depends on nothing but its job, so that a job whose worker is lost may run again.
        futures = [client.submit(_answer, number, job, key=f"{job.key}-{number}") for number, job in enumerate(jobs)]
        for future in as_completed(futures):
            yield future.result()
