"""Test boxes, pooling, proposals and synthetic scenes."""

from itertools import repeat

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from tensordash_sim.networks import load
from tensordash_sim.networks.boxes import anchors, decode, encode, match, overlaps, pool, sample, suppress
from tensordash_sim.networks.detection_parts import Heads, Proposals, Settings, Target
from tensordash_sim.networks.detectron2 import SCALES
from tensordash_sim.networks.scenes import KINDS, paint


def random_boxes(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    corner = 40 * torch.rand(count, 2, generator=generator)
    return torch.cat([corner, corner + 1 + 20 * torch.rand(count, 2, generator=generator)], dim=1)


def test_overlaps_by_counting_pixels() -> None:
    boxes = torch.tensor([[0.0, 0, 4, 6], [2, 1, 8, 5], [3, 3, 4, 4], [9, 9, 12, 10]])
    drawn = torch.zeros(4, 16, 16, dtype=torch.bool)
    for index, (x0, y0, x1, y1) in enumerate(boxes.int().tolist()):
        drawn[index, y0:y1, x0:x1] = True
    both = (drawn[:, None] & drawn[None]).sum(dim=(2, 3))
    union = (drawn[:, None] | drawn[None]).sum(dim=(2, 3))
    assert torch.allclose(overlaps(boxes, boxes), both / union)


def test_encode_and_decode() -> None:
    boxes, references = random_boxes(50, 0), random_boxes(50, 1)
    for weights in ((1.0, 1.0), (10.0, 5.0)):
        assert torch.allclose(decode(encode(boxes, references, weights), references, weights), boxes, atol=1e-3)
    wild = decode(torch.full((1, 4), 1e6), references[:1], (1.0, 1.0))
    assert torch.isfinite(wild).all()


def test_anchors() -> None:
    boxes = anchors((2, 3), 8, 16.0)
    assert boxes.shape == (18, 4)
    size = boxes[:, 2:] - boxes[:, :2]
    assert torch.allclose(size.prod(dim=1), torch.tensor(256.0))
    assert torch.allclose(size[:3, 1] / size[:3, 0], torch.tensor([0.5, 1.0, 2.0]))
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    assert centres[::3].tolist() == [[4, 4], [12, 4], [20, 4], [4, 12], [12, 12], [20, 12]]


def test_match() -> None:
    truths = torch.tensor([[0.0, 0, 10, 10], [20, 20, 30, 30], [40, 40, 41, 41]])
    candidates = torch.tensor([[0.0, 0, 10, 9], [0, 0, 10, 5], [0, 0, 1, 1], [20, 20, 22, 22], [50, 50, 51, 51]])
    truth, kind = match(candidates, truths, 0.3, 0.7, force=False)
    assert truth[:4].tolist() == [0, 0, 0, 1]
    assert kind.tolist() == [1, -1, 0, 0, 0]
    # The second truth has one poor candidate, which counts only when forced. The third has none.
    assert match(candidates, truths, 0.3, 0.7, force=True)[1].tolist() == [1, -1, 0, 1, 0]


def test_sample() -> None:
    kind = torch.tensor([1] * 30 + [0] * 50 + [-1] * 20)
    objects, ground = sample(kind, 40, 0.25)
    assert len(objects) == 10
    assert len(ground) == 30
    assert (kind[objects] == 1).all()
    assert (kind[ground] == 0).all()
    assert len(set(ground.tolist())) == 30
    objects, ground = sample(kind[28:], 40, 0.25)  # There are only two objects.
    assert (len(objects), len(ground)) == (2, 38)


def test_suppression_matches_the_definition() -> None:
    boxes, scores = random_boxes(60, 2), torch.rand(60, generator=torch.Generator().manual_seed(3))
    selected: list[int] = []
    for index in scores.argsort(descending=True).tolist():
        if all(overlaps(boxes[[index]], boxes[[better]]).item() <= 0.3 for better in selected):
            selected.append(index)
    assert suppress(boxes, scores, 0.3).tolist() == selected
    assert 1 < len(selected) < 60


def test_pool_is_the_mean_of_bilinear_samples() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(3, 9, 11, generator=generator, dtype=torch.float64)
    boxes = random_boxes(6, 4).double()  # With stride 8 the map covers 88 x 72 pixels.
    size, stride = 3, 8
    pooled = pool(features, boxes, stride, size)
    for index, (x0, y0, x1, y1) in enumerate(boxes.tolist()):
        for row in range(size):
            for column in range(size):
                total = torch.zeros(3, dtype=torch.float64)
                for dy in (0.25, 0.75):
                    for dx in (0.25, 0.75):
                        y = (y0 + (row + dy) / size * (y1 - y0)) / stride - 0.5
                        x = (x0 + (column + dx) / size * (x1 - x0)) / stride - 0.5
                        y, x = min(max(y, 0), 8), min(max(x, 0), 10)
                        top, left = min(int(y), 7), min(int(x), 9)
                        fy, fx = y - top, x - left
                        for oy, wy in ((0, 1 - fy), (1, fy)):
                            for ox, wx in ((0, 1 - fx), (1, fx)):
                                total += wy * wx * features[:, top + oy, left + ox]
                assert torch.allclose(pooled[index, :, row, column], total / 4, atol=1e-9)


SETTINGS = Settings(channels=4, hidden=8, classes=3, scale=0.25, before=20, after=10, anchors=16, regions=8)


def target(boxes: list[list[float]]) -> Target:
    masks = torch.zeros(len(boxes), 64, 64, dtype=torch.bool)
    for mask, (x0, y0, x1, y1) in zip(masks, boxes, strict=True):
        mask[int(y0) : int(y1), int(x0) : int(x1)] = True
    return Target(torch.tensor(boxes), torch.zeros(len(boxes), dtype=torch.int64), masks)


def test_level_of_a_region_depends_on_its_size() -> None:
    """Each level's values encode its level and image, so that pooled values show both."""
    heads = Heads(SETTINGS)
    levels = [
        torch.stack([torch.full((4, 64 >> level, 64 >> level), 10.0 * image + level) for image in range(2)])
        for level in range(4)
    ]
    # The third level's size is 224 / 4 = 56 pixels, the first's 14.
    regions = [torch.tensor([[0.0, 0, 56, 56], [0, 0, 13, 13]]), torch.tensor([[0.0, 0, 28, 28], [0, 0, 250, 250]])]
    pooled = heads._pool(levels, regions, 7)
    assert pooled.shape == (4, 4, 7, 7)
    assert pooled.mean(dim=(1, 2, 3)).tolist() == [2, 0, 11, 13]


def test_mask_targets() -> None:
    truth = target([[16.0, 16, 48, 48]])
    cut = Heads._cut(truth.masks, torch.tensor([[0.0, 0, 64, 64]]))
    assert cut.shape == (1, 28, 28)
    assert torch.equal(cut[0, 7:21, 7:21], torch.ones(14, 14))
    assert cut.sum() == 14 * 14
    assert Heads._cut(truth.masks[:0], torch.zeros(0, 4)).shape == (0, 28, 28)


def test_proposals_lie_inside_and_apart() -> None:
    torch.manual_seed(0)
    proposals = Proposals(SETTINGS)
    levels = [torch.randn(2, 4, 16 >> level, 16 >> level) for level in range(5)]
    targets = [target([[8.0, 8, 24, 24]]), target([[30.0, 20, 60, 40], [0, 0, 9, 9]])]
    boxes, losses = proposals(levels, (64, 64), targets)
    assert set(losses) == {"objectness", "anchors"}
    # At the start every anchor has probability 1/2.
    assert losses["objectness"].item() == pytest.approx(np.log(2), abs=0.05)
    for each in boxes:
        assert len(each) == SETTINGS.after
        assert (each >= 0).all()
        assert (each <= 64).all()
        assert (each[:, 2:] > each[:, :2]).all()


def test_losses_without_proposals() -> None:
    """The regions always include the true boxes, so that the heads learn in every step."""
    torch.manual_seed(0)
    heads = Heads(SETTINGS)
    levels = [torch.randn(1, 4, 16 >> level, 16 >> level) for level in range(4)]
    losses = heads(levels, [torch.zeros(0, 4)], [target([[8.0, 8, 24, 24]])])
    assert {name: value.item() > 0 for name, value in losses.items() if name != "boxes"} == {
        "classes": True,
        "masks": True,
    }
    assert losses["boxes"].item() < 1e-2  # The region is the true box, so that the offsets are zero.
    assert all(torch.isfinite(value) for value in losses.values())


def test_five_losses_add_up() -> None:
    run = load("detectron2", "tiny", 0)
    batch = next(run.batches)
    torch.manual_seed(0)
    losses = run.model(*batch)
    assert set(losses) == {"objectness", "anchors", "classes", "boxes", "masks"}
    torch.manual_seed(0)
    assert run.loss(run.model, batch).item() == pytest.approx(sum(value.item() for value in losses.values()), rel=1e-6)


def test_overfits_one_batch() -> None:
    """The loss falls if one batch replaces the run's batches."""
    run = load("detectron2", "tiny", 0)
    run.batches = repeat(next(run.batches))
    losses = [run.step() for _ in range(30)]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_frozen_parts_stay() -> None:
    run = load("detectron2", "tiny", 0)
    trunk = run.model.get_submodule("trunk")
    frozen = [parameter for parameter in trunk.parameters() if not parameter.requires_grad]
    assert len(frozen) == 1 + 4  # The first convolution, and in the first stage three and a shortcut.
    buffers = [buffer.clone() for buffer in trunk.buffers()]
    assert any((buffer != 0).any() and (buffer != 1).any() for buffer in buffers)
    run.step()
    assert all(torch.equal(old, new) for old, new in zip(buffers, trunk.buffers(), strict=True))


def test_frozen_normalization_fits_the_weights() -> None:
    """Without pretrained weights, statistics are measured, so that activations neither vanish nor explode."""
    run = load("detectron2", "small", 0)
    images, _ = next(run.batches)
    with torch.no_grad():
        stages = run.model.get_submodule("trunk")(images)
    assert all(0.1 < float(stage.std()) < 10 for stage in stages)
    assert [tuple(stage.shape[2:]) for stage in stages] == [(32, 48), (16, 24), (8, 12), (4, 6)]
    assert SCALES["full"].settings.classes == 80


def test_scenes() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        scene = paint(random, (48, 64), 5)
        assert 1 <= len(scene.boxes) == len(scene.kinds) == len(scene.masks) <= 5
        assert scene.image.shape == (3, 48, 64)
        assert (scene.image != 0).mean() > 0.999  # The picture has no zeros: the network makes them.
        assert not (scene.masks.sum(axis=0) > 1).any()  # Each pixel is in one shape.
        for (x0, y0, x1, y1), mask, kind in zip(scene.boxes.astype(int), scene.masks, scene.kinds, strict=True):
            assert mask[y0:y1, x0:x1].sum() == mask.sum() >= 4
            assert mask[y0].any()
            assert mask[:, x1 - 1].any()
            assert 0 <= kind < len(KINDS)
        assert scene.words[0] == "a"


def test_pooling_matches_average_pooling() -> None:
    """Pooling the entire map equals average pooling of bilinear samples, which is exact for a ramp."""
    ramp = torch.arange(16.0).expand(1, 16, 16)
    inner = torch.tensor([[4.0, 4, 12, 12]])
    assert torch.allclose(pool(ramp, inner, 1, 4)[0, 0], F.avg_pool2d(ramp[:, 4:12, 4:12], 2)[0])
