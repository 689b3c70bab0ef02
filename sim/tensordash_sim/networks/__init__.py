"""The networks of the evaluation, each with data and a training loop. docs/models.md describes them.

This module does not import PyTorch; `load` does.
"""

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensordash.configuration.parameters import require_choice, require_int
from tensordash.extras import require

from .catalogue import CATALOGUE, ModelInfo

if TYPE_CHECKING:
    from .training import Training

__all__ = ["NAMES", "SCALES", "ModelInfo", "describe", "load", "options"]

NAMES = tuple(CATALOGUE)
"""Names of the networks."""

SCALES = ("full", "small", "tiny")
"""Scales: full has the published shapes, a step of small takes less than a minute on a CPU core, tiny is for tests."""


def describe(name: str) -> ModelInfo:
    """Return a network's title, source, data, and the speedup that the paper reports.

    Examples
    --------
    >>> describe("ncf").title
    'Neural collaborative filtering (NeuMF)'
    """
    return CATALOGUE[require_choice("model", name, NAMES)]


def load(name: str, scale: str = "small", seed: int = 0, **settings: Any) -> "Training":
    """Build a network with its data and optimizer.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    scale : str
        One of `SCALES`. "gpt" has no "full": see `tensordash_sim.networks.gpt.gpt_geometries`.
    seed : int
        Seed of weights, data and all random numbers of the training; at least 0. Runs with the same seed and the same
        data are equal.
    **settings
        Options of this network, see `options`.

    Returns
    -------
    Training
        The network in training. Its `step` runs one training step and returns the loss.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong. The message has the field, its value, and what is allowed.
    TensorDashError
        If PyTorch or, for "bert", transformers is not installed.
    """
    require_choice("model", name, NAMES)
    require_choice("scale", scale, SCALES)
    require_int("seed", seed, 0, 2**63 - 2)
    known = options(name)
    for setting in settings:
        if setting not in known:
            allowed = f"one of {', '.join(known)}" if known else "absent"
            raise TypeError(f"an option of {name} must be {allowed}, not {setting}")
    training: Training = _family(name).load(scale, seed, **settings)
    training.conditions = {"model": name, "scale": scale, "seed": str(seed)} | training.conditions
    return training


def options(name: str) -> dict[str, Any]:
    """Return the options that `load` accepts for one network, with their defaults."""
    parameters = inspect.signature(_family(require_choice("model", name, NAMES)).load).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}


def _family(name: str) -> Any:
    require("training a built-in network", "torch")
    return import_module(f".{name.replace('-', '_')}", __package__)
