"""Fig. 10, Fig. 11 and the bfloat16 tile: energy efficiency, and energy by component."""

from typing import Any

from tensordash import load_preset

from ..lowering import Convolution, Operation
from ..report.figure import Point
from .experiment import Answers, Experiment, Plan, by_operation, mean_of
from .job import SimulationJob
from .measure import layer_with_random_zeros
from .power import CHIP_AT_65_NM, CONSTANT, PARTS, energies, energy_ratios, power_note
from .settings import Settings
from .texts import notes, render

__all__ = ["BF16", "FIG10", "FIG11"]

PAPER = {"paper": {"core": 1.8, "chip": 1.5}, "paper-bf16": {"core": 1.76, "chip": 1.48}}
"""The paper's mean energy efficiency over its networks: the speedup over a constant power ratio."""
CLAIMED = {"core": CONSTANT, "chip": CHIP_AT_65_NM}
IMPLIED = 1 - (1 - 1 / PAPER["paper"]["chip"]) / (1 - 1 / PAPER["paper"]["core"])
"""Share of the chip's energy outside the core that the paper's efficiencies of core (1.8) and chip (1.5) imply."""
PUBLISHED = "VGG16 conv3_2, published shape, 50% zeros"
BATCH = {"full": 64, "small": 64, "tiny": 1}


def _published(settings: Settings, preset: str) -> SimulationJob:
    """Return the job of a layer of published shape, which reuses more data than small networks."""
    layer = Convolution(
        batch=BATCH[settings.scale],
        in_channels=256,
        out_channels=256,
        size=(56, 56),
        kernel=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
        dilation=(1, 1),
        groups=1,
    )
    parameters: dict[str, Any] = {"geometry": layer.to_json(), "operations": [str(each) for each in Operation]}
    parameters |= {"tile": load_preset(preset).to_mapping(), "tiles": 256, "zeros": {"A": 0.5, "W": 0.0, "G": 0.5}}
    return SimulationJob(layer_with_random_zeros, parameters | {"seed": settings.seed, "row_order": "natural"})


def _plan(settings: Settings, preset: str = "paper") -> Plan:
    tile = load_preset(preset)
    plan: Plan = {(name,): settings.network_job(name, tile) for name in settings.networks}
    return plan | {(PUBLISHED,): _published(settings, preset)}


def _results(settings: Settings, answers: Answers) -> dict[str, list[Any]]:
    """Return results of operations by network. The layer of published shape is last."""
    found = {name: list(answers[name,]["operations"]) for name in settings.networks}
    return found | {PUBLISHED: list(answers[PUBLISHED,].values())}


def _efficiency(settings: Settings, answers: Answers, preset: str = "paper") -> list[Point]:
    synthesis = settings.synthesis.get(preset)
    ratios = {name: energy_ratios(results, synthesis) for name, results in _results(settings, answers).items()}
    points = []
    for series in next(iter(ratios.values())):
        values = {name: found[series] for name, found in ratios.items()}
        with_mean = values | {"mean": mean_of(settings, values)}
        for name, value in with_mean.items():
            paper = next((PAPER[preset][key] for key, claimed in CLAIMED.items() if claimed == series), None)
            claim = paper if name == "mean" else None
            points.append(Point(metric="energy efficiency", series=series, x=name, paper=claim, ours=value))
    return points


def _efficiency_points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    power = power_note(settings.synthesis.get("paper"))
    return _efficiency(settings, answers), notes("fig10", power=power, reuse=_reuse(settings, answers))


def _reuse(settings: Settings, answers: Answers) -> str:
    """Return the note on the memories' share of energy, which TensorDash does not change."""
    found = {}
    for part in ("dram", "sram"):
        shares = {}
        for name, results in _results(settings, answers).items():
            sums = energies(results, settings.synthesis.get("paper"))["baseline"]
            shares[name] = sums[part] / (sums["anchored"] + sums["sram"] + sums["dram"])
        found[part] = (mean_of(settings, shares) or 0.0, shares[PUBLISHED])
    return render("reuse", shares=found, implied=IMPLIED)


def _breakdown(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    synthesis = settings.synthesis.get("paper")
    points = []
    for name, results in _results(settings, answers).items():
        sums = energies(results, synthesis)
        for side in ("baseline", "tensordash"):
            for part in PARTS:
                # As in Fig. 10, logic has the paper's power, so that logic and memories are both at 65 nm.
                source = {"core": "anchored"}.get(part, part)
                baseline = sum(sums["baseline"][each] for each in ("anchored", "sram", "dram"))
                ours = sums[side][source] / baseline
                points.append(Point(metric="energy", series=f"{side}, {part}", x=name, ours=ours))
    return points, notes("fig11")


def _bf16_points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    points = _efficiency(settings, answers, "paper-bf16")
    fp16, bf16 = settings.synthesis.get("paper"), settings.synthesis.get("paper-bf16")
    if bf16 is not None:
        ratios = (
            ("area, compute logic", "area", 1.16),
            ("power, compute logic", "power", 1.1),
            ("area, chip", "chip", 1.049),
        )
        for series, key, paper in ratios:
            points.append(
                Point(
                    metric="TensorDash over the baseline", series=series, x="bf16", paper=paper, ours=bf16["ratio"][key]
                )
            )
            if fp16 is not None:
                of_fp16 = {"area": 1.14, "power": 1.09, "chip": 1.048}[key]
                ours = fp16["ratio"][key]
                points.append(
                    Point(metric="TensorDash over the baseline", series=series, x="fp16", paper=of_fp16, ours=ours)
                )
    speedups = {name: by_operation(answers[name,])["all"]["compute_speedup"] for name in settings.networks}
    return points, notes("bf16", speedup=mean_of(settings, speedups), power=power_note(bf16))


FIG10 = Experiment.of("fig10", _plan, _efficiency_points)
FIG11 = Experiment.of("fig11", _plan, _breakdown)
BF16 = Experiment.of("bf16", lambda settings: _plan(settings, "paper-bf16"), _bf16_points)
