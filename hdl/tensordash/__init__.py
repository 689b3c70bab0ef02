"""TensorDash hardware generator: configuration, Amaranth components and Verilog emission.

Reading a configuration does not import Amaranth: `Tile` and `generate` are loaded on first use.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from .config import ConfigError, TileConfig
from .connectivity import Connectivity
from .errors import TensorDashError
from .preset import load_preset, preset_names

if TYPE_CHECKING:
    from .tile import Tile
    from .verilog import generate

__all__ = [
    "ConfigError",
    "Connectivity",
    "TensorDashError",
    "Tile",
    "TileConfig",
    "generate",
    "load_preset",
    "preset_names",
]

try:
    __version__ = version("tensordash-hdl")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0+unknown"

_LAZY = {"Tile": ".tile", "generate": ".verilog"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
