"""Test that cached builds of cores are complete or absent, despite concurrent builds and damaged caches."""

import errno
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tensordash_sim.verify import core_library
from tensordash_sim.verify.core_library import VerilatedError

VERILOG = "module tensordash_core(\n  input wire clk\n);\nendmodule\n"
SOURCE = "".join(f"int core_{name}(void) {{ return {len(name)}; }}\n" for name in core_library.FUNCTIONS)


def stub(verilog: str, folder: Path, name: str, **_: bool) -> None:
    """Compile a few functions instead of Verilator's library."""
    (folder / "stub.c").write_text(SOURCE, encoding="utf-8")
    time.sleep(float(os.environ.get("STUB_SECONDS", "0")))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(folder / name), str(folder / "stub.c")], check=True)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """Use an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tensordash" / "simulators"


@pytest.fixture
def built(monkeypatch) -> list[str]:
    """Record the builds."""
    names: list[str] = []

    def build(verilog: str, folder: Path, name: str, **options: bool) -> None:
        names.append(name)
        stub(verilog, folder, name, **options)

    monkeypatch.setattr(core_library, "_build", build)
    return names


def load() -> int:
    core_library.core_library.cache_clear()
    return int(core_library.core_library(VERILOG, False, False).core_idle(None))


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "another's", "a folder"])
def test_damaged_core_is_rebuilt(damage, cache, built):
    assert load() == len("idle")
    assert load() == len("idle")
    assert len(built) == 1
    (file,) = cache.iterdir()
    content = file.read_bytes()
    file.unlink()  # The library is loaded, so replace the file.
    if damage == "a folder":
        file.mkdir()
    else:
        damaged = {"cut": content[:1000], "changed": content[:-1] + b"?", "empty": b"", "another's": b"\x7fELF" * 99}
        file.write_bytes(damaged[damage])
    assert load() == len("idle")
    assert len(built) == 2
    if damage != "a folder":
        assert load() == len("idle")
        assert len(built) == 2


def test_a_cache_that_cannot_be_read(cache, built, tmp_path):
    """The cache's path is a file, so that each core is built and none is cached."""
    cache.parent.mkdir(parents=True)
    cache.write_text("")
    assert load() == load() == len("idle")
    assert len(built) == 2
    assert cache.read_text() == ""


def test_a_cache_that_is_full(cache, built, monkeypatch):
    """The library does not fit into the cache. It still works, and no partial file stays."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    original = core_library.store_cached

    def keep(key: str, file: Path) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size // 2, limits[1]))
        try:
            original(key, file)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    monkeypatch.setattr(core_library, "store_cached", keep)
    assert load() == len("idle")
    assert list(cache.iterdir()) == []


def test_no_room_to_build(cache, tmp_path, monkeypatch):
    """The error names the folder in one line, and the folder is removed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
    try:
        with pytest.raises(OSError, match="tensordash-core-") as raised:
            load()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert raised.value.errno == errno.EFBIG
    assert not list(tmp_path.glob("tensordash-core-*"))


def test_failing_tool_is_an_error(cache, monkeypatch):
    monkeypatch.setattr(core_library, "_clocked", lambda verilog: "not Verilog")
    with pytest.raises(VerilatedError, match="verilator ended with"):
        load()
    assert not cache.exists() or list(cache.iterdir()) == []


def test_invalid_library_is_an_error(cache, monkeypatch):
    monkeypatch.setattr(core_library, "_build", lambda verilog, folder, name, **_: (folder / name).write_text("no"))
    with pytest.raises(VerilatedError, match="the library of a core cannot be loaded"):
        load()


def start_two(code: str, **environment: str) -> list[subprocess.Popen[str]]:
    """Start two processes that run the same Python code."""
    command, merged = [sys.executable, "-c", code], os.environ | environment
    return [subprocess.Popen(command, env=merged, stdout=subprocess.PIPE, text=True) for _ in range(2)]


def test_two_processes_at_once(cache, tmp_path):
    """Both processes build and work, and one complete library is cached."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_core_library as t;"
        "t.core_library._build = t.stub; print(t.load())"
    )
    processes = start_two(code, STUB_SECONDS="1")
    assert [process.communicate()[0] for process in processes] == ["4\n", "4\n"]
    assert [process.returncode for process in processes] == [0, 0]
    (file,) = cache.iterdir()
    assert core_library.load_cached(file.name.rpartition("-")[0], tmp_path / "again.so", link=False)


def test_leftovers_of_a_killed_build_are_removed(cache, built, tmp_path, monkeypatch):
    """The next build removes leftover folders, except for those of a running process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code = (
        "import sys, time; from tensordash_storage.files import scratch;\n"
        "with scratch('tensordash-core-') as folder: print(folder, flush=True); time.sleep(60)"
    )
    processes = start_two(code, TMPDIR=str(tmp_path))
    folders = [Path(process.stdout.readline().strip()) for process in processes if process.stdout]
    processes[0].kill()
    processes[0].communicate()
    for folder in folders:
        assert folder.parent == tmp_path
        assert folder.is_dir()
        os.utime(folder, (0, 0))
    assert load() == len("idle")
    assert [folder.is_dir() for folder in folders] == [False, True]
    processes[1].terminate()
    processes[1].communicate()
