"""Lower ATen operations that the host computes: normalization, GELU, sums of branches, means. Needs torch."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from ..errors import ProgramFolderError
from .lowering import COUNTER, Lowering, Symbol
from .step_graph import Use

__all__ = ["HOST_LOWERINGS"]

ATEN = torch.ops.aten


def _require(node: Node, is_met: bool, what: str) -> None:
    if not is_met:
        raise ProgramFolderError(f"{node.target} must {what} in a program folder")


def _float(number: float) -> float:
    return float(np.float32(number))


def _add(lowering: Lowering, node: Node, left: Any, right: Any) -> Any:
    if left == COUNTER:
        return COUNTER
    _require(node, isinstance(right, Symbol) and not node.kwargs, "add two values, without alpha")
    x, y = lowering.plain(node, left), lowering.plain(node, right)
    _require(node, x.shape == y.shape, f"add values of one shape, not {x.shape} and {y.shape},")
    result = lowering.result(node, x.shape)
    lowering.host("add", {"x": x, "y": y}, {"result": result.use.value})
    return result


def _gelu(lowering: Lowering, node: Node, symbol: Any) -> Symbol:
    _require(node, not node.kwargs, "not be approximated by tanh")
    x = lowering.plain(node, symbol)
    result = lowering.result(node, x.shape)
    lowering.host("gelu", {"x": x}, {"result": result.use.value})
    return result


def _gelu_backward(lowering: Lowering, node: Node, gradient: Any, symbol: Any) -> Symbol:
    _require(node, not node.kwargs, "not be approximated by tanh")
    x = lowering.plain(node, symbol)
    result = lowering.result(node, x.shape)
    operands = {"gradient": lowering.plain(node, gradient), "x": x}
    lowering.host("gelu_backward", operands, {"result": result.use.value})
    return result


# Means of planes


def _mean(lowering: Lowering, node: Node, symbol: Any, axes: list[int], keep: bool = False) -> Symbol:
    x = lowering.plain(node, symbol)
    last = sorted(axis % len(x.shape) for axis in axes) == list(range(len(x.shape) - len(axes), len(x.shape)))
    _require(node, last and not node.kwargs, "be over the last dimensions")
    plane = prod(x.shape[len(x.shape) - len(axes) :])
    result = lowering.result(node, tuple(node.meta["val"].shape))
    lowering.host("mean_plane", {"x": x}, {"result": result.use.value}, planes=prod(x.shape) // plane, plane=plane)
    return result


def _expand(lowering: Lowering, node: Node, symbol: Any, _: list[int]) -> dict[str, Use]:
    """Return the repeated value, which must be a mean's gradient; `_divide` completes the lowering."""
    use = lowering.plain(node, symbol)
    shape = node.meta["val"].shape
    repeated = [k for k, (old, new) in enumerate(zip(use.shape, shape, strict=False)) if old != new]
    plane = min(repeated, default=len(shape))
    is_mean = len(use.shape) == len(shape) and prod(use.shape[plane:]) == 1
    _require(node, is_mean, "repeat a mean's gradient over its plane")
    return {"repeated": use}


