"""Mutation: which wrong bits in the emitted Verilog benches and proofs find, and which of the rest change nothing."""

import hashlib
import json
import os
import resource
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.storage.files import code_digest, write_whole
from tensordash_sim.verify.job import JOB_VARIABLE, Job
from tensordash_sim.verify.run import read_results
from tensordash_sim.verify.simulators import Simulation, SimulatorError
from tensordash_synth.equivalence import same_logic
from tensordash_synth.sequential import same_runs

from .campaigns import Campaign
from .mutant_results import Fate, MutationReport
from .mutants import PLUSARG, Mutant, Mutants
from .proofs import CORE_PROOFS, PROOFS
from .solver import ProofError, Solver
from .subjects import UNITS, Subject, subject_of

__all__ = ["mutate"]

# A bench ends at its first failure; a mutant that keeps it running for longer is caught by that.
CPU_SECONDS = 300
AT_ONCE = 20  # mutants that one run looks at
LOOK_SECONDS = 100  # each of them, at most
LOOK = 0.1  # the effort of a look; what passes it meets the bench with all of it


def mutate(
    campaigns: Sequence[Campaign],
    folder: Path,
    *,
    seed: int = 0,
    effort: float = 0.3,
    jobs: int | None = None,
    proofs: bool = True,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> MutationReport:
    """Make mutants and find out what becomes of each.

    Parameters
    ----------
    campaigns : sequence of Campaign
        Which mutants.
    folder : Path
        For models and answers: what is answered there is not asked again.
    seed : int
        Of mutants and benches.
    effort : float
        Of the benches; as in `Job`.
    jobs : int, optional
        Processes; as many as there are cores.
    proofs : bool
        Ask proofs about mutants that a bench lets pass and that are not equivalent.
    progress : callable
        Is called with the number of mutants that are done, and of all.

    Raises
    ------
    SimulatorError
        If Icarus, or for a core Verilator, cannot run here, or a bench does not pass without a mutant.
    SynthesisError
        If Yosys fails.
    """
    works = [
        _Work(campaign=campaign, component=name, seed=seed, effort=effort, proofs=proofs)
        for campaign in campaigns
        for name, _ in campaign.parts
    ]
    places = [folder / work.digest for work in works]
    parts = [dict(work.campaign.parts)[work.component] for work in works]
    total, done, fates = sum(parts), 0, []
    with ProcessPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        try:
            pending: dict[Future[Any], int] = {}
            for i, (work, place, part) in enumerate(zip(works, places, parts, strict=True)):
                pending[pool.submit(_sound, work, place, _look(work))] = i
                for first in range(1, part + 1, AT_ONCE):
                    numbers = range(first, min(first + AT_ONCE, part + 1))
                    pending[pool.submit(_fates, work, place, numbers)] = i
            for future in as_completed(pending):
                answers = future.result() or []
                done += len(answers)
                progress(done, total)
                fates += [(pending[future], each) for each in answers if each]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    fates.sort(key=lambda each: (each[0], each[1].number))
    return MutationReport(seed=seed, fates=tuple(fate for _, fate in fates))


@dataclass(frozen=True, kw_only=True)
class _Work:
    """A component's mutants in a campaign, and how they are looked for."""

    campaign: Campaign
    component: str
    seed: int
    effort: float
    proofs: bool

    @property
    def subject(self) -> Subject:
        """What is mutated."""
        return subject_of(self.campaign.config, self.component)

    @property
    def has_quick_proof(self) -> bool:
        """Whether a proof that takes seconds looks at what is mutated: of a core that is what is between its units."""
        return self.component == "core"

    @property
    def digest(self) -> str:
        """The same for the same Verilog, mutants, benches and golden model."""
        import tensordash_sim

        golden, here = Path(tensordash_sim.__file__ or "").parent / "golden", Path(__file__).parent
        campaign, subject = self.campaign, self.subject
        makers = [here / name for name in ("mutants.py", "wiring.py", "subjects.py", "first_look.py")]
        code = code_digest(golden, *subject.code, *makers)
        emitted = hashlib.sha256(subject.emitted.encode()).hexdigest()
        count = dict(campaign.parts)[self.component]
        asked = (campaign.config.digest, campaign.kind, count, self.seed, self.effort, version("pyosys"), code, emitted)
        return f"{campaign.kind}-{self.component}-{hashlib.sha256(repr(asked).encode()).hexdigest()[:12]}"


def _look(work: _Work) -> float:
    return min(work.effort, LOOK)


def _sound(work: _Work, folder: Path, effort: float) -> None:
    """See that the bench passes on the model as long as no mutant is chosen."""
    answer = folder / f"sound-{effort:g}.json"
    if answer.exists():
        return
    _, simulation = _prepared(work)
    if said := _whole(work, simulation, effort):
        raise SimulatorError(f"bench {work.component} of {work.campaign.name} fails without a mutant: {said}")
    write_whole(answer, "{}\n")


def _fates(work: _Work, folder: Path, numbers: Sequence[int]) -> list[Fate | None]:
    """What becomes of some mutants; None for those that there are not.

    All of them see the bench's tests in two runs, and what passes goes through everything on its own.
    """
    waiting = [number for number in numbers if not (folder / f"{number}.json").exists()]
    known: dict[int, tuple[str, str]] = {}
    if len(waiting) > 1:
        mutants, _ = _prepared(work)
        known = _looked_at(work, [number for number in waiting if number <= len(mutants.mutants)])
        for mutant in mutants.mutants if not work.has_quick_proof else ():
            if mutant.number in waiting and mutant.number not in known:
                first, *_ = mutants.cuts(mutant.module)
                if equal := _equivalent(mutants, mutant, first, mutant.module):
                    known[mutant.number] = "equivalent", equal
        left = [number for number in waiting if number <= len(mutants.mutants) and number not in known]
        known |= _looked_at(work, left, others=True) if left else {}
    return [_fate(work, folder, number, known.get(number)) for number in numbers]


def _looked_at(work: _Work, numbers: Sequence[int], *, others: bool = False) -> dict[int, tuple[str, str]]:
    """Fates of mutants that do not pass the first test of a component's bench, or all others."""
    _, simulation = _prepared(work)
    answers = simulation.folder / "answers"
    waiting, never_end = list(numbers), dict[int, tuple[str, str]]()
    while True:
        answers.unlink(missing_ok=True)
        # No mutant at last: if that does not pass, mutants leave something behind that a reset does not take away.
        options = {"benches": work.subject.benches, "numbers": [*waiting, 0], "others": others, "seconds": LOOK_SECONDS}
        told = {**options, "answers": str(answers)}
        ended = not _simulate(work, simulation, f"{__package__}.first_look", _look(work), options=told)
        lines = answers.read_text(encoding="utf-8").splitlines() if answers.exists() else []
        said = dict(json.loads(line) for line in lines)
        if ended:
            found = {number: ("bench", by) for number, by in said.items() if by}
            return never_end | ({} if said[0] else found)
        # One of them has stopped the simulator, and is the first that there is no word of.
        if (number := next(each for each in [*waiting, 0] if each not in said)) == 0:
            return {}
        never_end[number] = "bench", "the simulation did not end"
        waiting.remove(number)


def _fate(work: _Work, folder: Path, number: int, known: tuple[str, str] | None = None) -> Fate | None:
    """What becomes of one mutant, unless it is known, and what says so; None if there is none of this number."""
    answer = folder / f"{number}.json"
    if answer.exists():
        kept = json.loads(answer.read_text(encoding="utf-8"))
        return Fate(**{**kept, "campaign": work.campaign.name}) if kept else None
    mutants, simulation = _prepared(work)
    if number > len(mutants.mutants):
        write_whole(answer, "null\n")
        return None
    mutant = mutants.mutants[number - 1]
    fate, by = known or _judged(work, mutants, simulation, mutant, folder)
    found = Fate(
        campaign=work.campaign.name,
        component=work.component,
        module=mutant.module,
        number=number,
        kind=mutant.kind,
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
    mutants = work.campaign.mutants(work.component, work.seed, folder)
    (folder / "all.v").write_text(mutants.model(), encoding="utf-8")
    return mutants, Simulation(work.subject.simulator, mutants.top, [folder / "all.v"], folder / "run")


_kept: list[tempfile.TemporaryDirectory] = []


def _whole(work: _Work, simulation: Simulation, effort: float, number: int = 0) -> str:
    """Run all tests of a component, with a mutant chosen or none (0); what fails first, empty if nothing does."""
    runs = (_simulate(work, simulation, bench, effort, number) for bench in work.subject.benches)
    return next(filter(None, runs), "")


def _simulate(
    work: _Work,
    simulation: Simulation,
    bench: str,
    effort: float,
    number: int = 0,
    *,
    testcase: str | None = None,
    options: dict[str, Any] | None = None,
) -> str:
    """Run a module of tests on the model, with a mutant chosen or none (0); what fails first, empty if nothing does."""
    job = simulation.folder / "job.json"
    effort *= work.subject.effort
    told = {**work.subject.options, **(options or {})}
    Job(config=work.campaign.config, seed=work.seed, effort=effort, options=told).write(job)
    environment = {JOB_VARIABLE: str(job), "COCOTB_MAX_FAILURES": "1"}
    chosen = [f"+{PLUSARG}={number}"]
    looked = (options or {}).get("numbers", [])
    # Only what is started from here on: the limit of this process stays.
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + CPU_SECONDS * max(1, len(looked)), hard))
    try:
        tests, failures = read_results(simulation.run(bench, environment, work.seed, testcase, plusargs=chosen))
    except SimulatorError:
        if number == 0 and options is None:
            raise
        return "the simulation did not end"
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
    return failures[0] if failures else "" if tests else "no test ran"


