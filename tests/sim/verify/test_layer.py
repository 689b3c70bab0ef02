"""Test that passes of recorded layers have every value in its place."""

import numpy as np
import pytest

from tensordash import ConfigError, TileConfig, load_preset
from tensordash_sim.lowering import MatrixProduct, Operation
from tensordash_sim.trace import Trace, TraceError, TraceWriter
from tensordash_sim.trace.layer_operands import layer_passes

from ..lowering.geometries import convolution
from ..lowering.reference import multiply_out

CONVOLUTION = convolution(channels=(5, 6), size=(7, 6), kernel=(3, 2), stride=(2, 1), padding=(1, 0))  # fmt: skip
PRODUCT = MatrixProduct(batch=2, samples=5, in_features=7, out_features=3)
CONFIG = TileConfig(format="int8", rows=3, columns=2)


def integers(layer, rng):
    """Draw small integers, half of them zero."""
    return {name: (rng.integers(-9, 10, shape) * (rng.random(shape) < 0.5)) for name, shape in layer.shapes.items()}


def recorded(folder, layer, operands, operation, *, values=True):
    with TraceWriter(folder / "run.trace", values=values, overwrite=True) as writer, writer.step(0) as step:
        chosen = {name: operands[name] for name in (operation.left, operation.right)}
        step.record("layer", operation, layer, chosen)
    (record,) = Trace.open(folder / "run.trace").records
    return record


@pytest.mark.parametrize("operation", list(Operation))
@pytest.mark.parametrize("layer", [CONVOLUTION, PRODUCT], ids=["convolution", "product"])
def test_passes_contain_all_results(layer, operation, tmp_path):
    operands = {name: values.astype(np.int8) for name, values in integers(layer, np.random.default_rng(3)).items()}
    for name, values in operands.items():
        values.flat[0] = 127  # With the largest int8, values are not scaled.
        assert values.any(), name
    passes = layer_passes(recorded(tmp_path, layer, operands, operation), CONFIG, sample=10_000, seed=0)
    found: list[int] = []
    for a, b in passes:
        signed = [side.astype(np.uint8).view(np.int8).astype(np.int64) for side in (b, a)]
        found += np.einsum("prtl,pctl->prc", *signed).ravel().tolist()
    expected = multiply_out(layer, operation, {name: v.astype(np.int64) for name, v in operands.items()}, lanes=4)
    # If a pass lacks a vector, its place is zero.
    assert sorted(value for value in found if value) == sorted(value for value in expected.ravel().tolist() if value)


def test_sample_is_a_subset_of_the_passes(tmp_path):
    operands = integers(CONVOLUTION, np.random.default_rng(0))
    record = recorded(tmp_path, CONVOLUTION, {k: v.astype(np.int8) for k, v in operands.items()}, Operation.FORWARD)
    every, some, same = (layer_passes(record, CONFIG, sample=size, seed=4) for size in (10_000, 3, 3))
    assert sum(len(one.b) for one in some) == 3 < sum(len(one.b) for one in every)
    rows = {row.tobytes() for one in every for row in one.b}
    assert all(row.tobytes() in rows for one in some for row in one.b)
    assert all(np.array_equal(one.b, other.b) for one, other in zip(some, same, strict=True))


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp8_e4m3", "int8"])
def test_zeros_of_masks_without_values_are_kept(fmt, tmp_path):
    operands = integers(CONVOLUTION, np.random.default_rng(1))
    masks = {name: values != 0 for name, values in operands.items()}
    config = TileConfig(format=fmt, accumulator="volta" if fmt == "bf16" else "exact")
    record = recorded(tmp_path, CONVOLUTION, masks, Operation.FORWARD, values=False)
    (drawn,) = layer_passes(record, config, sample=10_000, seed=0)
    full = recorded(
        tmp_path, CONVOLUTION, {k: v.astype(np.float32) for k, v in operands.items()}, Operation.FORWARD, values=True
    )
    (stored,) = layer_passes(full, config, sample=10_000, seed=0)
    np.testing.assert_array_equal(drawn.b != 0, stored.b != 0)
    np.testing.assert_array_equal(drawn.a != 0, stored.a != 0)


def test_bit_patterns_of_bfloat16_are_decoded(tmp_path):
    values = np.array([1.0, -2.5, 0.0, 0.1015625], np.float32)
    a = np.resize(values, PRODUCT.shapes["A"])
    operands = {"A": (a.view(np.uint32) >> 16).astype(np.uint16), "W": np.ones(PRODUCT.shapes["W"], np.float32)}
    with TraceWriter(tmp_path / "run.trace", values=True) as writer, writer.step(0) as step:
        stored = step.store(operands["A"], dtype="bfloat16")
        step.record("layer", "AxW", PRODUCT, {"A": stored, "W": operands["W"]})
    (record,) = Trace.open(tmp_path / "run.trace").records
    ((_, b),) = layer_passes(record, TileConfig(), sample=10_000, seed=0)
    assert set(np.unique(b.astype(np.uint16).view(np.float16))) == set(values)


def test_scales_are_refused(tmp_path):
    ones = {name: np.ones(shape, np.float32) for name, shape in PRODUCT.shapes.items()}
    record = recorded(tmp_path, PRODUCT, ones, Operation.FORWARD)
    with pytest.raises(ConfigError, match='tile.scale must be "none" for operations of a trace, not "e8m0"'):
        layer_passes(record, load_preset("mxfp4"), sample=1, seed=0)


def test_infinities_are_refused(tmp_path):
    operands = {name: np.full(shape, np.inf, np.float32) for name, shape in PRODUCT.shapes.items()}
    record = recorded(tmp_path, PRODUCT, operands, Operation.FORWARD)
    with pytest.raises(TraceError, match="operand A of layer AxW has infinities or NaN"):
        layer_passes(record, TileConfig(), sample=1, seed=0)
