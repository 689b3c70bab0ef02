"""List of all experiments, and the function that runs some of them together."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tensordash.configuration.parameters import require_choice
from tensordash_storage import jobs

from ..report.figure import Figure
from .configuration import TABLE3
from .connectivity import CONNECTIVITY
from .cost import TABLE4
from .energy import BF16, FIG10, FIG11
from .experiment import Experiment
from .gpt import GPT
from .networks import FIG1, FIG8, FIG9, GCN
from .quantised import QUANTISED
from .random_zeros import FIG15
from .recommended import RECOMMENDED
from .roworder import ROWORDER
from .settings import Settings
from .sweeps import FIG12, FIG13, FIG14
from .system import ROOFLINE, SYSTEM
from .two_of_four import TWO_OF_FOUR

__all__ = ["EXPERIMENTS", "NAMES", "evaluate"]

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        FIG1,
        TABLE3,
        FIG8,
        FIG9,
        TABLE4,
        FIG10,
        FIG11,
        FIG12,
        FIG13,
        FIG14,
        CONNECTIVITY,
        FIG15,
        BF16,
        GCN,
        ROWORDER,
        GPT,
        RECOMMENDED,
        SYSTEM,
        ROOFLINE,
        QUANTISED,
        TWO_OF_FOUR,
    )
}
"""Experiments by name, in the order of the paper, then those that the paper does not have."""
NAMES = tuple(EXPERIMENTS)


def evaluate(
    names: Sequence[str], settings: Settings, folder: Path, runner: jobs.Runner = jobs.LOCAL
) -> Iterator[Figure]:
    """Run experiments together. A job that several of them need runs once.

    Parameters
    ----------
    names : sequence of str
        Names from `NAMES`.
    settings : Settings
        Scale, seed, networks, synthesis results.
    folder : Path
        Its folder `answers` stores the answers of completed jobs.
    runner : Runner
        Runner of the jobs.

    Yields
    ------
    Figure
        Figures in the order of `names`.

    Raises
    ------
    ValueError
        If a name is unknown.
    JobError
        If `Runner.run` raises it.
    TensorDashError
        If a trace cannot be read.
    """
    chosen = [EXPERIMENTS[require_choice("name", name, NAMES)] for name in dict.fromkeys(names)]
    plans = [experiment.plan(settings) for experiment in chosen]
    work = [jobs.Job(job.key, job.run) for plan in plans for job in plan.values()]
    store = jobs.AnswerStore(folder / "answers", read=dict)
    answers = dict(runner.run(work, store, title="evaluating"))
    for experiment, plan in zip(chosen, plans, strict=True):
        yield experiment.figure(settings, plan, {label: answers[job.key] for label, job in plan.items()})
