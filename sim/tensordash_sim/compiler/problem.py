"""Problems: one of the three operations of a layer, with its sides and what the core fuses into it."""

from dataclasses import dataclass

from tensordash.configuration.core_config import CoreConfig

from .layer import OPERANDS, Layer
from .program import ProgramError

__all__ = ["ASSUMED_SPEEDUP", "Problem"]

ASSUMED_SPEEDUP = 2.0
"""Speedup of a tile that skips zeros, as long as they are not counted."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """An operation of a layer, without its tensors: the first stage of the compiler.

    Parameters
    ----------
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    rows : str
        The operand on the tile's row side, whose zeros are skipped.
    fp32 : bool
        Results stay FP32.
    relu : bool
        Negative results become zero.
    bias : bool
        A vector of FP32, of `bias_length` for each product, is added to results. Only AxW has one.
    mask : bool
        Results become zero where a mask of their shape and format is zero. FP32 results have none.
    turned : bool
        In each group of results positions and channels have changed places, so that FP32 results with positions on the
        row side are written in fewer cycles. `zeros` and `non_finite` then count all that fills up groups.
    speedup : float
        Assumed speedup of the tile over the dense one. The tiling depends on it.
    """

    layer: Layer
    operation: str
    rows: str
    fp32: bool = False
    relu: bool = False
    bias: bool = False
    mask: bool = False
    turned: bool = False
    speedup: float = ASSUMED_SPEEDUP

    @property
    def fused(self) -> tuple[str, ...]:
        """What the output unit does with sums: of "bias", "relu" and "mask"."""
        return tuple(name for name in ("bias", "relu", "mask") if getattr(self, name))

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of its tensors in memory: both operands, "result", and of "bias" and "mask" those that it has."""
        return *OPERANDS[self.operation], "result", *(name for name in ("bias", "mask") if getattr(self, name))

    def require_core(self, core: CoreConfig) -> None:
        """Require that a core can compute it, whatever its size.

        Raises
        ------
        ProgramError
            If there is no such operation, its operand is not on that side, results of this kind have no bias or mask,
            or the core is built without what it needs.
        """
        if self.operation not in OPERANDS:
            raise ProgramError(f"operation must be one of {', '.join(OPERANDS)}, not {self.operation!r}")
        if self.rows not in OPERANDS[self.operation]:
            raise ProgramError(f"rows must be one of {', '.join(OPERANDS[self.operation])}, not {self.rows!r}")
        if self.bias and self.operation != "AxW":
            raise ProgramError(f"a bias can be added to results of AxW, not of {self.operation}")
        if self.mask and self.fp32:
            raise ProgramError("a mask must have the format of its results, which is not FP32")
        for name in self.fused:
            if not getattr(core, name):
                raise ProgramError(f"core.{name} must be true for that, not false")
