"""Mutation: which wrong bits in the emitted Verilog benches and proofs find, and which of the rest change nothing."""

import hashlib
import json
import os
import resource
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tensordash import TileConfig
from tensordash.storage.files import code_digest, write_whole
from tensordash_sim.verify.job import JOB_VARIABLE, Job
from tensordash_sim.verify.run import read_results
from tensordash_sim.verify.simulators import Simulation, SimulatorError
from tensordash_synth.equivalence import same_logic

from .mutants import COMPONENTS, PLUSARG, Mutant, Mutants
from .proofs import PROOFS
from .solver import ProofError, Solver

__all__ = ["Fate", "MutationReport", "mutate"]

# A bench ends at its first failure; a mutant that keeps it running for longer is caught by that.
CPU_SECONDS = 600
CAUGHT = ("bench", "proof")


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What became of a mutant.

    Parameters
    ----------
    component, module : str
        Where it is.
    number : int
        Which of its component's.
    change : str
        What is changed.
    line : str
        The line of emitted Verilog.
    fate : str
        "bench" or "proof": found by it; "equivalent": proven to do what was emitted does; "survives".
    by : str
        What the bench said, or the name of the proof.
    """

    component: str
    module: str
    number: int
    change: str
    line: str
    fate: str
    by: str


@dataclass(frozen=True, kw_only=True)
class MutationReport:
    """All mutants of a tile.

    Parameters
    ----------
    digest : str
        Of its configuration.
    seed : int
        Of mutants and benches.
    fates : tuple of Fate
        What became of each.
    """

    digest: str
    seed: int
    fates: tuple[Fate, ...]

    @property
    def survivors(self) -> list[Fate]:
        """Those that nothing found and that are not proven equivalent."""
        return [each for each in self.fates if each.fate == "survives"]

    def counts(self) -> dict[str, dict[str, int]]:
        """How many there are of each component and fate."""
        kinds = (*CAUGHT, "equivalent", "survives")
        names = list(dict.fromkeys(each.component for each in self.fates))
        table = {
            name: {kind: sum((each.component, each.fate) == (name, kind) for each in self.fates) for kind in kinds}
            for name in names
        }
        table["total"] = {kind: sum(row[kind] for row in table.values()) for kind in kinds}
        return table

    def table(self) -> str:
        """The counts, and a line for each survivor."""
        lines = [f"{'component':15} mutants  bench  proof  equivalent  survive  caught"]
        for name, row in self.counts().items():
            caught = row["bench"] + row["proof"]
            different = caught + row["survives"]
            share = f"{caught / different:7.1%}" if different else "      -"
            lines.append(
                f"{name:15} {sum(row.values()):7} {row['bench']:6} {row['proof']:6} {row['equivalent']:11} "
                f"{row['survives']:8} {share}"
            )
        lines += [
            f"survives: {each.component} {each.number}, {each.module}: {each.change}: {each.line[:160]}"
            for each in self.survivors
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        mutants = [asdict(each) for each in self.fates]
        return {"digest": self.digest, "seed": self.seed, "counts": self.counts(), "mutants": mutants}


def mutate(
    config: TileConfig,
    folder: Path,
    *,
    count: int = 300,
    seed: int = 0,
    effort: float = 0.3,
    jobs: int | None = None,
    components: Sequence[str] = tuple(COMPONENTS),
    proofs: bool = True,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> MutationReport:
    """Make mutants and find out what becomes of each.

    Parameters
    ----------
    config : TileConfig
        The tile; a small one.
    folder : Path
        For models and answers: what is answered there is not asked again.
    count : int
        Mutants, as many of each component.
    seed : int
        Of mutants and benches.
    effort : float
        Of the benches; as in `Job`.
    jobs : int, optional
        Processes; as many as there are cores.
    components : sequence of str
        Of `COMPONENTS`.
    proofs : bool
        Ask proofs about mutants that a bench lets pass and that are not equivalent.
    progress : callable
        Is called with the number of mutants that are done, and of all.

    Raises
    ------
    SimulatorError
        If Icarus cannot run here, or a bench does not pass without a mutant.
    SynthesisError
        If Yosys fails.
    """
    parts = {name: -(-count // len(components)) for name in components}
    total, fates = sum(parts.values()), []
    with ProcessPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        try:
            pending = []
            for name, part in parts.items():
                work = _Work(config=config, component=name, count=part, seed=seed, effort=effort, proofs=proofs)
                place = folder / work.digest
                pending += [pool.submit(_fate, work, place, number) for number in range(1, part + 1)]
            for done, future in enumerate(as_completed(pending), 1):
                fates.append(future.result())
                progress(done, total)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    order = list(components)
    fates.sort(key=lambda each: (order.index(each.component), each.number))
    return MutationReport(digest=config.digest, seed=seed, fates=tuple(fates))


@dataclass(frozen=True, kw_only=True)
class _Work:
    """A component's mutants, and how they are looked for."""

    config: TileConfig
    component: str
    count: int
    seed: int
    effort: float
    proofs: bool

    @property
    def digest(self) -> str:
        """The same for the same mutants, benches and golden model."""
        import tensordash
        import tensordash_sim

        hdl, sim = (Path(package.__file__ or "").parent for package in (tensordash, tensordash_sim))
        code = code_digest(hdl, sim / "golden", sim / "verify", Path(__file__).with_name("mutants.py"))
        text = repr((self.config.digest, self.count, self.seed, self.effort, version("pyosys"), code))
        return f"{self.component}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _fate(work: _Work, folder: Path, number: int) -> Fate:
    """What becomes of one mutant."""
    answer = folder / f"{number}.json"
    if answer.exists():
        return Fate(**json.loads(answer.read_text(encoding="utf-8")))
    mutants, simulation = _prepared(work)
    mutant = mutants.mutants[number - 1]
    fate, by = "bench", _run(work, simulation, mutant)
    if not by:
        fate, by = _without_bench(work, mutants, mutant, folder)
    found = Fate(
        component=work.component,
        module=mutant.module,
        number=number,
        change=mutant.title,
        line=mutants.source(mutant),
        fate=fate,
        by=by,
    )
    if fate == "survives" and not work.proofs:
        return found  # not the last word
    write_whole(answer, json.dumps(asdict(found), indent=2) + "\n")
    return found


