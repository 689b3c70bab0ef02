"""Cache folders for files between runs."""

import atexit
import errno
import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["usable_cache", "usable_cache_home", "user_cache"]


_replaced: dict[str, str] = {}
"""Temporary folders that replace the cache folder, each with the earlier value of XDG_CACHE_HOME."""


def user_cache(name: str) -> Path:
    """Return ``tensordash/NAME`` in the user's cache folder (XDG_CACHE_HOME, or ``~/.cache``).

    It is the user's own folder even if `usable_cache_home` replaced it, so that no download vanishes silently.

    Raises
    ------
    OSError
        If there is no such folder, because the user has no home.
    """
    return _home(own=True) / "tensordash" / name


def usable_cache(name: str) -> Path:
    """Return a writable folder for files that can be computed again. See `usable_cache_home`."""
    usable_cache_home()
    return _home(own=False) / "tensordash" / name


def usable_cache_home() -> bool:
    """Ensure that this process and its children have a writable cache folder.

    If the user's folder is not writable, as in a container without a home, XDG_CACHE_HOME becomes a temporary folder.
    The temporary folder is removed when this process ends. Yosys's WebAssembly and Numba require a cache folder.

    Returns
    -------
    bool
        Whether the cache folder is the user's own.
    """
    if os.environ.get("XDG_CACHE_HOME", "") in _replaced:
        return False
    try:
        home = _home(own=False)
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return True
    except OSError:
        folder = tempfile.mkdtemp(prefix="tensordash-cache-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _replaced[folder] = os.environ.get("XDG_CACHE_HOME", "")
        os.environ["XDG_CACHE_HOME"] = folder
        return False


def _home(*, own: bool) -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    if own:
        base = _replaced.get(base, base)
    # The XDG specification ignores relative paths.
    if Path(base).is_absolute():
        return Path(base)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        raise FileNotFoundError(errno.ENOENT, "no cache folder: set HOME or XDG_CACHE_HOME") from None
