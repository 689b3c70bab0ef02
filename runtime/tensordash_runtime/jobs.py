"""Jobs of a device, and their results."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tensordash_sim.compiler.problem import Problem
from tensordash_sim.lowering import Geometry

from .operands import Rounding

__all__ = ["DeviceJob", "Done", "Executed", "Ran", "random_key"]


@dataclass(frozen=True, kw_only=True)
class DeviceJob:
    """An operation that a backend runs: the problem, and what differs each time.

    Parameters
    ----------
    problem : Problem
        The operation.
    values : mapping of str to array
        Bit patterns of both operands as its layer has them; "bias", FP32, and "mask" if it has them.
    seed : int, optional
        The user's seed, if results are rounded stochastically.
    operation : int
        The operation's number: each has random bits of its own.
    toward_zero : bool
        Results of the operand format are rounded toward zero.
    scale : int
        Results are multiplied by this power of two.
    weight_block_height : int
        With scales: how many vectors of W share the scales of their blocks.
    """

    problem: Problem
    values: Mapping[str, NDArray]
    seed: int | None = None
    operation: int = 0
    toward_zero: bool = False
    scale: int = 0
    weight_block_height: int = 1

    @property
    def key(self) -> int | None:
        """The seed and the operation in one number, for generators that take a key."""
        return None if self.seed is None else random_key(self.seed, self.operation)


def random_key(seed: int, operation: int) -> int:
    """Return a number for each pair of a seed and an operation, of 32 bits each."""
    return operation << 32 | seed


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A backend's result.

    Parameters
    ----------
    bits : array of unsigned
        The result, as the layer has it.
    cycles, traffic : int, optional
        As measured: cycles, and bytes that memory was read and written.
    zeros, non_finite : int, optional
        Counts of the core among its results.
    """

    bits: NDArray
    cycles: int | None = None
    traffic: int | None = None
    zeros: int | None = None
    non_finite: int | None = None


@dataclass(frozen=True, kw_only=True)
class Executed:
    """How an operation went.

    Parameters
    ----------
    geometry : Convolution or MatrixProduct
        Its layer.
    problem : Problem
        What ran.
    number : int
        How many operations the device had done before.
    operands : mapping of str to Rounding
        What rounding did to each operand, and what the tensors have themselves.
    dense : int
        Cycles of the dense tile; 0 if they were not counted.
    speedup : float
        The tile's speedup from the row side's own zeros, counted by the cycle simulator; NaN if it was not counted.
    flushed_speedup : float
        The speedup from all zeros that the device skips, including those that rounding made.
    cycles, traffic : int, optional
        As measured, where they are: the core's cycles, and bytes that memory was read and written.
    checks : tuple of Executed
        Products that found which results non-finite values reach.
    """

    geometry: Geometry
    problem: Problem
    number: int
    operands: Mapping[str, Rounding]
    dense: int
    speedup: float
    flushed_speedup: float
    cycles: int | None
    traffic: int | None
    checks: tuple["Executed", ...] = ()

    @property
    def counted(self) -> bool:
        """Whether the tile's cycles were counted."""
        return not math.isnan(self.speedup)

    @property
    def zeros(self) -> dict[str, float]:
        """The share of each operand's values that are zero, before rounding."""
        return {name: each.zeros / each.values for name, each in self.operands.items()}

    @property
    def tile_cycles(self) -> float:
        """Of a tile that skips the tensors' own zeros, and of its checks."""
        return self.dense / self.speedup + sum(check.tile_cycles for check in self.checks)

    @property
    def flushed_tile_cycles(self) -> float:
        """Of a tile that skips all zeros, and of its checks."""
        return self.dense / self.flushed_speedup + sum(check.tile_cycles for check in self.checks)

    @property
    def flushed(self) -> int:
        """Values of both operands that rounding made zero."""
        return sum(each.flushed for each in self.operands.values())

    @property
    def saturated(self) -> int:
        """Finite values of both operands that rounding made infinite, NaN or the largest number."""
        return sum(each.saturated or 0 for each in self.operands.values())

    @property
    def non_finite(self) -> bool:
        """Whether an operand has infinities or NaN itself."""
        return any(each.non_finite for each in self.operands.values())


@dataclass(frozen=True, kw_only=True)
class Done:
    """A result, an array or a tensor as the operands are, and how it came about."""

    result: Any
    executed: Executed
