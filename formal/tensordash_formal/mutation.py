"""Mutation testing: run benches and proofs on mutants of the emitted Verilog, and prove survivors equivalent."""

import atexit
import hashlib
import json
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.verify.job import JOB_VARIABLE, BenchJob
from tensordash_sim.verify.run import read_results
from tensordash_sim.verify.simulators import Simulation, SimulatorError
from tensordash_storage.files import code_digest, scratch
from tensordash_storage.jobs import LOCAL, AnswerStore, Job, Runner
from tensordash_synth.equivalence import same_logic
from tensordash_synth.sequential import same_runs

from .campaigns import Campaign
from .mutant_results import MutantResult, MutationReport
from .mutants import PLUSARG, Mutant, Mutants
from .proofs import CORE_PROOFS, PROOFS
from .solver import ProofError, Solver
from .subjects import JOINS, UNITS, Subject, subject_of

__all__ = ["mutate"]

BENCH_CPU_SECONDS = 900
"""CPU time limit of a bench, which ends at its first failure. A mutant that exceeds the limit counts as killed."""
BATCH_SIZE = 20
"""Mutants per screening run."""
SCREEN_CPU_SECONDS = 100
"""CPU time limit of each mutant in a screening run."""
SCREEN_EFFORT = 0.1
"""Effort of a screening run. Mutants that pass the screening run the bench with full effort."""
NEVER_ENDED = "the simulation did not end"


def mutate(
    campaigns: Sequence[Campaign],
    folder: Path,
    *,
    seed: int = 0,
    effort: float = 0.3,
    proofs: bool = True,
    runner: Runner = LOCAL,
) -> MutationReport:
    """Build mutants and determine the result of each.

    Parameters
    ----------
    campaigns : sequence of Campaign
        Campaigns that define the mutants.
    folder : Path
        Cache of results. A mutant with a cached result is not run again.
    seed : int
        Seed of mutants and benches.
    effort : float
        Effort of the benches, as in `BenchJob`.
    proofs : bool
        Run proofs on mutants that pass the bench and are not equivalent.
    runner : Runner
        Where mutants run. A finished mutant has its result in `folder` even if its job is interrupted later.

    Raises
    ------
    SimulatorError
        If Icarus or, for a core, Verilator cannot run, or if a bench fails without a mutant.
    SynthesisError
        If Yosys fails.
    JobError
        As in `Runner.run`.
    """
    jobs = []
    for campaign in campaigns:
        for name, part in campaign.parts:
            task = _Task(campaign=campaign, component=name, seed=seed, effort=effort, proofs=proofs)
            place = folder.resolve() / task.digest
            key = f"{campaign.name} {place.name}"
            jobs.append(Job(f"{key} baseline", _check_baseline, (task, place, task.screen_effort), size=0))
            for first in range(1, part + 1, BATCH_SIZE):
                numbers = range(first, min(first + BATCH_SIZE, part + 1))
                jobs.append(Job(f"{key} {first}", _evaluate_batch, (task, place, numbers), len(numbers)))
    batches = dict(runner.run(jobs, title="mutants"))
    results = (each for job in jobs for each in batches[job.key] or [])
    return MutationReport(seed=seed, results=tuple(filter(None, results)))


@dataclass(frozen=True, kw_only=True)
class _Task:
    """The mutants of one component in a campaign, and the settings of their benches and proofs."""

    campaign: Campaign
    component: str
    seed: int
    effort: float
    proofs: bool

    @property
    def subject(self) -> Subject:
        """The component to mutate."""
        return subject_of(self.campaign.config, self.component)

    @property
    def has_quick_proof(self) -> bool:
        """Whether a proof that takes seconds covers the mutants. Only the wires between a core's units have one."""
        return self.component == "core"

    @property
    def screen_effort(self) -> float:
        """Effort of screening runs."""
        return min(self.effort, SCREEN_EFFORT)

    @property
    def digest(self) -> str:
        """Name of the cache folder, with a digest of the Verilog, the mutants, the benches and the golden model."""
        import tensordash_sim

        golden, package = Path(tensordash_sim.__file__ or "").parent / "golden", Path(__file__).parent
        campaign, subject = self.campaign, self.subject
        generators = [package / name for name in ("mutants.py", "wiring.py", "subjects.py", "screening.py")]
        code = code_digest(golden, *subject.code, *generators)
        emitted = hashlib.sha256(subject.emitted.encode()).hexdigest()
        count = dict(campaign.parts)[self.component]
        key = (campaign.config.digest, campaign.kind, count, self.seed, self.effort, version("pyosys"), code, emitted)
        return f"{campaign.kind}-{self.component}-{hashlib.sha256(repr(key).encode()).hexdigest()[:12]}"


