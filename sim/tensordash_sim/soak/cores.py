"""Soak of cores: random ones, whose Verilog executes layers and random programs, legal and not, on failing memory.

A program runs from any first address on, with any latency, pauses and order of answers. Memory and buffer must end as
the golden core's, with its `done`, error and index; after an error or a soft reset in any cycle the next program runs
as on a new core. No program may hang.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import tensordash
from tensordash import ConfigError, TensorDashError
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, decode
from tensordash.storage.files import code_digest

from .. import core, golden
from ..core.choice import best_blocking
from ..core.described import read_memory, written_memory
from ..core.golden import GoldenCore, Memory, Outcome
from ..core.illegal_programs import CLAUSES, IllegalProgram, illegal_program
from ..core.judgement import BUFFER_IMAGE, dumping, empty_buffer, filling, golden_after, left_open
from ..core.program import ProgramError
from ..core.random_layers import random_work
from ..core.random_programs import PROGRAM, random_program
from ..core.verilated import VerilatedCore, VerilatedError
from .jobs import Jobs

__all__ = ["CoreCampaign", "CoreJob", "CoreRecord", "CoreSummary", "draw_core_job", "run_core_job"]

SIZE = 1 << 17
"""Bytes of memory."""
LAYERS, MACS = 1 << 22, (1_000, 400_000)
"""Bytes of memory of programs that are layers, and their multiplications."""
LAYER_EVERY = 10
"""One program in so many is a layer."""
LONGEST = 400_000
"""Cycles after which a program hangs."""
MIXED = ({"a": "fp8_e4m3", "b": "fp8_e5m2"}, {"a": "fp8_e5m2", "b": "fp8_e4m3"})
FORMATS = ("fp16", "fp16", "fp16", "fp8_e4m3", "fp8_e5m2", *MIXED)
KINDS = ("legal", "legal", "failing", "failing", "failing", "reset")
"""What becomes of a program: nothing, memory fails, a soft reset comes; it is illegal, where memory begins at 0."""


@dataclass(frozen=True, kw_only=True)
class CoreJob:
    """One job: one core, and so many programs.

    Parameters
    ----------
    seed, index : int
        The campaign's seed and the job's number: they decide everything else.
    config : CoreConfig
        The core.
    programs : int
        How many it executes.
    """

    seed: int
    index: int
    config: CoreConfig
    programs: int

    @property
    def name(self) -> str:
        """All of the job."""
        return f"{self.seed}:{self.index}:{self.programs}"


@dataclass(frozen=True, kw_only=True)
class CoreRecord:
    """What a job found.

    Parameters
    ----------
    index : int
        The job's number.
    digest : str
        Of its core.
    failure : str
        What differed first, or hung; empty if nothing did.
    programs, descriptors, positions, cycles : int
        What the core executed, dense multiply positions and clock cycles among it.
    faults : int
        Programs that were illegal, met a memory that fails, or a soft reset.
    outcomes : dict of str to int
        How many programs ended with each error; "" for none.
    seconds : float
        With the core's build.
    """

    index: int
    digest: str
    failure: str
    programs: int
    descriptors: int
    positions: int
    cycles: int
    faults: int
    outcomes: dict[str, int]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def draw_core_job(seed: int, index: int, programs: int) -> CoreJob:
    """The job of a campaign with this number.

    >>> draw_core_job(3, 5, 1) == draw_core_job(3, 5, 1), draw_core_job(3, 5, 1) == draw_core_job(3, 6, 1)
    (True, False)
    """
    random = Random(f"soak core {seed} {index}")
    while True:
        with suppress(ConfigError):
            config = CoreConfig.from_mapping(_drawn(random))
            if config.groups >= 64 and config.groups * config.group_bytes <= SIZE - BUFFER_IMAGE:
                return CoreJob(seed=seed, index=index, config=config, programs=programs)


def _drawn(random: Random) -> dict[str, Any]:
    """Every key at random; not all of them go together."""
    lanes = random.choice((4, 4, 4, 8))
    sides = (lanes, lanes, 2 * lanes) if lanes == 4 else (lanes,)
    sparsity = random.choice(("rows", "rows", "rows", "both", "none"))
    depth = random.choice((2, 3, 4, 4))
    offsets = random.sample(range(lanes), random.randint(1, min(3, lanes)))
    tile = {
        "lanes": lanes,
        "rows": random.choice(sides),
        "columns": random.choice(sides),
        "depth": depth,
        "connectivity": [(0, 0), *((step, offset) for step in range(1, depth) for offset in offsets)],
        "format": random.choice(FORMATS),
        "sparsity": sparsity,
        "staging": "shift" if sparsity == "none" else "ring",
        "pipeline": random.choice(("auto", 1, 2, 3)),
        "full_window": random.choice(("auto", True, False)),
        "headroom_bits": random.choice((12, 14, 16)),
    }
    core = {
        "buffer": random.choice((4, 8, 16, 32, 64)),
        "regions": random.choice((1, 2, 4, 8)),
        "stream_buffer": random.choice((2, 3, 4, 8, 16)),
        "partial_sums": random.choice((1, 3, 4, 16, 64)),
        "result_cycles": random.choice((1, 2, 4, 8)),
        "axi_bits": random.choice((32, 64, 128, 128, 256, 512)),
        "address_bits": random.choice((32, 40, 48, 64)),
        "outstanding": random.choice((1, 2, 8, 16)),
        "window": random.choice((4, 8, 16, 32)),
        **{name: random.random() < 0.8 for name in ("bias", "scale", "relu", "mask", "stochastic", "compression")},
    }
    return {"tile": tile, "core": core}


class _Bench:
    """A core under test, and what is in its buffer."""

    def __init__(self, device: VerilatedCore, config: CoreConfig, random: Random) -> None:
        self.device, self.config, self.random = device, config, random
        self.buffer = empty_buffer(config)
        self.descriptors = self.positions = 0

    def fill(self) -> None:
        """Put something into all memories."""
        device, data = self.device, self.random.randbytes(self.buffer.nbytes)
        device.memory[BUFFER_IMAGE:][: len(data)] = np.frombuffer(data, np.uint8)
        outcome = device.run(filling(self.config, device.base), device.base + PROGRAM, most=LONGEST).outcome
        assert not outcome.error, f"filling ends with {outcome.error}"
        self.buffer[:] = np.frombuffer(data, self.buffer.dtype).reshape(self.buffer.shape)

    def illegal(self) -> IllegalProgram | None:
        """A program that breaks a rule, or two; None if a core's programs cannot break it."""
        name, second = self.random.choice(list(CLAUSES)), self.random.choice([*CLAUSES, "", ""])
        try:
            return illegal_program(self.random, self.config, name, second=second)
        except ValueError:
            return None

    def legal(self, at: int) -> IllegalProgram:
        """One that breaks none."""
        made = random_program(self.random, self.config, SIZE, edges=self.random.random() < 0.5, at=at)
        return IllegalProgram(
            descriptors=made.program.descriptors, memory=made.memory, base=at + PROGRAM, title=made.title
        )

    def failing(self, made: IllegalProgram) -> set[int]:
        """Lines of memory that the program needs."""
        lines, line = set(), self.config.axi_bits // 8
        for _ in range(self.random.randint(1, 3)):
            where = self.random.choice(("fetch", "read", "write"))
            runs = [(made.base, 64 * len(made.descriptors))]
            if where != "fetch":
                of = read_memory if where == "read" else written_memory
                runs = [run for bits in made.descriptors for run in of(bits, self.config)]
            address, count = self.random.choice(runs)
            lines.add((address + self.random.choice((0, self.random.randrange(count)))) // line)
        return lines

    def check(self, made: IllegalProgram, faults: set[int]) -> Outcome:
        """Run a program on both."""
        device, config = self.device, self.config
        model, wanted = golden_after(config, made.memory, made.base, made.descriptors, faults, self.buffer)
        device.memory[:] = np.frombuffer(made.memory.bytes, np.uint8)
        device.fail(faults)
        causes = 2 if wanted.error else 3  # an error may come behind an end
        got = device.run(made.descriptors, made.base, most=LONGEST, causes=causes).outcome
        assert (got.done, got.error, got.index) == (wanted.done, wanted.error, wanted.index), f"{got}, golden: {wanted}"
        device.reset()  # what units were about to write is written
        assert device.idle, "a burst was left without its end"
        device.fail(())
        memory, groups = left_open(config, made.descriptors, wanted)
        self._same_memory(model.memory, [*memory, (made.base, 64 * len(made.descriptors))])
        self._same_buffer(model.buffer, groups)
        self.descriptors += got.done
        self.positions += sum(self._positions(bits) for bits in made.descriptors[: got.done])
        return wanted

    def _same_memory(self, expected: Memory, besides: Sequence[tuple[int, int]]) -> None:
        ours, theirs = self.device.memory.copy(), np.frombuffer(bytes(expected.bytes), np.uint8).copy()
        for address, count in besides:
            begin = address - expected.base
            part = slice(max(begin, 0), max(begin + count, 0))
            ours[part] = theirs[part] = 0
        wrong = np.flatnonzero(ours != theirs)
        assert not len(wrong), f"byte {expected.base + int(wrong[0]):#x} differs, and {len(wrong) - 1} others"

    def _same_buffer(self, expected: np.ndarray, besides: set[int]) -> None:
        device = self.device
        device.run(dumping(self.config, device.base), device.base + PROGRAM, most=LONGEST)
        image = device.memory[BUFFER_IMAGE:][: self.buffer.nbytes].tobytes()
        self.buffer[:] = np.frombuffer(image, self.buffer.dtype).reshape(self.buffer.shape)
        differs = np.flatnonzero((self.buffer != expected).reshape(self.config.groups, -1).any(axis=1))
        wrong = sorted(set(differs.tolist()) - besides)
        assert not wrong, f"group {wrong[0]} of the buffer differs, and {len(wrong) - 1} others"

    def _positions(self, bits: int) -> int:
        operation, values = decode(bits)
        if operation is not OPERATIONS["multiply"]:
            return 0
        tile = self.config.tile
        steps = -(-values["steps"] // tile.window_depth) * tile.window_depth
        return int(values["a_streams"] * values["b_streams"] * steps * tile.rows * tile.columns * tile.lanes)

    def layer(self, device: VerilatedCore) -> None:
        """A random layer as the mapper cuts it, in a memory of its own; nothing if it does not fit the core."""
        work = random_work(self.random, self.config, MACS)
        image = work.image(self.config, Memory(LAYERS))
        try:
            contraction = work.contraction(self.config, image)
            program = contraction.program(best_blocking(contraction)).descriptors
        except ProgramError:
            return
        device.memory[:LAYERS] = np.frombuffer(image.memory.bytes, np.uint8)
        got = device.run(program, LAYERS).outcome
        wanted = GoldenCore(self.config, image.memory).run(program)
        said = f"{work.operation} of {work.layer}"
        assert got == wanted, f"{said}: {got}, golden: {wanted}"
        same = device.memory[:LAYERS].tobytes() == bytes(image.memory.bytes)
        assert same, f"{said}: memory differs"
        self.descriptors += got.done
        self.positions += sum(self._positions(bits) for bits in program)

    def interrupted(self, made: IllegalProgram) -> None:
        """A soft reset in any cycle of a program; what it has written by then is nobody's."""
        self.device.memory[:] = np.frombuffer(made.memory.bytes, np.uint8)
        with suppress(VerilatedError):  # it is not done by then
            self.device.run(made.descriptors, made.base, most=self.random.choice((1, 50, 400, 3000)))
        self.device.reset()
        assert self.device.idle, "a burst was left without its end"
        self.fill()


def run_core_job(job: CoreJob, verilog: str = "") -> CoreRecord:
    """Build a job's core and run its programs, in this process.

    Parameters
    ----------
    job : CoreJob
        What to run.
    verilog : str
        The core's Verilog, if it is not what is emitted for it.

    Raises
    ------
    VerilatedError
        If the core cannot be built.
    """
    began = time.monotonic()
    random = Random(f"soak core programs {job.seed} {job.index}")
    config = job.config
    at = random.choice((0, random.getrandbits(config.address_bits - 18) << 17))
    outcomes: Counter[str] = Counter()
    failure, ran, faults = "", 0, 0
    said = "filling"
    seeds = random.getrandbits(60), random.getrandbits(60)
    with (
        VerilatedCore(config, SIZE, base=at, seed=seeds[0], verilog=verilog) as device,
        VerilatedCore(config, LAYERS + (1 << 18), seed=seeds[1], verilog=verilog) as roomy,
    ):
        bench = _Bench(device, config, random)
        try:
            bench.fill()
            for ran in range(job.programs):
                if ran % LAYER_EVERY == LAYER_EVERY - 1:
                    said = f"program {ran}, layer"
                    roomy.behave(latency=(0, random.choice((1, 60))), pause=random.choice((0.0, 0.2)), unruly=True)
                    bench.layer(roomy)
                    continue
                pace = random.choice(((0, 1), (0, 20), (0, 200), (200, 200)))
                device.behave(latency=pace, pause=random.choice((0.0, 0.3, 0.9)), unruly=True)
                kind = random.choice(KINDS if at else (*KINDS, "illegal", "illegal", "illegal"))
                made = bench.illegal() if kind == "illegal" else bench.legal(at)
                if made is None:
                    continue
                said = f"program {ran}, {kind}, {made.title}"
                if kind == "reset":
                    bench.interrupted(made)
                else:
                    outcomes[bench.check(made, bench.failing(made) if kind == "failing" else set()).error] += 1
                faults += kind != "legal"
        except (AssertionError, VerilatedError) as error:
            failure = f"{said}: {error}"
        cycles = device.cycle + roomy.cycle
    return CoreRecord(
        index=job.index,
        digest=config.digest,
        failure=failure,
        programs=ran + 1,
        descriptors=bench.descriptors,
        positions=bench.positions,
        cycles=cycles,
        faults=faults,
        outcomes=dict(outcomes),
        seconds=round(time.monotonic() - began, 1),
    )


@dataclass(frozen=True, kw_only=True)
class CoreSummary:
    """What a campaign found.

    Parameters
    ----------
    seed : int
        Its seed.
    records : tuple of CoreRecord
        Of all its jobs, in their order.
    """

    seed: int
    records: tuple[CoreRecord, ...]

    @property
    def failures(self) -> dict[str, str]:
        """What differed first, by the job."""
        return {f"{self.seed}:{each.index}": each.failure for each in self.records if each.failure}

    @property
    def outcomes(self) -> dict[str, int]:
        """How many programs ended with each error."""
        total: Counter[str] = Counter()
        for each in self.records:
            total.update(each.outcomes)
        return dict(total.most_common())

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        sums = {
            name: sum(getattr(each, name) for each in self.records)
            for name in ("programs", "descriptors", "positions", "cycles", "faults", "seconds")
        }
        return {
            "seed": self.seed,
            "cores": len(self.records),
            **sums,
            "outcomes": self.outcomes,
            "failures": self.failures,
            "records": [each.to_json() for each in self.records],
        }


@cache
def _digest() -> str:
    folders = [Path(module.__file__ or "").parent for module in (tensordash, golden, core)]
    return code_digest(*folders, Path(__file__).parent)[:16]


class CoreCampaign(Jobs):
    """Random cores of a seed, each with so many programs, in a file that a later run goes on with.

    Parameters
    ----------
    folder : Path
        For that file.
    seed : int
        Decides everything.
    cores, programs : int
        How many cores, and programs of each.
    """

    def __init__(self, folder: Path, seed: int, cores: int, programs: int) -> None:
        self.seed = seed
        jobs = [draw_core_job(seed, index, programs) for index in range(cores)]
        path = folder / f"soak-cores-{seed}-{programs}-{_digest()}.jsonl"
        super().__init__(path, jobs, CoreRecord, __name__, kind="core")

    def run(
        self, *, workers: int = 1, progress: Callable[[CoreJob, CoreRecord], None] = lambda job, record: None
    ) -> CoreSummary:
        """Run the jobs that are left, as `Jobs.finish` does."""
        return CoreSummary(seed=self.seed, records=self.finish(workers, progress))


def main(name: str, folder: str) -> None:
    """A job in a process of its own; the last line on stderr says why it could not run."""
    seed, index, programs = map(int, name.split(":"))
    try:
        record = run_core_job(draw_core_job(seed, index, programs))
    except (TensorDashError, OSError) as error:
        sys.exit(" ".join(str(error).split()))
    (Path(folder) / "record.json").write_text(json.dumps(record.to_json()), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
