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
"""Folders that answers depend on."""
COPIED = (*SOURCES, "docs", "examples", "bench", "pyproject.toml", "README.md", "CHANGELOG.md", "Makefile", "NOTICE")
"""What a check may read."""
PREFIX = "tensordash-fault-"
COMPILER_CACHE = "wasmtime"
"""Cache of Yosys' WebAssembly. It does not depend on the sources, so that all checks share it."""


class CheckoutError(TensorDashError, RuntimeError):
    """The package is installed without its tests; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class FaultResult:
    """What the checks of one fault found.

    Parameters
    ----------
    name, component : str
        The fault.
    result : str
        "killed": each check fails as it must. "survived": a check passes. "stale": the text to replace does not occur
        exactly once. "error": a check fails without the fault, could not run or did not end.
    reason : str
        What failed, or which check is to blame.
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
        """Counts by component, and one line for each fault that is not killed."""
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
        If there are no tests beside the package.
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
    """Apply each fault to a private copy of the sources and run its checks there; run each check without a fault, too.

    Parameters
    ----------
    faults : sequence of Fault
        The faults.
    folder : Path
        Folder for answers. An answer for the same sources and the same entry is read from there.
    root : Path, optional
        Root of the repository; the root of this checkout if left out.
    runner : Runner
        Where checks run.

    Raises
    ------
    CheckoutError
        If `root` is left out and there is no checkout.
    JobError
        As in `Runner.run`.
    """
    clean = list(dict.fromkeys(check for fault in faults for check in fault.found_by))
    tasks: list[tuple[Fault | None, str]] = [(None, check) for check in clean]
    tasks += [(fault, check) for fault in faults for check in fault.found_by]
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # Sources that are edited while the campaign runs would get answers under the wrong digest.
    with scratch(".sources-", folder) as place:
        sources = place / "sources"
        copy_sources(root or checkout_root(), sources)
        digest = sources_digest(sources)
        keys = {task: _key(digest, *task) for task in tasks}
        jobs = [Job(keys[task], _run, (sources, folder / COMPILER_CACHE, *task)) for task in tasks]
        store = AnswerStore(
            folder,
            lambda document: Outcome(**document),
            # An error may be the machine's: a full disk, a killed process.
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
    """Run a check with a fault or, if it is None, without one, in a copy of the sources."""
    with scratch(PREFIX) as place:
        copy, logs, cache = place / "copy", place / "logs", place / "cache"
        copy_sources(sources, copy)
        if fault is not None and not fault.apply(copy):
            return Outcome("stale")
        logs.mkdir()
        # Faulty Verilog, netlists and kernels never serve another check.
        cache.mkdir()
        compiler_cache.mkdir(parents=True, exist_ok=True)
        (cache / COMPILER_CACHE).symlink_to(compiler_cache)
        return run_check(check, copy, logs, cache)


def copy_sources(root: Path, copy: Path) -> None:
    """Copy what checks read, with bytecode, which Python compares with its source, but without numba's kernels."""
    ignored = shutil.ignore_patterns("*.nbi", "*.nbc", "build", ".*")
    copy.mkdir()
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, copy / name, ignore=ignored)
        elif (root / name).is_file():
            shutil.copy2(root / name, copy / name)


def sources_digest(root: Path) -> str:
    """Digest of all source files that a check may run, except for the entries themselves."""
    hashed = hashlib.sha256()
    for path in sorted(path for name in SOURCES for path in (root / name).rglob("*")):
        if not path.is_file() or "__pycache__" in path.parts or path.parent.name == "faults":
            continue
        content = path.read_bytes()
        hashed.update(f"{path.relative_to(root)} {len(content)} ".encode() + content)
    return hashed.hexdigest()
