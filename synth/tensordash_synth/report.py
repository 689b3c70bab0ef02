"""Report of the flow: areas by component as in the paper's Table IV, delays, and ratios between both designs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .hierarchy import Placement
from .mapping import LOGIC_SHARE, Mapped
from .power_report import PowerReport
from .wire_report import WireReport, rounded, wires_json

__all__ = ["COMPONENTS", "DELAY_NOTES", "NOTES", "Areas", "CostReport", "Design"]

# The paper's chip in 65 nm (Table III and section IV-D); its logic is scaled from gate equivalents.
TILES = 256
NAND2_MM2 = 1.44e-6  # 65 nm
BANKS_MM2 = 3 * 64 * 0.896  # AM, BM and CM have 64 banks of 128 KB with a 64-bit port, by CACTI 7
SCRATCHPADS_MM2 = (5.9, 3.95)  # from the paper; TensorDash's have more ports
COMPONENTS = ("compute_cores", "transposers", "schedulers_b_muxes", "a_muxes", "staging_buffers", "control")
DELAY_NOTES = (
    "delay: ABC, registers, inputs and outputs; without wires, clk-to-q and setup (a tenth of the period is kept)",
    "maximum frequency: the inverse of the least delay that a mapping for speed reaches, without wires",
)
NOTES = (
    *DELAY_NOTES,
    "compute cores: PEs and the dense tile's operand registers; staging buffers: what TensorDash holds beyond those",
    "paper: Table IV, its fp16 chip of 4x4 PEs of 4 lanes; bf16: section IV-D",
    "control: control, counters, flags, and what both designs have: the drain with its rounders, and any store of C",
)


def component(placement: Placement) -> str:
    """Return the table row of an instance, or `flags` for the flags of the operands.

    >>> component(Placement(("pe_0_0", "a_mux"), "tensordash_operand_mux"))
    'a_muxes'
    """
    if placement.role == "operand_mux":
        return "a_muxes" if placement.path[-1].startswith("a_mux") else "schedulers_b_muxes"
    return {
        "pe": "compute_cores",
        "scheduled_pe": "compute_cores",
        "self_scheduled_pe": "schedulers_b_muxes",
        "row_scheduler": "schedulers_b_muxes",
        "step_select": "schedulers_b_muxes",
        "staging_buffer": "staging_buffers",
        "staging_ring": "staging_buffers",
        "transposer": "transposers",
        "operand_flags": "flags",
    }.get(placement.role, "control")


def component_sums(figures: Iterable[tuple[Placement, float]]) -> dict[str, float]:
    """Sum figures of instances by `component`."""
    sums: dict[str, float] = dict.fromkeys((*COMPONENTS, "flags"), 0.0)
    for placement, figure in figures:
        sums[component(placement)] += figure
    return sums


def table_rows(sparse: dict[str, float], dense: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Return (TensorDash, baseline) by row of the table from sums by `component`; the rows sum to `total`."""
    # The dense tile's staging buffers are its operand registers. They count as compute cores, in both tiles.
    registers = dense["staging_buffers"]
    # The operand flags that the dense tile has as well are control; the rest serves the schedulers.
    flags = dense["flags"]
    moved = {"compute_cores": registers, "staging_buffers": -registers, "control": flags}
    more_flags = {"schedulers_b_muxes": sparse["flags"] - flags}
    rows = {
        name: (sparse[name] + moved.get(name, 0) + more_flags.get(name, 0), dense[name] + moved.get(name, 0))
        for name in COMPONENTS
    }
    return {**rows, "total": (sum(sparse.values()), sum(dense.values()))}


@dataclass(frozen=True, kw_only=True)
class Design:
    """One of the two tiles, mapped.

    Parameters
    ----------
    placements : list of Placement
        Every instance, transposers included.
    keys : dict of str to str
        Key in the report's modules of every module name.
    """

    placements: list[Placement]
    keys: dict[str, str]

    def areas(self, modules: Mapping[str, Mapped]) -> dict[str, float]:
        """Return the area by component, before `table_rows` moves parts between rows."""
        return component_sums((place, modules[self.keys[place.module]].area_um2) for place in self.placements)

    def counts(self) -> Counter[str]:
        """Count instances by key."""
        return Counter(self.keys[placement.module] for placement in self.placements)


@dataclass(frozen=True, kw_only=True)
class Areas:
    """Area of a TensorDash tile next to its dense baseline.

    Parameters
    ----------
    digest : str
        Digest of the configuration.
    library : str
        Name of the cell library.
    gate_area : float
        Area of a gate equivalent in um2.
    clock_ns : float
        Target period.
    pes : int
        Number of PEs of a tile.
    modules : dict of str to Mapped
        Every distinct module, mapped once.
    baseline, tensordash : Design
        Both tiles.
    """

    digest: str
    library: str
    gate_area: float
    clock_ns: float
    pes: int
    modules: dict[str, Mapped]
    baseline: Design
    tensordash: Design

    @cached_property
    def components(self) -> dict[str, tuple[float, float]]:
        """(TensorDash, baseline) areas in um2 by row of the table; each column's rows sum to its `total`."""
        return table_rows(self.tensordash.areas(self.modules), self.baseline.areas(self.modules))

    def ratio(self, name: str) -> float | None:
        """Return the ratio of TensorDash to the baseline for a row of the table; None if the baseline's area is 0."""
        sparse, dense = self.components[name]
        return sparse / dense if dense else None

    def ge_per_pe(self, name: str) -> tuple[float, float]:
        """Return the gate equivalents per PE (TensorDash, baseline) of a row of the table."""
        sparse, dense = self.components[name]
        return sparse / self.gate_area / self.pes, dense / self.gate_area / self.pes


