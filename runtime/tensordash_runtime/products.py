"""Run ATen's matrix products and convolutions on a device, and the rest of each operation in PyTorch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import torch
from torch.nn import functional as F  # noqa: N812

from tensordash_sim.lowering import Geometry
from tensordash_sim.trace.capture.call import Call, Step
from tensordash_sim.trace.capture.grouped import GROUPED, groups_of, result_shape
from tensordash_sim.trace.capture.matrix_role import layer_of, role_of
from tensordash_sim.trace.capture.operators import (
    CONVOLUTION,
    CONVOLUTION_BACKWARD,
    MATRIX_PRODUCTS,
    Convolved,
    factors,
)
from tensordash_sim.trace.capture.roles import Entry, geometry_of

from .device import Device
from .jobs import DeviceResult

__all__ = ["HANDLERS", "Contracting", "Product", "UnfitError"]


class UnfitError(Exception):
    """The device cannot run an operation; the message is the reason."""


class Product(NamedTuple):
    """One contraction of a PyTorch operation.

    Attributes
    ----------
    layer : str
        Name of the layer.
    label : str
        The layer's operation: AxW, WxG or AxG; "product" if it is unknown.
    geometry : Convolution or MatrixProduct
        Shapes of the layer.
    operation : str
        The device's operation.
    operands : dict of str to torch.Tensor
        Operands of the operation, by name.
    bias, relu, mask
        Arguments of `Device.contract`.
    """

    layer: str
    label: str
    geometry: Geometry
    operation: str
    operands: dict[str, torch.Tensor]
    bias: torch.Tensor | None = None
    relu: bool = False
    mask: torch.Tensor | None = None

    def run_on(self, device: Device, *, fp32: bool, count: bool) -> DeviceResult:
        """Run the product with `Device.contract`."""
        more: dict[str, Any] = {"bias": self.bias, "relu": self.relu, "mask": self.mask}
        more |= {"count": count, "layer": self.layer}
        return device.contract(self.geometry, self.operation, self.operands, fp32=fp32, **more)


class Contracting(Step, Protocol):
    """An object that can run products on a device."""

    def contract(self, product: Product, *, fp32: bool) -> torch.Tensor | None:
        """Return the result in the geometry's shape; if the product did not run, list it and return None."""


def _name_of_factors(call: Call) -> str:
    """Return a name with the shapes of a product's factors, for a product outside of all layers.

    Examples
    --------
    >>> call = Call(None, (torch.ones(2, 3), torch.ones(3, 4)), {}, None, name="aten::mm")
    >>> _name_of_factors(call)
    'mm 2x3 3x4'
    """
    left, right, *_ = factors(call.name, call.args)
    return f"{call.name.removeprefix('aten::')} {_shape(left)} {_shape(right)}"


def _fused_product(at: Contracting, call: Call) -> torch.Tensor | None:
    """Run a matrix product with the bias, ReLU and mask that `fusing` fused with it."""
    bias, x, y, relu, mask = call.args
    name, args = ("aten::mm", (x, y)) if bias is None else ("aten::addmm", (bias, x, y))
    product, _ = _role(at, replace(call, name=name, args=args), may_transpose=False)
    result = at.contract(product._replace(bias=bias, relu=relu, mask=None if mask is None else mask[None]), fp32=False)
    return None if result is None else result.reshape(x.shape[0], y.shape[1])


def _masked_product(at: Contracting, call: Call) -> torch.Tensor | None:
    """Run the gradient of masked weights. The device gets the mask if its values are zeros and ones."""
    x, y, mask, addend = call.args
    is_mask = bool(((mask == 0) | (mask == 1)).all())
    result = _fused_product(at, replace(call, args=(None, x, y, False, mask if is_mask else None)))
    if result is None or (is_mask and addend is None):
        return result
    return (result if addend is None else addend + result) * mask


def _matrix_product(at: Contracting, call: Call) -> torch.Tensor | None:
    if call.func._overloadname.startswith("dtype"):
        raise UnfitError("a result of another type than the operands")
    left, right, *_ = factors(call.name, call.args)
    product, is_transposed = _role(at, call)
    is_plain = MATRIX_PRODUCTS[call.name] == 0
    result = at.contract(product, fp32=not is_plain)
    if result is None:
        return None
    result = result.mT if is_transposed else result
    shape = (*left.shape[:-1], *([right.shape[-1]] if right.dim() > 1 else []))
    result = result.reshape(shape[1:] if call.name == "aten::addbmm" else shape)
    return result if is_plain else _add(call, result).to(left.dtype)


def _grouped_product(at: Contracting, call: Call) -> torch.Tensor | None:
    """Run each group. Rows and columns after the last group are zeros; PyTorch leaves them undefined."""
    arguments = call.named()
    left = arguments["self"]
    if arguments["bias"] is not None or arguments["out_dtype"] not in (None, left.dtype):
        raise UnfitError("a bias, or a result of another type than the operands")
    try:
        groups = list(groups_of(at, call))
    except ValueError as error:
        raise UnfitError(str(error)) from None
    result = left.new_zeros(result_shape(call))
    has_run = False
    for index, each in groups:
        product = _matrix_product(at, each)
        has_run |= product is not None
        result[index] = torch.matmul(*each.args) if product is None else product
    return result if has_run or not groups else None


