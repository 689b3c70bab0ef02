"""Tilings: sizes of the tiles of results, of the chunks of the reduction, and of a multiply's sets of streams."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from .operands import Box, size_of

__all__ = ["Tiling", "fit_sizes", "growing_spans", "split", "split_first"]

MIN_SPANS = 4
"""Minimum number of loads of a reduction whose chunks are loaded in growing spans."""


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """Sizes of a problem's parts, in the dimensions of a side or of the reduction, the innermost first.

    Parameters
    ----------
    tiles : dict of str to tuple of int
        Streams of a tile of results, by side: "row" and "column".
    sets : dict of str to tuple of int
        Streams of a multiply, by side.
    chunk : tuple of int
        Steps that are laid out together.
    first_parts : int
        The first multiplies take ``1 / first_parts`` of their tile or chunk, so that they wait for fewer loads.
    """

    tiles: dict[str, tuple[int, ...]]
    sets: dict[str, tuple[int, ...]]
    chunk: tuple[int, ...]
    first_parts: int = 1

    def __hash__(self) -> int:
        return hash((*self.tiles.values(), *self.sets.values(), self.chunk, self.first_parts))


def split(box: Box, sizes: tuple[int, ...]) -> Iterator[Box]:
    """Split a box into boxes of at most `sizes`; the innermost dimension runs fastest.

    Examples
    --------
    >>> list(split(((0, 3), (4, 6)), (2, 1)))
    [((0, 2), (4, 5)), ((2, 3), (4, 5)), ((0, 2), (5, 6)), ((2, 3), (5, 6))]
    """
    edges = [
        [(first, min(first + size, stop)) for first in range(start, max(stop, start + 1), size)]
        for (start, stop), size in zip(box, sizes, strict=True)
    ]
    return (part[::-1] for part in product(*reversed(edges)))


def split_first(box: Box, parts: int, unit: int = 1) -> list[Box]:
    """Split a box in two, the first one small, along its outermost dimension of more than `unit`.

    Parameters
    ----------
    box : Box
        The box. It is not split if `parts` is 1 or no dimension can be split.
    parts : int
        The first box gets ``1 / parts`` of the dimension, rounded up.
    unit : int
        Edges along the innermost dimension are multiples of `unit`.

    Examples
    --------
    >>> split_first(((0, 2), (0, 6), (3, 4)), 3), split_first(((0, 8),), 8, unit=4)
    ([((0, 2), (0, 2), (3, 4)), ((0, 2), (2, 6), (3, 4))], [((0, 4),), ((4, 8),)])
    """
    units = [unit if k == 0 else 1 for k in range(len(box))]
    cut = next((k for k in reversed(range(len(box))) if box[k][1] - box[k][0] > units[k]), None)
    if parts == 1 or cut is None:
        return [box]
    start, stop = box[cut]
    middle = start + -(-(stop - start) // (parts * units[cut])) * units[cut]
    return [(*box[:cut], edges, *box[cut + 1 :]) for edges in ((start, middle), (middle, stop))]


def growing_spans(chunks: Sequence[Box]) -> list[Box]:
    """Return the span to load with each chunk: the first chunk alone, then spans as long as all before, if boxes.

    A span has at most a quarter of the chunks. If loads take as long as multiplies, the last load must be short.

    Examples
    --------
    >>> growing_spans([((k, k + 1),) for k in range(5)])
    [((0, 1),), ((1, 2),), ((2, 3),), ((3, 4),), ((4, 5),)]
    >>> growing_spans([((k, k + 1),) for k in range(8)])[1:5]
    [((1, 2),), ((2, 4),), ((2, 4),), ((4, 6),)]
    """
    spans: list[Box] = []
    while (at := len(spans)) < len(chunks):
        for stop in range(min(at + max(1, min(at, len(chunks) // MIN_SPANS)), len(chunks)), at, -1):
            together = chunks[at:stop]
            hull = tuple(
                (min(start for start, _ in edges), max(stop for _, stop in edges))
                for edges in zip(*together, strict=True)
            )
            if size_of(hull) == sum(map(size_of, together)):
                break
        spans += [hull] * (stop - at)
    return spans


def fit_sizes(dimensions: tuple[int, ...], limit: int, unit: int = 1) -> tuple[int, ...]:
    """Return sizes whose product is at most `limit`; the innermost dimension, in multiples of `unit`, fills first.

    Examples
    --------
    >>> fit_sizes((2, 8, 3), 6), fit_sizes((3, 8, 3), 30), fit_sizes((16, 1, 1), 6, unit=4)
    ((2, 3, 1), (3, 8, 1), (4, 1, 1))
    """
    sizes: list[int] = []
    for k, dimension in enumerate(dimensions):
        size = min(dimension, max(1, limit // prod(sizes)))
        if k == 0 and unit > 1:
            size = max(unit, size // unit * unit)
        sizes.append(size)
    return tuple(sizes)
