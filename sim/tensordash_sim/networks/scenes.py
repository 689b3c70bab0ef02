"""Generated scenes: coloured shapes on a textured background, with boxes, masks and captions."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["COLOURS", "KINDS", "Scene", "paint"]

KINDS = ("square", "circle", "triangle")
COLOURS = {
    "red": (0.9, 0.1, 0.1),
    "green": (0.1, 0.7, 0.2),
    "blue": (0.15, 0.25, 0.9),
    "yellow": (0.9, 0.85, 0.1),
    "white": (0.95, 0.95, 0.95),
    "black": (0.05, 0.05, 0.05),
}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """An image and its contents.

    Parameters
    ----------
    image : array of float32, (3, y, x)
        Pixels, about -2 to 2.
    boxes : array of float32, (shapes, 4)
        x0, y0, x1, y1 in pixels around the visible part of each shape.
    kinds : array of int64, (shapes,)
        Indices into `KINDS`.
    masks : array of bool, (shapes, y, x)
        Visible part of each shape.
    words : list of str
        Words of a caption.
    """

    image: NDArray[np.float32]
    boxes: NDArray[np.float32]
    kinds: NDArray[np.int64]
    masks: NDArray[np.bool_]
    words: list[str]


def paint(random: np.random.Generator, size: tuple[int, int], most: int) -> Scene:
    """Paint 1 to `most` shapes, later ones over earlier ones. Hidden shapes are not in the scene's contents.

    Examples
    --------
    >>> scene = paint(np.random.default_rng(2), (32, 48), 2)
    >>> scene.image.shape, scene.boxes.shape, " ".join(scene.words)
    ((3, 32, 48), (2, 4), 'a small yellow triangle left of a small red square')
    """
    image = _ground(random, size)
    y, x = np.mgrid[: size[0], : size[1]]
    masks: list[NDArray[np.bool_]] = []
    kinds, names = [], []
    for _ in range(random.integers(1, most + 1)):
        half = random.uniform(0.08, 0.24) * min(size)
        centre_y, centre_x = random.uniform(half, size[0] - half), random.uniform(half, size[1] - half)
        kind, colour = int(random.integers(len(KINDS))), str(random.choice(list(COLOURS)))
        mask = _inside(KINDS[kind], (y + 0.5 - centre_y) / half, (x + 0.5 - centre_x) / half)
        shade = np.array(COLOURS[colour])[:, None, None] * random.uniform(0.8, 1.1)
        image = np.where(mask, shade + random.normal(0, 0.03, image.shape), image)
        masks = [earlier & ~mask for earlier in masks] + [mask]
        kinds.append(kind)
        names.append((centre_x, f"a {'large' if half > 0.16 * min(size) else 'small'} {colour} {KINDS[kind]}"))
    seen = [index for index, mask in enumerate(masks) if mask.sum() >= 4]
    names = sorted(names[index] for index in seen)[:2]
    return Scene(
        image=(4 * (image - 0.5)).astype(np.float32),
        boxes=np.array([_box(masks[index]) for index in seen], np.float32),
        kinds=np.array([kinds[index] for index in seen], np.int64),
        masks=np.stack([masks[index] for index in seen]),
        words=" left of ".join(name for _, name in names).split(),
    )


def _ground(random: np.random.Generator, size: tuple[int, int]) -> NDArray[np.float64]:
    """Paint a background of coloured patches and noise: as in photographs, few areas are flat and no pixel is zero."""
    image = np.full((3, *size), 0.45)
    for cell in (64, 16, 4):
        coarse = random.normal(0, 0.1, (3, -(-size[0] // cell), -(-size[1] // cell)))
        image += coarse.repeat(cell, axis=1).repeat(cell, axis=2)[:, : size[0], : size[1]]
    return image + random.normal(0, 0.03, image.shape)


def _inside(kind: str, y: NDArray, x: NDArray) -> NDArray[np.bool_]:
    if kind == "circle":
        return x**2 + y**2 <= 1
    inside = np.maximum(np.abs(x), np.abs(y)) <= 1
    return inside if kind == "square" else inside & (2 * np.abs(x) <= y + 1)


def _box(mask: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
