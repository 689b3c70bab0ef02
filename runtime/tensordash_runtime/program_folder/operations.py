"""Lower the ATen operations that a training step may have. Needs torch."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from tensordash_sim.lowering import Convolution, MatrixProduct

from ..errors import ProgramFolderError
from .host_operations import HOST_LOWERINGS
from .lowering import RESHAPES, Lowering, Symbol
from .step_graph import LOSS_SCALE, ProductNode, Use

__all__ = ["LOWERINGS", "lower_node"]

ATEN = torch.ops.aten
SUPPORTED_LAYERS = "docs/program-folder.md#supported-layers"


def _view(lowering: Lowering, node: Node, symbol: Any, *_: Any) -> Symbol:
    use = lowering.plain(node, symbol)
    return Symbol(Use(value=use.value, shape=tuple(node.meta["val"].shape)))


def _same(lowering: Lowering, node: Node, symbol: Any, *_: Any) -> Any:
    return symbol


def _transpose(lowering: Lowering, node: Node, symbol: Any) -> Symbol:
    return Symbol(symbol.use, not symbol.transposed)


def _linear(samples: int, channels: int, filters: int) -> MatrixProduct:
    return MatrixProduct(batch=1, samples=samples, in_features=channels, out_features=filters)


def _mm(lowering: Lowering, node: Node, left: Any, right: Any) -> Symbol:
    return _product(lowering, node, left, right, {})


def _product(lowering: Lowering, node: Node, left: Any, right: Any, more: dict[str, Use]) -> Symbol:
    shape = tuple(node.meta["val"].shape)
    (rows, columns), sizes = shape, left.use.shape
    if left.transposed and right.transposed:
        raise ProgramFolderError(f"{node.target} must not have two transposed operands in a program folder")
    if left.transposed:
        geometry = _linear(sizes[0], columns, rows)
        return lowering.product(node, geometry, "AxG", {"G": left.use, "A": right.use}, shape)
    if right.transposed:
        geometry = _linear(rows, sizes[1], columns)
        return lowering.product(node, geometry, "AxW", {"A": left.use, "W": right.use, **more}, shape)
    geometry = _linear(rows, columns, sizes[1])
    return lowering.product(node, geometry, "WxG", {"G": left.use, "W": right.use}, shape)


def _addmm(lowering: Lowering, node: Node, bias: Any, left: Any, right: Any) -> Symbol:
    use = lowering.plain(node, bias)
    if node.kwargs or use.shape != tuple(node.meta["val"].shape[1:]) or not right.transposed:
        raise ProgramFolderError(f"{node.target} must add one bias for each column, without beta and alpha")
    _require(lowering, "bias")
    return _product(lowering, node, left, right, {"bias": use})


def _require(lowering: Lowering, feature: str) -> None:
    if not getattr(lowering.config, feature):
        raise ProgramFolderError(f"core.{feature} must be true for this model, not false")


def _relu(lowering: Lowering, node: Node, symbol: Any) -> Symbol:
    use = lowering.plain(node, symbol)
    product = lowering.fusable(node, 0, use)
    if product is not None and product.operation == "AxW" and lowering.config.relu:
        product.relu = True
        return _rename(lowering, product, node)
    result = lowering.result(node, use.shape)
    lowering.host("relu", {"x": use}, {"result": result.use.value})
    return result


def _rename(lowering: Lowering, product: ProductNode, node: Node) -> Symbol:
    """Let a product compute the value of a later node that is fused into it, also after a view of its result."""
    del lowering.graph.values[product.result]
    product.result = node.name
    return lowering.result(node, tuple(node.meta["val"].shape))


def _relu_backward(lowering: Lowering, node: Node, gradient: Any, result: Any, threshold: float) -> Symbol:
    use, y = lowering.plain(node, gradient), lowering.plain(node, result)
    if threshold != 0:
        raise ProgramFolderError(f"{node.target} must have the threshold 0, not {threshold}")
    product, forward = lowering.fusable(node, 0, use), lowering.producer(y.value)
    if product is not None and isinstance(forward, ProductNode) and product.operation == "WxG" and lowering.has_mask:
        product.operands["mask"] = y
        return _rename(lowering, product, node)
    here = lowering.result(node, use.shape)
    lowering.host("relu_backward", {"gradient": use, "y": y}, {"result": here.use.value})
    return here


def _convolution_geometry(node: Node, x: Use, w: Use, settings: list[Any]) -> Convolution:
    stride, padding, dilation, transposed, _, groups = settings
    if transposed or len(x.shape) not in (3, 4):
        raise ProgramFolderError(f"{node.target} must have one or two dimensions, and not be transposed")
    return Convolution(
        batch=x.shape[0],
        in_channels=x.shape[1],
        out_channels=w.shape[0],
        size=x.shape[2:],
        kernel=w.shape[2:],
        stride=tuple(stride),
        padding=tuple(padding),
        dilation=tuple(dilation),
        groups=groups,
    )


def _convolution(lowering: Lowering, node: Node, x: Any, w: Any, bias: Any, *settings: Any) -> Symbol:
    operands = {"A": lowering.plain(node, x), "W": lowering.plain(node, w)}
    geometry = _convolution_geometry(node, operands["A"], operands["W"], list(settings))
    if bias is not None:
        _require(lowering, "bias")
        operands["bias"] = lowering.plain(node, bias)
    return lowering.product(node, geometry, "AxW", operands, tuple(node.meta["val"].shape))


def _convolution_backward(lowering: Lowering, node: Node, g: Any, x: Any, w: Any, *rest: Any) -> list[Any]:
    _, *settings, (for_input, for_weight, for_bias) = rest
    gradient, a, weight = (lowering.plain(node, each) for each in (g, x, w))
    geometry = _convolution_geometry(node, a, weight, list(settings))
    gradients: list[Any] = [None, None, None]
    if for_input:
        operands = {"G": gradient, "W": weight}
        gradients[0] = lowering.product(f"{node.name}_input", geometry, "WxG", operands, a.shape)
    if for_weight:
        operands = {"G": gradient, "A": a}
        gradients[1] = lowering.product(f"{node.name}_weight", geometry, "AxG", operands, weight.shape)
    if for_bias:
        gradients[2] = _channel_sums(lowering, f"{node.name}_bias", gradient)
    return gradients


def _channel_sums(lowering: Lowering, name: str, gradient: Use) -> Symbol:
    sums = lowering.result(name, (gradient.shape[1],))
    lowering.host("sum_channels", {"gradient": gradient}, {"result": sums.use.value})
    return sums


def _sum(lowering: Lowering, node: Node, symbol: Any, axes: list[int], keep: bool = False) -> Symbol:
    use = lowering.plain(node, symbol)
    if len(use.shape) != 2 or list(axes) != [0]:
        raise ProgramFolderError(f"{node.target} must be the sum over the samples of a matrix, a bias's gradient")
    sums = _channel_sums(lowering, node.name, use)
    return Symbol(Use(value=sums.use.value, shape=tuple(node.meta["val"].shape)))


def _log_softmax(lowering: Lowering, node: Node, symbol: Any, axis: int, half: bool) -> dict[str, Any]:
    use = lowering.plain(node, symbol)
    if len(use.shape) != 2 or axis not in (1, -1):
        raise ProgramFolderError(f"{node.target} must be over the second of two dimensions, as in cross_entropy")
    return {"scores": use}


def _nll_loss(
    lowering: Lowering, node: Node, scores: Any, target: Any, weight: Any, reduction: int, ignored: int
) -> list[Any]:
    if not isinstance(scores, dict) or weight is not None or reduction != 1:
        raise ProgramFolderError(f"{node.target} must be the mean cross entropy of scores, without weights of classes")
    labels, shape = lowering.plain(node, target), scores["scores"].shape
    _require_classes(lowering.graph.values[labels.value].initial, shape[1], ignored)
    loss = lowering.result("loss", (1,))
    gradient = lowering.result("loss_gradient", shape)
    scores["gradient"] = gradient
    operands = {"scores": scores["scores"], "labels": labels}
    factor = lowering.scale.value
    if lowering.scale.is_dynamic:
        operands["scale"], factor = Use(value=LOSS_SCALE, shape=(1,)), 1.0
    lowering.host(
        "softmax_cross_entropy",
        operands,
        {"loss": loss.use.value, "gradient": gradient.use.value},
        gradient_scale=float(np.float32(factor / shape[0])),
    )
    return [loss, None]


def _require_classes(labels: Any, classes: int, ignored: int) -> None:
    if 0 <= ignored < classes:
        raise ProgramFolderError(f"loss must have no class as ignore_index, not {ignored}")
    outside = labels[(labels < 0) | (labels >= classes)]
    if len(outside):
        allowed = f"indices of classes from 0 to {classes - 1}"
        raise ProgramFolderError(f"target must have {allowed}, not {outside[0]}; a step ignores no sample")


def _loss_gradient(lowering: Lowering, node: Node, upstream: Any, scores: Any, *_: Any) -> Any:
    """Return the scores of a loss whose upstream gradient is 1."""
    if upstream != "ones":
        raise ProgramFolderError(f"{node.target} must be the gradient of the loss itself")
    return scores


def _softmax_gradient(lowering: Lowering, node: Node, _: Any, scores: Any, *__: Any) -> Any:
    return scores["gradient"]


def _ones(lowering: Lowering, node: Node, symbol: Any) -> str:
    return "ones"


def _pool_parameters(
    node: Node, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil: bool
) -> dict[str, int]:
    pairs = {"kernel": kernel, "stride": stride or kernel, "padding": padding}
    if ceil or any(each != 1 for each in dilation):
        raise ProgramFolderError(f"{node.target} must have no dilation and no ceil_mode")
    full = {name: list(pair) * (1 if len(pair) == 2 else 2) for name, pair in pairs.items()}
    return {f"{name}_{axis}": pair[k] for name, pair in full.items() for k, axis in enumerate("yx")}


def _max_pool(
    lowering: Lowering,
    node: Node,
    symbol: Any,
    kernel: list[int],
    stride: Any = (),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    ceil: bool = False,
) -> list[Any]:
    use = lowering.plain(node, symbol)
    parameters = _pool_parameters(node, kernel, list(stride), list(padding), list(dilation), ceil)
    result = lowering.result(node, tuple(node.meta["val"][0].shape))
    lowering.host("max_pool", {"x": use}, {"result": result.use.value}, **parameters)
    return [result, None]


def _max_pool_backward(
    lowering: Lowering,
    node: Node,
    gradient: Any,
    symbol: Any,
    kernel: list[int],
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil: bool,
    _: Any,
) -> Symbol:
    operands = {"gradient": lowering.plain(node, gradient), "x": lowering.plain(node, symbol)}
    parameters = _pool_parameters(node, kernel, list(stride), list(padding), list(dilation), ceil)
    result = lowering.result(node, operands["x"].shape)
    lowering.host("max_pool_backward", operands, {"result": result.use.value}, **parameters)
    return result


def _getitem(lowering: Lowering, node: Node, items: list[Any], index: int) -> Any:
    return items[index]


LOWERINGS: dict[Any, Callable[..., Any]] = {
    operator.getitem: _getitem,
    **dict.fromkeys(RESHAPES, _view),
    ATEN.detach.default: _same,
    ATEN.alias.default: _same,
    ATEN.t.default: _transpose,
    ATEN.mm.default: _mm,
    ATEN.addmm.default: _addmm,
    ATEN.relu.default: _relu,
    ATEN.threshold_backward.default: _relu_backward,
    ATEN.convolution.default: _convolution,
    ATEN.convolution_backward.default: _convolution_backward,
    ATEN.sum.dim_IntList: _sum,
    ATEN._log_softmax.default: _log_softmax,
    ATEN.nll_loss_forward.default: _nll_loss,
    ATEN.nll_loss_backward.default: _loss_gradient,
    ATEN._log_softmax_backward_data.default: _softmax_gradient,
    ATEN.ones_like.default: _ones,
    ATEN.max_pool2d_with_indices.default: _max_pool,
    ATEN.max_pool2d_with_indices_backward.default: _max_pool_backward,
    **HOST_LOWERINGS,
}
"""The function that lowers each ATen operation to products and host functions."""


def lower_node(lowering: Lowering, node: Node) -> None:
    """Lower a node of the traced graph.

    Raises
    ------
    ProgramFolderError
        If core and host do not compute the operation. The message names the layer before it.
    """
    arguments = [lowering.symbols[each.name] if isinstance(each, Node) else each for each in node.args]
    try:
        lowering.symbols[node.name] = LOWERINGS.get(node.target, _refuse)(lowering, node, *arguments)
    except ProgramFolderError as error:
        layer = lowering.last_layer
        place = "" if layer is None else f" (after layer {layer})"
        raise ProgramFolderError(f"{error}{place}; see {SUPPORTED_LAYERS}") from error


def _refuse(lowering: Lowering, node: Node, *_: Any) -> None:
    raise ProgramFolderError(f"{node.target} must be an operation that core or host computes")
