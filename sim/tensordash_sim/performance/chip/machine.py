"""Machines on which operations are simulated: a tile, a chip, and the mapping of work to them."""

from dataclasses import dataclass
from typing import Any

from tensordash import TileConfig
from tensordash.configuration.parameters import require_bool, require_choice

from ...cycles import require_row_side
from .config import ChipConfig
from .passes import ROW_ORDERS

__all__ = ["JOINS", "SIDES", "Machine"]

SIDES = ("sparser", "left", "right", "faster")
"""Choices of the scheduled operand; `faster` simulates both."""
JOINS = ("never", "always", "faster")
"""Whether a convolution's weight gradients are summed over all samples at once; `faster` simulates both."""


@dataclass(frozen=True)
class Machine:
    """A tile, a chip and the mapping of operations to them.

    Attributes
    ----------
    config : TileConfig
        The tile.
    chip : ChipConfig
        The chip around the tile.
    side : "sparser", "left", "right" or "faster"
        The operand whose zeros the tile skips; the operation's name has the left one first. `faster` selects the
        operand with fewer cycles, without DRAM, or the sparser one if both are equal.
    row_order : "natural" or "density"
        The order in which vectors are grouped onto the rows of a tile.
    join_samples : "never", "always" or "faster"
        Whether a convolution's weight gradients are summed over all samples at once (`lowering.join_samples`), instead
        of separately for each sample and added up in memory. Joined streams are fewer and longer, so some tiles may
        have none. `faster` as for `side`.
    drop_steps : bool
        Whether to also count cycles of tiles that drop empty steps (`cycles.drop_empty_steps`). Memory and energy are
        counted without it.

    Raises
    ------
    ValueError
        If a field is illegal. The message names the field, what is allowed and its value.
    """

    config: TileConfig
    chip: ChipConfig
    side: str = "sparser"
    row_order: str = "natural"
    join_samples: str = "never"
    drop_steps: bool = False

    def __post_init__(self) -> None:
        require_choice("side", self.side, SIDES)
        require_choice("row_order", self.row_order, ROW_ORDERS)
        require_choice("join_samples", self.join_samples, JOINS)
        require_bool("drop_steps", self.drop_steps)
        if self.drop_steps:
            require_row_side(self.config)

    def to_mapping(self) -> dict[str, Any]:
        """Return all settings that affect results."""
        return {
            **self.config.to_mapping(),
            **self.chip.to_mapping(),
            "side": self.side,
            "row_order": self.row_order,
            "join_samples": self.join_samples,
            **({"drop_steps": True} if self.drop_steps else {}),
        }
