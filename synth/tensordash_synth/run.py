"""Runs of the recipe: modules of generated Verilog, several at a time, in a scratch folder."""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from tensordash import TileConfig

from .cache import cached_mappings
from .hierarchy import Hierarchy, role
from .liberty import Liberty, load_liberty
from .mapping import Mapped, map_fastest, map_for_area, map_for_area_and_fastest
from .power import Activity, DesignPower, design_power

__all__ = ["Progress", "Run", "pooled", "running"]

# The scheduling loop runs through these modules and ends in the staging buffers: each gets a share of the period.
PERIOD_SHARES = {"row_scheduler": 0.55, "control": 0.35}

T = TypeVar("T")
Progress = Callable[[str], None]


@dataclass
class Run:
    """Maps modules in a scratch folder; its methods may be called from several threads.

    Parameters
    ----------
    folder : Path
        Folder of all files.
    library : Liberty
        The library to map to.
    clock_ns : float
        Target period.
    progress : callable
        Called with one line of text for every finished mapping.
    pool : ThreadPoolExecutor
        Each of its threads waits for one process.
    """

    folder: Path
    library: Liberty
    clock_ns: float
    progress: Progress
    pool: ThreadPoolExecutor
    _submitted: list[Future] = field(default_factory=list)

    def module(self, hierarchy: Hierarchy, name: str, label: str) -> Mapped:
        """Map a module separately to the target clock; the modules below it are black boxes."""
        period = self.clock_ns * PERIOD_SHARES.get(role(name), 1.0)

        text = hierarchy.source(name)

        def make() -> tuple[Mapped, ...]:
            return (map_for_area(self._read(text), name, self.library, period, self.room()),)

        (mapped,) = cached_mappings([*self._key, "area", repr(period), name, text], make)
        return self._report(label, mapped)

    def module_fastest(self, hierarchy: Hierarchy, name: str, label: str) -> Mapped:
        """Map a module separately for speed."""
        text = hierarchy.source(name)

        def make() -> tuple[Mapped, ...]:
            return (map_fastest(self._read(text), name, self.library, self.room()),)

        (mapped,) = cached_mappings([*self._key, "speed", name, text], make)
        return self._report(f"{label}, for speed", mapped)

    def flattened(self, text: str, top: str, label: str) -> Mapped:
        """Map Verilog flattened to the target clock; its black boxes stay."""

        def make() -> tuple[Mapped, ...]:
            commands, room = self._read(text), self.room()
            return (map_for_area(commands, top, self.library, self.clock_ns, room, thorough=False),)

        (mapped,) = cached_mappings([*self._key, "around", repr(self.clock_ns), text], make)
        return self._report(label, mapped)

    def map_flattened(self, hierarchy: Hierarchy, label: str) -> tuple[Mapped, Mapped]:
        """Map a top flattened, to the target clock and for speed, because its longest path may cross modules.

        Only the first of several equal instances is mapped in full; the others are loads. Their paths are equal, and
        mapping them would take most of the time.
        """
        at_target, fastest = cached_mappings(
            [*self._key, "whole", repr(self.clock_ns), hierarchy.top, hierarchy.flattened_source],
            lambda: self._map_flattened(hierarchy),
        )
        self._report(f"{label}, flattened", at_target)
        return at_target, self._report(f"{label}, flattened, for speed", fastest)

    def _map_flattened(self, hierarchy: Hierarchy) -> tuple[Mapped, Mapped]:
        commands = self._read(hierarchy.flattened_source)
        loads = {child: f"{child}_load" for _, child, _ in hierarchy.twins()}
        commands += [f"copy {child} {load}" for child, load in loads.items()]
        commands += [f"blackbox {load}" for load in loads.values()]
        for parent, child, instances in hierarchy.twins():
            commands.append(f"chtype -set {loads[child]} {' '.join(f'{parent}/{name}' for name in instances)}")
        at_target, fastest = map_for_area_and_fastest(commands, hierarchy.top, self.library, self.clock_ns, self.room())
        # The netlists of flattened tiles are large, and nothing reads them.
        return replace(at_target, netlist=""), replace(fastest, netlist="")

    @cached_property
    def _key(self) -> list[str]:
        """Digest of the library, a part of every mapping's key."""
        return [self.library.digest]

    def power(self, config: TileConfig, netlist: str, activities: Sequence[Activity], label: str) -> list[DesignPower]:
        """Measure the power of a mapped tile on operands."""
        found = design_power(config, netlist, self.library, self.clock_ns, activities, self.room())
        self.progress(f"{label}: {', '.join(f'{power.watts:.3f} W' for power in found)}")
        return found

    def submit(self, job: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run a method in the pool; raise the exception of an earlier one that has failed."""
        self._raise_failure()
        future = self.pool.submit(self._start, job, *arguments)
        self._submitted.append(future)
        return future

    def _start(self, job: Callable[..., T], *arguments: Any) -> T:
        self._raise_failure()
        return job(*arguments)

    def wait(self) -> None:
        """Wait until all submitted work is done; raise the first exception at once."""
        wait(self._submitted, return_when=FIRST_EXCEPTION)
        self._raise_failure()

    def _raise_failure(self) -> None:
        for future in self._submitted:
            if future.done():
                future.result()

    def _read(self, text: str) -> list[str]:
        """Return commands that read a text from a new file, so that the mapped text is exactly the cached key."""
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".v", delete=False, encoding="utf-8") as file:
            file.write(text)
        return [f"read_verilog {file.name}"]

    def room(self) -> Path:
        """Return a new, empty folder."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def _report(self, label: str, mapped: Mapped) -> Mapped:
        gates = mapped.area_um2 / self.library.gate_area
        self.progress(f"{label}: {gates:,.0f} GE, {mapped.delay_ns:.2f} ns")
        return mapped


@contextmanager
def running(liberty: str | Path | None, clock_ns: float, progress: Progress | None, jobs: int | None) -> Iterator[Run]:
    """Yield a run in a scratch folder that is deleted when the run ends or fails.

    Parameters
    ----------
    liberty : path or None
        Cell library; None stands for `default_liberty`.
    clock_ns : float
        Target period.
    progress : callable or None
        As in `Run`.
    jobs : int or None
        Processes at a time; None: one per core.

    Raises
    ------
    ValueError
        If `clock_ns` is out of range.
    LibertyError
        If the library cannot be used.
    """
    if not 0 < clock_ns < 1e6:
        raise ValueError(f"clock_ns must be a period in nanoseconds above 0, not {clock_ns!r}")
    library = load_liberty(liberty)
    with pooled(jobs) as (folder, pool):
        yield Run(folder, library, clock_ns, progress or (lambda line: None), pool)


@contextmanager
def pooled(jobs: int | None) -> Iterator[tuple[Path, ThreadPoolExecutor]]:
    """Yield a scratch folder and threads that each wait for a process; both end with the block or its exception."""
    with (
        tempfile.TemporaryDirectory(prefix="tensordash-synth-") as folder,
        ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool,
    ):
        try:
            yield Path(folder), pool
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
