"""Fuse products with the biases, ReLUs and masks that follow, for the core's output unit. Needs torch.

Fused operations are in the namespace ``tensordash``. Under `offload`, each is one contraction. If the device cannot run
it, PyTorch computes its parts one after the other.
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
    result = ATEN.convolution(a, w, bias, stride, padding, dilation, transposed, output_padding, groups)
    return ATEN.relu(result) if relu else result


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
    result, *_ = ATEN.convolution_backward(grad, a, w, None, *settings, [True, False, False])
    return ATEN.threshold_backward(result, mask, 0)


@torch.library.custom_op("tensordash::fused_matmul", mutates_args=())
def _matmul(bias: Tensor | None, x: Tensor, y: Tensor, relu: bool, mask: Tensor | None) -> Tensor:
    result = ATEN.mm(x, y) if bias is None else ATEN.addmm(bias, x, y)
    result = ATEN.relu(result) if relu else result
    return result if mask is None else ATEN.threshold_backward(result, mask, 0)


@torch.library.custom_op("tensordash::masked_matmul", mutates_args=())
def _masked_matmul(x: Tensor, y: Tensor, mask: Tensor, addend: Tensor | None) -> Tensor:
    product: Tensor = ATEN.mm(x, y)
    return (product if addend is None else addend + product) * mask


for _operation in (_convolution, _convolution_input, _matmul, _masked_matmul):
    _operation.register_fake(_operation._init_fn)


def fuse(module: GraphModule, config: CoreConfig) -> None:
    """Replace products and the operations that follow by fused operations.

    A convolution or matrix product is fused with a bias and ReLU. In a joint graph, the gradient of a convolution's
    input, or a matrix product, is fused with the gradient of ReLU. If the core skips passes, the gradient of a matrix
    of weights is fused with its product with an input of the graph that multiplies the weights, too; only masks of
    zeros and ones then reach the core, and the host adds what that gradient is added to. Nothing is fused if another
    operation uses the intermediate result, or if the core lacks the bias, ReLU or mask.

    Parameters
    ----------
    module : GraphModule
        Graph of a forward pass or of both passes, modified in place.
    config : CoreConfig
        The core. Only products of its operand type or of float32 are fused; float32 results have no mask.
    """
    graph = module.graph
    if config.mask:
        # Masks are fused first, because they are recognized by their ReLU.
        for node in graph.find_nodes(op="call_function", target=ATEN.threshold_backward.default):
            _fuse_mask(graph, node, config)
    if config.skip_masked:  # Without skipped passes, masks of weights would cost cycles and save none.
        for node in graph.find_nodes(op="call_function", target=ATEN.mul.Tensor):
            _fuse_weight_mask(graph, node, config)
    for target in (ATEN.convolution.default, ATEN.addmm.default, ATEN.mm.default):
        for node in graph.find_nodes(op="call_function", target=target):
            _fuse_forward(graph, node, config)
    graph.eliminate_dead_code()
    graph.lint()
    module.recompile()


def _result_type(node: Any, config: CoreConfig) -> str:
    """Return the type of a node's values if device results can have that type (operand type or float32), else ""."""
    a, b = config.tile.a_format, config.tile.b_format
    allowed = (FLOAT32, *([TENSOR_TYPES[a.name]] if a == b else []))
    name = str(node.meta["val"].dtype).removeprefix("torch.")
    return name if name in allowed else ""


def _fits(mask: Any, node: Any, config: CoreConfig) -> bool:
    """Return whether the core can mask a node's values: whether the mask has their shape and their operand type."""
    return _result_type(node, config) not in ("", FLOAT32) and _kind(mask) == _kind(node)


def _kind(node: Any) -> tuple[torch.dtype, torch.Size]:
    return node.meta["val"].dtype, node.meta["val"].shape


def _is_fusible(weight: Any, *, transposed: bool) -> bool:
    """Return whether a convolution can be fused.

    A transposed convolution cannot, because it runs as a gradient, which has no bias.
    """
    return not transposed and weight.meta["val"].dim() in (3, 4)


