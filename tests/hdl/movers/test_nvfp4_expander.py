"""Compare the NVFP4 expander with the formats of ml_dtypes: every element with every scale."""

import ml_dtypes
import numpy as np
import pytest
from amaranth.hdl import ClockDomain, Module
from amaranth.sim import Simulator

from tensordash.configuration.formats import FORMATS
from tensordash.movers.nvfp4_expander import Nvfp4Expander

TYPES = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
NAN = {"fp16": 0x7E00, "bf16": 0x7FC0}
MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def expected(elements, scales, name):
    """Return the bit patterns of elements times scales."""
    values = MAGNITUDES[elements & 7] * np.where(elements & 8, -1, 1)
    products = values * scales.astype(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    bits = products.astype(TYPES[name]).view(np.uint16)
    assert (bits[~np.isnan(products)].view(TYPES[name]).astype(np.float64) == products[~np.isnan(products)]).all()
    return np.where(np.isnan(products), NAN[name], bits)


@pytest.mark.parametrize("by_channel", [0, 1])
@pytest.mark.parametrize(("name", "lanes", "data_bits"), [("fp16", 4, 128), ("bf16", 4, 32), ("fp16", 8, 128)])
def test_every_product_is_exact(name, lanes, data_bits, by_channel):
    """Each group has 4 or 8 scales; as position and channel alternate, every element meets every scale."""
    expander = Nvfp4Expander(lanes=lanes, fmt=FORMATS[name], data_bits=data_bits)
    size, random = lanes * lanes, np.random.default_rng(1)
    groups = []
    for first in range(0, 256, lanes):
        # Row i of `shown` has all elements that meet scale i, `lanes` of them in each group.
        order = np.stack([random.permutation(16) for _ in range(lanes)])
        for part in range(16 // lanes):
            shown = order[:, part * lanes : (part + 1) * lanes]
            groups.append(((shown.T if by_channel else shown).ravel(), np.arange(first, first + lanes)))

    async def bench(ctx):
        ctx.set(expander.by_channel, by_channel)
        for elements, scales in groups:
            bits = sum(int(element) << 4 * i for i, element in enumerate(elements))
            bits |= sum(int(scale) << 8 * i for i, scale in enumerate(scales)) << 4 * size
            bits |= int(random.integers(1 << 30)) << 4 * size + 8 * lanes  # ignored
            count = 8 * size // data_bits
            for beat in range(count):
                while random.random() < 0.2:
                    ctx.set(expander.beats.valid, 0)
                    await ctx.tick()
                ctx.set(expander.beats.valid, 1)
                ctx.set(expander.beats.payload, bits >> beat * data_bits & (1 << data_bits) - 1)
                ctx.set(expander.out.ready, 0)
                is_last = beat == count - 1
                assert ctx.get(expander.out.valid) == is_last
                assert ctx.get(expander.beats.ready) == (not is_last)
                if is_last:
                    await ctx.tick()
                ctx.set(expander.out.ready, 1)
                assert ctx.get(expander.beats.ready)
                found = ctx.get(expander.out.payload)
                await ctx.tick()
            values = np.array([found >> 16 * i & 0xFFFF for i in range(size)])
            factors = np.tile(scales, lanes) if by_channel else np.repeat(scales, lanes)
            np.testing.assert_array_equal(values, expected(elements, factors, name))

    top = Module()
    top.domains.sync = ClockDomain()  # with one beat per group, the expander is combinational
    top.submodules.expander = expander
    simulator = Simulator(top)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lanes": 16}, "lanes must be .* 8, not 16"),
        ({"fmt": FORMATS["fp8_e4m3"]}, "fmt must be fp16 or bf16"),
        ({"data_bits": 48}, "data_bits must be a divisor of 128, not 48"),
    ],
)
def test_wrong_parameters(changes, message):
    with pytest.raises(ValueError, match=message):
        Nvfp4Expander(**{"lanes": 4, "fmt": FORMATS["fp16"], "data_bits": 128, **changes})
