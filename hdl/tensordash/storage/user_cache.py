"""Where things are kept between runs."""

import os
from pathlib import Path

__all__ = ["user_cache"]


def user_cache(name: str) -> Path:
    """``tensordash/NAME`` in the user's cache folder (XDG_CACHE_HOME, or ``~/.cache``)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification: a relative path there is to be ignored.
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "tensordash" / name
