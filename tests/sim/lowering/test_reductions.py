"""Test the axis along which an operand is reduced."""

import numpy as np
import pytest

from tensordash_sim.lowering import Convolution, MatrixProduct, Operation, reduction

from .geometries import convolution

GROUPED = convolution(batch=2, channels=(6, 4), size=(3, 5), kernel=(1, 1), groups=2)  # fmt: skip
LINEAR = MatrixProduct(batch=2, samples=3, in_features=4, out_features=5)


def along(values: np.ndarray, layer: Convolution | MatrixProduct, operation: Operation, name: str) -> np.ndarray:
    shape, axis = reduction(layer, operation, name)
    return np.moveaxis(values.reshape(shape), axis, -1)


def draw_operands(layer: Convolution | MatrixProduct) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.integers(1, 9, shape) for name, shape in layer.shapes.items()}


def test_reduction_axis_of_matrix_products() -> None:
    # In a matrix product, the other axes are rows of both operands of one product.
    values = draw_operands(LINEAR)
    for operation in Operation:
        left, right = (along(values[name], LINEAR, operation, name) for name in (operation.left, operation.right))
        assert left.shape[-1] == right.shape[-1]
        a, w, g = values["A"], values["W"], values["G"]
        expected = {
            Operation.FORWARD: a @ w.swapaxes(1, 2),
            Operation.INPUT_GRADIENT: w.swapaxes(1, 2) @ g.swapaxes(1, 2),
            Operation.WEIGHT_GRADIENT: a.swapaxes(1, 2) @ g,
        }[operation]
        assert np.array_equal(left @ right.swapaxes(1, 2), expected)


def test_convolutions_have_groups() -> None:
    # With a kernel of 1 x 1 a convolution is a matrix product for each group.
    values = draw_operands(GROUPED)
    a, w, g = (values[name] for name in "AWG")
    windows, filters = (along(values[name], GROUPED, Operation.FORWARD, name) for name in "AW")
    assert windows.shape == (2, 2, 3, 5, 3)
    assert filters.shape == (4, 1, 1, 3)
    assert np.array_equal(windows[1, 1, 2, 4], a[1, 3:, 2, 4])
    assert np.array_equal(filters[3, 0, 0], w[3, :, 0, 0])
    channels, windows = (along(values[name], GROUPED, Operation.INPUT_GRADIENT, name) for name in "WG")
    assert np.array_equal(channels[1, 2, 0, 0], w[2:, 2, 0, 0]), "filters of the second group"
    assert np.array_equal(windows[1, 1, 2, 4], g[1, 2:, 2, 4])
    planes = [along(values[name], GROUPED, Operation.WEIGHT_GRADIENT, name) for name in "AG"]
    assert np.array_equal(planes[0][1, 5], a[1, 5].ravel())
    assert np.array_equal(planes[1][1, 3], g[1, 3].ravel())


def test_wrong_use() -> None:
    with pytest.raises(ValueError, match="name must be one of A, W, not 'G'"):
        reduction(LINEAR, Operation.FORWARD, "G")