def _judged(work: _Work, mutants: Mutants, simulation: Simulation, mutant: Mutant, folder: Path) -> tuple[str, str]:
    """Fate of a mutant, and what says so."""

    def refuted(*, quick: bool) -> str:
        text, solver = mutants.verilog(mutant), Solver(folder / "proofs")
        return next(_refuting(work.campaign.config, mutant.module, text, solver, quick=quick), "")

    if work.proofs and work.has_quick_proof and (name := refuted(quick=True)):
        return "proof", name
    if by := _whole(work, simulation, work.effort, mutant.number):
        _sound(work, folder, work.effort)
        return "bench", by
    *cheap, whole = mutants.cuts(mutant.module)
    # What a module gives and nothing takes, or never is given, shows where the module stubs: in a unit or a PE, all of
    # which can be compared.
    around = mutant.module != mutants.top and (work.component == "pe" or work.component in UNITS)
    queries: list[tuple[Sequence[str], str]] = [(cut, mutant.module) for cut in cheap]
    late: list[tuple[Sequence[str], str]] = [(whole, mutant.module)]
    if around:
        (queries if work.component in UNITS else late).append((mutants.subject.opaque, mutants.top))
    if equal := _first_equal(mutants, mutant, queries):
        return "equivalent", equal
    if work.proofs and (name := refuted(quick=False)):
        return "proof", name
    # Minutes where there are PEs below: last.
    if equal := _first_equal(mutants, mutant, late):
        return "equivalent", equal
    # All states that the unit can come to, not all that there are.
    if work.component in UNITS and _compared(same_runs, mutants, mutant, mutants.subject.opaque, mutants.top):
        return "equivalent", f"runs of the {mutants.subject.name} from reset on"
    return "survives", ""


