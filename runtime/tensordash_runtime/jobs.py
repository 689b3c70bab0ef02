"""What a device is asked to do, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tensordash_sim.core.contraction import SPEEDUP
from tensordash_sim.core.layer import Layer
from tensordash_sim.lowering import Geometry

__all__ = ["Done", "Executed", "Job", "Ran", "Work", "random_key"]


@dataclass(frozen=True, kw_only=True)
class Work:
    """An operation without its operands: what a program is made of.

    Parameters
    ----------
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    rows : str
        The operand on the row side, whose zeros are skipped.
    fp32 : bool
        Results stay FP32.
    speedup : float
        How much faster than the dense one the tile is thought to be: how the operation is cut depends on it.
    bias, relu, mask : bool
        What the output unit does besides: adds a bias, makes negative results zero, and those where a mask is zero.
    """

    layer: Layer
    operation: str
    rows: str
    fp32: bool
    speedup: float = SPEEDUP
    bias: bool = False
    relu: bool = False
    mask: bool = False

    @property
    def fused(self) -> tuple[str, ...]:
        """What the output unit does besides, by name."""
        return tuple(name for name in ("bias", "relu", "mask") if getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class Job:
    """Work, and what differs each time.

    Parameters
    ----------
    work : Work
        The operation.
    values : mapping of str to array
        Bit patterns of both operands as its layer has them; "bias", FP32, and "mask" if it has them.
    seed : int, optional
        The user's seed, if results are rounded stochastically.
    operation : int
        The operation's number: each has random bits of its own.
    toward_zero : bool
        Results of the operand format are rounded toward zero.
    """

    work: Work
    values: Mapping[str, NDArray]
    seed: int | None = None
    operation: int = 0
    toward_zero: bool = False

    @property
    def key(self) -> int | None:
        """The seed and the operation in one number, for generators that take a key."""
        return None if self.seed is None else random_key(self.seed, self.operation)


def random_key(seed: int, operation: int) -> int:
    """A number for each pair of a seed and an operation, of 32 bits each."""
    return operation << 32 | seed


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What a backend made of a job.

    Parameters
    ----------
    bits : array of unsigned
        The result, as the layer has it.
    cycles, traffic : int, optional
        As measured: cycles, and bytes that memory was read and written.
    zeros, non_finite : int, optional
        As the core has counted them among its results.
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
    work : Work
        What ran.
    number : int
        How many operations the device had done before.
    zeros : dict of str to float
        The share of zeros in each operand.
    dense : int
        Cycles of the dense tile.
    speedup : float
        What skipping the row side's zeros gains in the tile, as the cycle simulator counts it.
    cycles, traffic : int, optional
        As measured, where they are: the core's cycles, and bytes that memory was read and written.
    """

    geometry: Geometry
    work: Work
    number: int
    zeros: Mapping[str, float]
    dense: int
    speedup: float
    cycles: int | None
    traffic: int | None


@dataclass(frozen=True, kw_only=True)
class Done:
    """A result, an array or a tensor as the operands are, and how it came about."""

    result: Any
    executed: Executed
