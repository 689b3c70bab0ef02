"""Status ports of a tile, the same on every top."""

from typing import Any

from amaranth.lib.wiring import In, Out

from ..configuration.config import TileConfig
from .counters import CounterSignature
from .flags import FLAGS

__all__ = ["counter_names", "status_members"]


def counter_names(config: TileConfig) -> tuple[str, ...]:
    """Return the names of the counters that a tile shows."""
    return tuple(CounterSignature(config.rows).members) if config.counts else ()


def status_members(config: TileConfig) -> dict[str, Any]:
    """Return the members of a top: counters, flags, `idle`, `clear`, and `snapshot`.

    They have no signature of their own, because its name would prefix theirs.
    """
    members: dict[str, Any] = {}
    if config.counts:
        members |= dict(CounterSignature(config.rows).members)
    members |= {name: Out(1) for name in FLAGS}
    members |= {"idle": Out(1), "clear": In(1)}
    if config.snapshot:
        members["snapshot"] = In(1)
    return members
