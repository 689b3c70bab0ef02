"""Nested loops over the buffer (docs/core.md, "Loops")."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["LoopWalk"]


@dataclass
class LoopWalk:
    """Address and coordinates of a layout or an output in its loops.

    Parameters
    ----------
    values : mapping of str to int
        The descriptor's fields.
    loops : int
        Number of loops.

    Attributes
    ----------
    address, x, y : int
        The address is unsigned; `x` and `y` are signed.
    """

    values: Mapping[str, int]
    loops: int
    address: int = field(init=False)
    x: int = field(init=False)
    y: int = field(init=False)

    def __post_init__(self) -> None:
        self.address, self.x, self.y = (self.values[name] for name in ("address", "x", "y"))
        self._turns = [0] * self.loops

    def step(self) -> None:
        """Advance to the next group."""
        outermost = self.loops - 1
        k = next((k for k in range(outermost) if self._turns[k] < self.values[f"count_{k}"] - 1), outermost)
        self._turns[: k + 1] = [*[0] * k, self._turns[k] + 1]
        self.address = (self.address + self.values[f"address_{k}"]) % (1 << 16)
        self.x = (self.x + self.values[f"x_{k}"] + (1 << 15)) % (1 << 16) - (1 << 15)
        self.y = (self.y + self.values[f"y_{k}"] + (1 << 15)) % (1 << 16) - (1 << 15)
