"""Placement and routing of a tile or a core on an FPGA: resources and clock, next to the dense baseline."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tensordash import ConfigError, TileConfig
from tensordash.configuration.core_config import CoreConfig

from .cache import cached_document
from .fpga_families import FAMILIES, FULL, RESOURCES, DeviceError, Family
from .fpga_shell import SHELL, shell
from .mapping import statistics
from .nextpnr import TARGET_MHZ, PathDelay, placed_clock, require_nextpnr, run_nextpnr
from .run import Progress, pooled
from .yosys import run_yosys

__all__ = ["FpgaDesign", "FpgaPlacement", "place_fpga"]

DESIGNS = {"tensordash": "TensorDash", "baseline": "baseline"}
NETLIST = "netlist.json"


@dataclass(frozen=True, kw_only=True)
class FpgaDesign:
    """A design on an FPGA.

    Parameters
    ----------
    counts : dict of str to int
        Number of each of `RESOURCES` that it takes, without the shell around it.
    clock_mhz : float
        Highest clock: after routing if the design was routed, otherwise the estimate after placement.
    placed_mhz : float
        Estimate of the highest clock after placement.
    routed : bool
        Whether the design was routed.
    path : PathDelay, optional
        The longest path after routing.
    utilisation : dict of str to (int, int)
        Used cells, the shell's included, and available cells, by nextpnr's names.
    """

    counts: Mapping[str, int]
    clock_mhz: float
    placed_mhz: float
    routed: bool
    path: PathDelay | None
    utilisation: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class FpgaPlacement:
    """TensorDash and the baseline on one part.

    Parameters
    ----------
    digest : str
        Digest of the configuration.
    target, device : str
        Family and part.
    tools : str
        Yosys and nextpnr, with their versions.
    tensordash, baseline : FpgaDesign
        Both designs.
    """

    digest: str
    target: str
    device: str
    tools: str
    tensordash: FpgaDesign
    baseline: FpgaDesign

    def share(self, design: FpgaDesign, resource: str) -> float:
        """Return the share of the part's resource that a design takes, without the shell."""
        return design.counts[resource] / FAMILIES[self.target].parts[self.device].holds[resource]

    @property
    def ratios(self) -> dict[str, float | None]:
        """Ratios of TensorDash to the baseline; None if the baseline has none of a resource."""
        pairs = {name: (self.tensordash.counts[name], self.baseline.counts[name]) for name in RESOURCES} | {
            "clock": (self.tensordash.clock_mhz, self.baseline.clock_mhz)
        }
        return {f"fpga_{name}": ours / theirs if theirs else None for name, (ours, theirs) in pairs.items()}

    def to_json(self) -> dict[str, Any]:
        return {
            "config": self.digest,
            "target": self.target,
            "device": self.device,
            "tools": self.tools,
            "fpga": {
                name: {
                    **design.counts,
                    "utilisation": {each: round(self.share(design, each), 4) for each in RESOURCES},
                    "clock_mhz": design.clock_mhz,
                    "clock_after": "routing" if design.routed else "placement",
                    "placed_mhz": design.placed_mhz,
                    "path": None
                    if design.path is None
                    else {**asdict(design.path), "through": list(design.path.through)},
                    "cells": {cell: used for cell, (used, _) in design.utilisation.items()},
                }
                for name, design in (("tensordash", self.tensordash), ("baseline", self.baseline))
            },
            "ratio": {name: None if ratio is None else round(ratio, 4) for name, ratio in self.ratios.items()},
        }