def _check_baseline(task: _Task, folder: Path, effort: float) -> None:
    """Check that the bench passes on the model while no mutant is selected."""
    store, key = AnswerStore(folder), f"baseline-{effort:g}"
    if store.get(key) is not None:
        return
    _, simulation = _build_model(task)
    if failure := _run_benches(task, simulation, effort):
        raise SimulatorError(f"bench {task.component} of {task.campaign.name} fails without a mutant: {failure}")
    store.put(key, {})


def _evaluate_batch(task: _Task, folder: Path, numbers: Sequence[int]) -> list[MutantResult | None]:
    """Evaluate the mutants with some numbers. The result of a number without a mutant is None.

    Two screening runs of the bench's tests cover the whole batch. Mutants that pass both are evaluated one by one.
    """
    store = AnswerStore(folder)
    pending = [number for number in numbers if store.get(str(number)) is None]
    known: dict[int, tuple[str, str]] = {}
    if len(pending) > 1:
        mutants, _ = _build_model(task)
        known = _screen(task, [number for number in pending if number <= len(mutants.mutants)])
        for mutant in mutants.mutants if not task.has_quick_proof else ():
            if mutant.number in pending and mutant.number not in known:
                first, *_ = mutants.cuts(mutant.module)
                if proof := _prove_equivalent(mutants, mutant, first, mutant.module):
                    known[mutant.number] = "equivalent", proof
        left = [number for number in pending if number <= len(mutants.mutants) and number not in known]
        known |= _screen(task, left, others=True) if left else {}
    return [_evaluate(task, folder, number, known.get(number)) for number in numbers]


def _screen(task: _Task, numbers: Sequence[int], *, others: bool = False) -> dict[int, tuple[str, str]]:
    """Return the outcomes of mutants that fail the first test of a bench or, with `others`, another test."""
    _, simulation = _build_model(task)
    answers = simulation.folder / "answers"
    pending, never_ended = list(numbers), dict[int, tuple[str, str]]()
    while True:
        answers.unlink(missing_ok=True)
        # The run with number 0 has no mutant. If it fails, a mutant has left a state that reset does not clear.
        options: dict[str, Any] = {
            "benches": task.subject.benches,
            "numbers": [*pending, 0],
            "others": others,
            "seconds": SCREEN_CPU_SECONDS,
            "answers": str(answers),
        }
        ended = not _simulate(task, simulation, f"{__package__}.screening", task.screen_effort, options=options)
        lines = answers.read_text(encoding="utf-8").splitlines() if answers.exists() else []
        failures = dict(json.loads(line) for line in lines)
        if ended:
            killed = {number: ("bench", failure) for number, failure in failures.items() if failure}
            return never_ended | ({} if failures[0] else killed)
        # The first mutant without a line in the answers has stopped the simulator.
        if (number := next(each for each in [*pending, 0] if each not in failures)) == 0:
            return {}
        never_ended[number] = "bench", NEVER_ENDED
        pending.remove(number)


def _evaluate(task: _Task, folder: Path, number: int, known: tuple[str, str] | None = None) -> MutantResult | None:
    """Evaluate one mutant unless its outcome is `known`; return None if no mutant has this number."""
    store, key = AnswerStore(folder), str(number)
    if (cached := store.get(key)) is not None:
        return MutantResult(**{**cached, "campaign": task.campaign.name}) if cached else None
    mutants, simulation = _build_model(task)
    if number > len(mutants.mutants):
        store.put(key, {})
        return None
    mutant = mutants.mutants[number - 1]
    outcome, detail = known or _classify(task, mutants, simulation, mutant, folder)
    result = MutantResult(
        campaign=task.campaign.name,
        component=task.component,
        module=mutant.module,
        number=number,
        kind=mutant.kind,
        change=mutant.title,
        line=mutants.source(mutant),
        outcome=outcome,
        detail=detail,
    )
    if outcome == "survives" and not task.proofs:
        return result  # not cached: a proof may still kill it
    store.put(key, result)
    return result


@cache
def _build_model(task: _Task) -> tuple[Mutants, Simulation]:
    """Build a component's mutants and their model, once per process. The folder is removed when the process exits."""
    folder = _model_folders.enter_context(scratch("tensordash-mutate-"))
    mutants = task.campaign.mutants(task.component, task.seed, folder)
    (folder / "all.v").write_text(mutants.model(), encoding="utf-8")
    return mutants, Simulation(task.subject.simulator, mutants.top, [folder / "all.v"], folder / "run")


_model_folders = ExitStack()
atexit.register(_model_folders.close)


def _run_benches(task: _Task, simulation: Simulation, effort: float, number: int = 0) -> str:
    """Run all benches of a component on a mutant (0: no mutant); return the first failure, or an empty string."""
    runs = (_simulate(task, simulation, bench, effort, number) for bench in task.subject.benches)
    return next(filter(None, runs), "")


