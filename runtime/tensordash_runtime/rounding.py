"""Rounding modes of a device's results."""

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.parameters import require_choice, require_int
from tensordash_sim.compiler.rounding import MAX_SEED

__all__ = ["checked_seed"]

ROUNDINGS = ("nearest", "zero", "stochastic")


def checked_seed(config: CoreConfig | TileConfig, rounding: str, seed: int, *, has_recipe: bool = False) -> int | None:
    """Check a device's rounding mode; return the seed, or None if nothing is rounded stochastically.

    With a recipe, or on a tile with scales, quantised gradients are rounded in this mode.
    """
    tile = config.tile if isinstance(config, CoreConfig) else config
    has_scales = has_recipe or tile.numerics.scale is not None
    require_int("rounding_seed", seed, 0, MAX_SEED)
    if require_choice("rounding", rounding, ROUNDINGS) == "zero" and has_scales:
        raise ValueError("rounding must be nearest or stochastic for a tile with scales, and with a recipe, not zero")
    if rounding != "stochastic":
        return None
    if not has_scales and (not isinstance(config, CoreConfig) or not config.stochastic):
        raise ValueError(
            "rounding must be nearest for a tile without scales, and for a core with core.stochastic = false"
        )
    return seed
