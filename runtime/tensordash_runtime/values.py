"""Convert arrays of NumPy and tensors of PyTorch to bit patterns of a device's formats, and back."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.formats import Format
from tensordash_sim.emulator import encode

__all__ = ["FLOAT32", "INT32", "bits_of", "convert_like", "plain", "type_of"]

FLOAT32 = "float32"
INT32 = "int32"
NUMPY_TYPES = (FLOAT32, INT32, "float16", "int8")
"""Types of results that NumPy has."""


def _is_torch(tensor: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def type_of(name: str, tensor: Any) -> str:
    """Return the name of an array's or tensor's type.

    Raises
    ------
    TypeError
        If `tensor` is neither an array nor a tensor; `name` is its name in the message.

    Examples
    --------
    >>> type_of("a", np.zeros(3, np.float16))
    'float16'
    >>> type_of("a", [0.0])
    Traceback (most recent call last):
    TypeError: a must be an array of NumPy or a tensor of PyTorch, not a list
    """
    if not isinstance(tensor, np.ndarray) and not _is_torch(tensor):
        raise TypeError(f"{name} must be an array of NumPy or a tensor of PyTorch, not a {type(tensor).__name__}")
    return str(tensor.dtype).removeprefix("torch.")


def plain(tensor: Any) -> NDArray:
    """Return a tensor as an array of floats, or of bit patterns for integers and types that NumPy lacks."""
    if isinstance(tensor, np.ndarray):
        return tensor if tensor.dtype.kind == "f" else tensor.view(f"u{tensor.dtype.itemsize}")
    import torch

    values = tensor.detach().resolve_neg().cpu()
    if values.dtype in (torch.float16, torch.float32):
        return values.numpy()
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[values.element_size()]
    array: NDArray = values.contiguous().view(bits).numpy()
    return array.view(f"u{array.itemsize}")


def bits_of(array: NDArray, fmt: Format) -> NDArray:
    """Return bit patterns of an array from `plain`; float32 is rounded to nearest, ties to even.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> bits_of(np.array([1.0, -0.0, 1e6], np.float32), FORMATS["fp16"]).tolist()
    [15360, 32768, 31744]
    """
    if array.dtype.kind != "f":
        return array
    if array.dtype == np.float32 and fmt.name == "fp16":
        with np.errstate(over="ignore", under="ignore"):
            array = array.astype(np.float16)  # This rounds in the same way, but faster.
    return encode(np.ascontiguousarray(array), fmt)


def convert_like(template: Any, bits: NDArray, kind: str) -> Any:
    """Return bit patterns as an array, or as a tensor on the template's PyTorch device.

    Parameters
    ----------
    template : array or tensor
        An operand. The result has its class, and its PyTorch device.
    bits : array of unsigned
        Bit patterns of a result.
    kind : str
        Their type, a name as `type_of` returns. If NumPy lacks the type, an array has bit patterns.
    """
    bits = np.require(bits, requirements=["C", "W"])
    if not _is_torch(template):
        return bits.view(kind) if kind in NUMPY_TYPES else bits
    import torch

    signed = torch.from_numpy(bits.view(f"i{bits.dtype.itemsize}"))
    return signed.view(getattr(torch, kind)).to(template.device)
