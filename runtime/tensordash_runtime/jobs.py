"""Jobs of a device, and their results."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tensordash_sim.compiler.problem import Problem
from tensordash_sim.lowering import Geometry

from .operands import Rounding

__all__ = ["BackendResult", "DeviceJob", "DeviceResult", "ExecutedOperation", "random_key"]


@dataclass(frozen=True, kw_only=True)
class DeviceJob:
    """An operation that a backend runs: the problem, its values and its rounding.

    Parameters
    ----------
    problem : Problem
        The operation.
    values : mapping of str to array
        Bit patterns of both operands in the layer's shapes (NVFP4 values if `problem.nvfp4`), and "bias" (FP32) and
        "mask" of problems with them.
    seed : int, optional
        The user's seed, if results are rounded stochastically.
    operation : int
        The operation's number: each operation has its own random bits.
    toward_zero : bool
        Whether results of the operand format are rounded toward zero.
    scale : int
        Exponent of the power of two that multiplies results.
    weight_block_height : int
        With scales: number of vectors of W that share the scales of their blocks.
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
    """Return a key that is unique to a seed and an operation's number, of 32 bits each."""
    return operation << 32 | seed


@dataclass(frozen=True, kw_only=True)
class BackendResult:
    """A backend's result.

    Parameters
    ----------
    bits : array of unsigned
        The result, in the layer's shape.
    cycles, traffic : int, optional
        Measured cycles, and measured bytes read from memory and written to it.
    """

    bits: NDArray
    cycles: int | None = None
    traffic: int | None = None


@dataclass(frozen=True, kw_only=True)
class ExecutedOperation:
    """Record of an operation that ran.

    Parameters
    ----------
    geometry : Convolution or MatrixProduct
        The layer.
    problem : Problem
        The problem that ran.
    number : int
        Number of operations that the device has run before this one.
    operands : mapping of str to Rounding
        Counts of each operand's values before and after rounding.
    dense : int
        Cycles of the dense tile; 0 if they were not counted.
    speedup : float
        The tile's speedup from the row side's zeros before rounding, by the cycle simulator; NaN if not counted.
    flushed_speedup : float
        The speedup from all zeros that the device skips, including those that rounding made.
    cycles, traffic : int, optional
        Measured cycles of the core, and measured bytes read from memory and written to it, if any were measured.
    checks : tuple of ExecutedOperation
        Records of the products that found the results of non-finite values.
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
    checks: tuple["ExecutedOperation", ...] = ()

    @property
    def is_counted(self) -> bool:
        """Whether the tile's cycles were counted."""
        return not math.isnan(self.speedup)

    @property
    def zeros(self) -> dict[str, float]:
        """The share of each operand's values that are zero, before rounding."""
        return {name: each.zeros / each.values for name, each in self.operands.items()}

    @property
    def tile_cycles(self) -> float:
        """Cycles of a tile that skips only the tensors' zeros before rounding, with its checks."""
        return self.dense / self.speedup + sum(check.tile_cycles for check in self.checks)

    @property
    def flushed_tile_cycles(self) -> float:
        """Cycles of a tile that skips all zeros, with its checks."""
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
        """Whether an operand has infinities or NaN before rounding."""
        return any(each.non_finite for each in self.operands.values())


@dataclass(frozen=True, kw_only=True)
class DeviceResult:
    """Result of an operation, an array or a tensor as the operands are, its record and the bits of its mask."""

    result: Any
    executed: ExecutedOperation
    mask: NDArray | None = None
