"""Fusing of products with the biases, ReLU and ReLU masks after them, for the core's output unit. Needs torch.

Fused operations are in the namespace ``tensordash``. Under `offload`, each is one contraction. If the device cannot run
one, PyTorch computes its parts one after the other.
"""

from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.images import TENSOR_TYPES

from .values import FLOAT32

__all__ = ["fuse"]

ATEN = torch.ops.aten
COPIES = (ATEN.detach.default, ATEN.alias.default)


@torch.library.custom_op("tensordash::fused_convolution", mutates_args=())
def _convolution(
    a: Tensor,
    w: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    relu: bool,
) -> Tensor:
    made = ATEN.convolution(a, w, bias, stride, padding, dilation, transposed, output_padding, groups)
    return ATEN.relu(made) if relu else made


@torch.library.custom_op("tensordash::fused_convolution_input", mutates_args=())
def _convolution_input(
    grad: Tensor,
    a: Tensor,
    w: Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    mask: Tensor,
) -> Tensor:
    settings = stride, padding, dilation, transposed, output_padding, groups
    made, *_ = ATEN.convolution_backward(grad, a, w, None, *settings, [True, False, False])
    return ATEN.threshold_backward(made, mask, 0)


@torch.library.custom_op("tensordash::fused_matmul", mutates_args=())
def _matmul(bias: Tensor | None, x: Tensor, y: Tensor, relu: bool, mask: Tensor | None) -> Tensor:
    made = ATEN.mm(x, y) if bias is None else ATEN.addmm(bias, x, y)
    made = ATEN.relu(made) if relu else made
    return made if mask is None else ATEN.threshold_backward(made, mask, 0)


for _each in (_convolution, _convolution_input, _matmul):
    _each.register_fake(_each._init_fn)


def fuse(module: GraphModule, config: CoreConfig) -> None:
    """Replace products and the operations after them by fused operations.

    Fused are a bias and ReLU after a convolution or matrix product, and in a joint graph the gradient of ReLU after the
    gradient of a convolution's input, or after a matrix product. Nothing is fused if another operation uses the
    intermediate result, or if the core lacks the bias, ReLU or mask.

    Parameters
    ----------
    module : GraphModule
        Graph of a forward pass, or of both passes; it is changed.
    config : CoreConfig
        The core. Tensors have its operand type, or float32, whose results stay float32 and have no masks.
    """
    graph = module.graph
    # Masks first: they are recognized by their ReLU.
    for node in graph.find_nodes(op="call_function", target=ATEN.threshold_backward.default):
        _fuse_mask(graph, node, config)
    for target in (ATEN.convolution.default, ATEN.addmm.default, ATEN.mm.default):
        for node in graph.find_nodes(op="call_function", target=target):
            _fuse_forward(graph, node, config)
    graph.eliminate_dead_code()
    graph.lint()
    module.recompile()


def _type(node: Any, config: CoreConfig) -> str:
    """Return the type of a node's values if the device's results can have it (operand type or float32), else ""."""
    a, b = config.tile.a_format, config.tile.b_format
    possible = (FLOAT32, *([TENSOR_TYPES[a.name]] if a == b else []))
    name = str(node.meta["val"].dtype).removeprefix("torch.")
    return name if name in possible else ""


def _fits(weight: Any, *, transposed: bool) -> bool:
    """Return whether a convolution may be fused: a transposed one is a gradient, which has no bias."""
    return not transposed and weight.meta["val"].dim() in (3, 4)


def _fuse_forward(graph: Graph, node: Any, config: CoreConfig) -> None:
    if not _type(node, config):
        return
    if node.target is ATEN.mm.default:
        bias, fused, arguments = None, torch.ops.tensordash.fused_matmul.default, (None, *node.args)
    elif node.target is ATEN.addmm.default:
        bias, fused, arguments = node.args[0], torch.ops.tensordash.fused_matmul.default, node.args
        if node.kwargs or bias.meta["val"].shape != node.meta["val"].shape[1:]:
            return  # There is a beta or alpha, or the addend is not one value for each column.
    else:
        bias, fused, arguments = node.args[2], torch.ops.tensordash.fused_convolution.default, node.args
        if not _fits(node.args[1], transposed=node.args[6]):
            return
    if bias is not None and not config.bias:
        return  # The ReLU after the bias cannot be fused, either.
    (user,) = node.users if len(node.users) == 1 else (None,)
    relu = config.relu and getattr(user, "target", None) is ATEN.relu.default
    if bias is None and not relu:
        return
    more = (relu,) if fused is torch.ops.tensordash.fused_convolution.default else (relu, None)
    _replace(graph, user if user is not None and relu else node, fused, (*arguments, *more))


def _fuse_mask(graph: Graph, node: Any, config: CoreConfig) -> None:
    grad, mask, threshold = node.args
    relu = mask
    while relu.target in COPIES:
        relu = relu.args[0]
    if relu.target is not ATEN.relu.default or threshold != 0 or len(grad.users) > 1 or not config.mask:
        return
    made, forward = grad.meta["val"], mask.meta["val"]
    if _type(grad, config) in ("", FLOAT32) or (forward.dtype, forward.shape) != (made.dtype, made.shape):
        return
    if grad.target is ATEN.mm.default:
        _replace(graph, node, torch.ops.tensordash.fused_matmul.default, (None, *grad.args, False, mask))
        return
    if getattr(grad.target, "__name__", "") != "getitem" or grad.args[1] != 0:
        return
    products = grad.args[0]
    if products.target is not ATEN.convolution_backward.default:
        return
    g, a, w, _, *settings, wanted = products.args
    if not _fits(w, transposed=settings[3]):
        return
    _replace(graph, node, torch.ops.tensordash.fused_convolution_input.default, (g, a, w, *settings, mask))
    graph.erase_node(grad)
    products.args = (*products.args[:-1], [False, *wanted[1:]])
    products.meta["val"] = (None, *products.meta["val"][1:])


def _replace(graph: Graph, node: Node, fused: Any, arguments: tuple[Any, ...]) -> None:
    with graph.inserting_before(node):
        made = graph.call_function(fused, arguments)
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    graph.erase_node(node)