@cache
def _prepared(work: _Work) -> tuple[Mutants, Simulation]:
    """A component's mutants and their model, built once in each process; the folder goes with the process."""
    scratch = tempfile.TemporaryDirectory(prefix="tensordash-mutate-")
    _kept.append(scratch)
    folder = Path(scratch.name)
    mutants = Mutants(work.config, work.component, work.count, work.seed, folder)
    (folder / "all.v").write_text(mutants.model(), encoding="utf-8")
    simulation = Simulation("icarus", mutants.top, [folder / "all.v"], folder / "run")
    if said := _run(work, simulation, None):
        raise SimulatorError(f"bench {work.component} fails without a mutant: {said}")
    return mutants, simulation


_kept: list[tempfile.TemporaryDirectory] = []


def _run(work: _Work, simulation: Simulation, mutant: Mutant | None) -> str:
    """What a component's bench says of a mutant; empty if it passes."""
    job = simulation.folder / "job.json"
    Job(config=work.config, seed=work.seed, effort=work.effort).write(job)
    environment = {JOB_VARIABLE: str(job), "COCOTB_MAX_FAILURES": "1"}
    chosen = [f"+{PLUSARG}={mutant.number}"] if mutant else []
    module = f"tensordash_sim.verify.benches.{work.component}"
    # Only what is started from here on: the limit of this process stays.
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + CPU_SECONDS, hard))
    try:
        tests, failures = read_results(simulation.run(module, environment, work.seed, plusargs=chosen))
    except SimulatorError:
        if mutant is None:
            raise
        return "the simulation did not end"
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
    return failures[0] if failures else "" if tests else "no test ran"


def _without_bench(work: _Work, mutants: Mutants, mutant: Mutant, folder: Path) -> tuple[str, str]:
    """Fate of a mutant that the bench lets pass."""
    text = mutants.verilog(mutant)
    with tempfile.TemporaryDirectory(prefix="tensordash-mutate-") as scratch:
        if same_logic(mutants.verilog(None), text, mutant.module, Path(scratch)):
            return "equivalent", "cec of its module"
    if work.proofs:
        for name in _refuting(work.config, mutant.module, text, Solver(folder / "proofs")):
            return "proof", name
    return "survives", ""


def _refuting(config: TileConfig, module: str, text: str, solver: Solver) -> Iterator[str]:
    """Proofs, of the components that a module is part of, that do not go through with a mutant."""
    changed = _module(text, module)
    for proof in PROOFS:
        if not proof.applies(config):
            continue
        harness = proof.build(config)
        emitted = harness.files["dut.v"]
        if changed is None or (original := _module(emitted, module)) is None:
            continue
        harness.files["dut.v"] = emitted.replace(original, changed)
        try:
            mode = "bmc" if proof.bounded else "prove"
            answer = solver.solve(proof.question(harness, harness.assertions, mode, proof.depth, proof.engine))
        except ProofError:  # a mutant that the proof's lemmas cannot look into
            continue
        if answer.status != "pass":
            yield proof.name


def _module(text: str, name: str) -> str | None:
    """A module of a text, but for what it is instantiated with."""
    begin = text.find(f"module {name}(")
    return None if begin < 0 else text[begin : text.index("endmodule", begin)]
