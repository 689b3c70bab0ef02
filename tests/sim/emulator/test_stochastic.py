"""Test that stochastic rounding uses the golden core's random bits and has no bias."""

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode
from tensordash.configuration.descriptors import encode as encode_descriptor
from tensordash.configuration.formats import FORMATS, FP32
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.images import TensorImage
from tensordash_sim.compiler.layer import RESULTS, Layer
from tensordash_sim.compiler.pipeline import compile_problem
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.rounding import multiply_seeds, stochastic
from tensordash_sim.emulator import RandomBits, contract, encode, result_bits
from tensordash_sim.emulator import decode as values_of
from tensordash_sim.emulator.random_bits import draw_beats
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.golden.numbers import round_fixed

from .test_contraction import BF16, CASES, CORE, LAYERS, WIDE, draw_operands, fused

FP8 = load_any_preset("core-fp8")
assert isinstance(FP8, CoreConfig)


def run_both_models(
    config: CoreConfig, layer: Layer, operation: str, rows: str, values: dict, seed: int, *, relu: bool
) -> tuple:
    """Return the bits of a result from the golden core and from the emulator."""
    image = TensorImage(config, Memory(1 << 18), layer, operation, values, rows=rows)
    fused = {"relu": relu, "bias": "bias" in values, "mask": "mask" in values}
    problem = Problem(layer=layer, operation=operation, rows=rows, **fused)
    descriptors = stochastic(compile_problem(problem, config, image.tensors).descriptors, seed)
    outcome = GoldenCore(config, image.memory).run(descriptors)
    assert (outcome.error, outcome.ends) == ("", 1)
    result = np.ascontiguousarray(image.result())
    random = RandomBits(config, layer, operation, descriptors, image.tensors["result"]).of(seed)
    bits = {name: array if name == "bias" else array.view(f"u{array.dtype.itemsize}") for name, array in values.items()}
    return result.view(f"u{result.dtype.itemsize}"), contract(
        config, layer, operation, rows, bits, relu=relu, random=random, bias=bits.get("bias"), mask=bits.get("mask")
    )


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("operation", "rows"), CASES)
@pytest.mark.parametrize("name", LAYERS)
def test_memory_of_the_golden_core(name, operation, rows):
    for seed, config in enumerate((CORE, WIDE, BF16)):
        values = draw_operands(LAYERS[name], operation, seed, 2 * seed, config.tile.a_format)
        values |= fused(LAYERS[name], operation, seed, masked=bool(seed))
        expected, found = run_both_models(config, LAYERS[name], operation, rows, values, 77 + seed, relu=bool(seed))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("operation", RESULTS)
def test_fp8(operation):
    layer, rng = LAYERS["padding, odd sizes"], np.random.default_rng(3)
    operands = [name for name in "AWG" if name in operation]
    for rows in operands:
        values = {name: rng.integers(0, 0x70, layer.whole_shape(name), np.uint8) for name in operands}
        expected, found = run_both_models(FP8, layer, operation, rows, values, 5, relu=False)
        np.testing.assert_array_equal(found, expected)


def program_of(layer: Layer, *, fp32: bool) -> list[int]:
    """Return the program of AxW with placeholder addresses."""
    tensors = {"A": 0, "W": 1 << 20, "result": 1 << 21}
    return compile_problem(Problem(layer=layer, operation="AxW", rows="A", fp32=fp32), CORE, tensors).descriptors


