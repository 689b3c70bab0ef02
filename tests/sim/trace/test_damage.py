"""Test that the reader finds every kind of damage and names trace, layer, operation and operand."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.trace import Trace, TraceError, TraceWriter
from tensordash_sim.trace.format import content_digest

from .conftest import make_trace


def first_array(trace: Path, kind: str) -> Path:
    """Return the array of the first record's A."""
    record = next(Trace.open(trace).records)
    operand = record.operands["A"]
    return record.arrays / (f"mask-{operand.mask}" if kind == "mask" else f"{operand.dtype}-{operand.values}")


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 0x10
    file.write_bytes(data)


def swap(array: Path) -> None:
    """Replace an array by another valid one of the same size."""
    other = next(
        each
        for each in sorted(array.parent.glob(f"{array.name.split('-')[0]}-*"))
        if each != array and json.loads((each / "zarr.json").read_text())["shape"] == shape_of(array)
    )
    shutil.rmtree(array)
    shutil.copytree(other, array)


def shape_of(array: Path) -> list[int]:
    return json.loads((array / "zarr.json").read_text())["shape"]


def other_shape(array: Path) -> None:
    text = json.loads((array / "zarr.json").read_text())
    text["shape"] = [text["shape"][0] + 1]
    (array / "zarr.json").write_text(json.dumps(text))


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "first byte": (lambda array: flip(array / "c" / "0", 0), "is damaged"),
    "a byte in the middle": (lambda array: flip(array / "c" / "0", 12), "is damaged"),
    "last byte": (lambda array: flip(array / "c" / "0", -1), "is damaged"),
    "truncated": (lambda array: (array / "c" / "0").write_bytes((array / "c" / "0").read_bytes()[:-3]), "is damaged"),
    "emptied": (lambda array: (array / "c" / "0").write_bytes(b""), "is damaged"),
    "chunk": (lambda array: (array / "c" / "0").unlink(), "is damaged: 1 of its chunks missing"),
    "metadata": (lambda array: (array / "zarr.json").unlink(), "is damaged"),
    "metadata truncated": (lambda array: (array / "zarr.json").write_text('{"shape"'), "is damaged"),
    "metadata of something else": (lambda array: (array / "zarr.json").write_text("{}"), "is damaged"),
    "array": (shutil.rmtree, "is missing"),
    "array of another shape": (other_shape, r"must be \w+\[\d+\], not \w+\[\d+\]"),
    "another array": (swap, "is damaged: its checksum differs"),
}


@pytest.mark.parametrize("kind", ["mask", "values"])
@pytest.mark.parametrize("name", DAMAGE)
def test_arrays(name, kind, trace):
    damage, message = DAMAGE[name]
    array = first_array(trace, kind)
    damage(array)
    opened = Trace.open(trace)  # Opening reads no arrays.
    where = rf"run\.trace: step 0, layer conv1, AxW, operand A: {kind}: the array {array.name} {message}"
    with pytest.raises(TraceError, match=where):
        getattr(next(opened.records), kind)("A")
    with pytest.raises(TraceError, match=where):
        opened.check()


@pytest.mark.parametrize("name", ["none", "some"])
def test_lost_chunks(name, tmp_path):
    """Lost chunks are found in a mask of zeros, with which Zarr fills missing chunks, and in one of several chunks."""
    geometry = MatrixProduct(batch=1, samples=1, in_features=20_000_000, out_features=1)
    mask = np.zeros((1, 1, 20_000_000), bool)
    mask[..., ::3] = name == "some"
    with TraceWriter(tmp_path / "run.trace") as writer, writer.step(0) as step:
        step.record("fc", "AxW", geometry, {"A": mask, "W": ~mask})
    array = first_array(tmp_path / "run.trace", "mask")
    assert len(list((array / "c").iterdir())) == 3
    (array / "c" / "1").unlink()
    (record,) = Trace.open(tmp_path / "run.trace").records
    np.testing.assert_array_equal(record.mask("W"), ~mask)
    with pytest.raises(TraceError, match="operand A: mask: .* is damaged: 1 of its chunks missing"):
        record.mask("A")


def edit(trace: Path, change: Callable[[dict[str, Any]], Any], *, sign: bool = True) -> None:
    """Change the index; by default, update its digest."""
    index = json.loads((trace / "index.json").read_text())
    change(index)
    if sign and "steps" in index and "conditions" in index:
        index.setdefault("digest", "")
        index["digest"] = content_digest(index["conditions"], index["steps"])
    (trace / "index.json").write_text(json.dumps(index))


def record(index: dict[str, Any]) -> dict[str, Any]:
    return index["steps"][0]["records"][0]


def operand(index: dict[str, Any]) -> dict[str, Any]:
    return record(index)["operands"]["A"]