def place_fpga(
    config: TileConfig | CoreConfig,
    target: str = "ecp5",
    *,
    device: str | None = None,
    route: bool = True,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> FpgaPlacement:
    """Map a tile or a core and its baseline to an FPGA as a whole, place them in a shell, and route them.

    Results are cached, keyed by everything that determines them.

    Parameters
    ----------
    config : TileConfig or CoreConfig
        A design that skips zeros; its baseline is derived from it.
    target : str
        One of `FAMILIES`.
    device : str, optional
        One of the family's parts; by default the smallest part on which neither design fills more than `FULL` of the
        LUTs.
    route : bool
        Route the designs. Otherwise, clocks are estimates after placement, which take a fraction of the time.
    progress : callable, optional
        Called with one line of text for every finished part of the work.
    jobs : int, optional
        Processes at a time; by default one per core.

    Raises
    ------
    ConfigError
        If `config` is a dense baseline.
    DeviceError
        If the family or the part is unknown, or a design does not fit.
    SynthesisError
        If nextpnr is not installed, or nextpnr or Yosys fails. No file remains.
    """
    if target not in FAMILIES:
        raise DeviceError(f"--target must be one of {', '.join(FAMILIES)}, not {target!r}")
    if device is not None and device not in (parts := FAMILIES[target].parts):
        raise DeviceError(f"--device must be one of {', '.join(parts)} for {target}, not {device!r}")
    tile = config.tile if isinstance(config, CoreConfig) else config
    if tile.sparsity == "none":
        raise ConfigError('tile.sparsity must be "rows" or "both" to compare with the baseline, not "none"')
    require_nextpnr(FAMILIES[target])
    sources = dict(zip(DESIGNS, map(_source, (config, config.baseline)), strict=True))
    report_progress = progress or (lambda line: None)
    with pooled(jobs) as (folder, pool):
        flows = {}
        for name, (top, text) in sources.items():
            (room := folder / name).mkdir()
            flows[name] = _Flow(FAMILIES[target], top, text, room, DESIGNS[name], report_progress)
        counted = {name: pool.submit(flow.counts) for name, flow in flows.items()}
        counts = {name: each.result() for name, each in counted.items()}
        part = _part(target, device, counts)
        placed = {name: pool.submit(flow.place, part, route) for name, flow in flows.items()}
        designs = {name: _design(counts[name], each.result(), DESIGNS[name]) for name, each in placed.items()}
    return FpgaPlacement(
        digest=config.digest,
        target=target,
        device=part,
        tools=f"Yosys {version('pyosys')}, {FAMILIES[target].package} {require_nextpnr(FAMILIES[target])}",
        **designs,
    )


def _source(config: TileConfig | CoreConfig) -> tuple[str, str]:
    """Return the top's name, and its Verilog in the shell."""
    from tensordash.core.core import Core  # Importing Amaranth is slow.
    from tensordash.emission.library import Library, ports
    from tensordash.tile.tile import Tile

    library = Library()
    block = Core(config) if isinstance(config, CoreConfig) else Tile(config)
    top, _ = library.module(block)
    return top, library.verilog() + shell(top, ports(block))


def _part(target: str, device: str | None, counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return the chosen part, or the smallest one on which both designs fit.

    Raises
    ------
    DeviceError
        If a design does not fit.
    """
    parts = FAMILIES[target].parts
    needs = {name: max(each[name] for each in counts.values()) for name in RESOURCES}
    fitting = [name for name, part in parts.items() if not part.lacks(needs, FULL if device is None else 1.0)]
    if device is None and fitting:
        return fitting[0]
    tried = device or list(parts)[-1]
    lacking = parts[tried].lacks(needs, FULL if device is None else 1.0)
    if not lacking:
        return tried
    short = ", ".join(f"{needs[each]:,} {RESOURCES[each]} of {parts[tried].holds[each]:,}" for each in lacking)
    subject = f"--device {tried}" if device is not None else f"{tried}, the largest part of {target},"
    larger = [name for name in fitting if list(parts).index(name) > list(parts).index(tried)]
    advice = f": use {larger[0]}" if larger else ""
    raise DeviceError(f"{subject} is too small for the design, which needs {short}{advice}")


@dataclass(frozen=True)
class _Flow:
    """Mapping and placement of one design."""

    family: Family
    top: str
    text: str
    folder: Path
    label: str
    progress: Progress

    def counts(self) -> dict[str, int]:
        """Return the resources of the design, without its shell."""
        found: dict[str, int] = cached_document([*self._key, "counts"], self._map)
        self.progress(f"{self.label}: {', '.join(f'{found[name]:,} {RESOURCES[name]}' for name in RESOURCES)}")
        return found

    def place(self, device: str, route: bool) -> str:
        part = self.family.parts[device]

        def make() -> str:
            if not (self.folder / NETLIST).exists():
                self._map()
            self.progress(f"{self.label}: placing on {device}")
            return run_nextpnr(self.family, part, NETLIST, self.folder, self.label, route=route)

        key = [*self._key, *part.arguments, part.pins, require_nextpnr(self.family), f"route {route}"]
        log: str = cached_document([*key, f"{TARGET_MHZ} MHz"], make)
        self.progress(f"{self.label}: {placed_clock(log, self.label).clocks_mhz[-1]:.1f} MHz")
        return log

    @property
    def _key(self) -> list[str]:
        return [version("pyosys"), *self._commands, hashlib.sha256(self.text.encode()).hexdigest()]

    @property
    def _commands(self) -> list[str]:
        # The design is mapped as a whole, but separately from its shell, so that its cells can be counted.
        return [
            "read_verilog design.v",
            f"hierarchy -check -top {SHELL}",
            f"setattr -mod -set keep_hierarchy 1 {self.top}",
            f"{self.family.synth} -top {SHELL}",
            "tee -q -o stat.json stat -json",
            f"setattr -mod -unset keep_hierarchy {self.top}",
            "flatten",
            *([f"{self.family.pads} {SHELL}"] if self.family.pads else []),
            "clean",
            f"write_json {NETLIST}",
        ]

    def _map(self) -> dict[str, int]:
        (self.folder / "design.v").write_text(self.text, encoding="utf-8")
        self.progress(f"{self.label}: mapping")
        run_yosys(self._commands, self.folder, self.label)
        if self.family.carry:
            _open_carries(self.folder / NETLIST, *self.family.carry)
        cells = statistics(self.folder / "stat.json", self.top)["num_cells_by_type"]
        return dict(self.family.count(cells))


def _open_carries(path: Path, cell: str, port: str, *constants: str) -> None:
    """Disconnect constants from the first cells of carry chains in a netlist."""
    netlist = json.loads(path.read_text(encoding="utf-8"))
    cells = netlist["modules"][SHELL]["cells"].values()
    constant = {"0", "1", "x"} | {
        bit for each in cells if each["type"] in constants for bits in each["connections"].values() for bit in bits
    }
    for each in cells:
        if each["type"] == cell and constant.issuperset(each["connections"].get(port, [None])):
            del each["connections"][port]
    path.write_text(json.dumps(netlist), encoding="utf-8")


def _design(counts: Mapping[str, int], log: str, label: str) -> FpgaDesign:
    placed = placed_clock(log, label)
    return FpgaDesign(
        counts=counts,
        clock_mhz=placed.clocks_mhz[-1],
        placed_mhz=placed.clocks_mhz[0],
        routed=len(placed.clocks_mhz) > 1,
        path=placed.path,
        utilisation=placed.utilisation,
    )
