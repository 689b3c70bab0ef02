"""Joint graphs: the forward and backward pass of a PyTorch model as a step graph. Needs torch."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._functorch.aot_autograd import aot_export_module
from torch.fx import GraphModule, Node

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.lowering import Convolution, Geometry, MatrixProduct

from ..errors import ProgramFolderError
from .step_graph import HostNode, ProductNode, StepGraph, Use, Value

__all__ = ["capture_step"]

ATEN = torch.ops.aten
LossFunction = Callable[..., Tensor]


class _WithLoss(nn.Module):
    """A model with its loss: what is differentiated."""

    def __init__(self, model: nn.Module, loss: LossFunction) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *example: Tensor) -> tuple[Tensor]:
        """Return the loss; the last tensor is the target."""
        *inputs, target = example
        return (self.loss(self.model(*inputs), target),)


@dataclass(frozen=True)
class _Symbol:
    """What a node of the traced graph stands for: a value in a shape, or a transposed matrix."""

    use: Use
    transposed: bool = False


def capture_step(
    model: nn.Module, loss: LossFunction, example: tuple[Tensor, ...], config: CoreConfig, loss_scale: float
) -> tuple[StepGraph, dict[str, str]]:
    """Trace the forward and backward pass of a model on an example.

    Parameters
    ----------
    model : nn.Module
        The model, whose parameters are float32 and all get gradients.
    loss : callable
        Of the model's result and the target: cross entropy, as ``torch.nn.functional.cross_entropy`` has it.
    example : tuple of Tensor
        The model's inputs, and the target last.
    config : CoreConfig
        The core, which decides what is fused.
    loss_scale : float
        A power of two that the loss's gradient is multiplied by.

    Returns
    -------
    StepGraph
        The step without the optimizer.
    dict of str to str
        The value that is the gradient of each parameter, by the parameter's name.

    Raises
    ------
    ProgramFolderError
        Naming an operation that neither the core nor the host computes.
    """
    module = _WithLoss(model, loss)
    try:
        traced, signature = aot_export_module(module, example, trace_joint=True, output_loss_index=0)
    except Exception as error:
        raise ProgramFolderError(f"model cannot be traced with its backward pass: {error}") from error
    if signature.buffers:
        names = ", ".join(name.removeprefix("model.") for name in signature.buffers)
        raise ProgramFolderError(f"model must have no buffers in a program folder, but has {names}")
    lowering = _Lowering(config, loss_scale)
    parameters = dict(module.named_parameters())
    assert isinstance(traced, GraphModule)
    for node in traced.graph.nodes:
        if node.op == "placeholder" and node.name in signature.inputs_to_parameters:
            parameter = signature.inputs_to_parameters[node.name]
            lowering.add_initial(node, parameter.removeprefix("model."), "parameter", parameters[parameter])
        elif node.op == "placeholder":
            place = signature.user_inputs.index(node.name)
            is_target = place == len(example) - 1
            name = "target" if is_target else f"input{place}" if len(example) > 2 else "input"
            lowering.add_initial(node, name, "integer" if is_target else "input", example[place])
        elif node.op == "call_function":
            lowering.lower(node)
    backward = signature.backward_signature
    assert backward is not None
    gradients = {
        name.removeprefix("model."): lowering.value_of(node) for node, name in backward.gradients_to_parameters.items()
    }
    lowering.graph.outputs.append(lowering.value_of(backward.loss_output))
    lowering.remove_unused(set(gradients.values()))
    return lowering.graph, lowering.name_gradients(gradients)


class _Lowering:
    """Builds a step graph from the nodes of a traced graph, one after the other."""

    def __init__(self, config: CoreConfig, loss_scale: float) -> None:
        self.config, self.loss_scale = config, loss_scale
        self.graph = StepGraph(name="step")
        self.symbols: dict[str, Any] = {}
        self.layers: dict[str, str] = {}  # Names of layers, by the value of their weights.

    def add_initial(self, node: Node, name: str, kind: str, tensor: Tensor) -> None:
        """Add a parameter or an input."""
        array = tensor.detach().cpu().numpy()
        if kind == "integer" and array.dtype != np.int64:
            raise ProgramFolderError(f"target must be int64 indices of classes, not {array.dtype}")
        if kind != "integer" and array.dtype != np.float32:
            raise ProgramFolderError(f"{name} must be float32, not {array.dtype}")
        initial = array.astype(np.int32) if kind == "integer" else array.copy()
        self.graph.values[name] = Value(name=name, shape=tuple(tensor.shape), kind=kind, initial=initial)
        self.symbols[node.name] = _Symbol(Use(value=name, shape=tuple(tensor.shape)))

    def value_of(self, node: str) -> str:
        """Return the value that a node of the traced graph stands for."""
        symbol = self.symbols[node]
        if symbol.transposed:
            raise ProgramFolderError(f"{node} must not be transposed where it leaves the step")
        return str(symbol.use.value)

    def remove_unused(self, gradients: set[str]) -> None:
        """Remove nodes whose results nothing reads."""
        graph = self.graph
        needed = {*gradients, *graph.outputs}
        nodes: list[ProductNode | HostNode] = []
        for node in reversed(graph.nodes):
            if needed.intersection(node.written):
                needed.update(node.read)
                nodes.insert(0, node)
        graph.nodes = nodes

    def name_gradients(self, gradients: dict[str, str]) -> dict[str, str]:
        """Name the gradient of each parameter, and the product that makes it, after the parameter."""
        graph = self.graph
        for parameter, old in gradients.items():
            new = f"{parameter}.gradient"
            graph.values[new] = Value(name=new, shape=graph.values.pop(old).shape)
            made = self.producer(old)
            if isinstance(made, ProductNode):
                made.result, made.name = new, f"{parameter.removesuffix('.weight')} {made.operation}"
            elif made is not None:
                made.results = {role: new if name == old else name for role, name in made.results.items()}
        return {parameter: f"{parameter}.gradient" for parameter in gradients}

    def lower(self, node: Node) -> None:
        """Lower a node of the traced graph.

        Raises
        ------
        ProgramFolderError
            If the operation is none of `LOWERINGS`.
        """
        lowering = LOWERINGS.get(node.target)
        if lowering is None:
            allowed = ", ".join(sorted(str(each) for each in LOWERINGS if each is not operator.getitem))
            raise ProgramFolderError(f"{node.target} must be an operation that core or host computes: {allowed}")
        arguments = [self.symbols[each.name] if isinstance(each, Node) else each for each in node.args]
        self.symbols[node.name] = lowering(self, node, *arguments)

    # What nodes become

    def result(self, node: Node | str, shape: tuple[int, ...]) -> _Symbol:
        """Add the value that a node makes."""
        name = node if isinstance(node, str) else node.name
        self.graph.values[name] = Value(name=name, shape=shape)
        return _Symbol(Use(value=name, shape=shape))

    def plain(self, node: Node, symbol: Any) -> Use:
        """Return a use that is not transposed."""
        if not isinstance(symbol, _Symbol) or symbol.transposed:
            raise ProgramFolderError(f"{node.target} must have operands that are not transposed in a program folder")
        return symbol.use

    def product(
        self, node: Node | str, geometry: Geometry, operation: str, operands: Mapping[str, Use], shape: tuple[int, ...]
    ) -> _Symbol:
        """Add a product."""
        made = self.result(node, shape)
        weight = operands.get("W")
        if weight is not None:
            self.layers.setdefault(weight.value, weight.value.removesuffix(".weight"))
        layer = made.use.value if weight is None else self.layers[weight.value]
        self.graph.nodes.append(
            ProductNode(
                name=f"{layer} {operation}",
                geometry=geometry,
                operation=operation,
                operands=dict(operands),
                result=made.use.value,
            )
        )
        return made

    def host(
        self, function: str, operands: Mapping[str, Use], results: Mapping[str, str], **parameters: Any
    ) -> HostNode:
        """Add a host function."""
        node = HostNode(function=function, operands=dict(operands), results=dict(results), parameters=parameters)
        self.graph.nodes.append(node)
        return node

    def producer(self, value: str) -> ProductNode | HostNode | None:
        """Return the node that makes a value."""
        return next((node for node in self.graph.nodes if value in node.written), None)

    def fusable(self, node: Node, argument: int, use: Use) -> ProductNode | None:
        """Return the product that makes an argument of a node if nothing else reads it."""
        source = node.args[argument]
        while isinstance(source, Node) and source.target in VIEWS and len(source.users) == 1:
            source = source.args[0]
        made = self.producer(use.value)
        alone = isinstance(source, Node) and len(source.users) == 1
        return made if alone and isinstance(made, ProductNode) and not self.graph.users(use.value) else None


def _view(lowering: _Lowering, node: Node, symbol: Any, *_: Any) -> _Symbol:
    use = lowering.plain(node, symbol)
    return _Symbol(Use(value=use.value, shape=tuple(node.meta["val"].shape)))


def _same(lowering: _Lowering, node: Node, symbol: Any, *_: Any) -> Any:
    return symbol


def _transpose(lowering: _Lowering, node: Node, symbol: Any) -> _Symbol:
    return _Symbol(symbol.use, not symbol.transposed)


def _linear(samples: int, channels: int, filters: int) -> MatrixProduct:
    return MatrixProduct(batch=1, samples=samples, in_features=channels, out_features=filters)


def _mm(lowering: _Lowering, node: Node, left: Any, right: Any) -> _Symbol:
    return _product(lowering, node, left, right, {})


def _product(lowering: _Lowering, node: Node, left: Any, right: Any, more: dict[str, Use]) -> _Symbol:
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


def _addmm(lowering: _Lowering, node: Node, bias: Any, left: Any, right: Any) -> _Symbol:
    use = lowering.plain(node, bias)
    if node.kwargs or use.shape != tuple(node.meta["val"].shape[1:]) or not right.transposed:
        raise ProgramFolderError(f"{node.target} must add one bias for each column, without beta and alpha")
    _require(lowering, "bias")
    return _product(lowering, node, left, right, {"bias": use})


def _require(lowering: _Lowering, feature: str) -> None:
    if not getattr(lowering.config, feature):
        raise ProgramFolderError(f"core.{feature} must be true for this model, not false")


def _relu(lowering: _Lowering, node: Node, symbol: Any) -> _Symbol:
    use = lowering.plain(node, symbol)
    made = lowering.fusable(node, 0, use)
    if made is not None and made.operation == "AxW" and lowering.config.relu:
        made.relu = True
        return _rename(lowering, made, node)
    result = lowering.result(node, use.shape)
    lowering.host("relu", {"x": use}, {"result": result.use.value})
    return result


def _rename(lowering: _Lowering, made: ProductNode, node: Node) -> _Symbol:
    """Let a product make the value of a node after it."""
    shape = lowering.graph.values.pop(made.result).shape
    made.result = node.name
    return lowering.result(node, shape)


def _relu_backward(lowering: _Lowering, node: Node, gradient: Any, result: Any, threshold: float) -> _Symbol:
    use, y = lowering.plain(node, gradient), lowering.plain(node, result)
    if threshold != 0:
        raise ProgramFolderError(f"{node.target} must have the threshold 0, not {threshold}")
    made, forward = lowering.fusable(node, 0, use), lowering.producer(y.value)
    is_result = isinstance(forward, ProductNode)
    if made is not None and is_result and made.operation == "WxG" and lowering.config.mask and use.shape == y.shape:
        made.operands["mask"] = y
        return _rename(lowering, made, node)
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


def _convolution(lowering: _Lowering, node: Node, x: Any, w: Any, bias: Any, *settings: Any) -> _Symbol:
    operands = {"A": lowering.plain(node, x), "W": lowering.plain(node, w)}
    geometry = _convolution_geometry(node, operands["A"], operands["W"], list(settings))
    if bias is not None:
        _require(lowering, "bias")
        operands["bias"] = lowering.plain(node, bias)
    return lowering.product(node, geometry, "AxW", operands, tuple(node.meta["val"].shape))


def _convolution_backward(lowering: _Lowering, node: Node, g: Any, x: Any, w: Any, *rest: Any) -> list[Any]:
    _, *settings, (for_input, for_weight, for_bias) = rest
    gradient, a, weight = (lowering.plain(node, each) for each in (g, x, w))
    geometry = _convolution_geometry(node, a, weight, list(settings))
    made: list[Any] = [None, None, None]
    if for_input:
        operands = {"G": gradient, "W": weight}
        made[0] = lowering.product(f"{node.name}_input", geometry, "WxG", operands, a.shape)
    if for_weight:
        operands = {"G": gradient, "A": a}
        made[1] = lowering.product(f"{node.name}_weight", geometry, "AxG", operands, weight.shape)
    if for_bias:
        made[2] = _channel_sums(lowering, f"{node.name}_bias", gradient)
    return made


def _channel_sums(lowering: _Lowering, name: str, gradient: Use) -> _Symbol:
    made = lowering.result(name, (gradient.shape[1],))
    lowering.host("sum_channels", {"gradient": gradient}, {"result": made.use.value})
    return made


def _sum(lowering: _Lowering, node: Node, symbol: Any, axes: list[int], keep: bool = False) -> _Symbol:
    use = lowering.plain(node, symbol)
    if len(use.shape) != 2 or list(axes) != [0]:
        raise ProgramFolderError(f"{node.target} must be the sum over the samples of a matrix, a bias's gradient")
    made = _channel_sums(lowering, node.name, use)
    return _Symbol(Use(value=made.use.value, shape=tuple(node.meta["val"].shape)))


def _log_softmax(lowering: _Lowering, node: Node, symbol: Any, axis: int, half: bool) -> dict[str, Any]:
    use = lowering.plain(node, symbol)
    if len(use.shape) != 2 or axis not in (1, -1):
        raise ProgramFolderError(f"{node.target} must be over the second of two dimensions, as in cross_entropy")
    return {"scores": use}


def _nll_loss(
    lowering: _Lowering, node: Node, scores: Any, target: Any, weight: Any, reduction: int, ignored: int
) -> list[Any]:
    if not isinstance(scores, dict) or weight is not None or reduction != 1:
        raise ProgramFolderError(f"{node.target} must be the mean cross entropy of scores, without weights of classes")
    labels, shape = lowering.plain(node, target), scores["scores"].shape
    loss = lowering.result("loss", (1,))
    gradient = lowering.result("loss_gradient", shape)
    scores["gradient"] = gradient
    lowering.host(
        "softmax_cross_entropy",
        {"scores": scores["scores"], "labels": labels},
        {"loss": loss.use.value, "gradient": gradient.use.value},
        gradient_scale=float(np.float32(lowering.loss_scale / shape[0])),
    )
    return [loss, None]


def _loss_gradient(lowering: _Lowering, node: Node, upstream: Any, scores: Any, *_: Any) -> Any:
    """Return the scores of a loss whose gradient is the graph's own, with factor 1."""
    if upstream != "ones":
        raise ProgramFolderError(f"{node.target} must be the gradient of the loss itself")
    return scores


