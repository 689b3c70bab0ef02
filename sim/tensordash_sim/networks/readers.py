"""Readers of data as arrays: fetched data sets, or substitutes that every machine has."""

import importlib
import re
import tarfile

import numpy as np
from numpy.typing import NDArray

from tensordash.extras import install_command

from .data import DataError, available, dataset_folder

__all__ = ["digits", "interactions", "rated_sentences", "text"]

USERS = 943
"""Users of MovieLens-100k."""
FILMS = 1682
"""Films of MovieLens-100k."""


def digits() -> tuple[NDArray[np.float32], NDArray[np.int64], str]:
    """Return handwritten digits: MNIST if it was fetched, else scikit-learn's.

    Returns
    -------
    images : array of float32, (N, y, x)
        Pixels from 0, the background, to 1.
    labels : array of int64, (N,)
        Digits.
    source : str
        Name of the data set.

    Raises
    ------
    DataError
        If neither is available.
    """
    if available("mnist"):
        folder = dataset_folder("mnist")
        images = np.fromfile(folder / "train-images-idx3-ubyte", np.uint8)[16:].reshape(-1, 28, 28)
        labels = np.fromfile(folder / "train-labels-idx1-ubyte", np.uint8)[8:]
        return images.astype(np.float32) / np.float32(255), labels.astype(np.int64), "MNIST's digits (real)"
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        needed = f"{install_command('trace')}, or tensordash data fetch mnist"
        raise DataError(f"the digits need the package scikit-learn, or MNIST: {needed}") from None

    small = load_digits()
    return (small.images / 16).astype(np.float32), small.target.astype(np.int64), "scikit-learn's digits (real)"


def rated_sentences() -> list[tuple[str, float]] | None:
    """Return sentences with their sentiment, from -4 to 4; None if they were not fetched."""
    if not available("sentences"):
        return None
    rated = []
    with tarfile.open(dataset_folder("sentences") / "sentences.tar.gz") as archive:
        for member in sorted(archive.getnames()):
            stream = archive.extractfile(member) if member.endswith("_GroundTruth.txt") else None
            for line in stream.read().decode("utf-8", "replace").splitlines() if stream else ():
                fields = line.split("\t")
                if len(fields) == 3:
                    rated.append((fields[2].strip(), float(fields[1])))
    if not rated:
        raise DataError("the archive of sentences has no sentences: delete its folder and fetch it again")
    return rated


def interactions() -> tuple[NDArray[np.int64], str]:
    """Return ratings of films: MovieLens-100k if it was fetched, else generated data of the same size.

    Returns
    -------
    pairs : array of int64, (ratings, 2)
        User and film, counted from 0. Generated pairs are in random order.
    source : str
        Name of the data set.
    """
    if available("movielens"):
        path = dataset_folder("movielens") / "ml-100k.inter"
        pairs = np.loadtxt(path, dtype=np.int64, skiprows=1, usecols=(0, 1)) - 1
        return pairs, "MovieLens-100k (real)"
    random = np.random.default_rng(0)
    # Users and films are random vectors. A large scalar product makes a rating likely, and some films are popular.
    tastes, kinds = random.normal(size=(USERS, 8)), random.normal(size=(FILMS, 8))
    score = tastes @ kinds.T + random.gumbel(size=(USERS, FILMS)) + random.exponential(2, FILMS)
    chosen = np.argpartition(score.ravel(), -100_000)[-100_000:]
    pairs = np.stack(np.unravel_index(random.permutation(chosen), score.shape), axis=1).astype(np.int64)
    return pairs, "made interactions, as many as in MovieLens-100k"


def text() -> tuple[str, str]:
    """Return English prose: Moby-Dick if it was fetched, else the reference manual that is part of Python.

    Returns
    -------
    prose, source : str
        The text, and the name of its source.
    """
    if available("text"):
        return (dataset_folder("text") / "moby-dick.txt").read_text(encoding="utf-8"), "Moby-Dick (real)"
    topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    prose = "\n\n".join(topics[name] for name in sorted(topics))
    return re.sub(r"[*`=\-]{3,}", "", prose), "Python's reference manual (real)"
