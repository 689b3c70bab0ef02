"""Handlers that record the products of each captured operation."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ...lowering import Operation
from . import fused, operators
from .call import Call, Recording
from .grouped import GROUPED, groups_of
from .matrix_role import layer_of, role_of
from .operators import Convolved
from .roles import Entry, geometry_of

__all__ = ["HANDLERS"]

FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = Operation


def _matrix_product(capture: Recording, call: Call) -> None:
    role = role_of(capture, call)
    if role is None:
        capture.uncaptured(call, " (role unknown)")
    elif call.phase != "repeated":
        capture.put(role.layer, role.operation, role.geometry, role.operands)
    if role is not None and call.phase == "forward":
        left, right, *_ = operators.factors(call.name, call.args)
        needs = left.requires_grad or right.requires_grad
        if right.dim() == 1 and (left.requires_grad or (left.dim() == 1 and needs)):
            capture.uncaptured(call, f" (gradients without sums: products of vectors, {role.layer})")


def _grouped_product(capture: Recording, call: Call) -> None:
    for group in groups_of(capture, call):
        _matrix_product(capture, group.call)


def _convolution(capture: Recording, call: Call) -> None:
    inputs, weight, _, *settings = call.args
    if call.phase == "backward":
        capture.uncaptured(call, " (role unknown)")
    elif weight.dim() not in (3, 4):
        capture.uncaptured(call, f" ({weight.dim() - 2}d)")
    else:
        layer = layer_of(capture, call, "convolution", weight)
        capture.roles.add(Entry(layer), call.number, {"A": inputs, "W": weight})
        if call.phase == "forward":
            convolved = Convolved.of(inputs, weight, settings)
            operation = INPUT_GRADIENT if convolved.transposed else FORWARD
            capture.put(layer, operation, convolved.geometry, convolved.operands(inputs, weight, call.result))


def _convolution_backward(capture: Recording, call: Call) -> None:
    grad, inputs, weight, _, *settings, (for_input, for_weight, _) = call.args
    if weight.dim() not in (3, 4):
        capture.uncaptured(call, f" ({weight.dim() - 2}d)")
        return
    entries = capture.roles.entries(call.number) if call.number is not None else []
    path = capture.names.parameter(weight)
    layer = entries[0].layer if entries else path.removesuffix(".weight") if path else "convolution"
    convolved = Convolved.of(inputs, weight, settings)
    operands = convolved.operands(inputs, weight, grad)
    if for_input:
        operation = FORWARD if convolved.transposed else INPUT_GRADIENT
        capture.put(layer, operation, convolved.geometry, operands)
    if for_weight:
        capture.put(layer, WEIGHT_GRADIENT, convolved.geometry, operands)


def _attention(capture: Recording, call: Call) -> None:
    """Record two products: Q K', and P V with P the softmax of the first."""
    arguments = call.named()
    layer = layer_of(capture, call, "attention", None)
    parts = (f"{layer}/qk", f"{layer}/pv")
    capture.roles.add(Entry(layer, parts=parts), call.number, {"A": arguments["query"], "W": arguments["key"]})
    if arguments.get("dropout_p", 0) > 0:
        capture.uncaptured(call, " (dropout)")
    elif call.phase == "forward" and any(map(capture.wants, parts)):
        forward = _attention_operands(arguments)
        capture.put(parts[0], FORWARD, geometry_of(forward.q, forward.k), {"A": forward.q, "W": forward.k})
        capture.put(parts[1], FORWARD, geometry_of(forward.p, forward.vt), {"A": forward.p, "W": forward.vt})


def _attention_operands(arguments: Mapping[str, Any]) -> fused.Attention:
    return fused.attention(
        arguments["query"],
        arguments["key"],
        arguments["value"],
        causal=arguments["is_causal"],
        mask=arguments.get("attn_mask", arguments.get("attn_bias")),
        scale=arguments["scale"],
    )


def _attention_backward(capture: Recording, call: Call) -> None:
    arguments = call.named()
    entries = capture.roles.entries(call.number) if call.number is not None else []
    entry = next((entry for entry in entries if entry.parts), None)
    if entry is None or arguments["dropout_p"] > 0:
        capture.uncaptured(call, " (role unknown)" if entry is None else " (dropout)")
        return
    qk, pv = entry.parts
    if not (capture.wants(qk) or capture.wants(pv)):
        return
    forward = _attention_operands(arguments)
    grad = arguments["grad_out"] if "grad_out" in arguments else arguments["grad_out_"]
    ds, do = fused.attention_gradients(forward, grad, arguments["out"])
    needs = {name: arguments[name].requires_grad for name in ("query", "key", "value")}
    inner = needs["query"] or needs["key"]
    for layer, operands, for_left, for_right in (
        (pv, {"A": forward.p, "W": forward.vt, "G": do}, inner, needs["value"]),
        (qk, {"A": forward.q, "W": forward.k, "G": ds}, needs["query"], needs["key"]),
    ):
        geometry = geometry_of(operands["A"], operands["W"])
        if for_left:
            capture.put(layer, INPUT_GRADIENT, geometry, operands)
        if for_right:
            capture.put(layer, WEIGHT_GRADIENT, geometry, operands)