def _softmax_gradient(lowering: _Lowering, node: Node, _: Any, scores: Any, *__: Any) -> Any:
    return scores["gradient"]


def _ones(lowering: _Lowering, node: Node, symbol: Any) -> str:
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
    lowering: _Lowering,
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
    made = lowering.result(node, tuple(node.meta["val"][0].shape))
    lowering.host("max_pool", {"x": use}, {"result": made.use.value}, **parameters)
    return [made, None]


def _max_pool_backward(
    lowering: _Lowering,
    node: Node,
    gradient: Any,
    symbol: Any,
    kernel: list[int],
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil: bool,
    _: Any,
) -> _Symbol:
    operands = {"gradient": lowering.plain(node, gradient), "x": lowering.plain(node, symbol)}
    parameters = _pool_parameters(node, kernel, list(stride), list(padding), list(dilation), ceil)
    made = lowering.result(node, operands["x"].shape)
    lowering.host("max_pool_backward", operands, {"result": made.use.value}, **parameters)
    return made


def _getitem(lowering: _Lowering, node: Node, items: list[Any], index: int) -> Any:
    return items[index]


VIEWS = (ATEN.view.default, ATEN._unsafe_view.default, ATEN.detach.default, ATEN.alias.default)

LOWERINGS: dict[Any, Callable[..., Any]] = {
    operator.getitem: _getitem,
    ATEN.view.default: _view,
    ATEN._unsafe_view.default: _view,
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
}
"""How each operation of ATen becomes products and host functions."""