def _divide(lowering: Lowering, node: Node, symbol: Any, divisor: Any) -> Symbol:
    is_mean = isinstance(symbol, dict) and "repeated" in symbol
    _require(node, is_mean, "be the gradient of a mean")
    use, shape = symbol["repeated"], tuple(node.meta["val"].shape)
    planes = prod(use.shape)
    _require(node, divisor == prod(shape) // planes, "be the gradient of a mean")
    result = lowering.result(node, shape)
    parameters = {"planes": planes, "plane": prod(shape) // planes}
    lowering.host("spread_mean", {"gradient": use}, {"result": result.use.value}, **parameters)
    return result


# Normalization


def _affine(lowering: Lowering, node: Node, weight: Any, bias: Any) -> dict[str, Use]:
    _require(node, weight is not None and bias is not None, "have weights and biases (affine)")
    return {"weight": lowering.plain(node, weight), "bias": lowering.plain(node, bias)}


def _statistics(lowering: Lowering, node: Node, x: Use, shape: dict[str, int], epsilon: float, **more: Any) -> Any:
    """Add the call that computes means and inverses of groups, and updates running statistics; return both."""
    running = more.pop("running", {})
    names = {role: lowering.result(f"{node.name}_{role}", (shape["groups"],)).use.value for role in ("mean", "inverse")}
    results = {**names, **{role: use.value for role, use in running.items()}}
    parameters = {**shape, "epsilon": _float(epsilon), **more}
    lowering.host("compute_statistics", {"x": x, **running}, results, **parameters)
    return {role: Use(value=name, shape=(shape["groups"],)) for role, name in names.items()}


def _normalized(
    lowering: Lowering, node: Node, x: Use, shape: dict[str, int], statistics: dict[str, Use], affine: dict[str, Use]
) -> Symbol:
    result = lowering.result(node, x.shape)
    lowering.host("normalize", {"x": x, **statistics, **affine}, {"result": result.use.value}, **shape)
    return result


def _backward(
    lowering: Lowering,
    node: Node,
    gradient: Any,
    x: Use,
    shape: dict[str, int],
    statistics: dict[str, Use],
    weight: Any,
) -> list[Symbol]:
    """Return the gradients by x, by the weights and by the biases."""
    scaled = lowering.plain(node, weight)
    operands = {"gradient": lowering.plain(node, gradient), "x": x, **statistics}
    sums = [lowering.result(f"{node.name}_{role}", scaled.shape) for role in ("weight", "bias")]
    results = {"weight_gradient": sums[0].use.value, "bias_gradient": sums[1].use.value}
    lowering.host("normalize_sums", operands, results, **shape)
    result = lowering.result(node, x.shape)
    lowering.host("normalize_backward", {**operands, "weight": scaled}, {"result": result.use.value}, **shape)
    return [result, *sums]


def _channel_groups(x: Use) -> dict[str, int]:
    samples, channels, *plane = x.shape
    size = prod(plane)
    return {"samples": samples, "groups": channels, "plane": size, "inner": size, "size": channels}


def _row_groups(x: Use, normalized: list[int]) -> dict[str, int]:
    size = prod(normalized)
    return {"samples": 1, "groups": prod(x.shape) // size, "plane": size, "inner": 1, "size": size}


def _batch_norm(
    lowering: Lowering,
    node: Node,
    symbol: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    training: bool,
    momentum: float,
    epsilon: float,
) -> list[Any]:
    x, affine = lowering.plain(node, symbol), _affine(lowering, node, weight, bias)
    _require(node, training, "be in training mode")
    shape = _channel_groups(x)
    count = shape["samples"] * shape["plane"]
    running = {"running_mean": lowering.plain(node, mean), "running_variance": lowering.plain(node, variance)}
    more = {"momentum": _float(momentum), "keep": _float(1 - momentum), "unbiased": _float(count / (count - 1))}
    statistics = _statistics(lowering, node, x, shape, epsilon, running=running, **more)
    result = _normalized(lowering, node, x, shape, statistics, affine)
    return [result, *map(Symbol, statistics.values()), mean, variance]


def _batch_norm_backward(
    lowering: Lowering, node: Node, gradient: Any, symbol: Any, weight: Any, *more: Any
) -> list[Symbol]:
    _, _, mean, inverse, *_ = more
    x = lowering.plain(node, symbol)
    statistics = {"mean": mean.use, "inverse": inverse.use}
    return _backward(lowering, node, gradient, x, _channel_groups(x), statistics, weight)


def _layer_norm(
    lowering: Lowering, node: Node, symbol: Any, normalized: list[int], weight: Any, bias: Any, epsilon: float
) -> list[Symbol]:
    x, affine = lowering.plain(node, symbol), _affine(lowering, node, weight, bias)
    shape = _row_groups(x, normalized)
    statistics = _statistics(lowering, node, x, shape, epsilon)
    result = _normalized(lowering, node, x, shape, statistics, affine)
    return [result, *map(Symbol, statistics.values())]


def _layer_norm_backward(
    lowering: Lowering,
    node: Node,
    gradient: Any,
    symbol: Any,
    normalized: list[int],
    mean: Any,
    inverse: Any,
    weight: Any,
    *_: Any,
) -> list[Symbol]:
    x = lowering.plain(node, symbol)
    statistics = {"mean": mean.use, "inverse": inverse.use}
    return _backward(lowering, node, gradient, x, _row_groups(x, normalized), statistics, weight)


HOST_LOWERINGS: dict[Any, Callable[..., Any]] = {
    ATEN.add.Tensor: _add,
    ATEN.gelu.default: _gelu,
    ATEN.gelu_backward.default: _gelu_backward,
    ATEN.mean.dim: _mean,
    ATEN.expand.default: _expand,
    ATEN.div.Scalar: _divide,
    ATEN._native_batch_norm_legit_functional.default: _batch_norm,
    ATEN.native_batch_norm_backward.default: _batch_norm_backward,
    ATEN.native_layer_norm.default: _layer_norm,
    ATEN.native_layer_norm_backward.default: _layer_norm_backward,
}
"""The function that lowers each operation to host functions."""
