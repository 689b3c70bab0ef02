"""Checks of parameters, shared by the configuration and every hardware component.

Each check raises ``TypeError`` for a wrong type and ``ValueError`` for a wrong value. The message is one line with the
field, what is allowed, and the value.
"""

from collections.abc import Collection
from typing import Any

__all__ = ["require_bool", "require_choice", "require_int"]


def require_int(name: str, value: Any, low: int, high: int | None = None, *, alternative: str = "") -> int:
    """Return `value` if it is an integer from `low` to `high` (inclusive; no upper bound if None).

    An error lists `alternative` in front of the allowed values.

    >>> require_int("lanes", 0, 2, 32)
    Traceback (most recent call last):
    ValueError: lanes must be an integer from 2 to 32, not 0
    """
    allowed = f"an integer from {low} to {high}" if high is not None else f"an integer of at least {low}"
    allowed = alternative + allowed
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be {allowed}, not {value!r}")
    if value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be {allowed}, not {value!r}")
    return value


def require_bool(name: str, value: Any, *, alternative: str = "") -> bool:
    """Return `value` if it is true or false. `alternative` is as in `require_int`."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be {alternative}true or false, not {value!r}")
    return value


def require_choice(name: str, value: Any, allowed: Collection[str], *, alternative: str = "") -> str:
    """Return `value` if it is one of the `allowed` names. `alternative` is as in `require_int`."""
    listed = f"{alternative}one of {', '.join(sorted(allowed))}"
    if not isinstance(value, str):
        raise TypeError(f"{name} must be {listed}, not {value!r}")
    if value not in allowed:
        raise ValueError(f"{name} must be {listed}, not {value!r}")
    return value
