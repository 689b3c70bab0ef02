"""What a core costs: the logic of each unit, next to its tile's and to the dense core's; memories apart."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensordash import ConfigError
from tensordash.configuration.core_config import CoreConfig

from .canonical import canonical, interface
from .hierarchy import Hierarchy, role
from .mapping import Mapped
from .run import Progress, Run, running

__all__ = ["CoreCostReport", "CoreDesign", "core_cost_table", "synthesize_core"]

CORE, TILE = "tensordash_core", "tensordash_tile"
MEMORY = "memory"
NOTES = (
    "GE: gate equivalents, areas over that of the smallest NAND2; without wires; of memories only their wrappers",
    "around the tile, flattened: ABC's longest path between registers, ports, memories and the tile, without clk-to-q, "
    "setup and wires",
)


@dataclass(frozen=True, kw_only=True)
class CoreDesign:
    """A core's logic.

    Parameters
    ----------
    units : dict of str to float
        Gate equivalents by unit; "core" is what stands between them.
    memories : dict of str to (int, int)
        Kinds of memories: how many there are, and bits of each.
    slowest : tuple of (str, float)
        The module around the tile with the longest path of its own, and its delay in ns.
    """

    units: Mapping[str, float]
    memories: Mapping[str, tuple[int, int]]
    slowest: tuple[str, float]

    @property
    def tile(self) -> float:
        """Gate equivalents of the tile."""
        return self.units["tile"]

    @property
    def around(self) -> float:
        """Gate equivalents of everything else."""
        return sum(self.units.values()) - self.tile


@dataclass(frozen=True, kw_only=True)
class CoreCostReport:
    """A core and the one around the dense tile.

    Parameters
    ----------
    digest : str
        The configuration's.
    library : str
        Name of the cell library.
    clock_ns : float
        Target period.
    tensordash, baseline : CoreDesign
        Both.
    around_ns : float
        The longest path around the tile, flattened.
    """

    digest: str
    library: str
    clock_ns: float
    tensordash: CoreDesign
    baseline: CoreDesign
    around_ns: float

    @property
    def logic_ratio(self) -> float:
        """Logic around the tile over the tile's."""
        return self.tensordash.around / self.tensordash.tile

    @property
    def ratio(self) -> float:
        """Logic of the core over that of the dense core."""
        return sum(self.tensordash.units.values()) / sum(self.baseline.units.values())

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        designs = {
            name: {
                "units_ge": {unit: round(gates) for unit, gates in design.units.items()},
                "memories": {kind: {"count": n, "bits": bits} for kind, (n, bits) in design.memories.items()},
                "slowest_module": {"name": design.slowest[0], "delay_ns": design.slowest[1]},
            }
            for name, design in (("tensordash", self.tensordash), ("baseline", self.baseline))
        }
        return {
            "digest": self.digest,
            "library": self.library,
            "clock_ns": self.clock_ns,
            **designs,
            "logic_ratio": round(self.logic_ratio, 3),
            "area_ratio": round(self.ratio, 3),
            "around_ns": self.around_ns,
        }


