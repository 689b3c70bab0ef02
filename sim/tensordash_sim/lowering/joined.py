"""Join the samples of `AxG`: one reduction over all samples instead of one sum for each sample."""

import numpy as np
from numpy.typing import NDArray

from .products import Product
from .vectors import Vectors

__all__ = ["JoinedVectors", "join_samples"]


class JoinedVectors(Vectors):
    """Concatenations of the vectors that have the same number in each sample.

    Parameters
    ----------
    parts : Vectors
        Vectors whose batch elements are in the order sample, group.
    samples : int
        Number of samples, which divides the number of batch elements.
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
    """Replace the reduction of each sample by one reduction over all samples, for a convolution's weight gradients.

    There are `samples` times fewer streams, each `samples` times longer, and no sums of samples remain to be added.
    Each sample's part of a stream begins with a new step, so multiplications and total steps do not change.

    Parameters
    ----------
    product : Product
        Product of `lower` for `AxG`.
    samples : int
        Number of samples of the layer.

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