@dataclass(frozen=True, kw_only=True)
class CostReport(Areas):
    """Cost of a TensorDash tile next to its dense baseline.

    Parameters
    ----------
    delays : dict of str to (Mapped, Mapped)
        Both tiles ("tensordash", "baseline") mapped flattened, to the target clock and for speed. Their areas include
        only one of several equal instances.
    power : PowerReport, optional
        Power of both tiles, if it was measured.
    power_reason : str
        The reason if `power` is missing.
    wires : WireReport, optional
        Both placed tiles, if they were placed.
    """

    delays: dict[str, tuple[Mapped, Mapped]]
    power: PowerReport | None = None
    power_reason: str = "not measured"
    wires: WireReport | None = None

    @property
    def clock_ratio(self) -> float:
        """Highest frequency of TensorDash over the baseline's."""
        (_, sparse), (_, dense) = self.delays["tensordash"], self.delays["baseline"]
        return dense.delay_ns / sparse.delay_ns

    @property
    def chip_ratio(self) -> float:
        """Return the ratio of a chip's area, tiles and memories, to the baseline's."""
        logic = [area / self.gate_area * NAND2_MM2 * TILES for area in self.components["total"]]
        sparse, dense = (BANKS_MM2 + pads + area for pads, area in zip(SCRATCHPADS_MM2, logic, strict=True))
        return sparse / dense

    def meets_clock(self, design: Mapping[str, Any]) -> bool:
        """Return whether a design of `to_json` meets the clock, with a part of the period reserved for flip-flops."""
        return bool(design["delay_ns"] <= LOGIC_SHARE * self.clock_ns)

    def to_json(self) -> dict[str, Any]:
        """Return the report as a document of plain values; areas in um2 and gate equivalents (`ge`), delays in ns."""
        dense, sparse = self._design("baseline", 1), self._design("tensordash", 0)
        total_sparse, total_dense = self.ge_per_pe("total")
        sparse["added_ge_per_pe"] = round(total_sparse - total_dense, 3)
        sparse["total_ge_per_pe"] = round(total_sparse, 3)
        in_dense, in_sparse = self.baseline.counts(), self.tensordash.counts()
        ratio = self.ratio("total")
        return {
            "config": self.digest,
            "library": self.library,
            "gate_um2": self.gate_area,
            "clock_ns": self.clock_ns,
            "baseline": dense,
            "tensordash": sparse,
            "components": {
                name: {
                    "tensordash_um2": round(areas[0], 3),
                    "baseline_um2": round(areas[1], 3),
                    "tensordash_ge": round(areas[0] / self.gate_area, 3),
                    "baseline_ge": round(areas[1] / self.gate_area, 3),
                }
                for name, areas in self.components.items()
            },
            "ratio": {
                "area": round(ratio, 4) if ratio else None,
                "clock": round(self.clock_ratio, 4),
                "chip": round(self.chip_ratio, 4),
                "power": None if self.power is None else round(self.power.ratio, 4),
                "energy": None if self.power is None else self.power.energy_ratios,
                **({} if self.wires is None else rounded(self.wires.ratios)),
            },
            **({} if self.wires is None else wires_json(self.wires)),
            "power": None if self.power is None else self.power.to_json(),
            "idle": None if self.power is None else self.power.idle_json(),
            "power_reason": self.power_reason if self.power is None else None,
            "modules": {
                name: {
                    "area_um2": round(mapped.area_um2, 3),
                    "ge": round(mapped.area_um2 / self.gate_area, 3),
                    "flip_flop_ge": round(mapped.flip_flop_um2 / self.gate_area, 3),
                    "delay_ns": round(mapped.delay_ns, 4),
                    "recipe": mapped.recipe,
                    "baseline_count": in_dense[name],
                    "tensordash_count": in_sparse[name],
                }
                for name, mapped in sorted(self.modules.items())
            },
            "notes": list(NOTES),
        }

    def _design(self, name: str, column: int) -> dict[str, Any]:
        at_target, fastest = self.delays[name]
        total = self.components["total"][column]
        return {
            "pe_ge": round(self.ge_per_pe("compute_cores")[column], 3),
            "tile_ge": round(total / self.gate_area, 3),
            "area_um2": round(total, 3),
            "delay_ns": round(at_target.delay_ns, 4),
            "delay_recipe": at_target.recipe,
            "max_frequency_mhz": round(1000 / fastest.delay_ns, 1),
        }
