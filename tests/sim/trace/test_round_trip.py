"""Test that a written trace reads back unchanged."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.trace import DTYPES, Trace, TraceError, TraceWriter
from tensordash_sim.trace import arrays as storage

from .conftest import LAYERS, OPERATIONS, make_trace, operands


def record_one(path: Path, array: Any, dtype: str | None = None, values: bool = True) -> Any:
    """Record a product whose A is the array as a row, and whose W is a mask of ones."""
    array = np.asarray(array).reshape(1, 1, -1)
    geometry = MatrixProduct(batch=1, samples=1, in_features=array.size, out_features=1)
    with TraceWriter(path, values=values, overwrite=True) as writer, writer.step(0) as step:
        step.record("fc", "AxW", geometry, {"A": step.store(array, dtype), "W": np.ones(array.shape, bool)})
    (record,) = Trace.open(path).records
    return record


def test_all_fields_of_a_trace(trace):
    found = Trace.open(trace)
    assert found.complete
    assert found.conditions == {"model": "small"}
    assert found.version == (1, 2)
    assert found.created["program"] == "tensordash"
    assert [(step.index, step.epoch, step.uncaptured) for step in found.steps] == [(0, 0, ()), (7, 3, ())]
    for step in found.steps:
        tensors = operands(step.index)
        expected = [(layer, operation) for layer in LAYERS for operation in OPERATIONS]
        assert [(record.layer, record.operation) for record in step.records] == expected
        for record in step.records:
            assert record.step == step.index
            assert record.geometry == LAYERS[record.layer]
            assert list(record.operands) == record.operation.split("x")
            for name, operand in record.operands.items():
                tensor = tensors[record.layer][name]
                mask, values = record.mask(name), record.values(name)
                assert mask.dtype == bool
                np.testing.assert_array_equal(mask, tensor != 0)
                assert values.dtype == tensor.dtype
                assert values.tobytes() == tensor.tobytes()
                assert (operand.shape, operand.dtype) == (tensor.shape, "float32")
                assert operand.nonzeros == np.count_nonzero(tensor)
    assert found.check() == 2 * 2 * 6  # 3 tensors of 2 layers in 2 steps have masks and values.


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 63, 64, 65, 1000])
@pytest.mark.parametrize("kind", ["random", "none", "all"])
def test_sizes(size, kind, tmp_path):
    mask = {
        "random": np.random.default_rng(size).random(size) < 0.5,
        "none": np.zeros(size, bool),
        "all": np.ones(size, bool),
    }[kind]
    record = record_one(tmp_path / "run.trace", mask)
    np.testing.assert_array_equal(record.mask("A").reshape(-1), mask)
    assert record.operands["A"].zeros == pytest.approx(1 - mask.mean())


@pytest.mark.parametrize("chunk", [1, 3, 16])
def test_chunks(chunk, tmp_path, monkeypatch):
    """Arrays, views included, have several chunks with a partial last one, in memory and on disk."""
    monkeypatch.setattr(storage, "CHUNK_BYTES", 8 * chunk)
    values = np.maximum(np.random.default_rng(0).normal(size=(7, 13, 5)), 0)
    for number, view in enumerate((values, values.transpose(2, 0, 1), values[::2, :, ::-1])):
        record = record_one(tmp_path / f"{number}.trace", view)
        np.testing.assert_array_equal(record.values("A").reshape(-1), view.reshape(-1))
        np.testing.assert_array_equal(record.mask("A").reshape(-1), view.reshape(-1) != 0)
        packed = storage.pack(view, "float64")
        np.testing.assert_array_equal(packed, np.packbits(view.reshape(-1) != 0, bitorder="little"))


NUMBERS = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 2.0**-6]


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats(dtype, order, tmp_path):
    """Floats of both byte orders include the smallest subnormals and a signalling NaN."""
    values = np.array([*NUMBERS, 0, 0], dtype)
    patterns = values.view(f"u{values.itemsize}")
    patterns[-2:] = [1, patterns[4] + 1]
    record = record_one(tmp_path / "run.trace", values.astype(values.dtype.newbyteorder(order)))
    assert record.operands["A"].dtype == dtype
    assert record.mask("A").reshape(-1).tolist() == [False, False] + [True] * 8
    assert record.values("A").tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("as_bits", [False, True])
def test_dtypes_that_numpy_lacks(dtype, as_bits, tmp_path):
    values = np.array(NUMBERS, np.float32).astype(getattr(ml_dtypes, dtype))
    bits = values.view(DTYPES[dtype].stored)
    record = record_one(tmp_path / "run.trace", bits if as_bits else values, dtype if as_bits else None)
    assert record.operands["A"].dtype == dtype
    assert record.mask("A").reshape(-1).tolist() == [False, False] + [True] * 6
    np.testing.assert_array_equal(record.values("A").reshape(-1), bits)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_integers(dtype, tmp_path):
    values = np.array([0, 1, -1, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    record = record_one(tmp_path / "run.trace", values)
    assert record.mask("A").reshape(-1).tolist() == [False] + [True] * 4
    np.testing.assert_array_equal(record.values("A").reshape(-1), values)


def test_masks_have_no_values(tmp_path):
    """Masks and records without stored values have no values."""
    for record in (
        record_one(tmp_path / "a", [True, False], "bfloat16"),
        record_one(tmp_path / "b", [1.0, 0.0], values=False),
    ):
        assert record.operands["A"].values is None
        assert record.mask("A").tolist() == [[[True, False]]]
        with pytest.raises(TraceError, match=r"step 0, layer fc, AxW, operand A: values are not stored"):
            record.values("A")
    assert record_one(tmp_path / "a", [True], "bfloat16").operands["A"].dtype == "bfloat16"
    with pytest.raises(ValueError, match=r"^operand of AxW must be one of A, W, not 'G'$"):
        record.mask("G")


def test_equal_arrays_are_stored_once(tmp_path):
    """Equal content in another record, step or shape is stored once. Arrays with equal zeros share a mask."""
    geometry = MatrixProduct(batch=1, samples=2, in_features=8, out_features=2)
    tensor = np.arange(16.0).reshape(1, 2, 8) % 3
    with TraceWriter(tmp_path / "run.trace", values=True) as writer:
        for index, scale in enumerate((1, 1, 2)):
            with writer.step(index) as step:
                step.record("fc", "AxW", geometry, {"A": scale * tensor, "W": scale * tensor.copy()})
    trace = Trace.open(tmp_path / "run.trace")
    stored = sorted(path.name.split("-")[0] for path in next(trace.records).arrays.iterdir())
    assert stored == ["float64", "float64", "mask"]
    assert trace.check() == 3


def test_digest_depends_on_the_content(tmp_path):
    paths = [make_trace(tmp_path / name) for name in "ab"]
    assert Trace.open(paths[0]).digest == Trace.open(paths[1]).digest
    assert Trace.open(make_trace(tmp_path / "c", steps=(0,))).digest != Trace.open(paths[0]).digest


def test_imports_no_torch():
    code = "import sys, tensordash_sim.trace; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
