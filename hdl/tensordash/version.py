"""The version that is installed."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("tensordash-hdl")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0+unknown"
