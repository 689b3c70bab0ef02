"""Apply handwritten faults, one at a time, and run the checks that must find them."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tensordash import TensorDashError
from tensordash_storage.files import scratch
from tensordash_storage.jobs import LOCAL, AnswerStore, Job, Runner

from .fault_check import PACKAGE_FOLDERS, Outcome, run_check
from .fault_list import Fault

__all__ = ["CheckoutError", "FaultReport", "FaultResult", "checkout_root", "run_faults"]

SOURCES = (*PACKAGE_FOLDERS, "tests")
"""Folders whose files determine the outcome of a check."""
COPIED = (*SOURCES, "docs", "examples", "bench", "pyproject.toml", "README.md", "CHANGELOG.md", "Makefile", "NOTICE")
"""Files and folders that a check may read."""
PREFIX = "tensordash-fault-"
COMPILER_CACHE = "wasmtime"
"""Cache of Yosys' WebAssembly. All checks share it because it does not depend on the sources."""


class CheckoutError(TensorDashError, RuntimeError):
    """Raised if the package is installed without its tests. The message is one line."""


@dataclass(frozen=True, kw_only=True)
class FaultResult:
    """The result of one fault.

    Parameters
    ----------
    name, component : str
        Name and component of the fault.
    result : str
        "killed": each check fails with the fault. "survived": a check passes. "stale": the text to replace does not
        occur exactly once. "error": a check fails without the fault, could not run or timed out.
    reason : str
        The failures, or the check that did not behave as it must.
    """

    name: str
    component: str
    result: str
    reason: str


