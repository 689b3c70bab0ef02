"""Host calls that update parameters: SGD, AdamW, and dynamic loss scaling.

`host_updates.c` computes the same bits in C. "overflow" is a tensor of one value, which is not 0 after a non-finite
gradient; updates then change neither parameters nor the optimizer's state. "scale" is a tensor of one value that
divides gradients.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ADAMW",
    "CORRECTIONS",
    "SCALE",
    "SGD",
    "adamw",
    "find_overflow",
    "sgd",
    "update_corrections",
    "update_scale",
]

SGD = ("rate", "momentum", "weight_decay", "gradient_scale")
"""Parameters of SGD."""
ADAMW = ("rate", "keep", "beta1_rest", "beta2", "beta2_rest", "epsilon", "gradient_scale")
"""Parameters of AdamW: `beta1_rest` is 1 - beta1, `beta2_rest` is 1 - beta2, `keep` is 1 - rate * weight_decay."""
CORRECTIONS = ("beta1", "beta1_rest", "beta2", "beta2_rest")
"""Parameters of `update_corrections`."""
SCALE = ("growth", "backoff", "interval")
"""Parameters of `update_scale`."""

Arrays = dict[str, NDArray]
Parameters = Mapping[str, Any]


def sgd(values: Arrays, parameters: Parameters) -> Arrays:
    """Update a parameter p and its velocity v.

    g = gradient * gradient_scale; g = g + weight_decay * p; v = momentum * v + g; p = p - rate * v. Terms with a factor
    of 0 are omitted; without momentum, g replaces v.
    """
    rate, momentum, decay = (np.float32(parameters[name]) for name in SGD[:3])
    parameter = values["parameter"]
    if _is_skipped(values):
        return {role: values[role] for role in ("parameter", "velocity") if role in values}
    step: NDArray = _gradient(values, parameters)
    if decay:
        step = step + decay * parameter
    if not momentum:
        return {"parameter": parameter - rate * step}
    velocity = momentum * values["velocity"] + step
    return {"velocity": velocity, "parameter": parameter - rate * velocity}


def adamw(values: Arrays, parameters: Parameters) -> Arrays:
    """Update a parameter p and its moments m and v, with the corrections c1 and c2 of `update_corrections`.

    g = gradient * gradient_scale; m = m + beta1_rest * (g - m); v = beta2 * v + beta2_rest * g * g;
    p = keep * p - rate / c1 * (m / (sqrt(v) / sqrt(c2) + epsilon)). Square roots are correctly rounded.
    """
    if _is_skipped(values):
        return {role: values[role] for role in ("parameter", "first", "second")}
    rate, keep, beta1_rest, beta2, beta2_rest, epsilon = (np.float32(parameters[name]) for name in ADAMW[:6])
    step = _gradient(values, parameters)
    first = values["first"] + beta1_rest * (step - values["first"])
    second = beta2 * values["second"] + beta2_rest * step * step
    correction1, correction2 = values["corrections"]
    direction = first / (np.sqrt(second) / np.sqrt(correction2) + epsilon)
    return {"parameter": keep * values["parameter"] - rate / correction1 * direction, "first": first, "second": second}


def update_corrections(values: Arrays, parameters: Parameters) -> Arrays:
    """Update the corrections, 1 less the power of each beta: c = beta * c + (1 - beta), starting from 0."""
    if _is_skipped(values):
        return {"corrections": values["corrections"]}
    beta1, beta1_rest, beta2, beta2_rest = (np.float32(parameters[name]) for name in CORRECTIONS)
    betas, rests = np.array([beta1, beta2]), np.array([beta1_rest, beta2_rest])
    return {"corrections": betas * values["corrections"] + rests}


def find_overflow(values: Arrays, parameters: Parameters) -> Arrays:
    """Set "overflow" to 1 if a value of the gradient is not finite; otherwise keep it, or clear it if `is_first`."""
    if not np.isfinite(values["gradient"]).all():
        return {"overflow": np.ones(1, np.float32)}
    return {"overflow": np.zeros(1, np.float32) if parameters["is_first"] else values["overflow"]}


def update_scale(values: Arrays, parameters: Parameters) -> Arrays:
    """Multiply the scale by `backoff` after an overflow, and by `growth` after `interval` steps without one.

    The scale stays finite. "good_steps" counts the steps since the scale last changed.
    """
    growth, backoff = np.float32(parameters["growth"]), np.float32(parameters["backoff"])
    if _is_skipped(values):
        return {"scale": values["scale"] * backoff, "good_steps": np.zeros(1, np.int32)}
    steps = values["good_steps"] + np.int32(1)
    if steps[0] < parameters["interval"]:
        return {"scale": values["scale"], "good_steps": steps}
    grown = values["scale"] * growth
    return {"scale": grown if np.isfinite(grown[0]) else values["scale"], "good_steps": np.zeros(1, np.int32)}


def _is_skipped(values: Arrays) -> bool:
    return "overflow" in values and bool(values["overflow"][0] != 0)


def _gradient(values: Arrays, parameters: Parameters) -> NDArray[np.float32]:
    """Return the gradient without the loss scale."""
    factor = np.float32(parameters["gradient_scale"])
    if "scale" in values:
        factor = factor / values["scale"][0]
    unscaled: NDArray[np.float32] = values["gradient"].reshape(values["parameter"].shape) * factor
    return unscaled
