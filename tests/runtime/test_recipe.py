"""Compare NVFP4's training recipe with its definition in plain NumPy."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tensordash import load_preset
from tensordash.configuration.formats import FORMATS, SCALES, FloatFormat
from tensordash_runtime import Device, Recipe, offload
from tensordash_runtime.recipe import bf16_tile, hadamard_matrix, hadamard_transform
from tensordash_sim.golden.block_scales import quantise_blocks
from tensordash_sim.lowering import MatrixProduct

from ..sim.lowering.geometries import convolution

ELEMENTS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
SCALE_VALUES = np.array(
    [code * 2.0**-9 for code in range(8)] + [2.0**e * (1 + f / 8) for e in range(-6, 9) for f in range(8)]
)
SCALE_VALUES = SCALE_VALUES[:127]  # The last code is NaN.
FP4, E4M3 = FORMATS["fp4_e2m1"], SCALES["e4m3"]
LAYER = MatrixProduct(batch=1, samples=40, in_features=70, out_features=24)
QUIET = Recipe(bf16_layers=())


def nearest(value: float, table: NDArray[np.float64]) -> float:
    """Return the table's nearest value; in a tie, the one with an even index."""
    distances = np.abs(table - value)
    codes = np.flatnonzero(distances == distances.min())
    return float(table[codes[codes % 2 == 0][0] if len(codes) > 1 else codes[0]])


