"""Soak of cores: random cores execute layers and random programs under random faults.

A program runs at a random address of memory, with random latency, pauses and order of responses. The final memory and
buffer, `done`, error and index must equal the golden core's. After a fault, or a soft reset in any cycle, a legal
program must run as on a new core. No program may hang.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from tensordash.configuration.descriptors import BYTES
from tensordash_storage.jobs import LOCAL, AnswerStore, Job, Runner

from ..core_library import core_states, verilog_of
from ..verilated_core import VerilatedCore, VerilatedError
from .code import code_digest
from .core_bench import LAYER_BYTES, MAX_DESCRIPTORS, Bench
from .core_coverage import BITS_IN_ALL, CoreCoverage, state_points, universe
from .core_draw import SIZE, CoreGoals, CoreJob, draw_core_job
from .core_faults import FAULTS, SILENT_CYCLES, bits_in_turn
from .coverage import Counts

__all__ = ["CoreCampaign", "CoreGoals", "CoreJob", "CoreRecord", "CoreSummary", "draw_core_job", "run_core_job"]


@dataclass(frozen=True, kw_only=True)
class CoreRecord:
    """Result of a job.

    Parameters
    ----------
    index : int
        The job's number.
    digest : str
        Digest of its core.
    failure : str
        The first difference, or a hang; empty if the job passed.
    programs, descriptors, positions, cycles : int
        Programs, descriptors and dense multiply positions that the core executed, equal to golden, and clock cycles.
    faults : dict of str to int
        Number of faults of each kind.
    coverage : dict of str to dict of str to int
        Counts by group and point; 0 for the core's states that no soft reset met.
    bits : dict of str to str
        By operation, a hexadecimal mask of its descriptors' fuzzed bits.
    build_seconds, seconds : float
        Seconds of the core's build, and of the programs.
    """

    index: int
    digest: str
    failure: str
    programs: int
    descriptors: int
    positions: int
    cycles: int
    faults: dict[str, int]
    coverage: dict[str, dict[str, int]]
    bits: dict[str, str]
    build_seconds: float
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class _Run:
    """A running job; its next step serves the goal that is furthest from done."""

    def __init__(self, job: CoreJob, benches: list[Bench], roomy: VerilatedCore, random: Random) -> None:
        self.goals, self.benches, self.roomy, self.random = job.goals, benches, roomy, random
        self.faults: Counter[str] = Counter()
        self.label = ""

    def total(self, name: str) -> int:
        """Return the sum of an attribute over all benches."""
        return sum(getattr(bench, name) for bench in self.benches)

    def go(self) -> None:
        """Run programs until all goals are reached."""
        while True:
            done = {
                "legal": self.total("descriptors") / self.goals.descriptors,
                "fault": sum(self.faults.values()) / self.goals.faults,
                "layer": self.total("positions") / self.goals.positions,  # last, because layers take longest
            }
            kind = min(done, key=lambda each: done[each])
            if done[kind] >= 1:
                return
            self._program(kind)

    def _program(self, kind: str) -> None:
        random, bench = self.random, self.random.choice(self.benches)
        pace = random.choice(((0, 1), (0, 20), (0, 200), (200, 200)))
        pause = random.choice((0.0, 0.0, 0.3, 0.9))
        bench.pace(pace, pause)
        self.roomy.behave(latency=pace, pause=min(pause, 0.3), unruly=True)
        if kind == "fault":
            kind = random.choices(list(FAULTS), [share for share, _ in FAULTS.values()])[0]
        self.label = f"program {self.total('programs')}, {kind}"
        if kind == "layer":
            bench.layer(self.roomy)
        elif kind == "legal":
            bench.check(bench.legal())
        elif FAULTS[kind][1](bench):
            self.faults[kind] += 1


def run_core_job(job: CoreJob, verilog: str = "") -> CoreRecord:
    """Build a job's core and run its share, in this process.

    Parameters
    ----------
    job : CoreJob
        The job.
    verilog : str
        The core's Verilog; emitted if empty.

    Raises
    ------
    VerilatedError
        If the core cannot be built.
    """
    began = time.monotonic()
    random, config = Random(f"soak core programs {job.seed} {job.index}"), job.config
    verilog, coverage = verilog or verilog_of(config), CoreCoverage(job.config)
    coverage.counts["soft reset"] = Counter(dict.fromkeys(state_points(core_states(verilog)), 0))
    places = (0, random.getrandbits(config.address_bits - 18) + 1 << 17)
    seeds = [random.getrandbits(60) for _ in range(3)]
    how: dict[str, Any] = {"patience": SILENT_CYCLES, "verilog": verilog}
    failure = ""
    with (
        VerilatedCore(config, SIZE, base=places[0], seed=seeds[0], **how) as low,
        VerilatedCore(config, SIZE, base=places[1], seed=seeds[1], **how) as high,
        VerilatedCore(config, LAYER_BYTES + MAX_DESCRIPTORS * BYTES, seed=seeds[2], **how) as roomy,
    ):
        built = time.monotonic()
        benches: list[Bench] = []
        run = _Run(job, benches, roomy, random)
        try:
            run.label, bits = "a first program", bits_in_turn(job)
            benches += [Bench(device, verilog, coverage, random, bits) for device in (low, high)]
            run.go()
        except (AssertionError, VerilatedError) as error:
            failure = f"{run.label}: {error}"
        cycles = low.cycle + high.cycle + roomy.cycle
    return CoreRecord(
        index=job.index,
        digest=config.digest,
        failure=failure,
        **{name: run.total(name) for name in ("programs", "descriptors", "positions")},
        cycles=cycles,
        faults=dict(run.faults),
        coverage={group: dict(points) for group, points in coverage.counts.items()},
        bits={name: f"{bits:x}" for name, bits in coverage.bits.items()},
        build_seconds=round(built - began, 1),
        seconds=round(time.monotonic() - built, 1),
    )


@dataclass(frozen=True, kw_only=True)
class CoreSummary:
    """Result of a campaign.

    Parameters
    ----------
    seed : int
        Its seed.
    records : tuple of CoreRecord
        Records of all its jobs, in order.
    """

    seed: int
    records: tuple[CoreRecord, ...]

    @property
    def failures(self) -> dict[str, str]:
        """First difference of each failed job, by the job's name."""
        return {f"{self.seed}:{each.index}": each.failure for each in self.records if each.failure}

    @property
    def faults(self) -> dict[str, int]:
        """Number of faults of each kind."""
        return {kind: sum(each.faults.get(kind, 0) for each in self.records) for kind in FAULTS}

    @property
    def counts(self) -> Counts:
        """Count of each reachable point, including 0."""
        counts: Counts = {group: Counter(dict.fromkeys(points, 0)) for group, points in universe().items()}
        for each in self.records:
            for group, points in each.coverage.items():
                counts[group].update(points)
        return counts

    @property
    def never(self) -> dict[str, list[str]]:
        """Reachable points that were not met, by group."""
        missed = {group: [point for point, n in points.items() if not n] for group, points in self.counts.items()}
        return {group: points for group, points in missed.items() if points}

    @property
    def bits(self) -> int:
        """Number of fuzzed bits of all operations' descriptors."""
        fuzzed: dict[str, int] = {}
        for each in self.records:
            for name, bits in each.bits.items():
                fuzzed[name] = fuzzed.get(name, 0) | int(bits, 16)
        return sum(bits.bit_count() for bits in fuzzed.values())

    def to_json(self) -> dict[str, Any]:
        sums = {
            name: sum(getattr(each, name) for each in self.records)
            for name in ("programs", "descriptors", "positions", "cycles", "build_seconds", "seconds")
        }
        return {
            "seed": self.seed,
            "cores": len(self.records),
            **sums,
            "faults": self.faults,
            "failures": self.failures,
            "bits_fuzzed": {"met": self.bits, "of": BITS_IN_ALL},
            "never": self.never,
            "coverage": {group: dict(points) for group, points in self.counts.items()},
            "records": [each.to_json() for each in self.records],
        }


