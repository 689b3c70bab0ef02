"""Test that the reference's streams have each product once and give the layer's result and gradients."""

import numpy as np
import pytest
import torch

from tensordash_sim.lowering import Convolution, Geometry, MatrixProduct, Operation

from .geometries import convolution
from .reference import FRAGMENT, OUTSIDE, multiply_out, reference_streams


def multiplications(layer: Convolution):
    """Yield the indices of A, W and G for every multiplication of the forward pass inside the tensors."""
    reached = layer.in_channels // layer.groups
    for n, *out in np.ndindex(layer.batch, *layer.out_size):
        for tap in np.ndindex(*layer.kernel):
            steps = zip(out, tap, layer.stride, layer.dilation, layer.padding, strict=True)
            place = tuple(o * stride + k * dilation - padding for o, k, stride, dilation, padding in steps)
            if any(not 0 <= at < size for at, size in zip(place, layer.size, strict=True)):
                continue
            for f in range(layer.out_channels):
                first = f // (layer.out_channels // layer.groups) * reached
                for c in range(reached):
                    yield (n, first + c, *place), (f, c, *tap), (n, f, *out)


def reference_result(layer: Geometry, operation: Operation, values: dict[str, np.ndarray]) -> np.ndarray:
    if isinstance(layer, MatrixProduct):
        axes = {"A": "bnc", "W": "bfc", "G": "bnf"}
        subscripts = f"{axes[operation.left]},{axes[operation.right]}->{axes[operation.output]}"
        return np.einsum(subscripts, values[operation.left], values[operation.right])
    result = np.zeros(layer.shapes[operation.output], np.int64)
    for indices in multiplications(layer):
        at = dict(zip("AWG", indices, strict=True))
        left, right = values[operation.left], values[operation.right]
        result[at[operation.output]] += left[at[operation.left]] * right[at[operation.right]]
    return result


def by_autograd(layer: Geometry, operation: Operation, values: dict[str, np.ndarray]) -> np.ndarray:
    a, w, g = (torch.tensor(values[name], dtype=torch.float64, requires_grad=name != "G") for name in "AWG")
    if isinstance(layer, MatrixProduct):
        result = a @ w.mT
    else:
        apply = torch.nn.functional.conv1d if len(layer.size) == 1 else torch.nn.functional.conv2d
        ends = layer.end_padding or layer.padding
        padding = [each for pair in zip(layer.padding[::-1], ends[::-1], strict=True) for each in pair]
        padded = torch.nn.functional.pad(a, padding)
        result = apply(padded, w, stride=layer.stride, dilation=layer.dilation, groups=layer.groups)
    if operation is Operation.FORWARD:
        return result.detach().numpy()
    expected = a if operation is Operation.INPUT_GRADIENT else w
    (gradient,) = torch.autograd.grad(result, expected, g)
    return gradient.numpy()


@pytest.mark.parametrize("operation", Operation)
class TestMultiplyOut:
    def test_streams_match_the_definition(self, geometry, values, lanes, operation):
        found = multiply_out(geometry, operation, values, lanes)
        np.testing.assert_array_equal(found, reference_result(geometry, operation, values))

    def test_streams_match_pytorch(self, geometry, values, lanes, operation):
        found = multiply_out(geometry, operation, values, lanes)
        np.testing.assert_array_equal(found, by_autograd(geometry, operation, values))

    def test_every_multiplication_occurs_once(self, geometry, values, lanes, operation):
        """The streams contain each multiplication, also by zero, exactly once."""
        met = [np.zeros((2, 0), np.int64)]  # There may be no product.
        for product in reference_streams(geometry, operation, values, lanes):
            left, right = np.broadcast_arrays(product.left.places[:, :, None], product.right.places[:, None])
            np.testing.assert_array_equal(left == FRAGMENT, right == FRAGMENT)
            inside = (left >= 0) & (right >= 0)
            met.append(np.stack([left[inside], right[inside]]))
        pairs = np.concatenate(met, axis=1)
        assert pairs.shape[1] == geometry.macs
        assert np.unique(pairs, axis=1).shape[1] == geometry.macs

    def test_segments_begin_a_step(self, geometry, values, lanes, operation):
        for product in reference_streams(geometry, operation, values, lanes):
            for side in (product.left, product.right):
                assert side.places.shape[3] == lanes
                fragment = side.places == FRAGMENT
                assert not fragment[..., 0].any()
                assert (np.diff(fragment.astype(int), axis=-1) >= 0).all()
                assert not (side.values[side.places < 0]).any()
                assert side.name == "A" or isinstance(geometry, Convolution) or OUTSIDE not in side.places


class TestPaper:
    def test_rotated_kernel(self):
        """With a stride of 1, WxG equals a forward pass over G with the kernel rotated by 180 degrees."""
        layer = convolution(channels=(1, 1), size=(4,), kernel=(3,), padding=(1,))
        values = {"W": np.array([[[1, 2, 3]]]), "G": np.array([[[5, 6, 7, 8]]])}
        (product,) = reference_streams(layer, Operation.INPUT_GRADIENT, values, lanes=2)
        assert product.left.values[0, 0, :, 0].tolist() == [3, 2, 1]
        assert product.right.values[0, :, :, 0].tolist() == [[0, 5, 6], [5, 6, 7], [6, 7, 8], [7, 8, 0]]
