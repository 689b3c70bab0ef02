"""Fig. 1, 8 and 9 and the network without zeros: recorded networks on the paper's chip."""

from tensordash import load_preset

from ..report.figure import Point
from .experiment import Answers, Experiment, Plan, by_operation, mean_of
from .power import CHIP_AT_65_NM, energy_ratios, power_note
from .settings import PAPER_MODELS, Settings

__all__ = ["FIG1", "FIG8", "FIG9", "GCN"]

OPERATIONS = ("AxW", "WxG", "AxG", "all")
POTENTIAL = {
    "snli": 5.6,
    "squeezenet": 2.4,
    "detectron2": 2.2,
    "bert": 2.0,
    "resnet50-sparse": 1.75,
    "ncf": 1.7,
    "mean": 2.6,
}
"""As the paper's text has it: SqueezeNet is "more than" that, the mean "nearly"."""
SPEEDUP = {"mean": 1.95}
SETTLED = {"resnet50-sparse": 1.5}
"""Where Fig. 9 ends, by the text."""
PRUNED = (
    "resnet50-sparse: nine tenths of W are zero, and W is scheduled where it is sparser than A. That alone allows "
    "3 / (0.1 + 0.1 + 1) = 2.5x over the three operations; the paper has 1.75x."
)
AT_THE_START = (
    "The paper's networks are trained to the end, on their own data; those of docs/models.md are at the start of "
    "training here."
)
PAPER_POTENTIAL = POTENTIAL["mean"]
PAPER_SHARE = 0.75
"""Share of the potential that the paper's 1.95x is (Fig. 8)."""
NO_ZEROS = "gcn"
NO_ZEROS_SPEEDUP = 1.01
NO_ZEROS_ENERGY = 0.995


def _plan(settings: Settings) -> Plan:
    tile = load_preset("paper")
    return {(name,): settings.network_job(name, tile) for name in settings.networks}


def _bars(settings: Settings, answers: Answers, key: str, paper: dict[str, float]) -> list[Point]:
    """A bar for each network and operation, and means."""
    totals = {name: by_operation(answers[name,]) for name in settings.networks}
    points = []
    for operation in OPERATIONS:
        values = {name: found[operation][key] for name, found in totals.items() if operation in found}
        with_mean = values | {"mean": mean_of(settings, values)}
        for name, value in with_mean.items():
            claim = paper.get(name) if operation == "all" else None
            points.append(Point(metric="speedup", series=operation, x=name, paper=claim, ours=value))
    return points