def _role(at: Contracting, call: Call, *, may_transpose: bool = True) -> tuple[Product, bool]:
    """Return a matrix product in its role in a layer, and whether the result is transposed, if it may be."""
    _, _, x, y = factors(call.name, call.args)
    role = None if call.name == "aten::addbmm" else role_of(at, call)
    if role is not None and (may_transpose or not role.turned):
        label = str(role.operation)
        return Product(role.layer, label, role.geometry, label, role.operands), role.turned
    if call.name == "aten::addbmm":  # The batch is part of the sum.
        x, y = x.transpose(0, 1).flatten(1)[None], y.flatten(0, 1)[None]
    return Product(_name_of_factors(call), "product", geometry_of(x, y.mT), "AxW", {"A": x, "W": y.mT}), False


def _add(call: Call, product: torch.Tensor) -> torch.Tensor:
    """Return ``beta * self + alpha * product`` in FP32. With beta = 0, `self` is ignored, as in BLAS."""
    arguments = call.named()
    total = product if arguments["alpha"] == 1 else product * arguments["alpha"]
    if arguments["beta"] != 0:
        addend = arguments["self"].float()
        total = total + (addend if arguments["beta"] == 1 else addend * arguments["beta"])
    if call.name == "aten::_addmm_activation":
        total = F.gelu(total, approximate="tanh") if arguments["use_gelu"] else total.relu()
    return total


def _convolution(at: Contracting, call: Call) -> torch.Tensor | None:
    inputs, weight, bias, *settings = call.args[:9]
    fused = call.args[9:]  # `fusing` appends whether to apply ReLU. The device then adds the bias, too.
    _require_dimensions(weight)
    layer = layer_of(at, call, "convolution", weight)
    if call.phase not in ("none", "backward"):
        at.roles.add(Entry(layer), call.number, {"A": inputs, "W": weight})
    convolved = Convolved.of(inputs, weight, settings)
    operation = "WxG" if convolved.transposed else "AxW"
    operands = {"WxG": {"W": weight, "G": inputs}, "AxW": {"A": inputs, "W": weight}}[operation]
    product = Product(layer, operation, convolved.geometry, operation, operands)
    if fused:
        return at.contract(product._replace(bias=bias, relu=fused[0]), fp32=False)
    result = at.contract(product, fp32=bias is not None)
    if result is None:
        return None
    if bias is not None:
        result = (result + bias.float().reshape(-1, *[1] * (weight.dim() - 2))).to(inputs.dtype)
    return result


def _convolution_backward(at: Contracting, call: Call) -> list[torch.Tensor | None] | None:
    grad, inputs, weight, _, *settings, (for_input, for_weight, for_bias) = call.args
    layer = _backward_layer(at, call, weight)
    convolved = Convolved.of(inputs, weight, settings)
    operands = convolved.operands(inputs, weight, grad)
    by_input = "AxW" if convolved.transposed else "WxG"
    results: list[torch.Tensor | None] = [None, None, None]
    is_missing = [False, False, False]
    for place, wanted, operation in ((0, for_input, by_input), (1, for_weight, "AxG")):
        if wanted:
            both = {name: operands[name] for name in operation if name != "x"}
            results[place] = at.contract(Product(layer, operation, convolved.geometry, operation, both), fp32=False)
            is_missing[place] = results[place] is None
    if for_bias:
        results[2] = grad.sum([k for k in range(grad.dim()) if k != 1], dtype=torch.float32).to(grad.dtype)
    if any(is_missing):  # PyTorch computes the gradients that the device did not compute.
        missing = call.func(*call.args[:-1], is_missing)
        results = [result if gradient is None else gradient for result, gradient in zip(results, missing, strict=True)]
    return results


def _masked_input(at: Contracting, call: Call) -> torch.Tensor | None:
    """Run the gradient of a convolution's input, with the gradient of the ReLU that made that input."""
    grad, inputs, weight, *settings, mask = call.args
    convolved = Convolved.of(inputs, weight, settings)
    layer = _backward_layer(at, call, weight)
    product = Product(layer, "WxG", convolved.geometry, "WxG", {"W": weight, "G": grad}, mask=mask)
    return at.contract(product, fp32=False)


def _backward_layer(at: Contracting, call: Call, weight: torch.Tensor) -> str:
    _require_dimensions(weight)
    entries = at.roles.entries(call.number) if call.number is not None else []
    path = at.names.parameter(weight)
    return entries[0].layer if entries else path.removesuffix(".weight") if path else f"convolution {_shape(weight)}"


def _require_dimensions(weight: torch.Tensor) -> None:
    if weight.dim() not in (3, 4):
        raise UnfitError(f"a convolution in {weight.dim() - 2} dimensions")


def _shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape))


HANDLERS: dict[str, Callable[[Any, Call], Any]] = {
    **dict.fromkeys(MATRIX_PRODUCTS, _matrix_product),
    GROUPED: _grouped_product,
    CONVOLUTION: _convolution,
    CONVOLUTION_BACKWARD: _convolution_backward,
    "tensordash::fused_matmul": _fused_product,
    "tensordash::masked_matmul": _masked_product,
    "tensordash::fused_convolution": _convolution,
    "tensordash::fused_convolution_input": _masked_input,
}
"""Functions that run an operation, by its name; they return None if the device did not run it."""
