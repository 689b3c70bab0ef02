"""Host calls: functions that the host computes between programs, defined bit by bit.

A host call decodes its tensors to single precision, and computes in single precision in the order that its function
defines. It rounds once, to nearest even, when it writes a tensor. It contracts no operation to a fused multiply-add.
`host_calls.c` and the files that it names compute the same bits in C.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .host_math import exp, log, normal
from .host_normalization import (
    NORMALIZATION,
    STATISTICS,
    compute_statistics,
    normalize,
    normalize_backward,
    normalize_sums,
    ordered_sum,
)
from .host_updates import (
    ADAMW,
    CORRECTIONS,
    SCALE,
    SGD,
    adamw,
    find_overflow,
    sgd,
    update_corrections,
    update_scale,
)
from .plan import HostCall
from .tensors import StepTensor

__all__ = ["FUNCTIONS", "POOL", "Function", "compute_host_call"]

POOL = ("kernel_y", "kernel_x", "stride_y", "stride_x", "padding_y", "padding_x")
"""Parameters of pooling."""
PLANES = ("planes", "plane")
"""Parameters of means: the number of planes, and the number of values of a plane."""
RUNNING = ("running_mean", "running_variance")
"""Roles of BatchNorm that LayerNorm lacks."""
SKIP = ("scale", "overflow")
"""Roles of updates with a dynamic loss scale."""

Arrays = dict[str, NDArray]
"""Float32 or int32 values by role; flat, unless the call's parameters have a shape of the role in "shapes"."""
Parameters = Mapping[str, Any]


class Function(NamedTuple):
    """A function that the host can compute.

    Attributes
    ----------
    read, written : tuple of str
        Roles of its tensors; a tensor in both is updated.
    parameters : tuple of str
        Names of its constants.
    compute : callable
        A function of values by role and parameters, which returns values by role.
    """

    read: tuple[str, ...]
    written: tuple[str, ...]
    parameters: tuple[str, ...]
    compute: Callable[[Arrays, Parameters], Arrays]


def _convert(values: Arrays, _: Parameters) -> Arrays:
    """Return x, which is then rounded to the result's format and reordered."""
    return {"result": values["x"]}


def _relu(values: Arrays, _: Parameters) -> Arrays:
    """Return x where it is positive or NaN, else +0."""
    x = values["x"]
    return {"result": np.where((x > 0) | np.isnan(x), x, np.float32(0))}


def _relu_backward(values: Arrays, _: Parameters) -> Arrays:
    """Return the gradient where the ReLU's result is positive, else +0."""
    return {"result": np.where(values["y"] > 0, values["gradient"], np.float32(0))}


def _sum_channels(values: Arrays, _: Parameters) -> Arrays:
    """Sum the values of each channel, starting from 0, in the order of samples, rows and columns."""
    gradient = values["gradient"]
    channels = np.moveaxis(gradient, 1, -1).reshape(-1, gradient.shape[1])
    zeros = np.zeros((1, channels.shape[1]), np.float32)
    return {"result": np.cumsum(np.concatenate([zeros, channels]), axis=0, dtype=np.float32)[-1]}


def _softmax_cross_entropy(values: Arrays, parameters: Parameters) -> Arrays:
    """Return the mean loss, and the gradient of the losses' sum by the scores, times `gradient_scale` and "scale".

    For each sample, compute the maximum score, the exponentials of the differences to it, and their sum in the order of
    classes. A sample's loss is the sum's logarithm less the label's difference. The result is the sum of the losses,
    divided by the number of samples. A label outside the classes has the difference NaN.
    """
    scores, labels = values["scores"], values["labels"].reshape(-1)
    samples, classes = scores.shape
    peak = scores[:, 0]
    for k in range(1, classes):
        peak = np.where(scores[:, k] > peak, scores[:, k], peak)
    difference = scores - peak[:, None]
    exponentials = exp(difference)
    total = np.cumsum(exponentials, axis=1, dtype=np.float32)[:, -1]
    is_label = np.arange(classes) == labels[:, None]
    inside = is_label.any(axis=1)
    chosen = np.where(inside, difference[np.arange(samples), np.where(inside, labels, 0)], np.float32(np.nan))
    each = np.concatenate([np.zeros(1, np.float32), log(total) - chosen])
    loss = np.cumsum(each, dtype=np.float32)[-1:] / np.float32(samples)
    scale = np.float32(parameters["gradient_scale"]) * values.get("scale", np.ones(1, np.float32))
    gradient = (exponentials / total[:, None] - is_label.astype(np.float32)) * scale
    return {"loss": loss, "gradient": gradient}


def _windows(x: NDArray, parameters: Parameters) -> tuple[NDArray, NDArray]:
    """Return the maximum of each window, and the index in the plane of its first occurrence, rows before columns."""
    rows, columns = x.shape[2:]
    height, width, down, across, above, left = (parameters[name] for name in POOL)
    out_rows = (rows + 2 * above - height) // down + 1
    out_columns = (columns + 2 * left - width) // across + 1
    best = np.zeros((*x.shape[:2], out_rows, out_columns), np.float32)
    index = np.full(best.shape, -1, np.int64)
    for ky in range(height):
        for kx in range(width):
            y = np.arange(out_rows)[:, None] * down + ky - above
            column = np.arange(out_columns)[None, :] * across + kx - left
            inside = (y >= 0) & (y < rows) & (column >= 0) & (column < columns)
            value = x[:, :, np.clip(y, 0, rows - 1), np.clip(column, 0, columns - 1)]
            better = inside & ((index < 0) | (value > best))
            best = np.where(better, value, best)
            index = np.where(better, y * columns + column, index)
    return best, index