def _simulate(
    task: _Task,
    simulation: Simulation,
    bench: str,
    effort: float,
    number: int = 0,
    *,
    testcase: str | None = None,
    options: dict[str, Any] | None = None,
) -> str:
    """Run one bench on a mutant (0: no mutant); return the first failure, or an empty string."""
    job = simulation.folder / "job.json"
    effort *= task.subject.effort
    all_options = {**task.subject.options, **(options or {})}
    BenchJob(config=task.campaign.config, seed=task.seed, effort=effort, options=all_options).write(job)
    environment = {JOB_VARIABLE: str(job), "COCOTB_MAX_FAILURES": "1"}
    plusargs = [f"+{PLUSARG}={number}"]
    screened = (options or {}).get("numbers", [])
    # The simulator inherits the soft limit. `finally` restores the limit of this process.
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + BENCH_CPU_SECONDS * max(1, len(screened)), hard))
    try:
        tests, failures = read_results(simulation.run(bench, environment, task.seed, testcase, plusargs=plusargs))
    except SimulatorError:
        if number == 0 and options is None:
            raise
        return NEVER_ENDED
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
    return failures[0] if failures else "" if tests else "no test ran"


def _classify(task: _Task, mutants: Mutants, simulation: Simulation, mutant: Mutant, folder: Path) -> tuple[str, str]:
    """Classify a mutant by benches, equivalence checks and proofs; return its outcome and detail."""

    def failing_proof(*, quick: bool) -> str:
        text, solver = mutants.verilog(mutant), Solver(folder / "proofs")
        return next(_failing_proofs(task.campaign.config, mutant.module, text, solver, quick=quick), "")

    if task.proofs and task.has_quick_proof and (name := failing_proof(quick=True)):
        return "proof", name
    if failure := _run_benches(task, simulation, task.effort, mutant.number):
        _check_baseline(task, folder, task.effort)
        return "bench", failure
    *quick_cuts, last_cut = mutants.cuts(mutant.module)
    # Unread outputs and impossible inputs show only in the module's context. Units and PEs are small enough to compare
    # completely.
    is_unit = task.component in (*UNITS, *JOINS)
    in_context = mutant.module != mutants.top and (task.component == "pe" or is_unit)
    checks: list[tuple[Sequence[str], str]] = [(cut, mutant.module) for cut in quick_cuts]
    slow_checks: list[tuple[Sequence[str], str]] = [(last_cut, mutant.module)]
    if in_context:
        (checks if is_unit else slow_checks).append((mutants.subject.opaque_modules, mutants.top))
    if proof := _first_equivalence(mutants, mutant, checks):
        return "equivalent", proof
    if task.proofs and (name := failing_proof(quick=False)):
        return "proof", name
    # These checks take minutes if there are PEs below the module.
    if proof := _first_equivalence(mutants, mutant, slow_checks):
        return "equivalent", proof
    # Compare in the unit's reachable states only.
    if is_unit and _is_same(same_runs, mutants, mutant, mutants.subject.opaque_modules, mutants.top):
        return "equivalent", f"runs of the {mutants.subject.name} from reset on"
    return "survives", ""


def _first_equivalence(mutants: Mutants, mutant: Mutant, checks: Sequence[tuple[Sequence[str], str]]) -> str:
    """Run checks, pairs of cut modules and a compared module; describe the first that proves equivalence."""
    return next(filter(None, (_prove_equivalent(mutants, mutant, *check) for check in checks)), "")


def _prove_equivalent(mutants: Mutants, mutant: Mutant, cut: Sequence[str], module: str) -> str:
    """Prove a mutant equivalent to the emitted Verilog, with the modules in `cut` cut off.

    Compare `module`, which is the mutant's module or contains it. Return a description of the check, or "" if it fails.
    """
    if not _is_same(same_logic, mutants, mutant, cut, module):
        return ""
    where = "its module" if module == mutant.module else f"the {mutants.subject.name}"
    return f"cec of {where}{' without what is in it' if cut else ''}"


def _is_same(
    same: Callable[..., bool | None], mutants: Mutants, mutant: Mutant, cut: Sequence[str], module: str
) -> bool:
    with scratch("tensordash-mutate-") as folder:
        return bool(same(mutants.verilog(None), mutants.verilog(mutant), module, folder, cut))


def _failing_proofs(
    config: TileConfig | CoreConfig, module: str, text: str, solver: Solver, *, quick: bool = False
) -> Iterator[str]:
    """Yield the names of proofs that fail with a changed module. `quick` selects the quick proofs, else the others."""
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
        except ProofError:  # the mutant lacks signals to which the lemmas refer
            continue
        if fails:
            yield proof.name


def _module(text: str, name: str) -> str | None:
    """Return the text of a module before its `endmodule`, or None if there is no such module."""
    begin = text.find(f"module {name}(")
    return None if begin < 0 else text[begin : text.index("endmodule", begin)]
