"""Reductions over all samples: the sums of the samples in `AxG` made in one go."""

import numpy as np
from numpy.typing import NDArray

from .products import Product
from .vectors import Vectors

__all__ = ["JoinedVectors", "join_samples"]


class JoinedVectors(Vectors):
    """Vectors of the same number in each sample, one after the other.

    Parameters
    ----------
    parts : Vectors
        Its batch elements are those of the samples, the sample first.
    samples : int
        Divides their number.
    """

    def __init__(self, parts: Vectors, samples: int) -> None:
        self._parts, self._samples = parts, samples
        super().__init__(
            name=parts.name,
            batch=parts.batch // samples,
            count=parts.count,
            steps=parts.steps * samples,
            lanes=parts.lanes,
            fragmentation=parts.fragmentation,
            padding=parts.padding,
        )

    def _of_sample(self, vectors: NDArray[np.int64], sample: int) -> NDArray[np.int64]:
        return np.where(vectors < 0, -1, vectors + sample * self.batch * self.count)

    def _words(self, vectors: NDArray[np.int64]) -> NDArray[np.uint32]:
        return np.concatenate(
            [self._parts.words(self._of_sample(vectors, sample)) for sample in range(self._samples)], axis=1
        )

    def _distinct_blocks(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        parts = [self._parts.distinct_blocks(self._of_sample(groups, sample)) for sample in range(self._samples)]
        return np.sum(parts, axis=0)


def join_samples(product: Product, samples: int) -> Product:
    """Return one reduction over all samples instead of one for each, for the gradients of a convolution's weights.

    Streams are fewer and as many times longer, and no sums are left to be added up. Each sample's part of a stream
    begins with a step of its own, as it does alone: the same multiplications, in as many steps.

    Parameters
    ----------
    product : Product
        Of `lower`, for `AxG`.
    samples : int
        Of the layer.

    Returns
    -------
    Product

    Examples
    --------
    >>> from .geometry import Convolution, Operation
    >>> from .products import lower
    >>> layer = Convolution(batch=8, in_channels=6, out_channels=8, size=(6, 6), kernel=(3, 3), stride=(1, 1),
    ...                     padding=(1, 1), dilation=(1, 1), groups=2)
    >>> masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
    >>> (alone,) = lower(layer, Operation("AxG"), masks, lanes=4)
    >>> together = join_samples(alone, layer.batch)
    >>> [(each.left.batch, each.left.steps, each.positions) for each in (alone, together)]
    [(16, 9, 62208), (2, 72, 62208)]
    """
    return Product(product.operation, JoinedVectors(product.left, samples), JoinedVectors(product.right, samples))
