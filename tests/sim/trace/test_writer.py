"""Test recordings that are interrupted, replaced, or fail."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.trace import Operand, Trace, TraceError, TraceWriter
from tensordash_sim.trace import writer as module

from .conftest import LINEAR, make_trace, operands, record_step


class FailedError(Exception):
    pass


def files(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


def interrupt(path: Path, complete: int, overwrite: bool = False) -> None:
    """Record `complete` steps, and interrupt the next one."""
    with TraceWriter(path, overwrite=overwrite) as writer:
        for index in range(complete):
            record_step(writer, index)
        with writer.step(complete) as step:
            step.record("fc", "AxW", LINEAR, {name: operands(complete)["fc"][name] for name in "AW"})
            raise FailedError


def test_interrupted(tmp_path):
    with pytest.raises(FailedError):
        interrupt(tmp_path / "run.trace", 2)
    trace = Trace.open(tmp_path / "run.trace")
    assert not trace.complete
    assert [step.index for step in trace.steps] == [0, 1]
    assert trace.check() == 2 * 6
    assert len(list(next(trace.records).arrays.glob("mask-*"))) == 2 * 6  # Nothing of the third step remains.


def test_interrupted_in_the_first_step(tmp_path):
    with pytest.raises(FailedError):
        interrupt(tmp_path / "run.trace", 0)
    assert files(tmp_path) == []


def test_continues_after_a_failed_step(tmp_path):
    with TraceWriter(tmp_path / "run.trace") as writer:
        stale = None
        try:
            with writer.step(0) as step:
                stale = step.store(operands(0)["fc"]["A"])
                raise FailedError
        except FailedError:
            pass
        with writer.step(0) as step, pytest.raises(ValueError, match="operand A: not stored in this trace"):
            step.record("fc", "AxW", LINEAR, {"A": stale, "W": operands(0)["fc"]["W"]})
        record_step(writer, 1)
    assert Trace.open(tmp_path / "run.trace").check() == 6


@pytest.mark.parametrize("complete", [0, 2])
@pytest.mark.parametrize("overwrite", [False, True])
def test_killed(complete, overwrite, tmp_path):
    """The process gets SIGKILL in the middle of a step."""
    path = tmp_path / "run.trace"
    if overwrite:
        former = Trace.open(make_trace(path)).digest
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from tests.sim.trace.conftest import *
with TraceWriter({str(path)!r}, overwrite={overwrite}) as writer:
    for index in range({complete}):
        record_step(writer, index)
    with writer.step(99) as step:
        step.store(operands(99)["fc"]["A"])
        os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    trace = Trace.open(path)
    if overwrite and not complete:
        assert trace.complete
        assert trace.digest == former
    else:
        assert not trace.complete
        assert [step.index for step in trace.steps] == list(range(complete))
    trace.check()
    # The next recording removes the leftovers.
    make_trace(path, overwrite=True)
    assert len(list(path.glob("arrays-*"))) == 1


def test_index_that_cannot_be_written(tmp_path, monkeypatch):
    """The trace contains neither the step nor its arrays."""

    def fail(descriptor: int) -> None:
        raise OSError("no space left on device")

    with TraceWriter(tmp_path / "run.trace") as writer:
        record_step(writer, 0)
        with monkeypatch.context() as patch:
            patch.setattr(module.os, "fsync", fail)
            with pytest.raises(OSError, match="no space left"):
                record_step(writer, 1)
        record_step(writer, 2)
    trace = Trace.open(tmp_path / "run.trace")
    assert [step.index for step in trace.steps] == [0, 2]
    assert trace.check() == len(list(next(trace.records).arrays.glob("mask-*"))) == 12


def test_interrupted_after_the_index(tmp_path, monkeypatch):
    """The step that the index names keeps its arrays."""
    path = make_trace(tmp_path / "run.trace")

    def interrupt_removal(folder: Path, **_: bool) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "shutil", SimpleNamespace(rmtree=interrupt_removal))  # Zarr also uses shutil.
        with pytest.raises(KeyboardInterrupt), TraceWriter(path, overwrite=True) as writer:
            record_step(writer, 3)
    trace = Trace.open(path)
    assert [step.index for step in trace.steps] == [3]
    trace.check()


def test_overwriting(tmp_path):
    path = make_trace(tmp_path / "run.trace")
    before, digest = files(path), Trace.open(path).digest
    with pytest.raises(TraceError, match=r"run\.trace exists already.*overwrite=True"):
        make_trace(path)
    with pytest.raises(FailedError):
        interrupt(path, 0, overwrite=True)
    assert files(path) == before
    with pytest.raises(FailedError):
        interrupt(path, 1, overwrite=True)
    assert [step.index for step in Trace.open(path).steps] == [0]
    make_trace(path, overwrite=True)
    assert Trace.open(path).digest == digest
    assert len(files(path)) == len(before)


@pytest.mark.parametrize("name", ["notes.txt", "index.json"])
def test_other_files_are_not_overwritten(name, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(TraceError, match="is not a trace and is not replaced"):
        make_trace(tmp_path, overwrite=True)
    with pytest.raises(TraceError, match="must be a folder"):
        make_trace(tmp_path / name, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_empty_folder(tmp_path):
    make_trace(tmp_path)
    Trace.open(tmp_path).check()


def test_nothing_recorded(tmp_path):
    with TraceWriter(tmp_path / "run.trace"):
        pass
    trace = Trace.open(tmp_path / "run.trace")
    assert trace.complete
    assert trace.steps == ()


A, W = np.ones((1, 3, 11), np.float32), np.ones((1, 4, 11), bool)
NOT_STORED = Operand(shape=(1, 3, 11), dtype="float32", nonzeros=33, mask="0" * 64)
REFUSED = {
    "operation": ("GxA", {"A": A, "W": W}, ValueError, "GxA"),
    "missing": ("AxW", {"A": A}, ValueError, "layer fc, AxW: operands must be A and W, not A"),
    "other": ("AxG", {"A": A, "W": W}, ValueError, "layer fc, AxG: operands must be A and G, not A, W"),
    "shape": (
        "AxW",
        {"A": A, "W": W[:, :3]},
        ValueError,
        r"operand W: shape must be \(1, 4, 11\), as the geometry has it, not \(1, 3, 11\)",
    ),
    "empty": (
        "AxW",
        {"A": A, "W": W[:0]},
        ValueError,
        r"operand W: .* must not be empty, but its shape is \(0, 4, 11\)",
    ),
    "type": ("AxW", {"A": A.astype(np.complex64), "W": W}, TypeError, "operand A: .* not of complex64"),
    "patterns": ("AxW", {"A": A.astype(np.uint16), "W": W}, TypeError, "not of uint16; bit patterns need dtype"),
    "objects": ("AxW", {"A": A.astype(object), "W": W}, TypeError, "not of object"),
    "not stored": ("AxW", {"A": NOT_STORED, "W": W}, ValueError, "operand A: not stored in this trace"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path):
    operation, operands, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message), TraceWriter(tmp_path / "run.trace") as writer, writer.step(0) as step:
        step.record("fc", operation, LINEAR, operands)
    assert files(tmp_path) == []


def test_wrong_dtype(tmp_path):
    with TraceWriter(tmp_path / "run.trace") as writer, writer.step(0) as step:
        with pytest.raises(ValueError, match=r"dtype must be one of bool, .*int32, not 'fp16'"):
            step.store(A, "fp16")
        with pytest.raises(TypeError, match="bfloat16 must be an array of uint16 or bool, not of float32"):
            step.store(A, "bfloat16")


def test_invalid_use(tmp_path):
    with pytest.raises(TypeError, match="conditions must be strings, not 'seed': 0"):
        TraceWriter(tmp_path / "run.trace", conditions={"seed": 0})
    writer = TraceWriter(tmp_path / "run.trace")
    with pytest.raises(RuntimeError, match="inside the `with` block of its writer"), writer.step(0):
        pass
    with writer:
        with writer.step(3) as step:
            step.add_uncaptured("aten::_fused_rnn")
            with pytest.raises(RuntimeError, match="outside other steps' blocks"), writer.step(4):
                pass
        with pytest.raises(RuntimeError, match="the step has ended"):
            step.record("fc", "AxW", LINEAR, {"A": A, "W": W})
        for index in (3, -1):
            with pytest.raises(ValueError, match="index must be an integer of at least 4"), writer.step(index):
                pass
        with pytest.raises(TypeError, match="epoch must be"), writer.step(4, epoch=True):
            pass
    (recorded,) = Trace.open(tmp_path / "run.trace").steps
    assert recorded.uncaptured == ("aten::_fused_rnn",)


def test_no_dimension_is_too_small(tmp_path):
    geometry = MatrixProduct(batch=1, samples=1, in_features=1, out_features=1)
    with TraceWriter(tmp_path / "run.trace") as writer, writer.step(0) as step:
        step.record("fc", "AxW", geometry, {"A": [[[0.5]]], "W": [[[False]]]})
    (record,) = Trace.open(tmp_path / "run.trace").records
    assert record.mask("A").tolist() == [[[True]]]
    assert record.mask("W").tolist() == [[[False]]]


def test_a_step_is_written_as_json_once(tmp_path, monkeypatch):
    """Otherwise, the time of each step would grow with the number of earlier steps."""
    sizes, convert = [], module.canonical

    def measured(document: object) -> bytes:
        sizes.append(len(convert(document)))
        return convert(document)

    monkeypatch.setattr(module, "canonical", measured)
    make_trace(tmp_path / "run.trace", steps=tuple(range(10)))
    assert sum(sizes) < 1.5 * (tmp_path / "run.trace" / "index.json").stat().st_size
    Trace.open(tmp_path / "run.trace").check()
