"""Base class of the layout units for one and for two groups per cycle."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Const, Mux, Value
from amaranth.lib.wiring import In, Out, Signature

from ..block import Block
from ..configuration.core_config import CoreConfig
from ..configuration.parameters import require_choice
from ..configuration.registers import ERRORS
from ..memory.bank import group_address_bits
from .unit import CommandSignature

__all__ = ["LayoutUnit"]


class LayoutUnit(Block):
    """A unit that executes `layout_a` or `layout_b`: its ports, and the sizes from its configuration.

    Parameters
    ----------
    config : CoreConfig
        The core.
    side : str
        "a" or "b".
    read, write : type of Signature
        Types of its ports to the buffer and to the side's stream buffer.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.
    """

    def __init__(self, config: CoreConfig, side: str, *, read: type[Signature], write: type[Signature]) -> None:
        if not isinstance(config, CoreConfig):
            raise TypeError(f"config must be a CoreConfig, not {config!r}")
        self.config = config
        self.side = require_choice("side", side, ("a", "b"))
        self.lanes, self.depth = config.tile.lanes, config.tile.window_depth
        self.parts, self.words = config.parts(side), config.stream_words(side)
        self.position_bits = self.lanes * config.value_bits
        self.address_bits = group_address_bits(config.groups)
        reads = read(lanes=self.lanes, width=config.value_bits, address_bits=self.address_bits)
        writes = write(depth=self.depth, words=self.words, parts=self.parts, group_bits=config.group_bits)
        super().__init__(
            {"command": In(CommandSignature()), "read": Out(reads), "write": Out(writes), **self._more_members()},
            variant=side,
        )

    def _more_members(self) -> dict[str, Any]:
        return {}

    def _is_last(self, part: Value) -> Any:
        """Return whether a one-hot part is a step's last one."""
        return part[-1] if self.parts > 1 else Const(1, 1)

    def _values(self, ports: Sequence[Value], transposed: Value) -> list[Value]:
        """Return the values of a step: the ports' values, or the transpose of their square."""
        width, values = self.config.value_bits, []
        for port in range(self.lanes):
            for lane in range(self.lanes):
                value, mirrored = (ports[i][j * width : (j + 1) * width] for i, j in ((port, lane), (lane, port)))
                values.append(value if port == lane else Mux(transposed, mirrored, value))
        return values

    def _error(self, beyond: Value, outside: Value) -> Value:
        """Return the error of a layout with words or positions beyond the end of their memory."""
        return Mux(beyond, ERRORS["range"], Mux(outside, ERRORS["address"], Const(0, 4)))
