"""Compare blocks with power-of-two scales with those of torchao, which `make nightly` installs."""

import numpy as np
import pytest

from tensordash.configuration.formats import FORMATS, SCALES, FloatFormat
from tensordash_sim.golden import to_float
from tensordash_sim.golden.block_scales import quantise_blocks, scale_values

pytestmark = pytest.mark.slow

BLOCKS, BLOCK = 1 << 14, 32


@pytest.mark.parametrize(("scale_rounding", "mode"), [("floor", "FLOOR"), ("up", "RCEIL")])
@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2", "fp6_e2m3", "fp6_e3m2", "fp4_e2m1"])
def test_scales_and_elements_match_torchao(name, scale_rounding, mode):
    torch = pytest.importorskip("torch")
    mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    kind = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2, "fp4_e2m1": torch.float4_e2m1fn_x2}
    other = kind.get(name, name)  # torchao has other names for 6-bit formats.
    rng = np.random.default_rng(1)
    values = rng.standard_normal((BLOCKS, BLOCK)) * np.exp2(rng.integers(-100, 100, (BLOCKS, 1)))
    values = np.where(rng.random(values.shape) < 0.1, 0, values).astype(np.float32)
    values[::97] = 0
    fmt, scale = FORMATS[name], SCALES["e8m0"]
    assert isinstance(fmt, FloatFormat)
    blocks = quantise_blocks(values, fmt, scale, scale_rounding=scale_rounding)
    table = np.array([to_float(bits, fmt) for bits in range(1 << fmt.width)])
    found = table[blocks.bits] * np.repeat(scale_values(blocks.scales, scale), BLOCK, axis=1)
    scales, elements = mx.to_mx(torch.tensor(values), other, BLOCK, mx.ScaleCalculationMode[mode])
    expected = mx.to_dtype(elements, scales, other, BLOCK, torch.float32).numpy()
    np.testing.assert_array_equal(found, expected)
    some = (values != 0).any(axis=1)  # A block of zeros may have any scale.
    np.testing.assert_array_equal(blocks.scales.reshape(-1)[some], scales.view(torch.uint8).numpy().reshape(-1)[some])
