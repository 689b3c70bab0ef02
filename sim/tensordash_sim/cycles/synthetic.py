"""Streams with random zeros of a chosen share."""

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig

from .count import Counts, count_words

__all__ = ["CLUSTERS", "MEAN_RUN", "random_counts", "random_words"]

CLUSTERS = ("none", "rows", "time")
MEAN_RUN = 16
"""Steps, on average, for which zeros clustered in time keep their density."""


def random_words(
    rng: np.random.Generator, vectors: int, steps: int, lanes: int, zeros: float, cluster: str = "none"
) -> NDArray[np.uint32]:
    """Draw the steps of random vectors.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where chance comes from.
    vectors, steps, lanes : int
        How many vectors, their steps, and the positions of a step.
    zeros : float
        Chance of a zero, 0 to 1.
    cluster : "none", "rows" or "time"
        The same chance everywhere; another one for each vector; or another one for each run of steps, `MEAN_RUN` long
        on average, the same for all vectors. Chances are drawn from a beta distribution with mean `zeros`; at one half
        it is the uniform distribution.

    Returns
    -------
    array of uint32, (vectors, steps)
        Bit `lane` is set where the position is not zero.

    Examples
    --------
    >>> words = random_words(np.random.default_rng(0), 2, 1000, 4, zeros=0.75)
    >>> float(np.bitwise_count(words).mean() / 4)
    0.250375
    """
    if not 0 <= zeros <= 1:
        raise ValueError(f"zeros must be from 0 to 1, not {zeros}")
    if cluster not in CLUSTERS:
        raise ValueError(f"cluster must be one of {', '.join(CLUSTERS)}, not {cluster!r}")
    chance = np.full((1, 1), zeros, np.float32)
    if cluster != "none" and 0 < zeros < 1:
        count = vectors if cluster == "rows" else steps
        drawn = rng.beta(2 * zeros, 2 * (1 - zeros), size=count).astype(np.float32)
        if cluster == "rows":
            chance = drawn[:, None]
        else:
            begins = rng.random(steps) < 1 / MEAN_RUN
            chance = drawn[np.cumsum(begins) % count][None]
    words = np.zeros((vectors, steps), np.uint32)
    for lane in range(lanes):
        for vector in range(vectors):
            limit = chance[vector % len(chance)]
            words[vector] |= (rng.random(steps, np.float32) >= limit).astype(np.uint32) << np.uint32(lane)
    return words


def random_counts(
    config: TileConfig,
    *,
    zeros: float,
    steps: int,
    length: int,
    seed: int = 0,
    cluster: str = "none",
    row_order: str = "natural",
    drop_steps: bool = False,
) -> Counts:
    """Count the cycles of a tile for random zeros.

    Parameters
    ----------
    config : TileConfig
        The tile.
    zeros, cluster
        As in `random_words`; the column side alike, where the tile skips its zeros too.
    steps, length : int
        Steps in all, and of one stream, which divides them.
    seed : int
        The same counts for the same seed.
    row_order : "natural" or "density"
        Which vectors share a tile: as they are drawn, or those with similarly many non-zeros.
    drop_steps : bool
        As `count_words` has it.

    Returns
    -------
    Counts

    Source
    ------
    Section V-G, Fig. 15 of the paper.

    Examples
    --------
    >>> counts = random_counts(TileConfig(), zeros=0.9, steps=100_000, length=100_000)
    >>> round(counts.speedup, 2)
    3.71
    """
    rng = np.random.default_rng(seed)
    streams = steps // length

    def side(ports: int) -> NDArray[np.uint32]:
        words = random_words(rng, streams * ports, length, config.lanes, zeros, cluster)
        if row_order == "density":
            words = words[np.argsort(np.bitwise_count(words).sum(axis=1, dtype=np.int64), kind="stable")]
        return words.reshape(streams, ports, length)

    b = side(config.rows)
    return count_words(
        [b], config, a=[side(config.columns)] if config.sparsity == "both" else (), drop_steps=drop_steps
    )