@dataclass(frozen=True)
class FaultReport:
    """Results of a campaign.

    Parameters
    ----------
    results : tuple of FaultResult
        One for each fault.
    """

    results: tuple[FaultResult, ...]

    @property
    def failures(self) -> list[FaultResult]:
        """Faults that are not killed."""
        return [each for each in self.results if each.result != "killed"]

    def table(self) -> str:
        """Format the counts by component, and one line for each fault that is not killed."""
        groups: dict[str, Counter[str]] = {}
        for each in self.results:
            groups.setdefault(each.component, Counter())[each.result] += 1
        groups["total"] = sum(groups.values(), Counter())
        columns = ("killed", "survived", "stale", "error")
        width = max(map(len, groups))
        lines = [f"{'':{width}} faults" + "".join(f"{column:>10}" for column in columns)]
        for group, counts in groups.items():
            lines.append(f"{group:{width}} {counts.total():6}" + "".join(f"{counts[name]:10}" for name in columns))
        lines += [f"{each.result}: {each.name}: {each.reason}" for each in self.failures]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON types."""
        return {"passed": not self.failures, "faults": [asdict(each) for each in self.results]}


def checkout_root() -> Path:
    """Find the root of the checkout that this package is imported from.

    Raises
    ------
    CheckoutError
        If the folder of the package has no tests next to it.
    """
    root = Path(__file__).resolve().parents[2]
    if not all((root / name).is_dir() for name in SOURCES) or not (root / "pyproject.toml").is_file():
        raise CheckoutError("--by-hand needs a checkout of the repository, with its tests; an installed wheel has none")
    return root


def run_faults(
    faults: Sequence[Fault],
    folder: Path,
    *,
    root: Path | None = None,
    runner: Runner = LOCAL,
) -> FaultReport:
    """Run the checks of each fault on a private copy of the sources, with and without the fault.

    Parameters
    ----------
    faults : sequence of Fault
        The faults.
    folder : Path
        Cache of outcomes. A check with a cached outcome for the same sources and the same entry does not run again.
    root : Path, optional
        Root of the repository. The default is the root of this checkout.
    runner : Runner
        Where checks run.

    Raises
    ------
    CheckoutError
        If `root` is None and the package is not imported from a checkout.
    JobError
        As in `Runner.run`.
    """
    clean = list(dict.fromkeys(check for fault in faults for check in fault.found_by))
    tasks: list[tuple[Fault | None, str]] = [(None, check) for check in clean]
    tasks += [(fault, check) for fault in faults for check in fault.found_by]
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # The campaign runs on a copy, so edits during the campaign cannot store outcomes under the wrong digest.
    with scratch(".sources-", folder) as place:
        sources = place / "sources"
        copy_sources(root or checkout_root(), sources)
        digest = sources_digest(sources)
        keys = {task: _key(digest, *task) for task in tasks}
        jobs = [Job(keys[task], _run, (sources, folder / COMPILER_CACHE, *task)) for task in tasks]
        store = AnswerStore(
            folder,
            lambda document: Outcome(**document),
            # Errors are not cached: the machine may have caused them (a full disk, a killed process).
            lambda outcome: outcome.status in ("passed", "failed"),
        )
        outcomes = dict(runner.run(jobs, store, title="checks"))
    return FaultReport(tuple(_result(fault, {task: outcomes[key] for task, key in keys.items()}) for fault in faults))


def _result(fault: Fault, outcomes: dict[tuple[Fault | None, str], Outcome]) -> FaultResult:
    clean = {check: outcomes[None, check] for check in fault.found_by}
    faulty = {check: outcomes[fault, check] for check in fault.found_by}
    result, reason = "killed", "; ".join(outcome.reason for outcome in faulty.values())
    if any(outcome.status == "stale" for outcome in faulty.values()):
        result, reason = "stale", f"the text to replace does not occur exactly once in {fault.file}"
    elif bad := [check for check in fault.found_by if clean[check].status != "passed"]:
        result, reason = "error", f"{bad[0]} does not pass without a fault: {clean[bad[0]].reason}"
    elif bad := [check for check in fault.found_by if faulty[check].status == "error"]:
        result, reason = "error", f"{bad[0]}: {faulty[bad[0]].reason}"
    elif bad := [check for check in fault.found_by if faulty[check].status == "passed"]:
        result, reason = "survived", f"{bad[0]} passes with the fault"
    return FaultResult(name=fault.name, component=fault.component, result=result, reason=reason)


def _key(digest: str, fault: Fault | None, check: str) -> str:
    entry = (fault.file, fault.old, fault.new) if fault else ()
    key = hashlib.sha256(repr((digest, check, entry)).encode()).hexdigest()[:16]
    return f"{fault.name if fault else 'clean'}-{key}"


def _run(sources: Path, compiler_cache: Path, fault: Fault | None, check: str) -> Outcome:
    """Run a check in a fresh copy of the sources; apply the fault first unless it is None."""
    with scratch(PREFIX) as place:
        copy, logs, cache = place / "copy", place / "logs", place / "cache"
        copy_sources(sources, copy)
        if fault is not None and not fault.apply(copy):
            return Outcome("stale")
        logs.mkdir()
        # Each check has its own cache, so no other check reads faulty Verilog, netlists or kernels.
        cache.mkdir()
        compiler_cache.mkdir(parents=True, exist_ok=True)
        (cache / COMPILER_CACHE).symlink_to(compiler_cache)
        return run_check(check, copy, logs, cache)


def copy_sources(root: Path, copy: Path) -> None:
    """Copy the files that checks read.

    The copy includes bytecode, since Python compares bytecode with its source. It excludes numba's compiled kernels.
    """
    ignored = shutil.ignore_patterns("*.nbi", "*.nbc", "build", ".*")
    copy.mkdir()
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, copy / name, ignore=ignored)
        elif (root / name).is_file():
            shutil.copy2(root / name, copy / name)


def sources_digest(root: Path) -> str:
    """Return a digest of all source files that a check may run, without the fault files."""
    hashed = hashlib.sha256()
    for path in sorted(path for name in SOURCES for path in (root / name).rglob("*")):
        if not path.is_file() or "__pycache__" in path.parts or path.parent.name == "faults":
            continue
        content = path.read_bytes()
        hashed.update(f"{path.relative_to(root)} {len(content)} ".encode() + content)
    return hashed.hexdigest()
