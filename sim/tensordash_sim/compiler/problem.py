"""Problems: one of a layer's three operations, its mapping to the tile's sides, and its fused functions."""

from dataclasses import dataclass

from tensordash.configuration.core_config import CoreConfig

from .layer import OPERANDS, Layer
from .program import ProgramError

__all__ = ["ASSUMED_SPEEDUP", "Problem", "scales_by_channel"]

ASSUMED_SPEEDUP = 2.0
"""Assumed speedup of a tile that skips zeros, if zeros are not counted."""


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
        The operand on the tile's row side, whose zeros the tile skips.
    fp32 : bool
        Write FP32 results.
    relu : bool
        Replace negative results by zero.
    bias : bool
        Add a vector of FP32 values, of `bias_length` for each product. Only for AxW.
    mask : bool
        Set results to zero where a mask of their shape and format is zero. Not for FP32 results.
    turned : bool
        Swap positions and channels in each group of results. The output unit then writes FP32 results with positions on
        the row side in fewer cycles. `zeros` and `non_finite` then also count the padding of groups.
    nvfp4 : bool
        Both operands are NVFP4 tensors in memory, with blocks along the reduction (`scales_by_channel`).
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
    nvfp4: bool = False
    speedup: float = ASSUMED_SPEEDUP

    @property
    def fused(self) -> tuple[str, ...]:
        """The functions that the output unit applies to sums, of "bias", "relu" and "mask"."""
        return tuple(name for name in ("bias", "relu", "mask") if getattr(self, name))

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the problem's tensors in memory: both operands, "result", and "bias" and "mask" if present."""
        return *OPERANDS[self.operation], "result", *(name for name in ("bias", "mask") if getattr(self, name))

    def require_core(self, core: CoreConfig) -> None:
        """Check that a core can compute the problem, independently of its size.

        Raises
        ------
        ProgramError
            If the operation or `rows` is illegal, if such results cannot have a bias or mask, or if the core lacks a
            fused function or loads of NVFP4 tensors.
        """
        if self.operation not in OPERANDS:
            raise ProgramError(f"operation must be one of {', '.join(OPERANDS)}, not {self.operation!r}")
        if self.rows not in OPERANDS[self.operation]:
            raise ProgramError(f"rows must be one of {', '.join(OPERANDS[self.operation])}, not {self.rows!r}")
        if self.bias and self.operation != "AxW":
            raise ProgramError(f"a bias can be added to results of AxW, not of {self.operation}")
        if self.mask and self.fp32:
            raise ProgramError("a mask must have the format of its results, which is not FP32")
        for name in (*self.fused, *(["nvfp4"] if self.nvfp4 else [])):
            if not getattr(core, name):
                use = "NVFP4 operands" if name == "nvfp4" else f"results with a {name}"
                raise ProgramError(f"core.{name} must be true for {use}, not false")


def scales_by_channel(operation: str, name: str) -> bool:
    """Return whether an NVFP4 operand's scales belong to channels of a group; otherwise they belong to positions.

    Blocks lie along the reduction: positions of a row for AxG, filters for WxG, channels for AxW. Filters are positions
    of W.

    Examples
    --------
    >>> [f"{name} of {operation}" for operation in OPERANDS for name in OPERANDS[operation]
    ...  if scales_by_channel(operation, name)]
    ['W of WxG', 'G of AxG', 'A of AxG']
    """
    return operation == "AxG" or (operation, name) == ("WxG", "W")
