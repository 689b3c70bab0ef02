"""Host calls of normalization: statistics of groups of values, and the forward and backward pass.

Values of shape (samples, groups, plane) have one mean and one deviation for each group. A group is a channel in
BatchNorm and a row in LayerNorm. Value `flat` has the weight and the bias with index ``flat // inner % size``.
`host_normalization.c` computes the same bits in C.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "NORMALIZATION",
    "STATISTICS",
    "compute_statistics",
    "normalize",
    "normalize_backward",
    "normalize_sums",
    "ordered_sum",
]

NORMALIZATION = ("samples", "groups", "plane", "inner", "size")
"""Parameters of all functions here."""
STATISTICS = ("epsilon", "momentum", "keep", "unbiased")
"""Further parameters of `compute_statistics`; the last three are for BatchNorm only."""

Arrays = dict[str, NDArray]
Parameters = Mapping[str, Any]


def ordered_sum(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sum values along the last axis in order, in single precision."""
    total: NDArray[np.float32] = np.cumsum(values, axis=-1, dtype=np.float32)[..., -1] + np.float32(0)
    return total


def compute_statistics(values: Arrays, parameters: Parameters) -> Arrays:
    """Return each group's mean, and the reciprocal of its deviation; update the running statistics, if any.

    mean = sum(x) / n; variance = sum((x - mean) * (x - mean)) / n; inverse = 1 / sqrt(variance + epsilon). Sums are in
    the order of samples and positions. running = keep * running + momentum * statistic, where the statistic is the mean
    or the variance times `unbiased`.
    """
    x = _by_group(values["x"], parameters)
    count = np.float32(x.shape[1])
    mean = ordered_sum(x) / count
    difference = x - mean[:, None]
    variance = ordered_sum(difference * difference) / count
    results = {"mean": mean, "inverse": np.float32(1) / np.sqrt(variance + np.float32(parameters["epsilon"]))}
    if "running_mean" in values:
        momentum, keep = np.float32(parameters["momentum"]), np.float32(parameters["keep"])
        unbiased = variance * np.float32(parameters["unbiased"])
        results["running_mean"] = keep * values["running_mean"] + momentum * mean
        results["running_variance"] = keep * values["running_variance"] + momentum * unbiased
    return results


def normalize(values: Arrays, parameters: Parameters) -> Arrays:
    """Return normalized * weight + bias, with normalized = (x - mean) * inverse."""
    x = values["x"]
    weight, bias = (_by_value(values[role], x.size, parameters) for role in ("weight", "bias"))
    return {"result": _normalized(values, parameters).reshape(-1) * weight + bias}


def normalize_sums(values: Arrays, parameters: Parameters) -> Arrays:
    """Return the gradients of weights and biases: sums of gradient * normalized, and of gradient, in plain order."""
    size, inner = parameters["size"], parameters["inner"]
    gradient = values["gradient"].reshape(-1)
    gradients = {}
    for role, terms in (
        ("weight_gradient", gradient * _normalized(values, parameters).reshape(-1)),
        ("bias_gradient", gradient),
    ):
        gradients[role] = ordered_sum(terms.reshape(-1, size, inner).transpose(1, 0, 2).reshape(size, -1))
    return gradients


def normalize_backward(values: Arrays, parameters: Parameters) -> Arrays:
    """Return the gradient by x, ((h - m) - normalized * s) * inverse.

    h = gradient * weight; for each group, m = sum(h) / n and s = sum(h * normalized) / n, with sums in the order of
    samples and positions.
    """
    gradient = values["gradient"]
    weighted = gradient.reshape(-1) * _by_value(values["weight"], gradient.size, parameters)
    h = _by_group(weighted, parameters)
    normalized = _by_group(_normalized(values, parameters), parameters)
    count = np.float32(h.shape[1])
    mean, share = ordered_sum(h) / count, ordered_sum(h * normalized) / count
    result = ((h - mean[:, None]) - normalized * share[:, None]) * values["inverse"][:, None]
    return {"result": _from_groups(result, parameters)}


def _normalized(values: Arrays, parameters: Parameters) -> NDArray[np.float32]:
    x = _by_group(values["x"], parameters)
    return _from_groups((x - values["mean"][:, None]) * values["inverse"][:, None], parameters)


def _by_group(values: NDArray, parameters: Parameters) -> NDArray[np.float32]:
    """Return values as (groups, samples * plane)."""
    samples, groups, plane = (parameters[name] for name in ("samples", "groups", "plane"))
    return values.reshape(samples, groups, plane).transpose(1, 0, 2).reshape(groups, -1)


def _from_groups(values: NDArray, parameters: Parameters) -> NDArray[np.float32]:
    """Return values in plain order from shape (groups, samples * plane)."""
    samples, groups, plane = (parameters[name] for name in ("samples", "groups", "plane"))
    return values.reshape(groups, samples, plane).transpose(1, 0, 2)


def _by_value(factors: NDArray, count: int, parameters: Parameters) -> NDArray[np.float32]:
    """Return the weight or bias of each value, in plain order."""
    inner = parameters["inner"]
    return np.broadcast_to(factors[:, None], (count // (factors.size * inner), factors.size, inner)).reshape(-1)
