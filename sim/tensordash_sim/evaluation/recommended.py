"""The presets `recommended` and `recommended-2x8` next to the paper's tile: recorded networks on the same chip."""

from tensordash import load_preset

from ..report.figure import Point
from .experiment import Answers, Experiment, Plan, by_operation, mean_of
from .power import energy_ratios
from .settings import Settings
from .texts import notes

__all__ = ["RECOMMENDED"]

PRESETS = ("paper", "recommended", "recommended-2x8")


def _plan(settings: Settings) -> Plan:
    return {
        (preset, name): settings.network_job(name, load_preset(preset))
        for preset in PRESETS
        for name in settings.networks
    }


def _points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    points, speedups = [], dict[str, dict[str, float]]()
    for preset in PRESETS:
        synthesis = settings.synthesis.get(preset)
        totals = {name: by_operation(answers[preset, name])["all"] for name in settings.networks}
        speedups[preset] = {name: total["compute_speedup"] for name, total in totals.items()}
        efficiency = {
            name: energy_ratios(answers[preset, name]["operations"], synthesis)["core"] for name in settings.networks
        }
        for metric, values in (("speedup", speedups[preset]), ("core energy efficiency", efficiency)):
            for name, ours in (values | {"mean": mean_of(settings, values)}).items():
                points.append(Point(metric=metric, series=preset, x=name, ours=ours))
    paper = speedups["paper"]
    gains = {preset: {name: speedups[preset][name] / paper[name] - 1 for name in paper} for preset in PRESETS[1:]}
    return points, notes("recommended", gains=gains)


RECOMMENDED = Experiment.of("recommended", _plan, _points)
