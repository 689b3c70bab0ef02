"""Catalogue of the networks: title, source, data, and the potential speedup that the paper reports."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CATALOGUE", "ModelInfo"]


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """One network of the evaluation.

    Parameters
    ----------
    name : str
        Name to pass to `load`.
    title : str
        Description in one line.
    source : str
        Publication of the network's shape.
    data : str
        Training data here, real or generated.
    paper_speedup : str
        Potential speedup in the paper (Fig. 1): all multiplications over those without zeros.
    """

    name: str
    title: str
    source: str
    data: str
    paper_speedup: str


CATALOGUE = {
    name: ModelInfo(name=name, **fields)
    for name, fields in tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")).items()
}
"""Networks by name."""
