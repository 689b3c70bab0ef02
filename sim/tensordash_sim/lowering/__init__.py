"""Lowering: convert the convolutions and matrix products of a training step to the streams of tiles.

`lower` returns products of `Vectors`, which compute their words on demand.
"""

from .geometry import Convolution, Geometry, MatrixProduct, Operation, geometry_from_json
from .joined import join_samples
from .products import Product, lower
from .reductions import Reduction, reduction
from .vectors import Vectors

__all__ = [
    "Convolution",
    "Geometry",
    "MatrixProduct",
    "Operation",
    "Product",
    "Reduction",
    "Vectors",
    "geometry_from_json",
    "join_samples",
    "lower",
    "reduction",
]
