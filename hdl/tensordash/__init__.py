"""TensorDash hardware generator: configuration, Amaranth components and Verilog emission.

Reading a configuration does not import Amaranth: `Tile` and `generate` are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .configuration.config import ConfigError, TileConfig
from .configuration.connectivity import Connectivity
from .configuration.errors import TensorDashError
from .configuration.preset import load_preset, preset_names
from .version import __version__

if TYPE_CHECKING:
    from .emission.verilog import generate
    from .tile.tile import Tile

__all__ = [
    "ConfigError",
    "Connectivity",
    "TensorDashError",
    "Tile",
    "TileConfig",
    "__version__",
    "generate",
    "load_preset",
    "preset_names",
]

_LAZY = {"Tile": ".tile.tile", "generate": ".emission.verilog"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
