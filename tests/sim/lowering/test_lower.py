"""Compare the words and counts of the fast lowering with the reference's streams."""

from typing import Any

import numpy as np
import pytest

from tensordash_sim.lowering import Convolution, MatrixProduct, Operation, Vectors, lower

from .conftest import CHOSEN, convolution
from .reference import FRAGMENT, OUTSIDE, ReferenceSide, reference_streams


def packed(values: np.ndarray) -> np.ndarray:
    """Pack (batch, count, steps, lanes) into words, (batch * count, steps)."""
    weights = np.uint32(1) << np.arange(values.shape[-1], dtype=np.uint32)
    words = np.where(values != 0, weights, 0).sum(axis=-1, dtype=np.uint32)
    return words.reshape(-1, words.shape[-1])


def blocks_read(side: ReferenceSide, group, geometry, operation: Operation, lanes: int) -> int:
    """Count the distinct blocks that a group reads, by enumerating its reads."""
    shape = geometry.shapes[side.name]
    places = side.places.reshape(-1, side.places[0, 0].size)
    read = {int(place) for vector in group if vector >= 0 for place in places[vector] if place >= 0}
    blocks: set[tuple[Any, ...]] = set()
    for place in read:
        index: list[Any] = list(np.unravel_index(place, shape))
        if operation is Operation.WEIGHT_GRADIENT and isinstance(geometry, Convolution):
            spatial = np.ravel_multi_index(index[2:], shape[2:])
            blocks.add((index[0], index[1], spatial // lanes))
            continue
        if isinstance(geometry, MatrixProduct):
            reduced = {"AxW": 2, "WxG": 1 if side.name == "W" else 2, "AxG": 1}[operation]
            index[reduced] = index[reduced] // lanes
        elif side.name == "W" and operation is Operation.INPUT_GRADIENT:
            group_of, filter_of = divmod(index[0], geometry.out_channels // geometry.groups)
            index[0] = (group_of, filter_of // lanes)
        elif side.name == "W":
            index[1] = index[1] // lanes
        else:
            group_of, channel = divmod(index[1], shape[1] // geometry.groups)
            index[1] = (group_of, channel // lanes)
        blocks.add(tuple(index))
    return len(blocks)


@pytest.fixture
def sides(geometry, values, lanes, operation) -> list[tuple[Vectors, ReferenceSide]]:
    masks = {name: tensor != 0 for name, tensor in values.items()}
    products = lower(geometry, operation, masks, lanes)
    references = list(reference_streams(geometry, operation, values, lanes))
    assert [product.operation for product in products] == [operation] * len(references)
    found = []
    for product, reference in zip(products, references, strict=True):
        assert product.outputs == reference.outputs.size
        assert product.positions == product.outputs * reference.left.places[0, 0].size
        found += [(product.left, reference.left), (product.right, reference.right)]
    return found


@pytest.mark.parametrize("operation", Operation)
class TestSides:
    def test_shape_matches_the_reference(self, sides, lanes):
        for side, reference in sides:
            assert (side.batch, side.count, side.steps, side.lanes) == reference.places.shape
            assert (side.name, side.lanes) == (reference.name, lanes)

    def test_words_match_the_reference(self, sides):
        for side, reference in sides:
            words = side.words(np.arange(side.batch * side.count))
            assert words.dtype == np.uint32
            np.testing.assert_array_equal(words, packed(reference.values))

    def test_words_in_any_order(self, sides, rng):
        for side, reference in sides:
            chosen = rng.integers(-1, side.batch * side.count, 20)
            expected = np.where(chosen[:, None] >= 0, packed(reference.values)[chosen], 0)
            np.testing.assert_array_equal(side.words(chosen), expected)

    def test_fragmentation_and_padding(self, sides):
        for side, reference in sides:
            assert side.fragmentation == np.count_nonzero(reference.places == FRAGMENT)
            assert side.padding == np.count_nonzero(reference.places == OUTSIDE)

    def test_distinct_blocks(self, sides, rng, geometry, operation, lanes):
        for side, reference in sides:
            total = side.batch * side.count
            groups = np.concatenate([rng.integers(-1, total, (4, 5)), rng.integers(0, total, (6, 1)) + np.arange(5)])
            groups[groups >= total] = -1
            expected = [blocks_read(reference, group, geometry, operation, lanes) for group in groups.tolist()]
            assert side.distinct_blocks(groups).tolist() == expected


@pytest.mark.parametrize("operation", Operation)
def test_positions_are_macs_fragmentation_and_padding(geometry, values, lanes, operation):
    """Positions minus fragmentation (both sides) and padding (one side) are the multiplications."""
    masks = {name: tensor != 0 for name, tensor in values.items()}
    inside = 0
    for product in lower(geometry, operation, masks, lanes):
        left, right = product.left, product.right
        assert left.fragmentation * right.count == right.fragmentation * left.count
        assert left.padding == 0 or right.padding == 0
        wasted = left.fragmentation * right.count + left.padding * right.count + right.padding * left.count
        inside += product.positions - wasted
    assert inside == geometry.macs


class TestLower:
    def test_phases_without_taps_are_left_out(self):
        layer = CHOSEN["1x1 stride 2"]
        masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
        (product,) = lower(layer, Operation.INPUT_GRADIENT, masks, lanes=4)
        assert product.right.count == 2 * 3 * 2

    @pytest.mark.parametrize("operation", Operation)
    def test_groups_share_one_product(self, operation):
        layer = CHOSEN["depthwise"]
        masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
        (product,) = lower(layer, operation, masks, lanes=4)
        assert product.left.batch == product.right.batch == (12 if operation is Operation.WEIGHT_GRADIENT else 6)

    @pytest.mark.parametrize("operation", Operation)
    def test_masks_of_any_memory_order(self, operation, rng):
        layer = CHOSEN["3x3"]
        masks = {name: rng.random(shape) < 0.5 for name, shape in layer.shapes.items()}
        turned = {name: np.asfortranarray(mask) for name, mask in masks.items()}
        for one, other in zip(lower(layer, operation, masks, 4), lower(layer, operation, turned, 4), strict=True):
            for side in ("left", "right"):
                first, second = getattr(one, side), getattr(other, side)
                chosen = np.arange(first.batch * first.count)
                np.testing.assert_array_equal(first.words(chosen), second.words(chosen))

    def test_more_bitmaps_than_are_held_at_once(self):
        layer = convolution(channels=(60, 1), size=(600, 600), kernel=(3, 3), padding=(1, 1))
        masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
        (product,) = lower(layer, Operation.WEIGHT_GRADIENT, masks, lanes=4)
        groups = np.tile(np.arange(60 * 9).reshape(-1, 6), (20, 1))
        assert product.left.distinct_blocks(groups[::-1]).tolist() == [*product.left.distinct_blocks(groups[:90])] * 20

    @pytest.mark.parametrize(
        ("change", "error", "message"),
        [
            ({"lanes": 1}, ValueError, "lanes must be an integer from 2 to 32, not 1"),
            ({"lanes": 4.0}, TypeError, "lanes must be an integer from 2 to 32, not 4.0"),
            ({"operation": "AxA"}, ValueError, "operation must be one of AxG, AxW, WxG, not 'AxA'"),
            ({"operands": {}}, ValueError, "operands must hold A, not only nothing"),
            ({"operands": {"A": None}}, TypeError, "operand A must be an array of bool, not of"),
            ({"operands": {"A": np.ones((1, 2, 3))}}, TypeError, "operand A must be an array of bool, not of float64"),
            (
                {"operands": {"A": np.ones((1, 2, 4), bool)}},
                ValueError,
                r"operand A must be of shape \(1, 2, 3\), not \(1, 2, 4\)",
            ),
            ({"operands": {"A": np.ones((1, 2, 3), bool)}}, ValueError, "operands must hold W, not only A"),
        ],
    )
    def test_errors(self, change, error, message):
        layer = MatrixProduct(batch=1, samples=2, in_features=3, out_features=4)
        masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
        arguments = {"geometry": layer, "operation": Operation.FORWARD, "operands": masks, "lanes": 4} | change
        with pytest.raises(error, match=message):
            lower(**arguments)


class TestVectorNumbers:
    @pytest.fixture(params=[("linear", "right"), ("3x3", "left"), ("3x3 AxG", "left")])
    def side(self, request) -> Vectors:
        name, which = request.param
        operation = Operation.WEIGHT_GRADIENT if name.endswith("AxG") else Operation.FORWARD
        layer = CHOSEN[name.removesuffix(" AxG")]
        masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
        return getattr(lower(layer, operation, masks, 4)[0], which)

    def test_out_of_range(self, side):
        last = side.batch * side.count - 1
        for wrong in (-2, last + 1):
            with pytest.raises(ValueError, match=f"vectors must be from -1 to {last}, not {wrong}"):
                side.words(np.array([0, wrong]))
            with pytest.raises(ValueError, match=f"vectors must be from -1 to {last}, not {wrong}"):
                side.distinct_blocks(np.array([[0, wrong]]))

    def test_wrong_number_of_dimensions(self, side):
        with pytest.raises(ValueError, match="vectors must be an array of 1 dimensions, not 2"):
            side.words(np.zeros((1, 1), np.int64))
        with pytest.raises(ValueError, match="vectors must be an array of 2 dimensions, not 1"):
            side.distinct_blocks(np.zeros(1, np.int64))

    def test_empty_vectors(self, side):
        assert side.words(np.zeros(0, np.int64)).shape == (0, side.steps)
        assert side.distinct_blocks(np.zeros((0, 4), np.int64)).tolist() == []
        assert side.distinct_blocks(np.full((2, 3), -1)).tolist() == [0, 0]
