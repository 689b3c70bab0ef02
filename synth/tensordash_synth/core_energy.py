"""Energy of a training step on a core, with its memories, next to the dense core's."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .memories import SOURCES, MemoryCost

__all__ = ["DRAM_PJ_PER_BIT", "CoreMemories", "StepEnergy", "StepOperation", "energy_ratios"]

DRAM_PJ_PER_BIT = 8.0  # LPDDR4


@dataclass(frozen=True, kw_only=True)
class CoreMemories:
    """The memories of a core.

    Parameters
    ----------
    counts : dict of str to int
        Number of memories of each shape, as "512x64".
    costs : dict of str to dict of str to MemoryCost
        Cost of one memory, by shape and by `SOURCES`.
    """

    counts: Mapping[str, int]
    costs: Mapping[str, Mapping[str, MemoryCost]]

    def area_um2(self, source: str) -> float:
        """Return the area of all memories."""
        return sum(count * self.costs[shape][source].area_um2 for shape, count in self.counts.items())

    def leakage_w(self, source: str) -> float:
        """Return the power of all memories at rest, in watts."""
        return 1e-3 * sum(count * self.costs[shape][source].leakage_mw for shape, count in self.counts.items())

    def access_ns(self, source: str) -> float:
        """Return the access time of the slowest memory."""
        return max(self.costs[shape][source].access_ns for shape in self.counts)

    def accesses_j(self, source: str, accesses: Mapping[str, tuple[int, int]]) -> float:
        """Return the energy in joules of reads and writes, by unit and shape."""
        found = 0.0
        for name, (reads, writes) in accesses.items():
            cost = self.costs[name.split()[-1]][source]
            found += 1e-12 * (reads * cost.read_pj + writes * cost.write_pj)
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            shape: {
                "count": count,
                **{
                    source: {
                        "built": cost.built,
                        "area_um2": round(cost.area_um2, 1),
                        "read_pj": round(cost.read_pj, 3),
                        "write_pj": round(cost.write_pj, 3),
                        "leakage_mw": round(cost.leakage_mw, 4),
                        "access_ns": round(cost.access_ns, 3),
                    }
                    for source, cost in self.costs[shape].items()
                },
            }
            for shape, count in sorted(self.counts.items())
        }


@dataclass(frozen=True, kw_only=True)
class StepOperation:
    """An operation of a training step on one core.

    Parameters
    ----------
    name : str
        Layer and operation.
    cycles : int
        Cycles from the write that starts it to the interrupt.
    accesses : dict of str to (int, int)
        Reads and writes of memories, by unit and shape, as "buffer 512x64".
    memory_bytes : int
        Bytes that it reads from and writes to memory, descriptors included.
    """

    name: str
    cycles: int
    accesses: Mapping[str, tuple[int, int]]
    memory_bytes: int


@dataclass(frozen=True, kw_only=True)
class StepEnergy:
    """A training step of one core.

    Parameters
    ----------
    operations : tuple of StepOperation
        Operations in order.
    memories : CoreMemories
        Memories and their costs.
    watts : dict of str to float
        Mean power of the logic in the step, by unit.
    clock_ns : float
        Clock period in ns.
    """

    operations: tuple[StepOperation, ...]
    memories: CoreMemories
    watts: Mapping[str, float]
    clock_ns: float

    @property
    def cycles(self) -> int:
        return sum(each.cycles for each in self.operations)

    @cached_property
    def accesses(self) -> dict[str, tuple[int, int]]:
        """Reads and writes of all operations, by unit and shape."""
        sums: dict[str, tuple[int, int]] = {}
        for each in self.operations:
            for name, (reads, writes) in each.accesses.items():
                before = sums.get(name, (0, 0))
                sums[name] = before[0] + reads, before[1] + writes
        return sums

    @property
    def seconds(self) -> float:
        """Duration of the step."""
        return self.cycles * self.clock_ns * 1e-9

    @cached_property
    def parts(self) -> dict[str, float]:
        """Joules of the "tile", the logic "around" it, and the accesses and leakage of memories by `SOURCES`."""
        tile = self.watts.get("tile", 0.0)
        found = {"tile": tile * self.seconds, "around": (sum(self.watts.values()) - tile) * self.seconds}
        for source in SOURCES:
            found[f"accesses, {source}"] = self.memories.accesses_j(source, self.accesses)
            found[f"leakage, {source}"] = self.memories.leakage_w(source) * self.seconds
        return found

    @property
    def logic(self) -> float:
        """Joules of all logic."""
        return self.parts["tile"] + self.parts["around"]

    def on_chip(self, source: str) -> float:
        """Return the joules of logic and memories."""
        return self.logic + self.parts[f"accesses, {source}"] + self.parts[f"leakage, {source}"]

    @property
    def off_chip(self) -> float:
        """Joules of DRAM for every bit that is read or written."""
        return sum(each.memory_bytes for each in self.operations) * 8 * DRAM_PJ_PER_BIT * 1e-12

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with energy in microjoules."""
        return {
            "cycles": self.cycles,
            "accesses": {name: list(counts) for name, counts in sorted(self.accesses.items())},
            "operations": {each.name: _operation(each) for each in self.operations},
            "watts": {unit: round(watts, 6) for unit, watts in self.watts.items()},
            "energy_uj": {
                **{name: round(1e6 * joules, 4) for name, joules in self.parts.items()},
                "logic": round(1e6 * self.logic, 4),
                **{f"logic and memories, {source}": round(1e6 * self.on_chip(source), 4) for source in SOURCES},
                "dram": round(1e6 * self.off_chip, 4),
            },
        }


def _operation(each: StepOperation) -> dict[str, Any]:
    accesses = {name: list(counts) for name, counts in sorted(each.accesses.items())}
    return {"cycles": each.cycles, "accesses": accesses, "memory_bytes": each.memory_bytes}


def energy_ratios(ours: StepEnergy, theirs: StepEnergy) -> dict[str, float]:
    """Return the ratios of TensorDash to the dense core: cycles, and energy by counted part."""
    first, second = SOURCES
    return {
        "cycles": ours.cycles / theirs.cycles,
        "energy": ours.logic / theirs.logic,
        "energy_with_memories": ours.on_chip(first) / theirs.on_chip(first),
        "energy_with_macros": ours.on_chip(second) / theirs.on_chip(second),
        "energy_with_dram": (ours.on_chip(first) + ours.off_chip) / (theirs.on_chip(first) + theirs.off_chip),
    }
