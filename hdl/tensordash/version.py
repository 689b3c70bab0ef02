"""Version of the installed package."""

import re
from importlib.metadata import PackageNotFoundError, version

__all__ = ["NUMERIC_VERSION", "__version__", "numeric_version"]

try:
    __version__ = version("tensordash-hdl")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0+unknown"


def numeric_version(text: str) -> str:
    """Return a version that FuseSoC and IP-XACT can read: numbers and dots, "0" for any other.

    >>> numeric_version("1.2.0"), numeric_version("0+unknown")
    ('1.2.0', '0')
    """
    return text if re.fullmatch(r"\d+(\.\d+)*", text) else "0"


NUMERIC_VERSION = numeric_version(__version__)
"""The version for files of other tools."""