def _max_pool(values: Arrays, parameters: Parameters) -> Arrays:
    """Return the first largest value of each window; NaN is not larger than a number."""
    return {"result": _windows(values["x"], parameters)[0]}


def _max_pool_backward(values: Arrays, parameters: Parameters) -> Arrays:
    """Sum, for each x, the gradients of all windows with x as their first largest value, in the order of windows."""
    x, gradient = values["x"], values["gradient"]
    _, index = _windows(x, parameters)
    sums = np.zeros((x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]), np.float32)
    planes = np.arange(len(sums))[:, None]
    np.add.at(sums, (planes, index.reshape(len(sums), -1)), gradient.reshape(len(sums), -1))
    return {"result": sums.reshape(x.shape)}


def _mean_plane(values: Arrays, parameters: Parameters) -> Arrays:
    """Return the mean of each plane, the sum of its values in order divided by their number."""
    x = values["x"].reshape(parameters["planes"], parameters["plane"])
    return {"result": ordered_sum(x) / np.float32(parameters["plane"])}


def _spread_mean(values: Arrays, parameters: Parameters) -> Arrays:
    """Return, for each value of a plane, the mean's gradient divided by the number of values."""
    share = values["gradient"] / np.float32(parameters["plane"])
    return {"result": np.repeat(share, parameters["plane"])}


def _add(values: Arrays, _: Parameters) -> Arrays:
    """Return x + y."""
    return {"result": values["x"] + values["y"]}


def _gelu(values: Arrays, _: Parameters) -> Arrays:
    """Return x times the normal distribution at x."""
    return {"result": values["x"] * normal(values["x"])[0]}


def _gelu_backward(values: Arrays, _: Parameters) -> Arrays:
    """Return gradient * (normal distribution at x + x * density at x)."""
    x = values["x"]
    share, density = normal(x)
    return {"result": values["gradient"] * (share + x * density)}


FUNCTIONS: dict[str, Function] = {
    "convert": Function(("x",), ("result",), (), _convert),
    "relu": Function(("x",), ("result",), (), _relu),
    "relu_backward": Function(("gradient", "y"), ("result",), (), _relu_backward),
    "sum_channels": Function(("gradient",), ("result",), (), _sum_channels),
    "softmax_cross_entropy": Function(
        ("scores", "labels", "scale"), ("loss", "gradient"), ("gradient_scale",), _softmax_cross_entropy
    ),
    "max_pool": Function(("x",), ("result",), POOL, _max_pool),
    "max_pool_backward": Function(("gradient", "x"), ("result",), POOL, _max_pool_backward),
    "mean_plane": Function(("x",), ("result",), PLANES, _mean_plane),
    "spread_mean": Function(("gradient",), ("result",), PLANES, _spread_mean),
    "add": Function(("x", "y"), ("result",), (), _add),
    "gelu": Function(("x",), ("result",), (), _gelu),
    "gelu_backward": Function(("gradient", "x"), ("result",), (), _gelu_backward),
    "compute_statistics": Function(
        ("x", *RUNNING), ("mean", "inverse", *RUNNING), (*NORMALIZATION, *STATISTICS), compute_statistics
    ),
    "normalize": Function(("x", "mean", "inverse", "weight", "bias"), ("result",), NORMALIZATION, normalize),
    "normalize_sums": Function(
        ("gradient", "x", "mean", "inverse"), ("weight_gradient", "bias_gradient"), NORMALIZATION, normalize_sums
    ),
    "normalize_backward": Function(
        ("gradient", "x", "mean", "inverse", "weight"), ("result",), NORMALIZATION, normalize_backward
    ),
    "sgd": Function(("parameter", "gradient", "velocity", *SKIP), ("parameter", "velocity"), SGD, sgd),
    "adamw": Function(
        ("parameter", "gradient", "first", "second", "corrections", *SKIP),
        ("parameter", "first", "second"),
        ADAMW,
        adamw,
    ),
    "update_corrections": Function(("corrections", "overflow"), ("corrections",), CORRECTIONS, update_corrections),
    "find_overflow": Function(("gradient", "overflow"), ("overflow",), ("is_first",), find_overflow),
    "update_scale": Function(("scale", "good_steps", "overflow"), ("scale", "good_steps"), SCALE, update_scale),
}
"""Functions by name."""


def compute_host_call(
    call: HostCall, tensors: Mapping[str, StepTensor], values: Mapping[str, NDArray]
) -> dict[str, NDArray]:
    """Compute a host call.

    Parameters
    ----------
    call : HostCall
        The call.
    tensors : mapping of str to StepTensor
        Tensors by name.
    values : mapping of str to array of unsigned
        Bit patterns of the tensors that it reads.

    Returns
    -------
    dict of str to array of unsigned
        Bit patterns of the tensors that it writes, by name. A NaN is positive and has only the highest fraction bit.
    """
    function, names = FUNCTIONS[call.function], call.tensors
    read = {role: tensors[names[role]].numbers(values[names[role]]) for role in call.reads}
    shapes = call.parameters.get("shapes", {})
    read = {role: numbers.reshape(shapes.get(role, -1)) for role, numbers in read.items()}
    with np.errstate(all="ignore"):
        results = function.compute(read, call.parameters)
    written = {names[role]: results[role] for role in call.writes}
    return {name: tensors[name].bits(numbers.reshape(tensors[name].shape)) for name, numbers in written.items()}
