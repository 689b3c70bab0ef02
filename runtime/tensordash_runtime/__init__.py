"""Runtime: tensors of NumPy and PyTorch on a TensorDash core, emulated to the bit or on its Verilog.

`offload` and what follows it need PyTorch, which is imported when they are.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .device import Device
from .errors import DeviceError, NoRoomError, OffloadError, RoundingError
from .records import Contracted, Missed, Totals
from .run import Run

if TYPE_CHECKING:
    from .dispatch import offload

__all__ = [
    "Contracted",
    "Device",
    "DeviceError",
    "Missed",
    "NoRoomError",
    "OffloadError",
    "RoundingError",
    "Run",
    "Totals",
    "offload",
]

_LAZY = {"offload": ".dispatch"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
