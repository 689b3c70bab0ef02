"""Random streams with a chosen share of zeros."""

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig

from .count import Counts, count_words

__all__ = ["CLUSTERS", "MEAN_RUN", "random_counts", "random_words"]

CLUSTERS = ("none", "rows", "time")
MEAN_RUN = 16
"""Mean number of steps for which zeros that are clustered in time have the same density."""


def random_words(
    rng: np.random.Generator, vectors: int, steps: int, lanes: int, zeros: float, cluster: str = "none"
) -> NDArray[np.uint32]:
    """Draw the steps of random vectors.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    vectors, steps, lanes : int
        Number of vectors, steps per vector, and positions per step.
    zeros : float
        Probability of a zero, 0 to 1.
    cluster : "none", "rows" or "time"
        "none": the same probability everywhere. "rows": one probability for each vector. "time": one probability for
        each run of steps, common to all vectors; runs have `MEAN_RUN` steps on average. Probabilities are drawn from a
        beta distribution with mean `zeros`, which is uniform if `zeros` is 0.5.

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
        As in `random_words`. If the tile skips zeros of both sides, they also apply to the column side.
    steps, length : int
        Total number of steps, and steps per stream. `length` divides `steps`.
    seed : int
        The same seed gives the same counts.
    row_order : "natural" or "density"
        Vectors that share a tile: in the order in which they are drawn, or sorted by the number of non-zeros.
    drop_steps : bool
        As in `count_words`.

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
