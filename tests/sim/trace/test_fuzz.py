"""Test that a damaged trace reads as before or raises TraceError."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensordash_sim.trace import Trace, TraceError
from tensordash_sim.trace.format import content_digest

from .conftest import make_trace

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**65) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
SETTINGS = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

Contents = tuple[str, list[bytes]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_trace(tmp_path_factory.mktemp("sound") / "run.trace", steps=(0,))


def everything(path: Path) -> Contents:
    """Return all contents of a trace."""
    trace = Trace.open(path)
    arrays = []
    for record in trace.records:
        for name in record.operands:
            arrays += [np.packbits(record.mask(name)).tobytes(), record.values(name).tobytes()]
    trace.check()
    return trace.digest, arrays


def read(path: Path) -> tuple[str, Contents | None]:
    """Return the reader's error, or all contents of the trace."""
    try:
        return "", everything(path)
    except TraceError as error:
        return str(error), None


def check(path: Path, sound: Path) -> None:
    """Check that a damaged trace gives one line of error with its name, or the intact trace's contents."""
    complaint, found = read(path)
    assert str(path) in complaint if found is None else found == everything(sound)


def damage(data: st.DataObject, trace: Path) -> None:
    """Flip a bit of a file, cut it off, lengthen it, or delete it."""
    files = sorted(file for file in trace.rglob("*") if file.is_file())
    file = data.draw(st.sampled_from(files))
    content = file.read_bytes()
    kind = data.draw(st.sampled_from(["flip", "cut", "append", "delete", "replace"]))
    place = data.draw(st.integers(0, max(len(content) - 1, 0)))
    if kind == "delete":
        file.unlink()
    elif kind == "flip" and content:
        flipped = bytes([content[place] ^ 1 << data.draw(st.integers(0, 7))])
        file.write_bytes(content[:place] + flipped + content[place + 1 :])
    else:
        more = data.draw(st.binary(max_size=20))
        file.write_bytes(
            {"append": content, "replace": b""}.get(kind, content[:place]) + (more if kind != "cut" else b"")
        )


def edit(data: st.DataObject, node: Any) -> None:
    """Change or delete something in the index."""
    while isinstance(node, dict | list) and node and data.draw(st.integers(0, 9)):
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if not isinstance(node[key], dict | list) or not node[key] or not data.draw(st.integers(0, 4)):
            if data.draw(st.booleans()):
                node[key] = data.draw(JSON)
            else:
                del node[key]
            return
        node = node[key]


def fuzz_files(data: st.DataObject, sound: Path, tmp_path: Path) -> None:
    trace = Path(shutil.copytree(sound, tmp_path / "run.trace", dirs_exist_ok=True))
    try:
        damage(data, trace)
        check(trace, sound)
    finally:
        shutil.rmtree(trace)


def fuzz_index(data: st.DataObject, sound: Path, tmp_path: Path) -> None:
    """Damage the index. Half of the cases update the digest, so that the reader checks the content."""
    trace = Path(shutil.copytree(sound, tmp_path / "run.trace", dirs_exist_ok=True))
    try:
        index = json.loads((trace / "index.json").read_text())
        edit(data, index)
        if data.draw(st.booleans()) and isinstance(index, dict) and {"conditions", "steps"} <= set(index):
            index["digest"] = content_digest(index["conditions"], index["steps"])
        (trace / "index.json").write_text(json.dumps(index))
        complaint, found = read(trace)
        assert found is not None or str(trace) in complaint
    finally:
        shutil.rmtree(trace)


@settings(SETTINGS, max_examples=60)
@given(data=st.data())
def test_files(data: st.DataObject, sound: Path, tmp_path: Path) -> None:
    fuzz_files(data, sound, tmp_path)


@settings(SETTINGS, max_examples=60)
@given(data=st.data())
def test_index(data: st.DataObject, sound: Path, tmp_path: Path) -> None:
    fuzz_index(data, sound, tmp_path)


@pytest.mark.slow
@settings(SETTINGS, max_examples=3000)
@given(data=st.data())
def test_files_for_longer(data: st.DataObject, sound: Path, tmp_path: Path) -> None:
    fuzz_files(data, sound, tmp_path)


@pytest.mark.slow
@settings(SETTINGS, max_examples=3000)
@given(data=st.data())
def test_index_for_longer(data: st.DataObject, sound: Path, tmp_path: Path) -> None:
    fuzz_index(data, sound, tmp_path)
