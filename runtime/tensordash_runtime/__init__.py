"""Runtime: run operations on NumPy and PyTorch tensors on a TensorDash core, in an emulator or in its Verilog.

`dispatch` intercepts PyTorch's operations, and `products` maps them to contractions. `execution` scales and
rounds operands, `programs` compiles, and `backends` and `multicore` execute.

`offload`, `compile_step` and `sort_channels` import PyTorch on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .device import Device
from .errors import DeviceError, NoRoomError, OffloadError, ProgramFolderError, RoundingError
from .recipe import Recipe
from .records import Contracted, Missed, Totals
from .run import Run

if TYPE_CHECKING:
    from .channels import sort_channels
    from .dispatch import offload
    from .program_folder.compiling import compile_step

__all__ = [
    "Contracted",
    "Device",
    "DeviceError",
    "Missed",
    "NoRoomError",
    "OffloadError",
    "ProgramFolderError",
    "Recipe",
    "RoundingError",
    "Run",
    "Totals",
    "compile_step",
    "offload",
    "sort_channels",
]

_LAZY = {"compile_step": ".program_folder.compiling", "offload": ".dispatch", "sort_channels": ".channels"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
