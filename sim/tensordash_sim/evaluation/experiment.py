"""An experiment of the evaluation: its jobs, and the function that turns their answers into points."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..performance.chip import totals
from ..report.figure import Figure, Point
from .job import SimulationJob
from .settings import PAPER_MODELS, Settings, configurations_digest
from .texts import FIGURES, notes

__all__ = ["Answers", "Experiment", "Label", "Plan", "Points", "by_operation", "mean", "mean_of"]

Label = tuple[Any, ...]
Plan = dict[Label, SimulationJob]
Answers = Mapping[Label, Mapping[str, Any]]
Points = Callable[[Settings, Answers], tuple[list[Point], list[str]]]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure or table.

    Attributes
    ----------
    name, title, source, kind, x_label, y_label
        As in `Figure`.
    plan : callable
        Returns jobs by label for the settings.
    points : callable
        Returns points and notes for the settings and the answers by label.
    uses_networks : bool
        Whether the experiment simulates recorded networks.
    uses_values : bool
        Whether the experiment needs recorded values, from `Settings.with_values`.
    presets : tuple of str
        Presets whose synthesis results the experiment reads.
    """

    name: str
    title: str
    source: str
    kind: str
    x_label: str
    y_label: str
    plan: Callable[[Settings], Plan]
    points: Points
    uses_networks: bool = False
    uses_values: bool = False
    presets: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, plan: Callable[[Settings], Plan], points: Points) -> "Experiment":
        """Return an experiment with the texts that `figures.toml` has under this name."""
        described = FIGURES["experiment"][name]
        presets = tuple(described.get("presets", ()))
        return cls(name=name, plan=plan, points=points, **(described | {"presets": presets}))

    def figure(self, settings: Settings, plan: Plan, answers: Answers) -> Figure:
        """Build the figure.

        Parameters
        ----------
        settings : Settings
            Settings of the plan.
        plan : dict
            Jobs by label.
        answers : dict
            Answers by label.
        """
        points, text = self.points(settings, answers)
        jobs = list(plan.values())
        conditions = settings.conditions | {"configuration": configurations_digest(jobs), "jobs": len(jobs)}
        if self.presets:
            conditions["synthesis"] = {
                name: settings.synthesis[name]["config"] for name in self.presets if name in settings.synthesis
            }
        if self.uses_networks:
            conditions["data"] = settings.data(settings.networks)
            is_of_the_paper = set(settings.averaged) <= set(PAPER_MODELS)
            text = [*text, *notes("missing", settings=settings, is_of_the_paper=is_of_the_paper)]
        if self.uses_values:
            conditions["data with values"] = settings.data(settings.with_values)
        return Figure(
            name=self.name,
            title=self.title,
            source=self.source,
            kind=self.kind,
            x_label=self.x_label,
            y_label=self.y_label,
            points=points,
            notes=text,
            conditions=conditions,
        )


def by_operation(answer: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return totals of a step's results by operation, and for all operations."""
    operations = answer["operations"]
    names = dict.fromkeys(result["operation"] for result in operations)
    added = {name: totals(each for each in operations if each["operation"] == name) for name in names}
    return added | {"all": totals(operations)}


def mean(values: list[float]) -> float | None:
    """Return the arithmetic mean; None if there are no values."""
    return sum(values) / len(values) if values else None


def mean_of(settings: Settings, speedups: Mapping[str, float]) -> float | None:
    """Return the mean over the recorded networks of the paper; if none is recorded, over all networks."""
    return mean([speedups[name] for name in settings.averaged])