def square_blocks(weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """Quantise a matrix to NVFP4 with 16 x 16 blocks, value by value (arXiv:2509.25149, appendix B)."""
    rounded = np.zeros(weights.shape)
    tensor = float(np.float32(np.abs(weights.astype(np.float64)).max() / (448 * 6)))
    for y in range(0, weights.shape[0], 16):
        for x in range(0, weights.shape[1], 16):
            block = weights[y : y + 16, x : x + 16].astype(np.float64)
            scale = nearest(np.abs(block).max() / (6 * tensor), SCALE_VALUES) * tensor
            for index, value in np.ndenumerate(block):
                if scale:
                    rounded[y + index[0], x + index[1]] = np.sign(value) * scale * nearest(abs(value) / scale, ELEMENTS)
    return rounded


def quantise_values(values: NDArray[np.float32], height: int) -> NDArray[np.float64]:
    blocks = quantise_blocks(values, fp4(), E4M3, block_height=height)
    table = np.concatenate([ELEMENTS, -ELEMENTS])
    scales = np.repeat(SCALE_VALUES[blocks.scales], 16, axis=-1)[..., : values.shape[-1]]
    return np.asarray(table[blocks.bits] * scales * blocks.tensor)


def fp4() -> FloatFormat:
    assert isinstance(FP4, FloatFormat)
    return FP4


def draw_operands(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * np.exp2(rng.integers(-5, 5, shape))).astype(np.float32)


def operands() -> dict[str, NDArray[np.float32]]:
    return {name: draw_operands(*LAYER.shapes[name], seed=seed) for seed, name in enumerate("AWG")}


# The transform


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_the_transform_is_orthonormal(seed: int) -> None:
    matrix = hadamard_matrix(seed)
    assert np.array_equal(matrix @ matrix.T, np.eye(16))
    assert np.array_equal(np.abs(matrix), np.full((16, 16), 0.25))


def test_signs_follow_from_the_seed() -> None:
    signs = {seed: tuple(np.sign(hadamard_matrix(seed)[:, 0])) for seed in range(20)}
    assert len(set(signs.values())) == 20
    assert all(-1 in each and 1 in each for each in signs.values())
    hadamard_matrix.cache_clear()
    assert tuple(np.sign(hadamard_matrix(3)[:, 0])) == signs[3]


@pytest.mark.parametrize("rows", [16, 20, 5, 48])
def test_transform_preserves_products(rows: int) -> None:
    """Small integers give the same bits, since they are not rounded."""
    rng = np.random.default_rng(rows)
    a, g = (rng.integers(-8, 9, (2, rows, columns)).astype(np.float32) for columns in (7, 3))
    x, y = (hadamard_transform(each, hadamard_matrix(rows)).astype(np.float64) for each in (a, g))
    assert x.shape == (2, -(-rows // 16) * 16, 7)
    assert np.array_equal(y.mT @ x, g.astype(np.float64).mT @ a.astype(np.float64))
    assert not np.array_equal(x[:, :rows], a)


def test_an_outlier_is_spread_over_its_block() -> None:
    values = np.zeros((32, 1), np.float32)
    values[18] = 8
    transformed = hadamard_transform(values, hadamard_matrix(0))
    assert np.array_equal(np.abs(transformed[:, 0]), [0] * 16 + [2] * 16)


def test_random_signs_precede_the_transform() -> None:
    """Without signs, a constant block would become a single outlier of 4."""
    for seed in range(20):
        transformed = hadamard_transform(np.ones((16, 1), np.float32), hadamard_matrix(seed))
        assert np.abs(transformed).max() < 4
        assert np.square(transformed).sum() == 16


# Scales of 16 x 16 blocks


@pytest.mark.parametrize("shape", [(16, 16), (40, 70), (5, 33), (33, 5)])
def test_square_blocks_are_as_defined(shape: tuple[int, int]) -> None:
    weights = draw_operands(*shape)
    weights[:16, :16] *= shape[0] < 20  # Larger matrices have a block of zeros.
    assert np.array_equal(quantise_values(weights, 16), square_blocks(weights))


def test_a_weight_and_its_transpose_have_the_same_values() -> None:
    weights = draw_operands(40, 70)
    assert np.array_equal(quantise_values(weights, 16), quantise_values(np.ascontiguousarray(weights.T), 16).T)
    assert not np.array_equal(quantise_values(weights, 1), quantise_values(np.ascontiguousarray(weights.T), 1).T)


def test_square_blocks_repeat_one_scale() -> None:
    """The tile receives ordinary blocks of 1 x 16."""
    scales = quantise_blocks(draw_operands(40, 70), fp4(), E4M3, block_height=16).scales
    assert np.array_equal(scales, scales[np.arange(40) // 16 * 16])


def test_a_block_with_a_value_that_is_not_finite_has_no_number() -> None:
    weights = draw_operands(40, 40)
    weights[20, 3] = np.inf
    scales = quantise_blocks(weights, fp4(), E4M3, block_height=16).scales
    bad = np.zeros((40, 3), bool)
    bad[16:32, 0] = True
    assert np.array_equal(scales == E4M3.nan, bad)


# A device


@pytest.mark.parametrize("as_tensors", [False, True])
def test_both_passes_multiply_the_same_weights(as_tensors: bool) -> None:
    values = operands()
    weights = square_blocks(values["W"][0])
    with Device("nvfp4", recipe=QUIET, rounding="nearest") as device:
        for operation, other, matrix in (("AxW", "A", weights.T), ("WxG", "G", weights)):
            pair: dict[str, Any] = {"W": values["W"], other: values[other]}
            if as_tensors:
                pair = {name: torch.from_numpy(each) for name, each in pair.items()}
            done = device.contract(LAYER, operation, pair)
            expected = quantise_values(values[other][0], 1) @ matrix
            assert isinstance(done.result, torch.Tensor) == as_tensors
            np.testing.assert_allclose(done.result[0], expected, rtol=3e-7, atol=1e-12 * np.abs(expected).max())
            counts = done.executed.operands["W"]
            assert counts.zeros + counts.flushed == np.count_nonzero(weights == 0)


def test_only_linear_layers_have_square_blocks() -> None:
    batched, image = (
        MatrixProduct(batch=2, samples=4, in_features=40, out_features=40),
        convolution(batch=1, channels=(16, 16), size=(4, 4), kernel=(3, 3)),
    )
    with Device("nvfp4", recipe=QUIET) as device, Device("nvfp4", rounding="stochastic") as plain:
        for geometry in (batched, image):
            for operation in ("AxW", "WxG", "AxG"):
                pair = {name: draw_operands(*geometry.shapes[name]) for name in operation.replace("x", "")}
                results = [each.contract(geometry, operation, pair).result for each in (device, plain)]
                assert np.array_equal(*results)


def test_weight_gradients_are_products_of_transformed_operands() -> None:
    """The transform removes zeros, and the tile's speedup with them."""
    values = {name: each for name, each in operands().items() if name != "W"}
    values["G"][:, :, ::2] = 0
    values["G"][:, ::3] = 0
    matrix = hadamard_matrix(5)
    transformed = {name: hadamard_transform(each, matrix) for name, each in values.items()}
    wide = MatrixProduct(batch=1, samples=48, in_features=70, out_features=24)
    with Device("nvfp4", recipe=Recipe(seed=5), rounding="nearest") as device, Device("nvfp4") as plain:
        done, expected = device.contract(LAYER, "AxG", values), plain.contract(wide, "AxG", transformed)
        without = plain.contract(LAYER, "AxG", values)
    assert np.array_equal(done.result, expected.result)
    assert done.executed.zeros == expected.executed.zeros
    assert done.executed.zeros["G"] < without.executed.zeros["G"]
    assert done.executed.speedup == expected.executed.speedup < without.executed.speedup


def test_only_gradients_are_rounded_stochastically() -> None:
    values = operands()
    with Device("nvfp4", recipe=QUIET) as device, Device("nvfp4", recipe=QUIET, rounding="nearest") as nearest:
        for operation, same in (("AxW", True), ("WxG", False), ("AxG", False)):
            pair = {name: values[name] for name in operation.replace("x", "")}
            one, other = (each.contract(LAYER, operation, pair).result for each in (device, nearest))
            assert np.array_equal(one, other) == same


def test_recipe_changes_the_default_rounding() -> None:
    for recipe, rounding in ((None, "nearest"), (QUIET, "stochastic")):
        with Device("nvfp4", recipe=recipe) as device:
            assert device.rounding == rounding


def test_layers_in_bf16_run_on_a_tile_of_bf16() -> None:
    values = operands()
    recipe = Recipe(bf16_layers=("*.down",))
    with Device("nvfp4", recipe=recipe) as device, Device(bf16_tile(load_preset("nvfp4"))) as bf16:
        for operation in ("AxW", "WxG", "AxG"):
            pair = {name: values[name] for name in operation.replace("x", "")}
            down, up = (device.contract(LAYER, operation, pair, layer=name).result for name in ("b.down", "b.up"))
            assert np.array_equal(down, bf16.contract(LAYER, operation, pair).result)
            assert not np.array_equal(down, up)
        tensors = {name: torch.from_numpy(values[name]).bfloat16() for name in "AW"}
        down = device.contract(LAYER, "AxW", tensors, layer="b.down").result
        assert torch.equal(down, bf16.contract(LAYER, "AxW", tensors).result)
        assert down.dtype is torch.bfloat16


def test_bf16_layers_are_selected_by_name() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.ReLU(), torch.nn.Linear(48, 16))
    x = torch.from_numpy(draw_operands(32, 32))
    errors = []
    for layers in ((), ("2",), ("*",)):
        with Device("nvfp4", recipe=Recipe(bf16_layers=layers)) as device, offload(device, model=model) as run:
            output = model(x)
            output.sum().backward()
        assert run.missed == []
        errors.append(float((output - model(x)).detach().square().mean()))
    assert errors[0] > errors[1] > 100 * errors[2] > 0


def test_equal_seeds_give_equal_results() -> None:
    values = {name: each for name, each in operands().items() if name != "W"}

    def gradient(seed: int, rounding_seed: int) -> Any:
        with Device("nvfp4", recipe=Recipe(seed=seed), rounding_seed=rounding_seed) as device:
            return device.contract(LAYER, "AxG", values).result

    first = gradient(1, 2)
    assert np.array_equal(first, gradient(1, 2))
    assert not np.array_equal(first, gradient(3, 2))
    assert not np.array_equal(first, gradient(1, 3))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"square_blocks": 1}, TypeError, "square_blocks must be true or false, not 1"),
        ({"hadamard": None}, TypeError, "hadamard must be true or false, not None"),
        ({"seed": -1}, ValueError, "seed must be an integer from 0 to 4294967295, not -1"),
        ({"bf16_layers": "head"}, TypeError, "bf16_layers must be a tuple of patterns of layers' names, not 'head'"),
        ({"bf16_layers": ("",)}, TypeError, "bf16_layers must be a tuple of patterns of layers' names, not ('',)"),
    ],
)
def test_bad_recipes_are_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        Recipe(**change)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("preset", "wrong"),
    [
        ("core", "core with core.nvfp4 = false"),
        ("mxfp8", 'tile with tile.scale = "e8m0"'),
        ("paper", 'tile with tile.scale = "none"'),
    ],
)
def test_recipe_is_refused_on_other_devices(preset: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"recipe must be left out for a {wrong}: it is for NVFP4, that is, a core"):
        Device(preset, recipe=QUIET)
    with pytest.raises(TypeError, match="recipe must be a Recipe or None, not 'nvfp4'"):
        Device("nvfp4", recipe="nvfp4")  # type: ignore[arg-type]


def test_operands_of_another_type_are_refused() -> None:
    values = {name: each.astype(np.float16) for name, each in operands().items() if name != "W"}
    with Device("nvfp4", recipe=QUIET) as device, pytest.raises(TypeError, match="operands must both be float32"):
        device.contract(LAYER, "AxG", values)
