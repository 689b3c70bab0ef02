"""Count the multiplications of operations that did not run on the device, from their tensors' shapes."""

import re
from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from tensordash_sim.trace.capture.call import Call
from tensordash_sim.trace.capture.operators import CONVOLUTION, CONVOLUTION_BACKWARD, convolution_macs

__all__ = ["count_macs"]


def count_macs(call: Call) -> int | None:
    """Count the multiplications of an operation that has run, including those by zero.

    Only stored elements of sparse tensors count. A custom operation is counted by its formula from
    ``torch.utils.flop_counter.register_flop_formula``, or as a matrix product if it has the shapes of one.

    Returns
    -------
    int or None
        The number of multiplications, or None if no rule matches the operation or its shapes.

    Examples
    --------
    >>> x, y = torch.ones(2, 3), torch.ones(3, 5)
    >>> count_macs(Call(torch.ops.aten.mm.default, (x, y), {}, x @ y, name="aten::mm"))
    30
    """
    rules = [rule for pattern, rule in RULES.items() if re.fullmatch(pattern, call.name.removesuffix("_"))]
    for rule in (*rules, _registered, _from_shapes):
        try:
            found = rule(call)
        except (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError):
            continue  # The rule does not apply to these arguments.
        if found is not None:
            return int(found)
    return None


def _product(begin: int) -> Callable[[Call], int]:
    """Return a rule for matrix products whose factors are arguments `begin` and `begin` + 1."""

    def count(call: Call) -> int:
        left, right = call.args[begin : begin + 2]
        if left.layout is not torch.strided and right.layout is not torch.strided:
            rows, columns = ((tensor.to_dense() != 0).sum(axis).double() for tensor, axis in ((right, -1), (left, -2)))
            return int((rows * columns).sum())
        if left.layout is torch.strided and right.layout is not torch.strided:
            return _stored(right) * left.shape[-2]
        return _stored(left) * (right.shape[-1] if right.dim() > 1 else 1)

    return count


def _stored(tensor: torch.Tensor) -> int:
    """Count the elements that a tensor stores."""
    if tensor.layout is torch.strided or tensor.layout is torch._mkldnn:  # type: ignore[attr-defined]
        return tensor.numel()
    return tensor._values().numel() if tensor.layout is torch.sparse_coo else tensor.values().numel()


def _sampled(call: Call) -> int:
    arguments = call.named()
    return _stored(arguments["self"]) * int(arguments["mat1"].shape[-1])


def _grouped(call: Call) -> int:
    arguments = call.named()
    left, right, offsets = (arguments[name] for name in ("self", "mat2", "offs"))
    last = None if offsets is None else int(offsets[-1])
    if left.dim() == right.dim() == 3:
        return left.numel() * int(right.shape[-1])
    rows, reduced, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    if right.dim() == 3:
        rows = last
    elif left.dim() == 3:
        columns = last
    else:
        reduced = last
    return int(rows * reduced * columns)


def _convolution(call: Call) -> int:
    inputs, weight, _, *settings = call.args[:9]
    return convolution_macs(inputs, weight, settings)


def _convolution_backward(call: Call) -> int:
    _, inputs, weight, _, *settings, wanted = call.args
    return convolution_macs(inputs, weight, settings) * sum(wanted[:2])


def _other_convolution(call: Call) -> int:
    """Count a convolution, including taps in the padding."""
    arguments = call.named()
    packed = next((each for each in call.args if hasattr(each, "unpack")), None)
    weight = arguments["weight"] if packed is None else packed.unpack()[0]
    if call.name == "aten::conv_tbc":
        return _result(call).numel() * prod(weight.shape[:2])
    starts = call.tensors[0] if "transpose" in call.name else _result(call)
    return starts.numel() * prod(weight.shape[1:])


