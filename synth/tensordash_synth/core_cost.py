"""Costs of a core: logic unit by unit, memories, and energy of a training step, next to the dense core's."""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tensordash import ConfigError
from tensordash.configuration.core_config import CoreConfig

from .cacti import CactiError
from .core_energy import CoreMemories, StepEnergy, energy_ratios
from .core_training import NoEnergyError, memory_ports, memory_shape, memory_size, training_energies
from .hierarchy import MEMORY, Hierarchy, hierarchy_of, role
from .mapping import Mapped
from .memories import SOURCES, memory_costs
from .module_text import interface, normalised
from .run import Progress, Run, running
from .wire_flow import check_wires, place_designs
from .wire_report import WireReport, wires_json

__all__ = ["CoreCostReport", "CoreDesign", "measure_core_areas", "synthesize_core"]

CORE = "tensordash_core"
TILE = "tensordash_tile"


@dataclass(frozen=True, kw_only=True)
class CoreDesign:
    """A core's logic.

    Parameters
    ----------
    units : dict of str to float
        Gate equivalents by unit; "core" is the logic between the units.
    memories : dict of str to (int, int)
        Number of memories of each kind, and bits of each.
    slowest : tuple of (str, float)
        The module around the tile with the longest internal path, and its delay in ns.
    """

    units: Mapping[str, float]
    memories: Mapping[str, tuple[int, int]]
    slowest: tuple[str, float]

    @property
    def gates(self) -> float:
        """Gate equivalents in total."""
        return sum(self.units.values())

    @property
    def tile(self) -> float:
        """Gate equivalents of the tile."""
        return self.units["tile"]

    @property
    def around(self) -> float:
        """Gate equivalents of the logic around the tile."""
        return self.gates - self.tile


@dataclass(frozen=True, kw_only=True)
class CoreCostReport:
    """A core and the core around the dense tile.

    Parameters
    ----------
    digest : str
        Digest of the configuration.
    library : str
        Name of the cell library.
    clock_ns : float
        Target period.
    tensordash, baseline : CoreDesign
        Logic of both cores.
    gate_area : float
        Area of a gate equivalent in um2.
    around_ns : float
        Delay of the longest path around the tile, flattened, in ns.
    memories : (CoreMemories, CoreMemories), optional
        Memories of both cores, if CACTI is installed.
    memories_reason : str
        The reason if `memories` is missing.
    step : (StepEnergy, StepEnergy), optional
        A training step on both cores, if it was measured.
    step_reason : str
        The reason if `step` is missing.
    wires : WireReport, optional
        Both placed cores, with memories around the logic, if they were placed.
    """

    digest: str
    library: str
    clock_ns: float
    tensordash: CoreDesign
    baseline: CoreDesign
    around_ns: float
    gate_area: float
    memories: tuple[CoreMemories, CoreMemories] | None = None
    memories_reason: str = ""
    step: tuple[StepEnergy, StepEnergy] | None = None
    step_reason: str = "not measured"
    wires: WireReport | None = None

    @property
    def logic_ratio(self) -> float:
        """Ratio of the logic around the tile to the tile's logic."""
        return self.tensordash.around / self.tensordash.tile

    @property
    def ratio(self) -> float:
        """Return the ratio of the core's logic to the dense core's."""
        return self.tensordash.gates / self.baseline.gates

    def area_um2(self, source: str) -> tuple[float, float]:
        """Return the areas (TensorDash, baseline) of logic and memories; `source` is one of `SOURCES`. 0 if unknown."""
        if self.memories is None:
            return 0.0, 0.0
        ours, theirs = (
            design.gates * self.gate_area + memories.area_um2(source)
            for design, memories in zip((self.tensordash, self.baseline), self.memories, strict=True)
        )
        return ours, theirs

    @property
    def ratios(self) -> dict[str, float]:
        """Ratios of TensorDash to the dense core: areas and, if measured, a training step and wires."""
        found = {"area": self.ratio}
        if self.memories is not None:
            for name, source in zip(("area_with_memories", "area_with_macros"), SOURCES, strict=True):
                ours, theirs = self.area_um2(source)
                found[name] = ours / theirs
        found |= energy_ratios(*self.step) if self.step is not None else {}
        return found | (self.wires.ratios if self.wires is not None else {})

    def to_json(self) -> dict[str, Any]:
        designs: dict[str, Any] = {
            name: {
                "units_ge": {unit: round(gates) for unit, gates in design.units.items()},
                "memories": {kind: {"count": n, "bits": bits} for kind, (n, bits) in design.memories.items()},
                "slowest_module": {"name": design.slowest[0], "delay_ns": design.slowest[1]},
            }
            for name, design in (("tensordash", self.tensordash), ("baseline", self.baseline))
        }
        for i, design in enumerate(designs.values()):
            design["area_um2"] = {"logic": round((self.tensordash, self.baseline)[i].gates * self.gate_area, 1)}
            if self.memories is not None:
                areas = {source: self.area_um2(source)[i] for source in SOURCES}
                design["area_um2"] |= {
                    f"logic and memories, {source}": round(area, 1) for source, area in areas.items()
                }
                design["memory_costs"] = self.memories[i].to_json()
            if self.step is not None:
                design["step"] = self.step[i].to_json()
        return {
            "digest": self.digest,
            "library": self.library,
            "clock_ns": self.clock_ns,
            **designs,
            "logic_ratio": round(self.logic_ratio, 3),
            "area_ratio": round(self.ratio, 3),
            "around_ns": self.around_ns,
            "ratio": {name: round(ratio, 4) for name, ratio in self.ratios.items()},
            **({} if self.wires is None else wires_json(self.wires)),
            "memories_reason": self.memories_reason,
            "step_reason": self.step_reason,
        }


