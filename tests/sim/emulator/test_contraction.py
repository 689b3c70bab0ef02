"""Compare memory after complete operations with the golden core, and test the order of fused sums."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tensordash import TileConfig, load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FORMATS, Format, IntegerFormat
from tensordash_sim.compiler.emission import emit
from tensordash_sim.compiler.images import TensorImage
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.layer import OPERANDS, RESULTS, Layer
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.schedule import schedule_tiling
from tensordash_sim.compiler.search import best_schedule
from tensordash_sim.emulator import contract, contraction, encode, exact
from tensordash_sim.golden import matmul
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory

SETTINGS = ["core.partial_sums=32", "core.buffer=32", "core.stream_buffer=4"]
CORE = CoreConfig.from_toml("", SETTINGS)
BF16 = CoreConfig.from_toml("", [*SETTINGS, "tile.format=bf16", "tile.accumulator={ bins = 3 }"])
INT8 = CoreConfig.from_toml("", [*SETTINGS, "tile.format=int8"])
WIDE = CoreConfig.from_toml("", ["tile.lanes=8", "tile.rows=8", "tile.columns=8"])
LAYERS = {
    "padding, odd sizes": Layer(samples=2, channels=5, filters=6, size=(3, 7), kernel=(3, 2), padding=1),
    "stride 2": Layer(samples=2, channels=3, filters=5, size=(5, 6), kernel=(2, 3), stride=2, padding=1),
    "phases without taps": Layer(samples=1, channels=5, filters=9, size=(5, 6), kernel=(1, 2), stride=3),
    "more columns of A than are used": Layer(samples=1, channels=3, filters=4, size=(2, 9), kernel=(1, 2), stride=2),
    "dilated, and otherwise along columns": Layer(
        samples=1, channels=4, filters=5, size=(6, 9), kernel=(2, 3), stride=(1, 2), padding=(1, 2), dilation=(2, 2)
    ),
    "groups": Layer(samples=2, channels=3, filters=2, size=(4, 5), kernel=(2, 2), padding=1, products=3),
    "in chunks": Layer(samples=1, channels=60, filters=4, size=(2, 5), kernel=(3, 3), padding=1),
    "matrix product": Layer(samples=1, channels=10, filters=5, size=(1, 9)),
}
CASES = [(operation, rows) for operation, both in OPERANDS.items() for rows in both]


def draw_operands(
    layer: Layer, operation: str, seed: int, specials: float, fmt: Format = FORMATS["fp16"]
) -> dict[str, np.ndarray]:
    """Draw bit patterns of operands, with zeros of both signs and about `specials` infinities and NaN in each.

    Products of bf16 fall into many bins, and some of their sums are subnormal. Integers have any magnitude.
    """
    rng, values = np.random.default_rng(seed), {}
    for name in OPERANDS[operation]:
        if isinstance(fmt, IntegerFormat):
            integers = rng.integers(-128, 128, layer.whole_shape(name)) >> rng.integers(0, 7)
            values[name] = np.where(rng.random(integers.shape) < 0.5, 0, integers).astype(np.int8).view(np.uint8)
            continue
        numbers = rng.standard_normal(layer.whole_shape(name)) * 2.0 ** rng.integers(-12, 8)
        if fmt.name == "bf16":
            numbers *= 2.0 ** (rng.integers(-30, 30, numbers.shape) - 60 * (seed % 3 == 0))
        numbers = np.where(rng.random(numbers.shape) < 0.5, np.copysign(0.0, numbers), numbers)
        for value in (np.inf, -np.inf, np.nan):
            numbers = np.where(rng.random(numbers.shape) < specials / 3 / numbers.size, value, numbers)
        values[name] = encode(numbers.astype(np.float32), fmt)
    return values


def fused(layer: Layer, operation: str, seed: int, *, masked: bool) -> dict[str, np.ndarray]:
    """Draw a bias and a mask, if the operation can have them, with infinities, NaN, subnormals and zeros.

    Some biases overflow a sum's range; others have bits below a sum's last place.
    """
    rng, tensors = np.random.default_rng(seed), {}
    if operation == "AxW" and seed:
        tensors["bias"] = rng.standard_normal((layer.products, layer.filters)).astype(np.float32)
        odd = np.array([0.0, -0.0, 1e-44, -3e38, np.inf, -np.inf, np.nan], np.float32)
        odd = np.concatenate(
            [odd, np.array([2.0**48, -(2.0**48) + 2.0**24, 1.5 * 2.0**-48, -1.5 * 2.0**-47], np.float32)]
        )
        tensors["bias"] = np.where(
            rng.random(tensors["bias"].shape) < 0.3, rng.choice(odd, tensors["bias"].shape), tensors["bias"]
        )
        tensors["bias"] = tensors["bias"][0] if layer.products == 1 else tensors["bias"]
    if masked:
        mask = rng.integers(0, 1 << 16, layer.whole_shape(RESULTS[operation]))
        odd = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x7C00, 0xFC00, 0x7E00, 0xFFFF])
        tensors["mask"] = np.where(rng.random(mask.shape) < 0.7, rng.choice(odd, mask.shape), mask).astype(np.uint16)
    return tensors


def fused_integers(layer: Layer, operation: str, seed: int, *, masked: bool) -> dict[str, np.ndarray]:
    """Draw a bias and a mask in int8, if the operation can have them."""
    rng, tensors = np.random.default_rng(seed), {}
    if operation == "AxW" and seed:
        shape = layer.whole_shape("bias")
        tensors["bias"] = (rng.integers(-(1 << 31), 1 << 31, shape) >> rng.integers(0, 32, shape)).astype(np.int32)
    if masked:
        mask = rng.integers(0, 256, layer.whole_shape(RESULTS[operation]))
        tensors["mask"] = np.where(rng.random(mask.shape) < 0.7, rng.choice([0, 0x80, 1], mask.shape), mask).astype(
            np.uint8
        )
    return tensors


def run_core(core: type[GoldenCore], config: CoreConfig, work: dict, values: dict, options: dict) -> np.ndarray:
    """Return the bits of a result in memory after a core's program."""
    image = TensorImage(config, Memory(1 << 17), work["layer"], work["operation"], values, fp32=options["fp32"])
    problem = Problem(**work, **options, bias="bias" in values, mask="mask" in values)
    space = IterationSpace(problem=problem, core=config)
    schedule = best_schedule(space)
    if core is not GoldenCore:
        schedule = schedule_tiling(space, replace(schedule.tiling, chunk=space.reduction))
    outcome = core(config, image.memory).run(emit(schedule, image.tensors).descriptors)
    assert (outcome.error, outcome.ends) == ("", 1)
    return np.ascontiguousarray(image.result()).view(f"u{4 if options['fp32'] else config.value_bits // 8}")


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("operation", "rows"), CASES)
@pytest.mark.parametrize("name", LAYERS)
def test_memory_of_the_golden_core(name, operation, rows):
    fp16 = (CORE, 0), (CORE, 2), (CORE, 6), (CORE.baseline, 2), (WIDE, 4)
    bf16 = (BF16, 0), (BF16, 0), (BF16, 4), (BF16.baseline, 2)
    for seed, (config, specials) in enumerate((*fp16, *bf16, (INT8, 0), (INT8.baseline, 0), (INT8, 0))):
        values = draw_operands(LAYERS[name], operation, seed, specials, config.tile.a_format)
        work = {"layer": LAYERS[name], "operation": operation, "rows": rows}
        options = {"fp32": seed % 2 == 0, "relu": seed % 5 in (2, 3)}
        draw_fused = fused_integers if config.tile.numerics.result == "int32" else fused
        more = draw_fused(LAYERS[name], operation, seed, masked=not options["fp32"])
        expected = run_core(GoldenCore, config, work, values | more, options)
        np.testing.assert_array_equal(contract(config, **work, values=values, **options, **more), expected)