def _first_equal(mutants: Mutants, mutant: Mutant, queries: Sequence[tuple[Sequence[str], str]]) -> str:
    """The first of (what is cut off, module that is compared) in which a mutant is equivalent, in words, or nothing."""
    return next(filter(None, (_equivalent(mutants, mutant, *query) for query in queries)), "")


def _equivalent(mutants: Mutants, mutant: Mutant, cut: Sequence[str], module: str) -> str:
    """How a mutant is proven to do what was emitted does, with modules below it cut off; empty if it is not.

    `module`: that is the mutant's or has it somewhere in it, and is compared.
    """
    if not _compared(same_logic, mutants, mutant, cut, module):
        return ""
    where = "its module" if module == mutant.module else f"the {mutants.subject.name}"
    return f"cec of {where}{' without what is in it' if cut else ''}"


def _compared(
    same: Callable[..., bool | None], mutants: Mutants, mutant: Mutant, cut: Sequence[str], module: str
) -> bool:
    with tempfile.TemporaryDirectory(prefix="tensordash-mutate-") as scratch:
        return bool(same(mutants.verilog(None), mutants.verilog(mutant), module, Path(scratch), cut))


def _refuting(
    config: TileConfig | CoreConfig, module: str, text: str, solver: Solver, *, quick: bool = False
) -> Iterator[str]:
    """Proofs, quick ones or the others, of the components that a module is part of, that fail with a mutant."""
    changed = _module(text, module)
    for proof in CORE_PROOFS if isinstance(config, CoreConfig) else PROOFS:
        if proof.is_quick is not quick or not proof.applies(config):
            continue
        harness = proof.build(config)
        emitted = harness.files["dut.v"]
        if changed is None or (original := _module(emitted, module)) is None or f"{module}.stub.il" in harness.files:
            continue
        harness.files["dut.v"] = emitted.replace(original, changed)
        try:
            fails = any(solver.solve(query).status != "pass" for query in proof.queries(harness))
        except ProofError:  # a mutant that the proof's lemmas cannot look into
            continue
        if fails:
            yield proof.name


def _module(text: str, name: str) -> str | None:
    """A module of a text, but for what it is instantiated with."""
    begin = text.find(f"module {name}(")
    return None if begin < 0 else text[begin : text.index("endmodule", begin)]
