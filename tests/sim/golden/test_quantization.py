"""Test rounding of a training step's recorded operands to every format."""

import numpy as np
import pytest

from tensordash.configuration.formats import FORMATS
from tensordash_sim.golden import to_float
from tensordash_sim.golden.quantization import non_zeros, quantized
from tensordash_sim.trace import Trace, example_trace

OPERANDS = {
    f"{name} of {record.layer}": record.values(name).astype(np.float32)
    for record in Trace.open(example_trace()).records
    if record.layer in ("CNN.conv2", "CNN.fc1")
    for name in record.operands
}


def decoded(bits: np.ndarray, name: str) -> np.ndarray:
    if name == "int8":
        return bits.view(np.int8).astype(float)
    table = {pattern: to_float(pattern, FORMATS[name]) for pattern in np.unique(bits).tolist()}
    return np.vectorize(table.get, otypes=[float])(bits)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("operand", OPERANDS)
def test_nearest_of_a_scaled_operand(name, operand):
    """The scale is a power of two, and each rounded value is the nearest of the format."""
    values = OPERANDS[operand]
    bits = quantized(values, FORMATS[name])
    width = FORMATS[name].width
    assert bits.dtype == {16: np.uint16, 19: np.uint32}.get(width, np.uint8)
    found = decoded(bits, name)
    largest = np.unravel_index(np.abs(values).argmax(), values.shape)
    scale = 2.0 ** np.round(np.log2(found[largest] / values[largest]))
    assert scale == 1 or width <= 8
    patterns = np.arange(1 << width, dtype=bits.dtype)
    representable = decoded(patterns, name)
    representable = np.unique(representable[np.isfinite(representable)])
    near = np.searchsorted(representable, values * scale)
    nearest = np.minimum(
        np.abs(values * scale - representable[np.clip(near - 1, 0, None)]),
        np.abs(values * scale - representable[np.clip(near, None, len(representable) - 1)]),
    )
    np.testing.assert_array_equal(np.abs(values * scale - found), nearest)


@pytest.mark.parametrize(("name", "top"), [("fp8_e4m3", 448), ("fp8_e5m2", 57344), ("int8", 127)])
def test_8_bits_use_their_range(name, top):
    for values in OPERANDS.values():
        found = decoded(quantized(values, FORMATS[name]), name)
        assert top / 2 <= np.abs(found).max() <= top


def test_zeros_stay_zeros():
    assert not quantized(np.zeros((2, 3), np.float32), FORMATS["int8"]).any()


def test_non_zeros():
    bits = np.array([0x00, 0x80, 0x01, 0x3C], np.uint8)
    assert non_zeros(bits, FORMATS["fp8_e4m3"]).tolist() == [False, False, True, True]
    assert non_zeros(bits, FORMATS["int8"]).tolist() == [False, True, True, True]
