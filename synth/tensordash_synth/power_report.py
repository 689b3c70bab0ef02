"""Power of both tiles side by side: on random operands and on recorded ones."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from tensordash import TileConfig

from .hierarchy import Placement
from .power import DesignPower, find_opensta, random_streams, recorded_streams
from .report import CostReport, Design, component_sums, table_rows
from .run import Run

__all__ = ["LIMITS", "NO_OPENSTA", "PowerReport", "PowerRun", "measure_power"]

ZEROS = (0.0, 0.5, 0.8, 0.9)
NO_OPENSTA = "OpenSTA is not installed (Debian's package opensta); nothing else here computes power"
LIMITS = (
    "power: OpenSTA, of the netlist's activity pin by pin, without glitches; one corner, no wires, no clock tree",
    "operands: 4 random streams of 64 steps, normally distributed; passes of the shipped digits trace; no transposers",
    "energy: the baseline's over TensorDash's for the same streams, from the first operand to the last result",
    "the paper's definition of energy efficiency: speedup over the power ratio at no zeros",
)


@dataclass(frozen=True, kw_only=True)
class PowerRun:
    """Both tiles on the same operands.

    Parameters
    ----------
    name : str
        What the operands are.
    rows : dict of str to (float, float)
        (TensorDash, baseline) watts by row of the cost table.
    cycles : (int, int)
        (TensorDash, baseline).
    """

    name: str
    rows: Mapping[str, tuple[float, float]]
    cycles: tuple[int, int]

    @property
    def power_ratio(self) -> float:
        """TensorDash's power over the baseline's."""
        sparse, dense = self.rows["total"]
        return sparse / dense

    @property
    def speedup(self) -> float:
        """The baseline's cycles over TensorDash's."""
        sparse, dense = self.cycles
        return dense / sparse

    @property
    def energy_ratio(self) -> float:
        """The baseline's energy over TensorDash's for the same work."""
        return self.speedup / self.power_ratio


@dataclass(frozen=True, kw_only=True)
class PowerReport:
    """Runs; the first is without zeros.

    Parameters
    ----------
    runs : list of PowerRun
        On random operands of more and more zeros, and on recorded ones.
    """

    runs: list[PowerRun]

    @property
    def ratio(self) -> float:
        """The cost of being there: TensorDash's power over the baseline's where there are no zeros."""
        return self.runs[0].power_ratio

    @property
    def energy_ratios(self) -> dict[str, float]:
        """The baseline's energy over TensorDash's for the same work, by operands."""
        return {run.name: round(run.energy_ratio, 4) for run in self.runs}

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values; power in watts."""
        return [
            {
                "operands": run.name,
                "tensordash_cycles": run.cycles[0],
                "baseline_cycles": run.cycles[1],
                "speedup": round(run.speedup, 4),
                "power_ratio": round(run.power_ratio, 4),
                "energy_ratio": round(run.energy_ratio, 4),
                "paper_energy_ratio": round(run.speedup / self.ratio, 4),
                "watts": {
                    name: {"tensordash": round(watts[0], 6), "baseline": round(watts[1], 6)}
                    for name, watts in run.rows.items()
                },
            }
            for run in self.runs
        ]


def measure_power(run: Run, config: TileConfig, report: CostReport) -> PowerReport | None:
    """Measure power of both tiles of a report, at its clock; None without OpenSTA.

    Parameters
    ----------
    run : Run
        Where the report's modules were mapped.
    config : TileConfig
        The tile that skips zeros.
    report : CostReport
        Its areas, and netlists of its modules.

    Raises
    ------
    SynthesisError
        If a netlist differs from the golden model, or OpenSTA fails.
    """
    if find_opensta() is None:
        return None
    activities = [*(random_streams(config, zeros) for zeros in ZEROS), recorded_streams(config)]
    pending: dict[str, Future[list[DesignPower]]] = {
        name: run.submit(run.power, of, _netlist(design, report), activities, name)
        for name, of, design in (
            ("TensorDash", config, report.tensordash),
            ("baseline", config.baseline, report.baseline),
        )
    }
    run.wait()
    sparse, dense = (pending[name].result() for name in ("TensorDash", "baseline"))
    return PowerReport(
        runs=[
            PowerRun(
                name=activity.name,
                rows=table_rows(_sums(report.tensordash, in_sparse), _sums(report.baseline, in_dense)),
                cycles=(in_sparse.cycles, in_dense.cycles),
            )
            for activity, in_sparse, in_dense in zip(activities, sparse, dense, strict=True)
        ]
    )


def _netlist(design: Design, report: CostReport) -> str:
    """Mapped modules of a tile under their own names: equal ones of both tiles were mapped once, under one."""
    texts = []
    for name in sorted({placement.module for placement in design.placements}):
        head, _, rest = report.modules[design.keys[name]].netlist.partition("module ")
        texts.append(f"{head}module {name}{rest[rest.index('(') :]}")
    return "\n".join(texts)


def _sums(design: Design, power: DesignPower) -> dict[str, float]:
    modules = {placement.path: placement.module for placement in design.placements}
    return component_sums((Placement(path, modules[path]), part.total) for path, part in power.parts.items())
