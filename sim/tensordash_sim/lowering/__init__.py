"""Lowering: the convolutions and matrix products of a training step as the streams that tiles take.

`lower` gives products of `Vectors`, which make their words when asked; `multiply_out` is the proof, by an independent
and slow way, that the streams multiply what they should and nothing twice.
"""

from .geometry import Convolution, Geometry, MatrixProduct, Operation, geometry_from_json
from .joined import join_samples
from .products import Product, lower
from .reductions import Reduction, reduction
from .reference import FRAGMENT, OUTSIDE, ReferenceProduct, ReferenceSide, multiply_out, reference_streams
from .vectors import Vectors

__all__ = [
    "FRAGMENT",
    "OUTSIDE",
    "Convolution",
    "Geometry",
    "MatrixProduct",
    "Operation",
    "Product",
    "Reduction",
    "ReferenceProduct",
    "ReferenceSide",
    "Vectors",
    "geometry_from_json",
    "join_samples",
    "lower",
    "multiply_out",
    "reduction",
    "reference_streams",
]