def _potential(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    notes = [
        "All multiplications over those whose scheduled operand, the sparser one, is not zero; padding left out.",
        *([AT_THE_START] if settings.built_in else []),
        *([PRUNED] if "resnet50-sparse" in settings.networks else []),
    ]
    return _bars(settings, answers, "ideal_speedup", POTENTIAL), notes


def _speedup(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    slowest = min(
        (result["dense_compute"] / result["compute"], name, f"{result['layer']} {result['operation']}")
        for name in settings.networks
        for result in answers[name,]["operations"]
        if result["compute"]
    )
    totals = {name: by_operation(answers[name,])["all"] for name in settings.networks}
    potential, speedup = (
        mean_of(settings, {name: total[key] for name, total in totals.items()}) or 0.0
        for key in ("ideal_speedup", "compute_speedup")
    )
    notes = [
        _beside_the_paper(settings, speedup, potential),
        f"The slowest operation of all: {slowest[0]:.4f}x, {slowest[1]} {slowest[2]} (paper: never a slowdown).",
        "Tiles alone, as in the paper; `with_memory` in the points of `all` is that of the whole chip.",
    ]
    points = []
    for point in _bars(settings, answers, "compute_speedup", SPEEDUP):
        more = {}
        if point.series == "all" and point.x in settings.networks:
            totals = by_operation(answers[point.x,])["all"]
            more = {"with_memory": totals["speedup"], "potential": totals["ideal_speedup"]}
        points.append(Point(**(vars(point) | {"more": more})))
    return points, notes


def _beside_the_paper(settings: Settings, speedup: float, potential: float) -> str:
    """What the means say, and where a difference from the paper's comes from, if the numbers tell."""
    share = speedup / potential
    text = (
        f"Mean {speedup:.3f}x of a potential of {potential:.3f}x, {share:.0%} of it; the paper: {SPEEDUP['mean']}x of "
        f"nearly {PAPER_POTENTIAL}x, {PAPER_SHARE:.0%}."
    )
    if speedup < SPEEDUP["mean"] and potential < PAPER_POTENTIAL and share >= PAPER_SHARE - 0.005:
        text += " It is the zeros that are fewer here (fig1)."
        if set(settings.averaged) == set(PAPER_MODELS):
            text = text.removesuffix(").") + "; docs/models.md tells which and why)."
    return text


def _over_time_plan(settings: Settings) -> Plan:
    tile = load_preset("paper")
    return {
        (name, step): settings.network_job(name, tile, step=step)
        for name, network in settings.networks.items()
        for step in network.steps
    }


def _over_time(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    points, ranges = [], []
    for name, network in settings.networks.items():
        speedups = [by_operation(answers[name, step])["all"]["compute_speedup"] for step in network.steps]
        for step, speedup in zip(network.steps, speedups, strict=True):
            paper = SETTLED.get(name) if step == network.steps[-1] else None
            points.append(Point(metric="speedup", series=name, x=step, paper=paper, ours=speedup))
        ranges.append(f"{name} {speedups[0]:.2f} to {speedups[-1]:.2f} ({min(speedups):.2f} to {max(speedups):.2f})")
    notes = [f"First to last recorded step (least to most): {'; '.join(ranges)}."]
    if settings.built_in:
        notes.append("The paper's axis is whole trainings; these are first steps of the networks of docs/models.md.")
    return points, notes


def _gcn_plan(settings: Settings) -> Plan:
    return {(NO_ZEROS,): settings.network_job(NO_ZEROS, load_preset("paper"))} if NO_ZEROS in settings.networks else {}


def _gcn(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    if not answers:
        return [], [f"{NO_ZEROS} is not recorded."]
    totals = by_operation(answers[NO_ZEROS,])
    points = []
    for operation in OPERATIONS:
        if operation in totals:
            paper = NO_ZEROS_SPEEDUP if operation == "all" else None
            ours = totals[operation]["compute_speedup"]
            points.append(Point(metric="speedup", series=operation, x=NO_ZEROS, paper=paper, ours=ours))
    ratios = energy_ratios(answers[NO_ZEROS,]["operations"], settings.synthesis.get("paper"))
    for series, ours in ratios.items():
        paper = NO_ZEROS_ENERGY if series == CHIP_AT_65_NM else None
        points.append(Point(metric="energy efficiency", series=series, x=NO_ZEROS, paper=paper, ours=ours))
    operations = answers[NO_ZEROS,]["operations"]
    with_zeros = sum(result["zeros"] > 0.01 for result in operations)
    most = max(operations, key=lambda result: result["zeros"])
    notes = [
        f"{with_zeros} of {len(operations)} operations have more than 1% zeros; {most['layer']} {most['operation']} "
        f"has most, {most['zeros']:.1%} (paper: about 5% in a few layers)."
    ]
    return points, [*notes, *power_note(settings.synthesis.get("paper"))]


FIG1 = Experiment(
    name="fig1",
    title="Potential speedup by network and operation",
    source="paper, Fig. 1",
    kind="bar",
    x_label="network",
    y_label="all multiplications / remaining ones",
    plan=_plan,
    points=_potential,
    uses_networks=True,
)
FIG8 = Experiment(
    name="fig8",
    title="Speedup by network and operation",
    source="paper, Fig. 8",
    kind="bar",
    x_label="network",
    y_label="speedup",
    plan=_plan,
    points=_speedup,
    uses_networks=True,
)
FIG9 = Experiment(
    name="fig9",
    title="Speedup over training",
    source="paper, Fig. 9",
    kind="line",
    x_label="training step",
    y_label="speedup",
    plan=_over_time_plan,
    points=_over_time,
    uses_networks=True,
)
GCN = Experiment(
    name="gcn",
    title="A network with virtually no zeros",
    source="paper, section IV-D",
    kind="bar",
    x_label="network",
    y_label="speedup",
    plan=_gcn_plan,
    points=_gcn,
    uses_networks=True,
    presets=("paper",),
)