FIRST = r"run\.trace: step 0, layer conv1, AxW"
EDITS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "format": (lambda index: index.update(format="zip"), r"index\.json: format must be tensordash-trace, not 'zip'"),
    "no format": (lambda index: index.pop("format"), r"index\.json: lacks the key format"),
    "major version": (lambda index: index.update(version=[2, 0]), r"of format version 2\.0; this program reads 1\.x"),
    "version": (lambda index: index.update(version="1.0"), "version must be a list, not '1.0'"),
    "versions": (lambda index: index.update(version=[1, True]), "version must be two integers"),
    "no steps": (lambda index: index.pop("steps"), "lacks the key steps"),
    "conditions": (lambda index: index.update(conditions={"seed": 1}), "conditions: seed must be a string, not 1"),
    "arrays": (lambda index: index.update(arrays="../../etc"), "arrays must be arrays- and 8 hexadecimal digits"),
    "step": (lambda index: index["steps"].append(3), r"steps\[2\]: must be an object, not 3"),
    "order": (lambda index: index["steps"].reverse(), r"ascending order of index, not \[7, 0\]"),
    "negative": (lambda index: index["steps"][0].update(index=-1), r"steps\[0\]: index must be at least 0, not -1"),
    "epoch": (lambda index: index["steps"][0].update(epoch="1"), "epoch must be an integer, not '1'"),
    "uncaptured": (lambda index: index["steps"][0].update(uncaptured=[1]), "uncaptured must be a list of strings"),
    "no layer": (lambda index: record(index).pop("layer"), r"steps\[0\]: records\[0\]: lacks the key layer"),
    "operation": (
        lambda index: record(index).update(operation="AxA"),
        r"\(layer conv1\): operation must be one of AxW, WxG, AxG, not 'AxA'",
    ),
    "geometry": (lambda index: record(index)["geometry"].pop("kernel"), rf"{FIRST}: geometry: .*missing: kernel"),
    "kind": (lambda index: record(index)["geometry"].update(kind="pool"), rf"{FIRST}: geometry: kind must be one of"),
    "no operand": (lambda index: record(index)["operands"].pop("W"), rf"{FIRST}: operands: lacks the key W"),
    "shape": (
        lambda index: operand(index).update(shape=[2, 3, 7, 7]),
        rf"{FIRST}, operand A: shape must be \(2, 3, 7, 6\), as the geometry has it, not \(2, 3, 7, 7\)",
    ),
    "extent": (lambda index: operand(index).update(shape=[2, 3, 7, 0]), "operand A: shape must be a list of integers"),
    "dtype": (lambda index: operand(index).update(dtype="fp32"), "operand A: dtype must be one of bool, .*not 'fp32'"),
    "nonzeros": (lambda index: operand(index).update(nonzeros=253), "nonzeros must be from 0 to 252, not 253"),
    "no mask": (lambda index: operand(index).pop("mask"), rf"{FIRST}, operand A: lacks the key mask"),
    "mask": (lambda index: operand(index).update(mask="../x"), "mask must be a SHA-256 in hexadecimal, not '../x'"),
    "values": (lambda index: operand(index).update(values=1), "values must be a string, not 1"),
}


@pytest.mark.parametrize("name", EDITS)
def test_index(name, trace):
    change, message = EDITS[name]
    edit(trace, change)
    with pytest.raises(TraceError, match=message) as raised:
        Trace.open(trace)
    assert str(raised.value).startswith(str(trace))


def test_edited_index_with_a_wrong_digest(trace):
    """Only the digest reveals the damage."""
    edit(trace, lambda index: record(index).update(layer="conv2"), sign=False)
    with pytest.raises(TraceError, match=r"index\.json: damaged or edited: digest must be"):
        Trace.open(trace)


def test_index_that_disagrees_with_arrays(trace):
    """The digest is right, so that only the arrays reveal the damage."""

    def falsify(index: dict[str, Any]) -> None:
        operand(index)["nonzeros"] += 1

    edit(trace, falsify)
    with pytest.raises(TraceError, match=rf"{FIRST}, operand A: nonzeros must be \d+, as in the mask, not \d+"):
        Trace.open(trace).check()


def test_values_of_another_step(trace):
    def exchange(index: dict[str, Any]) -> None:
        operand(index)["values"] = index["steps"][1]["records"][0]["operands"]["A"]["values"]

    edit(trace, exchange)
    with pytest.raises(TraceError, match=rf"{FIRST}, operand A: values do not have the mask that is recorded"):
        Trace.open(trace).check()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ('{"format": ', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "must be an object"),
        ("\xff", r"cannot read index\.json"),
    ],
)
def test_invalid_index(text, message, trace):
    (trace / "index.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(TraceError, match=message):
        Trace.open(trace)


def test_newer_minor_version(trace):
    """Unknown keys are ignored, except in a geometry."""

    def add(index: dict[str, Any]) -> None:
        index.update(version=[1, 7], host="there")
        index["steps"][0].update(loss="2.3")
        record(index).update(stream=1)
        operand(index).update(scale="1.0")

    digest = Trace.open(trace).digest
    edit(trace, add)
    opened = Trace.open(trace)
    assert opened.version == (1, 7)
    assert opened.digest != digest
    opened.check()


def test_paths_without_a_trace(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for name, message in {
        "file": "file: a trace must be a folder$",
        "folder": r"folder: not a trace: it has no index\.json",
        "missing": "missing: a trace must be a folder, but this does not exist",
    }.items():
        with pytest.raises(TraceError, match=message):
            Trace.open(tmp_path / name)


def test_check_compares_every_record(tmp_path):
    """`check` compares every record, not only the first that names an array."""
    trace = make_trace(tmp_path / "run.trace", values=False, steps=(0,))

    def falsify(index: dict[str, Any]) -> None:
        index["steps"][0]["records"][2]["operands"]["A"]["nonzeros"] -= 1  # AxW has the same A.

    edit(trace, falsify)
    with pytest.raises(TraceError, match="layer conv1, AxG, operand A: nonzeros must be"):
        Trace.open(trace).check()
