"""Small layers with random zeros."""

import numpy as np

from tensordash_sim.lowering import Geometry, MatrixProduct, Operation

from ...lowering.geometries import convolution

LAYERS: dict[str, Geometry] = {
    "3x3": convolution(2, (5, 6), (4, 5), (3, 3), (1, 1), (1, 1)),
    "3x3 stride 2": convolution(1, (6, 5), (5, 5), (3, 3), (2, 2), (1, 1)),
    "1x1 stride 2": convolution(2, (9, 7), (3, 5), (1, 1), (2, 2), (0, 0)),
    "groups": convolution(2, (4, 6), (3, 4), (2, 2), (1, 1), (0, 1), groups=2),
    "depthwise": convolution(2, (3, 3), (4, 4), (3, 3), (1, 1), (1, 1), groups=3),
    "1d": convolution(2, (5, 3), (11,), (4,), (3,), (2,)),
    "linear": MatrixProduct(batch=1, samples=9, in_features=13, out_features=6),
    "matrix products": MatrixProduct(batch=3, samples=5, in_features=8, out_features=7),
}


def random_masks(rng: np.random.Generator, geometry: Geometry, operation: Operation) -> dict[str, np.ndarray]:
    """Draw masks of different densities. Some are denser in parts."""
    masks = {}
    for name in (operation.left, operation.right):
        shape = geometry.shapes[name]
        density = rng.choice([0.2, 0.5, 0.9]) * rng.choice([0.3, 1.0], size=(*shape[:2], *(1,) * (len(shape) - 2)))
        masks[name] = rng.random(shape) < density
    return masks