def _recurrent(call: Call) -> int:
    """Count each weight matrix once per sample and time step."""
    arguments = call.named()
    tensors = [*(arguments.get("weight") or []), *(arguments.get("params") or [])]
    tensors += [each for name, each in arguments.items() if re.fullmatch(r"weight\d", name)]
    weights = [each for each in tensors if each.dim() == 2]
    inputs = arguments["input"]
    if not weights:
        raise ValueError("no weights")
    macs = inputs.numel() // int(inputs.shape[-1]) * sum(each.numel() for each in weights)
    return (1 + call.name.endswith("backward")) * macs


def _attention(call: Call) -> int:
    """Count both products of the forward pass, or all four of the backward pass."""
    arguments = call.named()
    query, key, value = (arguments[name] for name in ("query", "key", "value"))
    scores = query.numel() // int(query.shape[-1]) * int(key.shape[-2])
    return (1 + ("backward" in call.name)) * scores * int(query.shape[-1] + value.shape[-1])


def _trilinear(call: Call) -> int:
    shapes = []
    for tensor, expanded in zip(call.args[:3], call.args[3:6], strict=True):
        shape = list(tensor.shape)
        for axis in sorted(expanded):
            shape.insert(axis, 1)
        shapes.append(shape)
    return prod(torch.broadcast_shapes(*shapes))


def _embedding_bag(call: Call) -> int:
    arguments = call.named()
    return arguments["indices"].numel() * int(arguments["weight"].shape[-1])


def _distances(call: Call) -> int:
    """Count all pairs of rows of two tensors. In the backward pass, the gradient precedes them."""
    first = int("backward" in call.name)
    x, y = call.tensors[first : first + 2]
    batch = prod(torch.broadcast_shapes(x.shape[:-2], y.shape[:-2]))
    return int(batch * x.shape[-2] * y.shape[-2] * x.shape[-1])


def _linear(call: Call) -> int:
    return call.tensors[0].numel() * int(_result(call).shape[-1])


def _outer(call: Call) -> int:
    return _result(call).numel()


def _registered(call: Call) -> int | None:
    formula = flop_registry.get(getattr(call.func, "overloadpacket", None))
    return None if formula is None else formula(*call.args, **call.kwargs, out_val=call.result) // 2


def _from_shapes(call: Call) -> int | None:
    """Count a product of ``x[..., k]`` and ``y[k, m]`` or ``y[m, k]`` with the result ``z[..., m]``."""
    result = _result(call)
    for x in call.tensors:
        for y in call.tensors:
            if y is x or x.dim() < 2 or y.dim() < 2 or x.shape[:-1] != result.shape[:-1]:
                continue
            if sorted(y.shape[-2:]) == sorted((x.shape[-1], result.shape[-1])):
                return _stored(x) * int(result.shape[-1])
    return None


def _result(call: Call) -> Any:
    return call.result[0] if isinstance(call.result, tuple | list) else call.result


RULES: dict[str, Callable[[Call], int | None]] = {
    r"aten::(mm|bmm|mv|_int_mm|_scaled_mm(_v2)?|_sparse_sparse_matmul|hspmm|_sparse_mm_reduce_impl)": _product(0),
    r"aten::(addmm|_addmm_activation|baddbmm|addbmm|addmv|_sparse_addmm|sspaddmm)": _product(1),
    r"aten::v?dot": lambda call: call.tensors[0].numel(),
    r"aten::sparse_sampled_addmm": _sampled,
    r"aten::(_scaled)?_grouped_mm(_v2)?": _grouped,
    CONVOLUTION: _convolution,
    CONVOLUTION_BACKWARD: _convolution_backward,
    r"\w+::.*conv(?!ert)(?!.*backward).*": _other_convolution,
    r"\w+::.*(rnn|lstm|gru).*": _recurrent,
    r"\w+::.*attention.*": _attention,
    r"aten::_trilinear": _trilinear,
    r"aten::_embedding_bag.*": _embedding_bag,
    r"aten::(_cdist_(forward|backward)|_euclidean_dist)": _distances,
    r"aten::(_weight_int[48]pack_mm.*|_dyn_quant_matmul_4bit)|\w+::.*linear.*": _linear,
    r"aten::addr": _outer,
}
"""Functions that count multiplications, by a pattern of the operation's name."""
