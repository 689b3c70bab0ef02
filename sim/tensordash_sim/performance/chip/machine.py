"""What operations are simulated on: a tile, a chip around it, and how work is put on them."""

from dataclasses import dataclass
from typing import Any

from tensordash import TileConfig
from tensordash.configuration.parameters import require_bool, require_choice

from ...cycles import require_row_side
from .config import ChipConfig
from .passes import ROW_ORDERS

__all__ = ["JOINS", "SIDES", "Machine"]

SIDES = ("sparser", "left", "right", "faster")
"""Which operand is scheduled: `faster` counts the cycles of both."""
JOINS = ("never", "always", "faster")
"""Whether weights' gradients of a convolution are summed over all samples at once; `faster` counts both."""


@dataclass(frozen=True)
class Machine:
    """What is simulated.

    Attributes
    ----------
    config : TileConfig
        The tile.
    chip : ChipConfig
        What is around it.
    side : "sparser", "left", "right" or "faster"
        The operand whose zeros are skipped; the operation's name has the left one first. `faster` is the one with which
        the operation takes fewer cycles, without DRAM, or the sparser one if it does not matter.
    row_order : "natural" or "density"
        Which vectors share the rows of a tile.
    join_samples : "never", "always" or "faster"
        Whether the gradients of a convolution's weights are sums over all samples at once (`lowering.join_samples`),
        instead of one for each sample that are added up in memory. Streams are fewer and longer: where few are left,
        some tiles have none. `faster` is as of `side`.
    drop_steps : bool
        Whether cycles of tiles that drop empty steps (`cycles.drop_empty_steps`) are counted, too. No hardware drops
        steps yet; memory and energy are counted without it.

    Raises
    ------
    ValueError
        Naming the field, what is allowed and what was given.
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
        """Everything that results depend on."""
        return {
            **self.config.to_mapping(),
            **self.chip.to_mapping(),
            "side": self.side,
            "row_order": self.row_order,
            "join_samples": self.join_samples,
            **({"drop_steps": True} if self.drop_steps else {}),
        }