def _lstm(capture: Recording, call: Call) -> None:
    """Record one product for the inputs of all time steps, and one product of the state per time step."""
    arguments = call.named()
    of_input, of_state = arguments["weight0"], arguments["weight1"]
    if call.repeats is not None and call.repeats.parts:
        parts = call.repeats.parts
    else:
        parts = capture.names.layer("lstm", of_input), capture.names.layer("lstm", of_state)
    capture.roles.add(Entry(parts[0], parts=parts), call.number, {"A": arguments["input"], "W": of_input})
    if arguments["batch_sizes"]:
        capture.uncaptured(call, " (packed sequences)")
    elif call.phase == "forward":
        state = fused.lstm(_lstm_arguments(arguments), call.result[0], None)
        _put_times(capture, parts[0], FORWARD, arguments["input"], of_input, None)
        for time in state.order:  # Each product needs the previous product's result, so the products are separate.
            _put_times(capture, parts[1], FORWARD, state.h[time], of_state, None)


def _lstm_backward(capture: Recording, call: Call) -> None:
    arguments = call.named()
    entries = capture.roles.entries(call.number) if call.number is not None else []
    entry = next((entry for entry in entries if entry.parts), None)
    if entry is None or arguments["batch_sizes"]:
        capture.uncaptured(call, " (role unknown)" if entry is None else " (packed sequences)")
        return
    if not any(map(capture.wants, entry.parts)):
        return
    of_input, of_state, inputs = arguments["weight1"], arguments["weight2"], arguments["input"]
    gradients = arguments["grad_output"], arguments["grad_hy"], arguments["grad_cy"]
    state = fused.lstm(_lstm_arguments(arguments), arguments["output"], gradients)
    for time in reversed(state.order):
        if time != state.order[0] or arguments["hx_"].requires_grad:
            _put_times(capture, entry.parts[1], INPUT_GRADIENT, state.h[time], of_state, state.dz[time])
    if of_state.requires_grad:
        _put_times(capture, entry.parts[1], WEIGHT_GRADIENT, state.h, of_state, state.dz)
    if inputs.requires_grad:
        _put_times(capture, entry.parts[0], INPUT_GRADIENT, inputs, of_input, state.dz)
    if of_input.requires_grad:
        _put_times(capture, entry.parts[0], WEIGHT_GRADIENT, inputs, of_input, state.dz)


def _lstm_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments under common names. The backward operation numbers its weights from 1, the forward from 0."""
    backward = "cx_tmp" in arguments
    weights = [arguments[f"weight{number + backward}"] for number in range(4)]
    return {
        "input": arguments["input"],
        "w_ih": weights[0],
        "w_hh": weights[1],
        "bias": weights[2] + weights[3] if arguments["has_biases"] else torch.zeros(()),
        "hx": arguments["hx_"],
        "cx": arguments["cx_tmp" if backward else "cx_"],
        "reverse": arguments["reverse"],
    }


def _put_times(
    capture: Recording, layer: str, operation: Operation, a: torch.Tensor, w: torch.Tensor, g: torch.Tensor | None
) -> None:
    """Record one product whose samples are all dimensions before the last."""
    operands = {"A": a.flatten(0, -2)[None], "W": w[None]}
    if g is not None:
        operands["G"] = g.flatten(0, -2)[None]
    capture.put(layer, operation, geometry_of(operands["A"], operands["W"]), operands)


_ATTENTION_KERNELS = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")

HANDLERS: dict[str, Callable[[Recording, Call], None]] = {
    **dict.fromkeys(operators.MATRIX_PRODUCTS, _matrix_product),
    GROUPED: _grouped_product,
    operators.CONVOLUTION: _convolution,
    operators.CONVOLUTION_BACKWARD: _convolution_backward,
    **{f"aten::_scaled_dot_product_{name}": _attention for name in _ATTENTION_KERNELS},
    **{f"aten::_scaled_dot_product_{name}_backward": _attention_backward for name in _ATTENTION_KERNELS},
    "aten::mkldnn_rnn_layer": _lstm,
    "aten::mkldnn_rnn_layer_backward": _lstm_backward,
}
"""The handler of each operation, by the operation's name."""
