"""Parts of Mask R-CNN: frozen normalization, feature pyramid, proposals and heads, with their losses."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from .boxes import anchors, areas, decode, encode, match, pool, sample, suppress

__all__ = ["FrozenNorm", "Heads", "Proposals", "Pyramid", "Settings", "Target", "calibrate"]


class Target(NamedTuple):
    """Objects of one image: boxes (n, 4), classes (n,) and masks (n, y, x)."""

    boxes: Tensor
    classes: Tensor
    masks: Tensor


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Extents of pyramid and heads.

    Parameters
    ----------
    channels, hidden, classes : int
        Channels of every level, features of the box head's linear layers, and number of object classes.
    scale : float
        Scale of anchors, and of the box size that decides the level. 1 is published.
    before, after : int
        Maximum number of proposals per level before suppression, and per image after it.
    anchors, regions : int
        Number of anchors and regions that the losses sample in each image.
    """

    channels: int
    hidden: int
    classes: int
    scale: float
    before: int
    after: int
    anchors: int
    regions: int


class FrozenNorm(nn.Module):
    """Batch normalization whose statistics and factors are constants."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.measure = False
        self.mean: Tensor
        self.deviation: Tensor
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("deviation", torch.ones(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize with the stored statistics."""
        if self.measure:
            self.mean.copy_(x.mean(dim=(0, 2, 3))[:, None, None])
            self.deviation.copy_(x.std(dim=(0, 2, 3))[:, None, None].clamp(min=1e-5))
        return (x - self.mean) / self.deviation


@torch.no_grad()
def calibrate(trunk: nn.Module, images: Tensor) -> None:
    """Set the statistics of all frozen normalizations to those of these images."""
    norms = [module for module in trunk.modules() if isinstance(module, FrozenNorm)]
    for norm in norms:
        norm.measure = True
    trunk(images)
    for norm in norms:
        norm.measure = False


def _start_small(layer: nn.Conv2d | nn.Linear, deviation: float) -> None:
    """Initialize a layer as Detectron2 does, with small weights."""
    nn.init.normal_(layer.weight, std=deviation)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


class Pyramid(nn.Module):
    """Feature pyramid: each level adds the features of the coarser ones. Strides 4, 8, 16, 32 and 64."""

    def __init__(self, inputs: list[int], channels: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(each, channels, 1) for each in inputs)
        self.output = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in inputs)

    def forward(self, stages: list[Tensor]) -> list[Tensor]:
        """Return the levels, finest first. The last level has every other position of the level before."""
        sums = [lateral(stage) for lateral, stage in zip(self.lateral, stages, strict=True)]
        for finer in range(len(sums) - 2, -1, -1):
            sums[finer] = sums[finer] + F.interpolate(sums[finer + 1], size=sums[finer].shape[2:], mode="nearest")
        levels = [output(total) for output, total in zip(self.output, sums, strict=True)]
        return [*levels, levels[-1][:, :, ::2, ::2]]


