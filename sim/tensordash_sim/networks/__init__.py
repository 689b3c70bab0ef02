"""The networks of the evaluation, each with data and a training loop; docs/models.md describes them.

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
"""The networks."""

SCALES = ("full", "small", "tiny")
"""As published; for one CPU core, less than a minute a step; for tests, less than seconds."""


def describe(name: str) -> ModelInfo:
    """Describe a network, its data and the zeros that the paper reports.

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
        Of weights, data and everything random while it trains; at least 0. The same seed gives the same run on the
        same data.
    **settings
        What only some networks have, see `options`.

    Returns
    -------
    Training
        Its `step` runs one training step and gives the loss.

    Raises
    ------
    TypeError, ValueError
        Naming the field, what is allowed and what was given.
    TensorDashError
        PyTorch, or for "bert" transformers, is not installed.
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
    """Settings that `load` takes for one network, with their defaults."""
    parameters = inspect.signature(_family(require_choice("model", name, NAMES)).load).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}


def _family(name: str) -> Any:
    require("training a built-in network", "torch")
    return import_module(f".{name.replace('-', '_')}", __package__)