class FusedCore(GoldenCore):
    """A golden core whose tile has a fused accumulator. Each reduction takes one pass."""

    fused = CORE.tile

    def _block(self, rows, columns):
        products = matmul(columns.transpose(1, 0, 2), rows.transpose(1, 0, 2), self.fused).c_bits
        return [SimpleNamespace(result_bits=lambda bits=int(bits): bits) for bits in products.ravel()]

    def _add(self, block, partial):
        raise AssertionError("a reduction must be one stream here")


@pytest.mark.sampled(14)
@pytest.mark.parametrize(("operation", "rows"), CASES)
@pytest.mark.parametrize("name", [name for name in LAYERS if name != "in chunks"])
def test_order_of_fused_sums(name, operation, rows):
    """The emulator uses the steps, ports and groups of vectors of the core's streams."""
    for seed, config in enumerate((CoreConfig(), CoreConfig().baseline)):
        tile = TileConfig(
            connectivity=config.tile.connectivity,
            staging=config.tile.staging,
            sparsity=config.tile.sparsity,
            accumulator={"fused": 10},
        )
        values = draw_operands(LAYERS[name], operation, seed, specials=2 * seed)
        work = {"layer": LAYERS[name], "operation": operation, "rows": rows}
        core = type("Core", (FusedCore,), {"fused": tile})
        expected = run_core(core, config, work, values, {"fp32": True})
        np.testing.assert_array_equal(contract(tile, **work, values=values, fp32=True), expected)


