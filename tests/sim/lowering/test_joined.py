"""Test that a reduction over all samples concatenates the samples' reductions."""

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.lowering import MatrixProduct, Operation, join_samples, lower
from tensordash_sim.performance.chip import ChipConfig, Machine, simulate_operation

from .geometries import convolution

LAYERS = {
    name: convolution(
        batch=3, channels=(4, 6), size=(5, 4), kernel=kernel, stride=stride, padding=(1, 0), groups=groups
    )
    for name, (kernel, stride, groups) in {
        "plain": ((3, 2), (1, 1), 1),
        "groups": ((3, 2), (1, 1), 2),
        "stride": ((2, 2), (2, 1), 1),
    }.items()
}


@pytest.mark.parametrize("layer", LAYERS)
def test_words_are_concatenated_samples(layer):
    rng = np.random.default_rng(1)
    geometry = LAYERS[layer]
    masks = {name: rng.random(shape) < 0.5 for name, shape in geometry.shapes.items()}
    (alone,) = lower(geometry, Operation.WEIGHT_GRADIENT, masks, 4)
    together = join_samples(alone, 3)
    for one, all_ in ((alone.left, together.left), (alone.right, together.right)):
        assert (all_.batch, all_.count, all_.steps) == (geometry.groups, one.count, 3 * one.steps)
        assert (all_.padding, all_.fragmentation) == (one.padding, one.fragmentation)
        each = one.words(np.arange(one.batch * one.count)).reshape(3, geometry.groups * one.count, one.steps)
        numbers = np.array([*range(geometry.groups * one.count), -1])
        words = all_.words(numbers)
        assert (words[:-1] == each.swapaxes(0, 1).reshape(len(numbers) - 1, -1)).all()
        assert not words[-1].any()
        groups = np.array([[0, 1, -1], [2, 2, one.count - 1]])
        blocks = [
            one.distinct_blocks(np.where(groups < 0, -1, groups + k * geometry.groups * one.count)) for k in range(3)
        ]
        assert all_.distinct_blocks(groups).tolist() == np.sum(blocks, axis=0).tolist()


def test_joined_samples_match_a_matrix_product():
    """With a 1x1 kernel, samples and positions are the samples of a matrix product."""
    rng = np.random.default_rng(2)
    layer = convolution(batch=5, channels=(24, 20), size=(4, 4), kernel=(1, 1))
    masks = {name: rng.random(layer.shapes[name]) < 0.4 for name in "AG"}
    flat = {name: mask.reshape(5, -1, 16).swapaxes(1, 2).reshape(1, 80, -1) for name, mask in masks.items()}
    product = MatrixProduct(batch=1, samples=80, in_features=24, out_features=20)
    machine = Machine(TileConfig(), ChipConfig(tiles=3), "left", join_samples="always")
    joined = simulate_operation(layer, Operation.WEIGHT_GRADIENT, masks, machine)
    plain = simulate_operation(product, Operation.WEIGHT_GRADIENT, flat, machine)
    names = ("macs", "zeros", "dense_compute", "compute", "dense_shared", "shared", "dense_unpadded", "dram_cycles")
    assert {name: getattr(joined, name) for name in names} == {name: getattr(plain, name) for name in names}
    assert joined.traffic.sums == 0


def test_fewer_cycles_and_no_sums():
    """Planes have 5 positions, so that streams end in the middle of a window."""
    rng = np.random.default_rng(3)
    layer = LAYERS["plain"]
    masks = {name: rng.random(layer.shapes[name]) < 0.4 for name in "AG"}
    alone, together = (
        simulate_operation(
            layer, Operation.WEIGHT_GRADIENT, masks, Machine(TileConfig(), ChipConfig(tiles=1), join_samples=joins)
        )
        for joins in ("never", "always")
    )
    assert together.compute < alone.compute
    assert together.dense_compute <= alone.dense_compute
    assert together.macs == alone.macs
    assert together.traffic.sums == 0 < alone.traffic.sums
    assert together.utilisation * together.cycles == pytest.approx(alone.utilisation * alone.cycles)
