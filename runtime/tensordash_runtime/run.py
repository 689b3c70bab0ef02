"""Record of an `offload` block: cycles, speedups and zeros of products, and products that the device did not run."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from .device import Device
from .jobs import ExecutedOperation
from .page import write_page
from .records import Contracted, Missed, Totals
from .rounding_summary import operand_sums, rounding_warnings

__all__ = ["Run"]

Key = TypeVar("Key", bound=Hashable)

WIDTH = 160
"""Width of a printed table, in characters."""
UNITS = "kMGTP"
"""Unit prefixes of thousands, millions and larger powers."""
LOST = {"flushed": "flushed", "saturated": "saturated", "non_finite": "non-finite"}
"""Titles of the columns that the table shows only if their total is not zero."""


@dataclass
class Run:
    """All products of an `offload` block, in order; `print` shows a table by layer.

    Parameters
    ----------
    device : Device
        The device. It may be closed.

    Attributes
    ----------
    contractions : list of Contracted
        Products that ran on the device.
    missed : list of Missed
        Operations with products that did not run on the device.
    steps : int
        Number of training steps so far, counted by steps of optimizers.
    """

    device: Device
    contractions: list[Contracted] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    steps: int = 0

    def cycles(self, each: Contracted) -> tuple[int, int]:
        """Return the cycles of a contraction on the core and the dense core.

        The core's cycles are measured if the Verilog ran, else expected. They count only the tensors' zeros before
        rounding: the cycles that the Verilog is expected to save by zeros from rounding are added.
        """
        executed, expected = each.executed, self.device.expectations
        dense = executed.dense if expected is None else expected.dense_cycles(executed.problem)
        return self._core_cycles(executed, executed.speedup), dense

    def flushed_cycles(self, each: Contracted) -> int:
        """Return the cycles of a contraction on the core, if it also skips the zeros that rounding made."""
        return self._core_cycles(each.executed, each.executed.flushed_speedup)

    def _core_cycles(self, executed: ExecutedOperation, speedup: float) -> int:
        """Return the cycles of a contraction and its checks for a speedup of the tile."""
        expected = self.device.expectations
        checks = sum(self._core_cycles(check, check.speedup) for check in executed.checks)
        if expected is None:
            return checks + round(executed.dense / speedup)
        if executed.cycles is None:
            if speedup == executed.speedup:
                return checks + expected.cycles_of(executed)
            return checks + expected.cycles(executed.problem, speedup)
        if speedup == executed.flushed_speedup:
            return checks + executed.cycles
        own, skipped = (expected.cycles(executed.problem, each) for each in (speedup, executed.flushed_speedup))
        return checks + executed.cycles + max(0, own - skipped)

    def traffic(self, each: Contracted) -> int:
        """Return the bytes that a contraction moves, measured or expected; 0 for a tile, which has no memory."""
        return self._traffic(each.executed)

    def _traffic(self, executed: ExecutedOperation) -> int:
        checks, expected = sum(map(self._traffic, executed.checks)), self.device.expectations
        if executed.traffic is not None or expected is None:
            return checks + (executed.traffic or 0)
        return checks + expected.traffic(executed.problem)

    def totals(self, chosen: Iterable[Contracted] | None = None) -> Totals:
        """Return sums over all contractions, or over the chosen ones."""
        contractions = self.contractions if chosen is None else list(chosen)
        counted = [each for each in contractions if each.executed.is_counted]
        cycles = [self.cycles(each) for each in counted]
        macs = sum(each.macs for each in contractions)
        return Totals(
            contractions=len(contractions),
            macs=macs,
            cycles=sum(core for core, _ in cycles),
            dense_cycles=sum(dense for _, dense in cycles),
            tile_cycles=round(sum(each.executed.tile_cycles for each in counted)),
            dense_tile_cycles=sum(each.executed.dense for each in counted),
            flushed_cycles=sum(map(self.flushed_cycles, counted)),
            flushed_tile_cycles=round(sum(each.executed.flushed_tile_cycles for each in counted)),
            traffic=sum(map(self.traffic, counted)),
            zeros=sum(each.row_zeros * each.macs for each in contractions) / max(1, macs),
            flushed_zeros=sum(each.flushed_row_zeros * each.macs for each in contractions) / max(1, macs),
            flushed=sum(each.executed.flushed for each in contractions),
            saturated=sum(each.executed.saturated for each in contractions),
            non_finite=sum(each.executed.non_finite for each in contractions),
            missed_macs=self._missed_macs if chosen is None else 0,
            unknown=self._unknown if chosen is None else 0,
            uncounted=len(contractions) - len(counted),
        )

    def grouped(self, key: Callable[[Contracted], Key]) -> dict[Key, Totals]:
        """Return sums over the contractions with the same key, in order of first appearance."""
        found: dict[Key, list[Contracted]] = {}
        for each in self.contractions:
            found.setdefault(key(each), []).append(each)
        return {key: self.totals(each) for key, each in found.items()}

    def by_layer(self) -> dict[tuple[str, str], Totals]:
        """Return sums for each layer and operation."""
        return self.grouped(lambda each: (each.layer, each.operation))

    def by_step(self) -> dict[int, Totals]:
        """Return sums for each step."""
        return self.grouped(lambda each: each.step)

    @property
    def share(self) -> float | None:
        """Share of all multiplications that ran on the device; None if missed multiplications are unknown."""
        total = self._macs + self._missed_macs
        return None if self._unknown else self._macs / total if total else 1.0

    @property
    def summary(self) -> str:
        """A sentence with the share of the multiplications that ran on the device."""
        total = self._macs + self._missed_macs
        permille = 1000 * self._macs // total if total else 1000  # Rounded down, so that 100% means no miss.
        share = "100%" if permille == 1000 else f"{permille / 10:.1f}%"
        known = f"{share} of {_in_words(total)} MACs ran on {self.device.name} ({self.device.backend})"
        if not self._unknown:
            return known
        return f"At most {known}: unknown MACs of {self._unknown} missed operations are left out"

    @property
    def _macs(self) -> int:
        return sum(each.macs for each in self.contractions)

    @property
    def _missed_macs(self) -> int:
        return sum(each.macs or 0 for each in self.missed)

    @property
    def _unknown(self) -> int:
        """Number of missed operations with unknown multiplications."""
        return sum(each.macs is None for each in self.missed)

    def __str__(self) -> str:
        text = StringIO()
        text.write(f"{self.summary}\n")
        console = Console(file=text, width=WIDTH, highlight=False)
        console.print(self._table())
        for warning in self.warnings():
            console.print(warning, markup=False, soft_wrap=True)
        for reason, times in self._reasons().items():
            console.print(reason if times == 1 else f"{reason} ({times} times)", markup=False, soft_wrap=True)
        return text.getvalue().rstrip()

    def warnings(self) -> list[str]:
        """Return sentences on values that rounding lost, and on infinities and NaN in operands."""
        return list(rounding_warnings(operand_sums(self.contractions), self.totals()))

    def _reasons(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for each in self.missed:
            found[str(each)] = found.get(str(each), 0) + 1
        return found

    def _table(self) -> Table:
        table = Table(title=f"{self._name} on {self.device.backend}, {self.steps} steps", title_justify="left")
        for name in ("layer", "operation"):
            table.add_column(name)
        for name in ("times", "MACs", "zeros", "cycles", "dense core", "speedup", "tile's", "bytes moved"):
            table.add_column(name, justify="right")
        totals = self.totals()
        rows = self.by_layer() | {("all", ""): totals}
        lost = [name for name in LOST if getattr(totals, name)]
        for name in lost:
            table.add_column(LOST[name], justify="right")
        if totals.flushed:
            table.add_column("speedup with flushed", justify="right")
        fused: dict[tuple[str, str], dict[str, None]] = {}
        for one in self.contractions:
            fused.setdefault((one.layer, one.operation), {}).update(dict.fromkeys(one.fused))
        for (layer, operation), each in rows.items():
            if layer == "all":
                table.add_section()
            name = " + ".join((operation, *fused.get((layer, operation), ())))
            losses = [f"{getattr(each, name):,}" for name in lost]
            speedups = [each.speedup, each.tile_speedup, *[each.flushed_speedup][: totals.flushed]]
            core, tile, *flushed = ("-" if each.uncounted else f"{speedup:.2f}" for speedup in speedups)
            sums = each.cycles, each.dense_cycles, each.traffic
            cycles, dense, traffic = ("-" if each.uncounted else f"{number:,}" for number in sums)
            numbers = f"{each.contractions:,}", f"{each.macs:,}", f"{each.zeros:.1%}"
            table.add_row(layer, name, *numbers, cycles, dense, core, tile, traffic, *losses, *flushed)
        return table

    @property
    def _name(self) -> str:
        return type(self.device.config).__name__ + " " + self.device.config.digest

    def to_json(self) -> dict[str, Any]:
        """Return a JSON document with the device, totals, every contraction and every missed operation."""
        contractions = []
        for each in self.contractions:
            counted = each.executed.is_counted
            cycles, dense = self.cycles(each) if counted else (None, None)
            contractions.append(
                {
                    "step": each.step,
                    "layer": each.layer,
                    "operation": each.operation,
                    "where": self.device.backend,
                    "geometry": each.executed.geometry.to_json(),
                    "macs": each.macs,
                    "fused": list(each.fused),
                    "row_side": each.executed.problem.rows,
                    "zeros": {name: round(share, 4) for name, share in each.executed.zeros.items()},
                    "operands": {name: counts.to_json() for name, counts in each.executed.operands.items()},
                    "non_finite": each.executed.non_finite,
                    "tile_speedup": round(each.executed.speedup, 4) if counted else None,
                    "tile_speedup_with_flushed": round(each.executed.flushed_speedup, 4) if counted else None,
                    "cycles": cycles,
                    "cycles_with_flushed": self.flushed_cycles(each) if counted else None,
                    "dense_cycles": dense,
                    "traffic": self.traffic(each) if counted else None,
                }
            )
        names = ("step", "layer", "operation", "reason", "macs")
        return {
            "device": self.device.config.to_mapping(),
            "backend": self.device.backend,
            "cycles_measured": self.device.backend == "verilator",
            "steps": self.steps,
            "share": self.share,
            "totals": self.totals().to_json(),
            "warnings": self.warnings(),
            "contractions": contractions,
            "missed": [{name: getattr(each, name) for name in names} for each in self.missed],
        }

    def page(self, path: str | Path, *, curves: Mapping[str, Mapping[str, Iterable[float]]] | None = None) -> None:
        """Write an HTML page: speedup and zeros over steps, and the table by layer.

        Parameters
        ----------
        path : path
            The file. Its folder is created if necessary.
        curves : mapping of str to mapping of str to floats, optional
            Further curves over the steps: metrics such as "loss", each with named lines.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        write_page(self, Path(path), curves or {})


def _in_words(count: int) -> str:
    """Return a number with three digits.

    >>> _in_words(999), _in_words(9_996), _in_words(20_960_000)
    ('999', '10.0 k', '21.0 M')
    """
    if count < 1000:
        return str(count)
    value, unit = count / 1000, 0
    while value >= 999.5 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {UNITS[unit]}"