def synthesize_core(
    config: CoreConfig,
    *,
    liberty: str | Path | None = None,
    clock_ns: float = 2.0,
    power: bool = False,
    wires: bool = False,
    lef: Sequence[str | Path] | None = None,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> CoreCostReport:
    """Map a core and the core around the dense tile, module by module, and all logic around the tile as a whole.

    Parameters
    ----------
    config : CoreConfig
        A core whose tile skips zeros; its baseline is derived from it.
    liberty, clock_ns, lef, progress, jobs
        As for `synthesize`.
    power : bool
        Also measure the energy of a training step, if CACTI and OpenSTA are installed.
    wires : bool
        Also place both cores' logic, and measure area and clock with wires.

    Raises
    ------
    ConfigError
        If its tile skips no zeros.
    ValueError, LibertyError, SynthesisError
        As for `synthesize`.
    """
    if config.tile.sparsity == "none":
        raise ConfigError('tile.sparsity must be "rows" to compare with the baseline, not "none"')
    with running(liberty, clock_ns, progress, jobs) as run:
        shapes = check_wires(run, liberty, lef) if wires else None
        hierarchies = hierarchy_of(config), hierarchy_of(config.baseline)
        around = run.submit(_around, run, hierarchies[0])
        mapped = _map_modules(run, hierarchies)
        ours, theirs = (_design(run, hierarchy, mapped) for hierarchy in hierarchies)
        report = CoreCostReport(
            digest=config.digest,
            library=run.library.name,
            clock_ns=clock_ns,
            tensordash=ours,
            baseline=theirs,
            around_ns=around.result().delay_ns,
            gate_area=run.library.gate_area,
        )
        if shapes is not None:
            placed = place_designs(run, _parts(hierarchies[0], mapped), _parts(hierarchies[1], mapped), shapes)
            report = replace(report, wires=placed)
        try:
            memories = _memories(hierarchies[0]), _memories(hierarchies[1])
        except CactiError as error:
            return replace(report, memories_reason=str(error), step_reason=str(error) if power else report.step_reason)
        report = replace(report, memories=memories)
        if not power:
            return report
        try:
            return replace(report, step=training_energies(run, config, hierarchies, mapped, memories), step_reason="")
        except NoEnergyError as error:
            return replace(report, step_reason=str(error))


def measure_core_areas(
    config: CoreConfig,
    *,
    liberty: str | Path | None = None,
    clock_ns: float = 2.0,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> dict[str, float]:
    """Measure the areas of one core, module by module, in a minute: `synthesize_core` without its dense core.

    Parameters and errors are the same as for `synthesize_core`; any core is allowed.

    Returns
    -------
    dict of str to float
        Areas in um2: "logic", and logic and memories by each of `SOURCES`.

    Raises
    ------
    CactiError
        As in `cacti_array`.
    """
    with running(liberty, clock_ns, progress, jobs) as run:
        hierarchy = hierarchy_of(config)
        memories = _memories(hierarchy)
        logic = _design(run, hierarchy, _map_modules(run, (hierarchy,))).gates * run.library.gate_area
        return {"logic": logic, **{source: logic + memories.area_um2(source) for source in SOURCES}}


def _map_modules(run: Run, hierarchies: Sequence[Hierarchy]) -> dict[str, Mapped]:
    """Map each module of some designs once; return the mappings by digest."""
    pending: dict[str, Future[Mapped]] = {}
    for hierarchy in hierarchies:
        for name in hierarchy.logic:
            key = hierarchy.digest(name)
            if key not in pending:
                pending[key] = run.submit(run.module, hierarchy, name, name)
    run.wait()
    return {key: future.result() for key, future in pending.items()}


def _parts(hierarchy: Hierarchy, mapped: Mapping[str, Mapped]) -> tuple[Hierarchy, dict[str, Mapped], list[str]]:
    """Return the arguments of `place_designs` for a core: modules, their mappings, and black boxes."""
    boxes = sorted({place.module for place in hierarchy.placements if place.role == MEMORY})
    texts = [interface(hierarchy.modules[name].text) for name in boxes]
    return hierarchy, {name: mapped[hierarchy.digest(name)] for name in hierarchy.logic}, texts


def _memories(hierarchy: Hierarchy) -> CoreMemories:
    counts = Counter(memory_shape(place.module) for place in hierarchy.placements if place.role == MEMORY)
    costs = {shape: memory_costs(*memory_size(shape), ports=memory_ports(shape)) for shape in counts}
    return CoreMemories(counts=dict(counts), costs=costs)


def _design(run: Run, hierarchy: Hierarchy, mapped: Mapping[str, Mapped]) -> CoreDesign:
    units: dict[str, float] = {}
    kinds: dict[str, int] = {}
    delays: dict[str, float] = {}
    for place in hierarchy.placements:
        if place.role == MEMORY:
            kinds[place.module] = kinds.get(place.module, 0) + 1
            continue
        found = mapped[hierarchy.digest(place.module)]
        unit = place.path[0] if place.path else "core"
        units[unit] = units.get(unit, 0.0) + found.area_um2 / run.library.gate_area
        if unit != "tile":
            delays[place.module] = found.delay_ns
    memories = {}
    for name, count in sorted(kinds.items()):
        words, bits = memory_size(memory_shape(name))
        memories[name] = count, words * bits
    slowest = max(delays, key=delays.__getitem__)
    return CoreDesign(units=units, memories=memories, slowest=(slowest, delays[slowest]))


def _around(run: Run, hierarchy: Hierarchy) -> Mapped:
    """Map everything except the tile and the memories, flattened."""
    outside = {place.module for place in hierarchy.placements if place.path[:1] != ("tile",)}
    boxes = sorted({TILE} | {name for name in outside if role(name) == MEMORY})
    texts = [normalised(hierarchy.modules[name].text) for name in sorted(outside.difference(boxes))]
    texts += [interface(hierarchy.modules[name].text) for name in boxes]
    return run.flattened("\n".join(texts), CORE, "around the tile, flattened")