def test_seeds():
    """Different seeds give different bits. Each descriptor has its own seed."""
    layer = LAYERS["padding, odd sizes"]
    values = draw_operands(layer, "AxW", 0, 0)
    made = [run_both_models(CORE, layer, "AxW", "A", values, seed, relu=False)[1] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(made[0], made[1])
    assert (made[0] != made[2]).any()
    fields = [decode(bits) for bits in stochastic(program_of(layer, fp32=False), 9)]
    multiplies = [values for operation, values in fields if operation is not None and operation.name == "multiply"]
    assert [values["seed"] for values in multiplies] == multiply_seeds(9, 0, len(multiplies)).tolist()
    assert len(multiplies) > 1


def test_stores_of_four_loops():
    """A store that is divided into loops over the same groups draws the same random bits."""
    layer = LAYERS["padding, odd sizes"]
    descriptors = program_of(layer, fp32=False)
    divided, stores = [], 0
    for bits in descriptors:
        operation, values = decode(bits)
        assert operation is not None
        if operation.name == "store":
            assert [values[f"count_{k}"] for k in range(4)] == [12, 1, 1, 1]
            loops = {"count_0": 1, "count_1": 2, "count_2": 2, "count_3": 3}
            bits = encode_descriptor(operation, {**values, **loops, "stride_1": 1, "stride_2": 2, "stride_3": 4})
            stores += 1
        divided.append(bits)
    assert stores
    made = [RandomBits(CORE, layer, "AxW", each, 1 << 21).of(5) for each in (descriptors, divided)]
    np.testing.assert_array_equal(*made)


def test_fp32_results_are_rounded_to_nearest():
    layer = LAYERS["matrix product"]
    descriptors = program_of(layer, fp32=True)
    assert stochastic(descriptors, 9) == descriptors


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e4m3", "fp8_e5m2"])
def test_rounding(name):
    """Random FP32 patterns, subnormals, infinities and NaN are rounded as defined, for extreme and random bits."""
    fmt, rng = FORMATS[name], np.random.default_rng(4)
    patterns = rng.integers(0, 1 << 32, 20_000, np.uint64).astype(np.uint32)
    near = encode(np.ldexp(rng.standard_normal(20_000), rng.integers(-30, 18, 20_000)).astype(np.float32), FP32)
    sums = np.concatenate([patterns, near, np.array([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000], np.uint32)])
    random = rng.integers(0, 1 << 16, sums.shape).astype(np.uint16)
    random[:100], random[100:200] = 0, 0xFFFF
    found = result_bits(sums, fmt, random=random)
    nearest = result_bits(sums, fmt)
    for k, (bits, rounded) in enumerate(zip(sums.tolist(), found.tolist(), strict=True)):
        magnitude = bits & 0x7FFFFFFF
        if magnitude >= 0x7F800000:
            assert rounded == nearest[k]
            continue
        field = magnitude >> 23
        significand = magnitude & 0x7FFFFF | (field > 0) << 23
        value = -significand if bits >> 31 else significand
        expected = round_fixed(value, max(field, 1) - 150, fmt, "stochastic", int(random[k]))
        assert rounded == (expected if significand else bits >> 31 << (fmt.width - 1)), hex(bits)


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e4m3", "fp8_e5m2"])
def test_bias(name):
    """The mean of 10^7 numbers stays within noise plus 2^-17 of a gap, the resolution of 16 bits."""
    fmt, count = FORMATS[name], 10_000_000
    rng = np.random.default_rng(8)
    sums = encode((1 + rng.random(count)).astype(np.float32), FP32)
    random = np.empty((count // 4, 4), np.uint16)
    draw_beats(8, 0, random)
    random = random.reshape(-1)
    gap = 2.0**-fmt.fraction_bits

    def bias(random_bits: np.ndarray | None) -> float:
        rounded = values_of(result_bits(sums, fmt, random=random_bits), fmt).astype(np.float64)
        return float(np.mean((rounded - sums.view(np.float32)) / gap))

    noise = 5 * (1 / 6 / count) ** 0.5  # five standard deviations of the mean
    assert abs(bias(random) + 2**-17) < noise
    assert bias(np.zeros(count, np.uint16)) < -0.4  # Without random bits, the check finds a bias.


def test_seeds_of_multiplies_follow_simon():
    """The published test vector of SIMON32/64, with the multiply's number as the plaintext."""
    key, number = 0x1918_1110_0908_0100, 0x6565_6877
    seed, operation = key & 0xFFFFFFFF, key >> 32
    assert int(multiply_seeds(seed, operation, 1, first=number)[0]) == 0xC69B_E9BB