class Proposals(nn.Module):
    """Region proposal network: predicts objects and their boxes for three anchors at every position."""

    WEIGHTS = (1.0, 1.0)

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        self.convolution = nn.Conv2d(settings.channels, settings.channels, 3, padding=1)
        self.objectness = nn.Conv2d(settings.channels, 3, 1)
        self.deltas = nn.Conv2d(settings.channels, 12, 1)
        for layer in (self.convolution, self.objectness, self.deltas):
            _start_small(layer, 0.01)

    def forward(
        self, levels: list[Tensor], size: tuple[int, int], targets: list[Target]
    ) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Return the proposed boxes of each image, and the losses."""
        scores, deltas, boxes = [], [], []
        for index, level in enumerate(levels):
            y = self.convolution(level).relu()
            # The order is y, x, anchor, as in `anchors`.
            scores.append(self.objectness(y).permute(0, 2, 3, 1).flatten(1))
            deltas.append(self.deltas(y).permute(0, 2, 3, 1).reshape(len(y), -1, 4))
            height, width = level.shape[2:]
            boxes.append(anchors((height, width), 4 << index, (32 << index) * self.settings.scale))
        losses = self._losses(torch.cat(scores, 1), torch.cat(deltas, 1), torch.cat(boxes), targets)
        with torch.no_grad():
            proposed = [
                self._propose([(s[image], d[image], b) for s, d, b in zip(scores, deltas, boxes, strict=True)], size)
                for image in range(len(targets))
            ]
        return proposed, losses

    def _losses(self, scores: Tensor, deltas: Tensor, boxes: Tensor, targets: list[Target]) -> dict[str, Tensor]:
        objectness, shifts = [], []
        for image, target in enumerate(targets):
            truth, kind = match(boxes, target.boxes, 0.3, 0.7, force=True)
            objects, ground = sample(kind, self.settings.anchors, 0.5)
            chosen = torch.cat([objects, ground])
            wanted = (kind[chosen] == 1).float()
            objectness.append(F.binary_cross_entropy_with_logits(scores[image, chosen], wanted, reduction="sum"))
            aims = encode(target.boxes[truth[objects]], boxes[objects], self.WEIGHTS)
            shifts.append((deltas[image, objects] - aims).abs().sum())
        count = self.settings.anchors * len(targets)
        return {"objectness": torch.stack(objectness).sum() / count, "anchors": torch.stack(shifts).sum() / count}

    def _propose(self, levels: list[tuple[Tensor, Tensor, Tensor]], size: tuple[int, int]) -> Tensor:
        """Return the best boxes of an image, from the best boxes of each level without near duplicates."""
        found, values = [], []
        for scores, deltas, boxes in levels:
            best = scores.topk(min(self.settings.before, len(scores))).indices
            decoded = decode(deltas[best], boxes[best], self.WEIGHTS)
            limit = torch.tensor([size[1], size[0]] * 2)
            decoded = torch.minimum(decoded.clamp(min=0), limit)
            decoded_ok = (decoded[:, 2:] - decoded[:, :2]).min(dim=1).values > 1e-3
            decoded, valid_scores = decoded[decoded_ok], scores[best][decoded_ok]
            selected = suppress(decoded, valid_scores, 0.7)
            found.append(decoded[selected])
            values.append(valid_scores[selected])
        order = torch.cat(values).argsort(descending=True, stable=True)[: self.settings.after]
        return torch.cat(found)[order]


class Heads(nn.Module):
    """Box head and mask head.

    The box head has two linear layers, and predicts class and box. The mask head has four convolutions, and predicts a
    mask of 28 x 28.
    """

    WEIGHTS = (10.0, 5.0)

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings, channels = settings, settings.channels
        self.fc1, self.fc2 = nn.Linear(channels * 49, settings.hidden), nn.Linear(settings.hidden, settings.hidden)
        self.classes = nn.Linear(settings.hidden, settings.classes + 1)  # The last class is background.
        self.deltas = nn.Linear(settings.hidden, 4 * settings.classes)
        self.mask = nn.Sequential()
        for _ in range(4):
            self.mask.extend([nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()])
        self.mask.extend([nn.ConvTranspose2d(channels, channels, 2, stride=2), nn.ReLU()])
        self.mask.append(nn.Conv2d(channels, settings.classes, 1))
        _start_small(self.classes, 0.01)
        _start_small(self.deltas, 0.001)

    def forward(self, levels: list[Tensor], proposed: list[Tensor], targets: list[Target]) -> dict[str, Tensor]:
        """Return the losses over regions sampled from the proposals and the true boxes."""
        regions, labels, aims, masks, counts = [], [], [], [], []
        for boxes, target in zip(proposed, targets, strict=True):
            candidates = torch.cat([boxes, target.boxes])
            truth, kind = match(candidates, target.boxes, 0.5, 0.5, force=False)
            objects, ground = sample(kind, self.settings.regions, 0.25)
            chosen = torch.cat([objects, ground])
            label = target.classes[truth[chosen]]
            label[len(objects) :] = self.settings.classes
            regions.append(candidates[chosen])
            labels.append(label)
            aims.append(encode(target.boxes[truth[objects]], candidates[objects], self.WEIGHTS))
            masks.append(self._cut(target.masks[truth[objects]], candidates[objects]))
            counts.append(len(objects))
        label = torch.cat(labels)
        y = self._pool(levels, regions, 7).flatten(1)
        y = self.fc2(self.fc1(y).relu()).relu()
        first = label < self.settings.classes
        deltas = self.deltas(y).view(len(y), -1, 4)[first, label[first]]
        inside = [boxes[:count] for boxes, count in zip(regions, counts, strict=True)]
        drawn = self.mask(self._pool(levels, inside, 14))
        drawn = drawn[torch.arange(len(drawn)), label[first]]
        return {
            "classes": F.cross_entropy(self.classes(y), label),
            "boxes": (deltas - torch.cat(aims)).abs().sum() / len(label),
            "masks": F.binary_cross_entropy_with_logits(drawn, torch.cat(masks)),
        }

    @staticmethod
    def _cut(masks: Tensor, boxes: Tensor) -> Tensor:
        """Return each object's mask inside its region: 28 x 28 values of 0 or 1."""
        cut = [pool(mask[None].float(), box[None], 1, 28)[0, 0] for mask, box in zip(masks, boxes, strict=True)]
        return (torch.stack(cut) >= 0.5).float() if cut else torch.zeros(0, 28, 28)

    def _pool(self, levels: list[Tensor], regions: list[Tensor], size: int) -> Tensor:
        """Return each region's features from the level that fits its size, image by image."""
        boxes = torch.cat(regions)
        image = torch.repeat_interleave(torch.arange(len(regions)), torch.tensor([len(each) for each in regions]))
        # A box of 224 pixels belongs to the third level.
        octave = (areas(boxes).sqrt() / (224 * self.settings.scale) + 1e-8).log2().floor()
        level = (octave.long() + 2).clamp(0, len(levels) - 1)
        pooled = levels[0].new_zeros(len(boxes), levels[0].shape[1], size, size)
        for index, features in enumerate(levels):
            for which in range(len(regions)):
                chosen = ((level == index) & (image == which)).nonzero()[:, 0]
                if len(chosen):
                    pooled = pooled.index_copy(0, chosen, pool(features[which], boxes[chosen], 4 << index, size))
        return pooled
