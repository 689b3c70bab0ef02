"""Report of the power of both tiles."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["LIMITS", "NO_OPENSTA", "PowerReport", "PowerRun"]

NO_OPENSTA = "OpenSTA is not installed (Debian's package opensta); nothing else here computes power"
DESIGNS = ("tensordash", "baseline")
LIMITS = (
    "power: OpenSTA, of the netlist's activity pin by pin, without glitches; one corner, no wires, no clock tree",
    "operands: 4 random streams of 64 steps, normally distributed; passes of the shipped digits trace; no transposers",
    "waiting: nothing arrives, inputs hold still; leakage, registers and gates of clocks, and counters are left",
    "energy: the baseline's over TensorDash's for the same streams, from the first operand to the last result",
    "the paper's definition of energy efficiency: speedup over the power ratio at no zeros",
)


@dataclass(frozen=True, kw_only=True)
class PowerRun:
    """Both tiles on the same operands.

    Parameters
    ----------
    name : str
        Name of the operands.
    rows : dict of str to (float, float)
        (TensorDash, baseline) watts by row of the cost table.
    cycles : (int, int)
        (TensorDash, baseline) cycles.
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
    """Power of both tiles on several operands.

    Parameters
    ----------
    runs : list of PowerRun
        Random operands with increasing zeros, the first without zeros, and recorded operands.
    idle : PowerRun
        Both tiles while they wait for operands.
    """

    runs: list[PowerRun]
    idle: PowerRun

    @property
    def ratio(self) -> float:
        """TensorDash's power over the baseline's without zeros."""
        return self.runs[0].power_ratio

    @property
    def energy_ratios(self) -> dict[str, float]:
        """The baseline's energy over TensorDash's for the same work, by operands."""
        return {run.name: round(run.energy_ratio, 4) for run in self.runs}

    @property
    def idle_shares(self) -> tuple[float, float]:
        """(TensorDash, baseline) power while waiting, as shares of each tile's own power without zeros."""
        sparse, dense = (
            idle / busy for idle, busy in zip(self.idle.rows["total"], self.runs[0].rows["total"], strict=True)
        )
        return sparse, dense

    def idle_json(self) -> dict[str, Any]:
        """Return plain values, with power in watts."""
        return {
            "watts": _watts(self.idle),
            "share": dict(zip(DESIGNS, (round(share, 5) for share in self.idle_shares), strict=True)),
        }

    def to_json(self) -> list[dict[str, Any]]:
        """Return plain values, with power in watts."""
        return [
            {
                "operands": run.name,
                "tensordash_cycles": run.cycles[0],
                "baseline_cycles": run.cycles[1],
                "speedup": round(run.speedup, 4),
                "power_ratio": round(run.power_ratio, 4),
                "energy_ratio": round(run.energy_ratio, 4),
                "paper_energy_ratio": round(run.speedup / self.ratio, 4),
                "watts": _watts(run),
            }
            for run in self.runs
        ]


def _watts(run: PowerRun) -> dict[str, dict[str, float]]:
    return {
        name: dict(zip(DESIGNS, (round(watt, 6) for watt in watts), strict=True)) for name, watts in run.rows.items()
    }
