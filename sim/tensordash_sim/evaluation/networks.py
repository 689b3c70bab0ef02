"""Fig. 1, Fig. 8, Fig. 9 and the network without zeros: recorded networks on the paper's chip."""

from tensordash import load_preset

from ..report.figure import Point
from .experiment import Answers, Experiment, Plan, by_operation, mean_of
from .power import CHIP_AT_65_NM, energy_ratios
from .settings import PAPER_MODELS, Settings
from .texts import notes

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
"""Potential speedups in the paper's text. For SqueezeNet it writes "more than", for the mean "nearly"."""
SPEEDUP = {"mean": 1.95}
SETTLED = {"resnet50-sparse": 1.5}
"""Speedup at the end of Fig. 9, from the paper's text."""
PAPER_POTENTIAL = POTENTIAL["mean"]
PAPER_SHARE = 0.75
"""The paper's 1.95x as a share of the potential (Fig. 8)."""
NO_ZEROS = "gcn"
NO_ZEROS_SPEEDUP = 1.01
NO_ZEROS_ENERGY = 0.995


def _plan(settings: Settings) -> Plan:
    tile = load_preset("paper")
    return {(name,): settings.network_job(name, tile) for name in settings.networks}


def _bars(settings: Settings, answers: Answers, key: str, paper: dict[str, float]) -> list[Point]:
    """Return a bar for each network and operation, and means."""
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
    return _bars(settings, answers, "ideal_speedup", POTENTIAL), notes("fig1", settings=settings)


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
    share, claimed = speedup / potential, SPEEDUP["mean"]
    text = notes(
        "fig8",
        speedup=speedup,
        potential=potential,
        share=share,
        paper_speedup=claimed,
        paper_potential=PAPER_POTENTIAL,
        paper_share=PAPER_SHARE,
        has_fewer_zeros=speedup < claimed and potential < PAPER_POTENTIAL and share >= PAPER_SHARE - 0.005,
        is_of_the_paper=set(settings.averaged) == set(PAPER_MODELS),
        slowest=slowest,
    )
    points = []
    for point in _bars(settings, answers, "compute_speedup", SPEEDUP):
        more = {}
        if point.series == "all" and point.x in settings.networks:
            totals = by_operation(answers[point.x,])["all"]
            more = {"with_memory": totals["speedup"], "potential": totals["ideal_speedup"]}
        points.append(Point(**(vars(point) | {"more": more})))
    return points, text


def _over_time_plan(settings: Settings) -> Plan:
    tile = load_preset("paper")
    return {
        (name, step): settings.network_job(name, tile, step=step)
        for name, network in settings.networks.items()
        for step in network.steps
    }


def _over_time(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    points = []
    for name, network in settings.networks.items():
        speedups = [by_operation(answers[name, step])["all"]["compute_speedup"] for step in network.steps]
        for step, speedup in zip(network.steps, speedups, strict=True):
            paper = SETTLED.get(name) if step == network.steps[-1] else None
            points.append(Point(metric="speedup", series=name, x=step, paper=paper, ours=speedup))
    return points, notes("fig9", settings=settings)


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
    return points, notes("gcn", with_zeros=with_zeros, count=len(operations), most=most)


FIG1 = Experiment.of("fig1", _plan, _potential)
FIG8 = Experiment.of("fig8", _plan, _speedup)
FIG9 = Experiment.of("fig9", _over_time_plan, _over_time)
GCN = Experiment.of("gcn", _gcn_plan, _gcn)