@pytest.mark.parametrize(("operation", "rows"), CASES)
def test_products_in_parts(operation, rows, monkeypatch):
    """Seven products give the same bits one by one, in parts that do not divide seven, and all together."""
    layer = replace(LAYERS["groups"], products=7)
    values = draw_operands(layer, operation, 3, 2.0)
    more = {"bias": fused(layer, operation, 4, masked=False)["bias"]} if operation == "AxW" else {}
    together = contract(CORE, layer, operation, rows, values, **more)
    one = replace(layer, products=1)
    for k in range(7):
        alone = {name: each[k] for name, each in more.items()}
        found = contract(CORE, one, operation, rows, {name: each[k] for name, each in values.items()}, **alone)
        assert np.array_equal(found, together[k]), k
    macs = np.prod(one.shape("G")) * np.prod(one.shape("W")[1:])
    for batched, values_together in ((2 * macs, 1 << 18), (0, 1 << 18), (7 * macs, 1000), (3 * macs, 1)):
        monkeypatch.setattr(contraction, "BATCHED_MACS", batched)
        monkeypatch.setattr(exact, "BLOCK_VALUES", values_together)
        assert np.array_equal(contract(CORE, layer, operation, rows, values, **more), together)


def test_formats():
    """The sides' formats differ. Results have the column side's format, or INT32 for int8."""
    layer = Layer(samples=1, channels=2, filters=1, size=(1, 1))
    values = {"A": np.full((1, 2, 1, 1), 0x38, np.uint8), "W": np.full((1, 2, 1, 1), 0x3C, np.uint8)}
    mixed = TileConfig(format={"a": "fp8_e4m3", "b": "fp8_e5m2"})
    assert contract(mixed, layer, "AxW", "W", values).tolist() == [[[[0x40]]]]
    swapped = {"A": values["W"], "W": values["A"]}
    assert contract(mixed, layer, "AxW", "A", swapped).tolist() == [[[[0x40]]]]
    int8 = TileConfig(format="int8")
    assert contract(int8, layer, "AxW", "W", values).tolist() == [[[[2 * 0x38 * 0x3C]]]]


LAYER = Layer(samples=1, channels=2, filters=1, size=(1, 1))
ONES = {"A": np.full((1, 2, 1, 1), 0x3C00, np.uint16), "W": np.full((1, 2, 1, 1), 0x3C00, np.uint16)}

BIAS, MASK = np.ones(1, np.float32), np.ones((1, 1, 1, 1), np.uint16)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"config": "core"}, "config must be a CoreConfig or a TileConfig, not 'core'"),
        ({"operation": "AxA"}, "operation must be one of AxW, WxG, AxG, not 'AxA'"),
        ({"rows": "G"}, "rows must be one of A, W, not 'G'"),
        ({"values": ONES | {"W": ONES["W"][0]}}, r"W must have shape \(1, 2, 1, 1\), not \(2, 1, 1\)"),
        ({"values": ONES | {"A": ONES["A"].astype(np.float16)}}, "A must be an array of fp16 bit patterns"),
        ({"values": {"A": ONES["A"]}}, "values must have A and W, not A"),
        ({"config": TileConfig(format="int8"), "relu": True}, "relu must be left out for a tile in int8"),
        ({"config": TileConfig(format="int8"), "bias": BIAS}, "bias must be left out for a tile in int8"),
        ({"config": TileConfig(format="int8"), "mask": MASK}, "mask must be left out for a tile in int8"),
        (
            {"config": TileConfig(accumulator={"fused": 10}), "bias": BIAS},
            "bias must be left out for a fused accumulator",
        ),
        ({"operation": "WxG", "rows": "W", "values": ONES | {"G": MASK}, "bias": BIAS}, "bias .* none for WxG"),
        ({"bias": BIAS[None]}, r"bias must be float32 of shape \(1,\), not float32 of shape \(1, 1\)"),
        ({"bias": BIAS.astype(np.float64)}, r"bias must be float32 of shape \(1,\), not float64"),
        ({"bias": 1.0}, r"bias must be float32 of shape \(1,\), not 1.0"),
        ({"mask": MASK[0]}, r"mask must be of shape \(1, 1, 1, 1\), not of shape \(1, 1, 1\)"),
        ({"mask": MASK, "fp32": True}, "mask must be none for FP32 results"),
        ({"config": load_preset("nvfp4")}, 'tile.scale must be "none" for operations of layers, not "e4m3"'),
        ({"mask": MASK.astype(np.float16)}, "mask must be an array of fp16 bit patterns"),
    ],
)
def test_invalid_arguments(changed, message):
    arguments = {"config": CORE, "layer": LAYER, "operation": "AxW", "rows": "A", "values": ONES}
    with pytest.raises((TypeError, ValueError), match=message):
        contract(**{**arguments, **changed})