def _fuse_forward(graph: Graph, node: Any, config: CoreConfig) -> None:
    if not _result_type(node, config):
        return
    if node.target is ATEN.mm.default:
        bias, fused, arguments = None, torch.ops.tensordash.fused_matmul.default, (None, *node.args)
    elif node.target is ATEN.addmm.default:
        bias, fused, arguments = node.args[0], torch.ops.tensordash.fused_matmul.default, node.args
        if node.kwargs or bias.meta["val"].shape != node.meta["val"].shape[1:]:
            return  # The operation has a beta or alpha, or the addend is not one value per column.
    else:
        bias, fused, arguments = node.args[2], torch.ops.tensordash.fused_convolution.default, node.args
        if not _is_fusible(node.args[1], transposed=node.args[6]):
            return
    if bias is not None and not config.bias:
        return  # A ReLU after an unfused bias cannot be fused either.
    (user,) = node.users if len(node.users) == 1 else (None,)
    relu = config.relu and getattr(user, "target", None) is ATEN.relu.default
    if bias is None and not relu:
        return
    flags = (relu,) if fused is torch.ops.tensordash.fused_convolution.default else (relu, None)
    _replace(graph, user if user is not None and relu else node, fused, (*arguments, *flags))


def _fuse_mask(graph: Graph, node: Any, config: CoreConfig) -> None:
    grad, mask, threshold = node.args
    relu = mask
    while relu.target in COPIES:
        relu = relu.args[0]
    if relu.target is not ATEN.relu.default or threshold != 0 or len(grad.users) > 1 or not _fits(mask, grad, config):
        return
    if grad.target is ATEN.mm.default:
        _replace(graph, node, torch.ops.tensordash.fused_matmul.default, (None, *grad.args, False, mask))
        return
    if getattr(grad.target, "__name__", "") != "getitem" or grad.args[1] != 0:
        return
    backward = grad.args[0]
    if backward.target is not ATEN.convolution_backward.default:
        return
    g, a, w, _, *settings, output_mask = backward.args
    if not _is_fusible(w, transposed=settings[3]):
        return
    _replace(graph, node, torch.ops.tensordash.fused_convolution_input.default, (g, a, w, *settings, mask))
    graph.erase_node(grad)
    backward.args = (*backward.args[:-1], [False, *output_mask[1:]])
    backward.meta["val"] = (None, *backward.meta["val"][1:])


def _fuse_weight_mask(graph: Graph, node: Any, config: CoreConfig) -> None:
    """Fuse ``mm(...).t().t() * mask`` where an earlier node multiplies the same mask by weights of its shape.

    `torch.nn.utils.prune` stores the masked weights in the module. The product is then first added to the gradient that
    they have from other uses: ``(addend + mm(...).t().t()) * mask``.
    """
    for grad, mask in (node.args, node.args[::-1]):
        if not (_multiplies_weights(mask, node) and _fits(mask, node, config)):
            continue
        for part, addend in _addends(grad):
            if (product := _product(part)) is not None:
                arguments = (*product.args, mask, addend)
                _replace(graph, node, torch.ops.tensordash.masked_matmul.default, arguments)
                return


def _addends(grad: Any) -> list[tuple[Any, Any]]:
    """Return pairs of a part of a gradient and of its addend, which may be None."""
    if getattr(grad, "target", None) is not ATEN.add.Tensor or grad.kwargs or len(grad.users) > 1:
        return [(grad, None)]
    parts = grad.args
    are_alike = all(isinstance(part, Node) and _kind(part) == _kind(grad) for part in parts)
    return [tuple(parts), tuple(parts[::-1])] if are_alike else []


def _product(grad: Any) -> Any:
    """Return the matrix product that a gradient is, turned an even number of times; None if it has other users."""
    product, is_turned, has_one_user = grad, False, True
    while has_one_user and getattr(product, "target", None) is ATEN.t.default:
        has_one_user = len(product.users) == 1
        product, is_turned = product.args[0], not is_turned
    is_fusible = getattr(product, "target", None) is ATEN.mm.default and not is_turned and len(product.users) == 1
    return product if is_fusible else None


def _multiplies_weights(mask: Any, node: Any) -> bool:
    """Return whether an input of the graph multiplies, in a node other than this one, another input of its shape."""
    return getattr(mask, "op", "") == "placeholder" and any(
        other is not mask and getattr(other, "op", "") == "placeholder" and _kind(other) == _kind(mask)
        for user in mask.users
        if user is not node and user.target is ATEN.mul.Tensor
        for other in user.args
    )


def _replace(graph: Graph, node: Node, fused: Any, arguments: tuple[Any, ...]) -> None:
    with graph.inserting_before(node):
        replacement = graph.call_function(fused, arguments)
    replacement.meta = dict(node.meta)
    node.replace_all_uses_with(replacement)
    graph.erase_node(node)