def synthesize_core(
    config: CoreConfig,
    *,
    liberty: str | Path | None = None,
    clock_ns: float = 2.0,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> CoreCostReport:
    """Map a core and the one around the dense tile, module by module, and everything around the tile as a whole.

    Parameters
    ----------
    config : CoreConfig
        A core whose tile skips zeros; its baseline is derived from it.
    liberty, clock_ns, progress, jobs
        As for `synthesize`.

    Raises
    ------
    ConfigError
        If its tile is the baseline already.
    ValueError, LibertyError, SynthesisError
        As for `synthesize`.
    """
    if config.tile.sparsity == "none":
        raise ConfigError('tile.sparsity must be "rows" to compare with the baseline, not "none"')
    from tensordash.emission.core_files import core_verilog  # imports Amaranth, which takes its time

    with running(liberty, clock_ns, progress, jobs) as run:
        hierarchies = [Hierarchy(core_verilog(each), CORE) for each in (config, config.baseline)]
        whole = run.submit(_around, run, hierarchies[0])
        pending: dict[str, Future[Mapped]] = {}
        for hierarchy in hierarchies:
            for name in _logic(hierarchy):
                key = hierarchy.digest(name)
                if key not in pending:
                    pending[key] = run.submit(run.module, hierarchy, name, name)
        run.wait()
        designs = [_design(run, hierarchy, pending) for hierarchy in hierarchies]
        return CoreCostReport(
            digest=config.digest,
            library=run.library.name,
            clock_ns=clock_ns,
            tensordash=designs[0],
            baseline=designs[1],
            around_ns=whole.result().delay_ns,
        )


def _logic(hierarchy: Hierarchy) -> list[str]:
    """Modules that are mapped, each once."""
    return sorted({place.module for place in hierarchy.placements if place.role != MEMORY})


def _design(run: Run, hierarchy: Hierarchy, mapped: Mapping[str, Future[Mapped]]) -> CoreDesign:
    units: dict[str, float] = {}
    kinds: dict[str, int] = {}
    delays: dict[str, float] = {}
    for place in hierarchy.placements:
        if place.role == MEMORY:
            kinds[place.module] = kinds.get(place.module, 0) + 1
            continue
        found = mapped[hierarchy.digest(place.module)].result()
        unit = place.path[0] if place.path else "core"
        units[unit] = units.get(unit, 0.0) + found.area_um2 / run.library.gate_area
        if unit != "tile":
            delays[place.module] = found.delay_ns
    memories = {}
    for name, count in sorted(kinds.items()):
        words, bits = map(int, name.rpartition("__")[2].split("x"))
        memories[name] = count, words * bits
    slowest = max(delays, key=delays.__getitem__)
    return CoreDesign(units=units, memories=memories, slowest=(slowest, delays[slowest]))


def _around(run: Run, hierarchy: Hierarchy) -> Mapped:
    """Everything but tile and memories, flattened."""
    outside = {place.module for place in hierarchy.placements if place.path[:1] != ("tile",)}
    boxes = sorted({TILE} | {name for name in outside if role(name) == MEMORY})
    texts = [canonical(hierarchy.modules[name].text) for name in sorted(outside.difference(boxes))]
    texts += [interface(hierarchy.modules[name].text) for name in boxes]
    return run.flattened("\n".join(texts), CORE, "around the tile, flattened")


def core_cost_table(report: CoreCostReport) -> str:
    """Gate equivalents by unit, memories, ratios and delays, as lines of plain text."""
    ours, theirs = report.tensordash, report.baseline
    width = max(map(len, ours.units))
    lines = [f"{report.library}, {report.clock_ns:g} ns", ""]
    lines.append(f"{'logic, GE':{width}} {'TensorDash':>11} {'baseline':>11} {'of the tile':>12}")
    for unit, gates in sorted(ours.units.items(), key=lambda each: -each[1]):
        lines.append(f"{unit:{width}} {gates:11,.0f} {theirs.units.get(unit, 0.0):11,.0f} {gates / ours.tile:12.3f}")
    totals = [sum(design.units.values()) for design in (ours, theirs)]
    lines += [f"{'total':{width}} {totals[0]:11,.0f} {totals[1]:11,.0f}", ""]
    lines.append(
        f"logic around the tile over the tile's {report.logic_ratio:.3f}; core over the dense core {report.ratio:.3f}"
    )
    name, delay = ours.slowest
    lines.append(f"around the tile, flattened: {report.around_ns:.2f} ns; slowest module: {name} {delay:.2f} ns")
    lines.append("")
    for kind, (count, bits) in ours.memories.items():
        lines.append(f"memory {kind.rpartition('__')[2]:>10}: {count:3} of {bits:,} bits")
    return "\n".join([*lines, "", *(f"- {note}" for note in NOTES)])
