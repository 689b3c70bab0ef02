"""The presets `recommended` beside the paper's tile: recorded networks on the same chip."""

from tensordash import load_preset

from ..report.figure import Point
from .experiment import Answers, Experiment, Plan, by_operation, mean_of
from .power import energy_ratios, power_note
from .settings import Settings

__all__ = ["RECOMMENDED"]

PRESETS = ("paper", "recommended", "recommended-2x8")


def _plan(settings: Settings) -> Plan:
    return {
        (preset, name): settings.network_job(name, load_preset(preset))
        for preset in PRESETS
        for name in settings.networks
    }


def _points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    points, notes, speedups = [], [], {}
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
        notes += [f"{preset}: {line}" for line in power_note(synthesis)]
        if synthesis is not None:
            ratio, added = synthesis["ratio"], synthesis["tensordash"]["added_ge_per_pe"]
            notes.append(
                f"{preset}: area {ratio['area']:.3f} of the baseline's, {added:,.0f} gate equivalents added per PE, "
                f"highest clock {ratio['clock']:.3f}."
            )
    return points, [line for preset in PRESETS[1:] for line in _gains(preset, speedups)] + notes


def _gains(preset: str, speedups: dict[str, dict[str, float]]) -> list[str]:
    """Where a preset is faster than the paper's tile."""
    paper = speedups["paper"]
    gains = {name: speedups[preset][name] / paper[name] - 1 for name in paper}
    if not gains:
        return []
    listed = ", ".join(f"{name} {gain:+.2%}" for name, gain in gains.items())
    faster = sum(gain >= 0 for gain in gains.values())
    return [f"`{preset}` is as fast or faster on {faster} of {len(gains)} networks: {listed}."]


RECOMMENDED = Experiment(
    name="recommended",
    title="The presets `recommended` beside the paper's tile",
    source="paper, section IV-D, for the freedom of connectivity; docs/cost.md",
    kind="bar",
    x_label="network",
    y_label="speedup, energy efficiency",
    plan=_plan,
    points=_points,
    uses_networks=True,
    presets=PRESETS,
)
