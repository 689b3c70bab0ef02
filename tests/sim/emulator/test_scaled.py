"""Compare operations on tiles with scales with explicit windows and with value-level quantisation."""

import numpy as np
import pytest

from tensordash import ConfigError, TileConfig, load_preset
from tensordash.configuration.formats import FORMATS, SCALES, FloatFormat
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.emulator import contract, contract_scaled
from tensordash_sim.evaluation.block_formats import BLOCK_FORMATS, quantise
from tensordash_sim.golden import to_float
from tensordash_sim.golden.block_scales import quantise_blocks, scale_values

NVFP4 = load_preset("nvfp4")
WIDE = TileConfig(
    format={"a": "fp8_e4m3", "b": "fp4_e2m1"}, scale="e8m0", accumulator={"fused": 28, "rounding": "nearest"}
)
LAYERS = {
    "matrix": Layer(samples=1, channels=70, filters=5, size=(1, 9)),
    "products": Layer(samples=1, channels=33, filters=3, size=(1, 4), products=3),
    "convolution": Layer(samples=2, channels=5, filters=6, size=(6, 7), kernel=(3, 2), padding=1),
    "strided": Layer(samples=3, channels=9, filters=4, size=(7, 8), kernel=(3, 3), stride=2, padding=1),
}


def draw_operands(layer: Layer, operation: str, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    operands = {}
    for name in OPERANDS[operation]:
        values = rng.standard_normal(layer.whole_shape(name)) * np.exp2(rng.integers(-6, 6, layer.whole_shape(name)))
        operands[name] = np.where(rng.random(values.shape) < 0.4, 0, values).astype(np.float32)
    return operands


def reference_results(
    layer: Layer, operation: str, values: dict[str, np.ndarray], kinds: dict[str, str], filled: int
) -> np.ndarray:
    """Compute each result from its two vectors, which `list_pairs` lists as pairs."""
    out = np.zeros(layer.whole_shape({"AxW": "G", "WxG": "A", "AxG": "W"}[operation]))
    for index in np.ndindex(out.shape):
        pairs = list(list_pairs(layer, operation, values, index, filled))
        sides = []
        for which, name in enumerate(OPERANDS[operation]):
            vector = np.array([pair[which] for pair in pairs])
            # A first block holds the tensor's largest value, which determines NVFP4's scale of the tensor.
            head = np.zeros(32)
            head[0] = np.abs(values[name]).max()
            sides.append(quantise(np.concatenate([head, vector]), BLOCK_FORMATS[kinds[name]], 0)[32:])
        out[index] = sides[0] @ sides[1]
    return out


def list_pairs(layer, operation, values, index, filled):
    """Yield pairs in the order of a stream, with zeros where channels or filters are padded."""
    lead, index = (index[:1], index[1:]) if layer.products > 1 else ((), index)
    first, second = (values[name][lead] if lead else values[name] for name in OPERANDS[operation])
    rows, columns = layer.output_size
    (sy, sx), (py, px) = layer.stride, layer.padding
    if operation == "AxW":
        n, f, y, x = index
        for i in range(layer.kernel[0]):
            for j in range(layer.kernel[1]):
                at = y * sy + i - py, x * sx + j - px
                inside = 0 <= at[0] < layer.size[0] and 0 <= at[1] < layer.size[1]
                for c in range(-(-layer.channels // filled) * filled):
                    in_bounds = c < layer.channels
                    yield (
                        (first[n, c, *at] if in_bounds and inside else 0.0),
                        (second[f, c, i, j] if in_bounds else 0.0),
                    )
    elif operation == "WxG":
        n, c, y, x = index
        for i in range(layer.kernel[0]):
            for j in range(layer.kernel[1]):
                (oy, ry), (ox, rx) = divmod(y - i + py, sy), divmod(x - j + px, sx)
                if ry or rx:
                    continue  # This tap reads outside of the input.
                inside = 0 <= oy < rows and 0 <= ox < columns
                for f in range(-(-layer.filters // filled) * filled):
                    in_bounds = f < layer.filters
                    yield (
                        (first[n, f, oy, ox] if in_bounds and inside else 0.0),
                        (second[f, c, i, j] if in_bounds else 0.0),
                    )
    else:
        f, c, i, j = index
        for n in range(layer.samples):
            for y in range(rows):
                for x in range(-(-columns // filled) * filled):
                    at = y * sy + i - py, x * sx + j - px
                    inside = 0 <= at[0] < layer.size[0] and 0 <= at[1] < layer.size[1]
                    in_bounds = x < columns
                    yield (first[n, f, y, x] if in_bounds else 0.0), (second[n, c, *at] if inside else 0.0)


@pytest.mark.parametrize("operation", OPERANDS)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("which", [0, 1])
def test_results_match_explicit_vectors(name, operation, which):
    layer, rows = LAYERS[name], OPERANDS[operation][which]
    values = draw_operands(layer, operation, seed=which)
    # Exact sums are rounded once, and their products with the tensors' scales once more.
    results = contract_scaled(NVFP4, layer, operation, rows, values)
    filled = NVFP4.lanes if operation == "AxG" else 1
    expected = reference_results(layer, operation, values, dict.fromkeys(values, "nvfp4"), filled)
    # The reference adds in float64, whose error after cancellation depends on the machine.
    np.testing.assert_allclose(results, expected, rtol=3e-7, atol=1e-13 * np.abs(expected).max())
    # Fused sums are wide enough for these numbers.
    results = contract_scaled(WIDE, layer, operation, rows, values)
    kinds = {name: "mxfp4" if name == rows else "mxfp8_e4m3" for name in values}
    expected = reference_results(layer, operation, values, kinds, WIDE.lanes)
    np.testing.assert_allclose(results, expected, rtol=1e-6, atol=1e-5 * np.abs(expected).max())


def test_non_finite_block_gives_nan():
    layer = LAYERS["matrix"]
    for tile in (NVFP4, WIDE):
        for rows in ("A", "W"):
            values = draw_operands(layer, "AxW", seed=3)
            values["A"][0, 40, 0, 2] = np.inf
            values["W"][1, 3] = np.nan
            results = contract_scaled(tile, layer, "AxW", rows, values)
            bad = np.zeros(results.shape, bool)
            bad[:, :, :, 2] = bad[:, 1] = True
            np.testing.assert_array_equal(np.isnan(results), bad, err_msg=f"{tile.scale} {rows}")


@pytest.mark.parametrize(("element", "scale"), [("fp8_e4m3", "e8m0"), ("fp4_e2m1", "e8m0"), ("fp4_e2m1", "e4m3")])
def test_stochastic_rounding_is_unbiased(element, scale):
    """Over 4 million numbers, the mean error is far below rounding to nearest's."""
    fmt, kind = FORMATS[element], SCALES[scale]
    assert isinstance(fmt, FloatFormat)
    rng = np.random.default_rng(5)
    values = np.tile(rng.standard_normal(64).astype(np.float32), (1 << 16, 1))
    random = rng.integers(0, 1 << 16, values.shape, dtype=np.uint16)
    table = np.array([to_float(bits, fmt) for bits in range(1 << fmt.width)])

    def dequantise(blocks):
        return table[blocks.bits] * np.repeat(scale_values(blocks.scales, kind), kind.block, axis=1) * blocks.tensor

    stochastic = dequantise(quantise_blocks(values, fmt, kind, random=random))
    nearest = dequantise(quantise_blocks(values[:1], fmt, kind))[0]
    scales = quantise_blocks(values[:1], fmt, kind).scales
    np.testing.assert_array_equal(
        quantise_blocks(values, fmt, kind, random=random).scales, np.tile(scales, (1 << 16, 1))
    )
    # Values above the largest element become it, for all random bits.
    top = to_float(fmt.largest, fmt) * np.repeat(scale_values(scales, kind), kind.block, axis=1)[0]
    within = np.abs(values[0]) <= top * quantise_blocks(values[:1], fmt, kind).tensor
    assert within.sum() > 50
    errors = np.abs(stochastic.mean(axis=0) - values[0])[within]
    gaps = stochastic.std(axis=0)[within] / 256  # This is the error of the mean of 2^16 numbers.
    assert (errors <= 5 * gaps + np.abs(values[0][within]) * 2.0**-16).all()
    assert np.abs(nearest - values[0])[within].max() > 20 * errors.max()


def test_stochastic_rounding_returns_neighbours():
    """Random bits of zero round toward zero. All ones round away from zero unless the value is exact."""
    fmt, kind = FORMATS["fp4_e2m1"], SCALES["e8m0"]
    assert isinstance(fmt, FloatFormat)
    values = np.zeros((1, 32), np.float32)
    values[0, :9] = [4.0, 0.3, -0.3, 1.75, -2.0, 3.5, 0.0, -0.0, 1e-9]
    down, up = (
        quantise_blocks(values, fmt, kind, random=np.full((1, 32), r, np.uint16)).bits[0, :9] for r in (0, 0xFFFF)
    )
    table = np.array([to_float(bits, fmt) for bits in range(16)])
    assert table[down].tolist() == [4.0, 0.0, 0.0, 1.5, -2.0, 3.0, 0.0, 0.0, 0.0]
    assert table[up].tolist() == [4.0, 0.5, -0.5, 2.0, -2.0, 4.0, 0.0, 0.0, 0.0]


def test_only_gradients_are_rounded_stochastically():
    layer = LAYERS["convolution"]
    values = draw_operands(layer, "AxW", seed=7)
    np.testing.assert_array_equal(
        contract_scaled(NVFP4, layer, "AxW", "A", values), contract_scaled(NVFP4, layer, "AxW", "A", values, seed=1)
    )
    for operation in ("WxG", "AxG"):
        values = draw_operands(layer, operation, seed=7)
        nearest, first, second, other = (
            contract_scaled(NVFP4, layer, operation, "G", values, seed=seed) for seed in (None, 1, 1, 2)
        )
        np.testing.assert_array_equal(first, second)
        assert (first != nearest).any()
        assert (first != other).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"operation": "AxB"}, "operation must be one of AxW, WxG, AxG, not 'AxB'"),
        ({"rows": "G"}, "rows must be one of A, W, not 'G'"),
        ({"values": {"A": np.zeros((1, 70, 1, 9), np.float32)}}, "W must be float32 of shape (5, 70, 1, 1), not None"),
        (
            {"values": {"A": np.zeros((1, 70, 1, 9)), "W": None}},
            "A must be float32 of shape (1, 70, 1, 9), not float64",
        ),
    ],
)
def test_bad_input_is_refused(change, message):
    arguments = {"operation": "AxW", "rows": "A", "values": draw_operands(LAYERS["matrix"], "AxW", 0)} | change
    with pytest.raises(ValueError, match="must") as error:
        contract_scaled(NVFP4, LAYERS["matrix"], **arguments)
    assert message in str(error.value)


def test_functions_refuse_other_tiles():
    layer = LAYERS["matrix"]
    with pytest.raises(TypeError, match="tile must be a TileConfig with scales"):
        contract_scaled(TileConfig(), layer, "AxW", "A", draw_operands(layer, "AxW", 0))
    with pytest.raises(ConfigError, match="tile.scale must be"):
        contract(NVFP4, layer, "AxW", "A", draw_operands(layer, "AxW", 0))
