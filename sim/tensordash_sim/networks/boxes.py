"""Boxes for detection: overlap, anchors, encoding, matching, suppression, and pooling of features inside them.

A box is x0, y0, x1, y1 in pixels of the image.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

__all__ = ["anchors", "areas", "decode", "encode", "match", "overlaps", "pool", "sample", "suppress"]

LARGEST = math.log(1000 / 16)
"""Maximum logarithm of a decoded box's growth, so that extreme values do not overflow."""


def areas(boxes: Tensor) -> Tensor:
    """Return the area of each box, (n,)."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def overlaps(one: Tensor, other: Tensor) -> Tensor:
    """Return the intersection over union of every pair, (n, m).

    >>> overlaps(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 0, 3, 2], [5, 5, 6, 6]]))
    tensor([[0.3333, 0.0000]])
    """
    low = torch.maximum(one[:, None, :2], other[None, :, :2])
    high = torch.minimum(one[:, None, 2:], other[None, :, 2:])
    common = (high - low).clamp(min=0).prod(dim=2)
    return common / (areas(one)[:, None] + areas(other) - common)


def anchors(size: tuple[int, int], stride: int, side: float) -> Tensor:
    """Return three boxes at every position of a feature map, (y * x * 3, 4).

    Each has the area side x side. Their aspect ratios are 2:1, 1:1 and 1:2.
    """
    y = (torch.arange(size[0]) + 0.5) * stride
    x = (torch.arange(size[1]) + 0.5) * stride
    centres = torch.stack(torch.meshgrid(y, x, indexing="ij"), dim=-1).reshape(-1, 1, 2).flip(-1)
    ratios = torch.tensor([0.5, 1.0, 2.0])  # height over width
    half = torch.stack([side / ratios.sqrt(), side * ratios.sqrt()], dim=-1) / 2
    return torch.cat([centres - half, centres + half], dim=-1).reshape(-1, 4)


def encode(boxes: Tensor, references: Tensor, weights: tuple[float, float]) -> Tensor:
    """Return the transformation from references to boxes: shifts and logarithms of growth, (n, 4).

    `weights` scale shifts and growths, as in R-CNN.
    """
    size, wanted = references[:, 2:] - references[:, :2], boxes[:, 2:] - boxes[:, :2]
    shift = ((boxes[:, :2] + boxes[:, 2:]) - (references[:, :2] + references[:, 2:])) / 2 / size
    return torch.cat([weights[0] * shift, weights[1] * (wanted / size).log()], dim=1)


def decode(deltas: Tensor, references: Tensor, weights: tuple[float, float]) -> Tensor:
    """Return the boxes that `encode` has transformed.

    >>> boxes, references = torch.tensor([[1.0, 2, 5, 4]]), torch.tensor([[0.0, 0, 4, 8]])
    >>> torch.allclose(decode(encode(boxes, references, (10, 5)), references, (10, 5)), boxes)
    True
    """
    size, centre = references[:, 2:] - references[:, :2], (references[:, :2] + references[:, 2:]) / 2
    centre = centre + deltas[:, :2] / weights[0] * size
    half = (deltas[:, 2:] / weights[1]).clamp(max=LARGEST).exp() * size / 2
    return torch.cat([centre - half, centre + half], dim=1)


def match(candidates: Tensor, truths: Tensor, low: float, high: float, force: bool) -> tuple[Tensor, Tensor]:
    """Match each candidate with the true box that it overlaps most.

    Parameters
    ----------
    candidates, truths : Tensor, (n, 4) and (m, 4)
        Boxes, with m at least 1.
    low, high : float
        Below an overlap of `low`, a candidate is background. From `high` on, it is an object. Between, it is neither.
    force : bool
        Whether the best candidates of every true box are objects even if their overlap is small.

    Returns
    -------
    truth : Tensor of int64, (n,)
        Index of the true box.
    kind : Tensor of int64, (n,)
        1 for an object, 0 for background, -1 for neither.
    """
    overlap = overlaps(candidates, truths)
    best, truth = overlap.max(dim=1)
    kind = torch.full_like(truth, -1)
    kind[best < low] = 0
    kind[best >= high] = 1
    if force:
        top = overlap.max(dim=0).values
        kind[((overlap == top) & (top > 0)).any(dim=1)] = 1
    return truth, kind


def sample(kind: Tensor, count: int, share: float) -> tuple[Tensor, Tensor]:
    """Return random indices of at most ``share * count`` objects, and of background to fill up to `count`."""
    objects, ground = ((kind == wanted).nonzero()[:, 0] for wanted in (1, 0))
    objects = objects[torch.randperm(len(objects))[: int(share * count)]]
    return objects, ground[torch.randperm(len(ground))[: count - len(objects)]]


def suppress(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Return indices of boxes, best first, without boxes that overlap a better one by more than the threshold.

    >>> boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 5], [8, 8, 9, 9]])
    >>> suppress(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.7)
    tensor([1, 2])
    """
    order = scores.argsort(descending=True, stable=True)
    clash = overlaps(boxes[order], boxes[order]) > threshold
    alive = torch.ones(len(order), dtype=torch.bool)
    for index in range(len(order)):
        if alive[index]:
            alive[index + 1 :] &= ~clash[index, index + 1 :]
    return order[alive]


def pool(features: Tensor, boxes: Tensor, stride: int, size: int) -> Tensor:
    """Pool features by ROIAlign: the mean of four bilinear samples in each of size x size cells of every box.

    Parameters
    ----------
    features : Tensor, (channels, y, x)
        Features of one image, one value every `stride` pixels. Positions outside have the nearest value.
    boxes : Tensor, (n, 4)
        Boxes.

    Returns
    -------
    Tensor, (n, channels, size, size)

    Examples
    --------
    >>> ramp = torch.arange(8.0).expand(1, 8, 8)  # at pixel x + 0.5 the value is x
    >>> pool(ramp, torch.tensor([[1.0, 1.0, 5.0, 3.0]]), 1, 2)[0, 0]
    tensor([[1.5000, 3.5000],
            [1.5000, 3.5000]])
    """
    steps = (torch.arange(2 * size, dtype=boxes.dtype) + 0.5) / (2 * size)
    places = boxes[:, None, :2] + steps[:, None] * (boxes[:, None, 2:] - boxes[:, None, :2])  # (n, samples, x and y)
    extent = torch.tensor([features.shape[2], features.shape[1]]) * stride
    places = 2 * places / extent - 1
    x, y = places[:, None, :, 0], places[:, :, None, 1]
    grid = torch.stack(torch.broadcast_tensors(x, y), dim=-1).reshape(1, -1, 2 * size, 2)
    samples = F.grid_sample(features[None], grid, padding_mode="border", align_corners=False)[0]
    samples = samples.view(features.shape[0], len(boxes), 2 * size, 2 * size).transpose(0, 1)
    return F.avg_pool2d(samples, 2)