class CoreCampaign:
    """Random cores of a seed, each with its share of the goals.

    Parameters
    ----------
    folder : Path
        Folder for records.
    seed : int
        Seed of all random decisions.
    cores : int
        Number of cores.
    goals : CoreGoals
        Least numbers that all cores reach together.
    """

    def __init__(self, folder: Path, seed: int, cores: int, goals: CoreGoals) -> None:
        self.seed, share = seed, goals.share(cores)
        self.jobs = [draw_core_job(seed, index, share) for index in range(cores)]
        label = "-".join(map(str, (seed, *vars(share).values())))
        self.store = AnswerStore(
            folder / f"soak-cores-{label}-{code_digest()}", lambda document: CoreRecord(**document)
        )

    def run(
        self, runner: Runner = LOCAL, *, describe: Callable[[CoreJob, CoreRecord], str] = lambda job, record: job.name
    ) -> CoreSummary:
        """Run the jobs without a record.

        Parameters
        ----------
        runner : Runner
            Runner of the jobs.
        describe : callable
            A function that returns a line about a job and its new record.

        Raises
        ------
        VerilatedError
            If a core cannot be built.
        JobError
            See `Runner.run`.
        """
        work = [Job(str(job.index), run_core_job, (job,)) for job in self.jobs]
        answers = runner.run(
            work, self.store, title="cores", describe=lambda job, record: describe(job.arguments[0], record)
        )
        records = dict(answers)
        return CoreSummary(seed=self.seed, records=tuple(records[job.key] for job in work))
