"""Test that files beyond the disk's size give status 2, one line with the file's name, and no partial file."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest

from tensordash.emission import verilog
from tensordash_cli.soc import MARKER
from tensordash_sim.trace import example_trace
from tensordash_sim.verify import Replayer
from tensordash_storage.files import atomic_copy, atomic_path, atomic_write, write_files

from .called import FAST_SIMULATOR, call

LIMIT = 2000
"""Largest size of a file, in bytes. A write beyond it fails like a write to a full disk."""


@contextmanager
def limit_file_size(limit: int = LIMIT) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


pytestmark = pytest.mark.usefixtures("folder")


def fail(arguments: str, capfd: pytest.CaptureFixture[str]) -> str:
    """Run the command, which fails; return its message."""
    _, err = call(arguments, capfd, 2)
    assert err.count("\n") == 1, err
    return err


TRACE = example_trace()


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        ("report -o page.html", "page.html"),
        (f"simulate {TRACE} -o out --csv table.csv", "out/simulate/"),
        ("evaluate table3 --no-synth --workers 1 -o out", "out/table3.svg"),
    ],
)
def test_a_file_that_does_not_fit(
    arguments: str,
    file: str,
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with chdir(tmp_path_factory.mktemp("before")):
        call(arguments, capfd)  # compiles loops, whose files on disk no message would name
    with limit_file_size():
        message = fail(arguments, capfd)
    assert os.strerror(errno.EFBIG) in message
    assert file in message
    assert ".tensordash-" not in message, "the message does not name the temporary folder"
    journal = Path("out/simulate")
    assert [path for path in folder.rglob("*") if path.is_file() and path.parent != folder / journal] == []


def test_verilog_that_does_not_fit(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verilog, "render", lambda *_: {"small.json": "{}", "tensordash.v": "x" * 2 * LIMIT})
    with limit_file_size():  # Yosys itself could not run with this limit.
        assert "'out/tensordash.v'" in fail("generate -o out", capfd)
    assert list((folder / "out").iterdir()) == []


FOLDERS = {
    "compile --channels 4 --filters 4": ("manifest.json", "tensordash_runtime.program_folder.storage"),
    "soc": ("soc.v", "tensordash_cli.soc"),
}
"""For each command that writes a folder, a large file, and the module that calls `write_files`."""


@pytest.mark.parametrize("arguments", FOLDERS)
def test_a_folder_that_does_not_fit(
    arguments: str, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier folder stays as it was, and a new one is empty."""
    file, module = FOLDERS[arguments]

    def write_to_full_disk(*args, **kwargs):
        with limit_file_size():
            return write_files(*args, **kwargs)

    system = {"Makefile": "", "soc.v": "x" * 2 * LIMIT, MARKER[0]: MARKER[1]}
    monkeypatch.setattr("tensordash_cli.soc.render_soc", lambda *_: {**system})
    call(f"{arguments} -o out", capfd)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with monkeypatch.context() as full_disk:
        full_disk.setattr(f"{module}.write_files", write_to_full_disk)
        for output in ("out", "new"):
            assert f"'{output}/{file}'" in fail(f"{arguments} -o {output}", capfd)
    with limit_file_size():  # Contents are written to temporary files first.
        assert f"'{gettempdir()}'" in fail(f"{arguments} -o new", capfd)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert list(Path("new").iterdir()) == []
    call(f"{arguments} -o new", capfd)


@pytest.mark.parametrize("option", ["--waves run.vcd", "-o run.npz"])
def test_files_of_a_run_that_do_not_fit(
    option: str, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator runs, but its files do not fit on the disk of the user's folder."""
    simulate = Replayer.run

    def run_and_fill_disk(self, *arguments):
        result = simulate(self, *arguments)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        return result

    monkeypatch.setattr(Replayer, "run", run_and_fill_disk)
    np.savez("in.npz", a=np.ones((1, 2, 4), np.float16), b=np.ones((1, 2, 4), np.float16))
    with limit_file_size(resource.RLIM_INFINITY):
        message = fail(
            f"verify --set tile.rows=1 --set tile.columns=1 --simulator {FAST_SIMULATOR} --operands in.npz {option}",
            capfd,
        )
    assert option.split()[1] in message
    assert [path.name for path in folder.iterdir()] == ["in.npz"]


def test_failed_write_keeps_the_old_file(folder: Path) -> None:
    path = folder / "results.json"
    atomic_write(path, "before")
    source = folder / "source"
    source.write_bytes(b"x" * 2 * LIMIT)
    with limit_file_size():
        for write in (lambda: atomic_write(path, "x" * 2 * LIMIT), lambda: atomic_copy(source, path)):
            with pytest.raises(OSError, match="results.json"):
                write()
    assert path.read_text() == "before"
    assert sorted(folder.iterdir()) == [path, source]


def test_device_file_is_not_replaced() -> None:
    atomic_write(Path("/dev/null"), "gone")
    assert not Path("/dev/null").is_file()
    with atomic_path(Path("/dev/null")) as place:
        assert place == Path("/dev/null")
