"""A tile on an FPGA: look-up tables, flip-flops and multipliers, next to the dense baseline."""

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensordash import ConfigError, TileConfig

from .fpga_families import FAMILIES
from .hierarchy import Hierarchy
from .mapping import statistics
from .report import component_sums, table_rows
from .run import Progress, pooled
from .yosys import run_yosys

__all__ = ["RESOURCES", "TARGETS", "FpgaReport", "synthesize_fpga"]

TARGETS = tuple(FAMILIES)
RESOURCES = ("lut", "ff", "dsp")
TILE = "tensordash_tile"


@dataclass(frozen=True, kw_only=True)
class FpgaReport:
    """Resources of a TensorDash tile next to its dense baseline.

    Parameters
    ----------
    digest : str
        Digest of the configuration.
    target : str
        FPGA family.
    rows : dict of str to dict of str to (float, float)
        (TensorDash, baseline) by resource and row of the cost table; `total` is the sum.
    """

    digest: str
    target: str
    rows: Mapping[str, Mapping[str, tuple[float, float]]]

    def ratio(self, resource: str) -> float | None:
        """Return the ratio of TensorDash to the baseline; None if the baseline has none of the resource."""
        sparse, dense = self.rows[resource]["total"]
        return sparse / dense if dense else None

    def to_json(self) -> dict[str, Any]:
        """Return the report as a document of plain values."""
        return {
            "config": self.digest,
            "target": self.target,
            "resources": {
                resource: {
                    "tensordash": round(rows["total"][0]),
                    "baseline": round(rows["total"][1]),
                    "ratio": None if (ratio := self.ratio(resource)) is None else round(ratio, 4),
                    "components": {
                        name: {"tensordash": round(rows[name][0]), "baseline": round(rows[name][1])}
                        for name in rows
                        if any(rows[name]) and name != "total"
                    },
                }
                for resource, rows in self.rows.items()
            },
        }


def synthesize_fpga(
    config: TileConfig, target: str = "ecp5", *, progress: Progress | None = None, jobs: int | None = None
) -> FpgaReport:
    """Map a tile and its dense baseline to an FPGA family, module by module.

    Parameters
    ----------
    config : TileConfig
        A tile that skips zeros; its baseline is derived from it.
    target : str
        One of `TARGETS`.
    progress : callable, optional
        Called with one line of text for every finished module.
    jobs : int, optional
        Processes at a time; by default one per core.

    Returns
    -------
    FpgaReport
        `lut` counts four-input tables, carry chains included; `dsp` counts multipliers in the family's unit.

    Raises
    ------
    ConfigError
        If `config` is a dense baseline.
    ValueError
        If `target` is unknown.
    SynthesisError
        If Yosys fails. No file remains.
    """
    from tensordash.emission.verilog import render  # Importing Amaranth is slow.

    if config.sparsity == "none":
        raise ConfigError('tile.sparsity must be "rows" or "both" to compare with the baseline, not "none"')
    if target not in TARGETS:
        raise ValueError(f"target must be one of {', '.join(TARGETS)}, not {target!r}")
    tiles = [Hierarchy(render(each)["tensordash.v"], TILE) for each in (config, config.baseline)]
    found: dict[str, Future[Counter[str]]] = {}
    with pooled(jobs) as (folder, pool):
        for tile in tiles:
            for name in sorted({placement.module for placement in tile.placements}):
                if (digest := tile.digest(name)) not in found:
                    room = folder / str(len(found))
                    room.mkdir()
                    found[digest] = pool.submit(_map, tile, name, target, room, progress or (lambda line: None))
        counts = {digest: future.result() for digest, future in found.items()}
    return FpgaReport(
        digest=config.digest,
        target=target,
        rows={
            resource: table_rows(
                *(
                    component_sums((place, counts[tile.digest(place.module)][resource]) for place in tile.placements)
                    for tile in tiles
                )
            )
            for resource in RESOURCES
        },
    )


def _map(tile: Hierarchy, name: str, target: str, folder: Path, progress: Progress) -> Counter[str]:
    """Return the resources of a module, without the modules below it."""
    (folder / "module.v").write_text(tile.source(name), encoding="utf-8")
    family = FAMILIES[target]
    synth = f"{family.synth} -noflatten -top {name}"
    commands = ["read_verilog module.v", f"hierarchy -check -top {name}", "flatten", synth]
    run_yosys([*commands, f"tee -q -o stat.json stat -json -top {name}"], folder, name)
    counts = family.count(statistics(folder / "stat.json", name)["num_cells_by_type"])
    progress(f"{name}: {', '.join(f'{counts[resource]} {resource}' for resource in RESOURCES)}")
    return counts
