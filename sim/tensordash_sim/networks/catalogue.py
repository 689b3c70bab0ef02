"""What each network is, where it comes from, what it trains on here, and what the paper could gain on it."""

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
        As `load` takes it.
    title : str
        What it is, in a line.
    source : str
        Where its shape was published.
    data : str
        What it trains on here, real or made.
    paper_speedup : str
        Its potential speedup as TensorDash's authors report it (Fig. 1): all multiplications over those without zeros.
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
"""Every network, by name."""
