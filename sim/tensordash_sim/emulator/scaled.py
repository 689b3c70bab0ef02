"""Layer operations on a tile with scales; operands are quantised to elements and scales in the order of streams."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FloatFormat

from ..compiler.layer import OPERANDS, Layer
from ..golden.block_scales import Scaled, quantise_blocks
from .contraction import Sides, all_sums
from .products import matrix_product

__all__ = ["contract_scaled", "drawn"]


def contract_scaled(
    tile: TileConfig,
    layer: Layer,
    operation: str,
    rows: str,
    values: Mapping[str, NDArray[np.float32]],
    *,
    seed: int | None = None,
    weight_block_height: int = 1,
) -> NDArray[np.float32]:
    """Compute one of a layer's three operations on a tile with scales.

    Vectors are reductions in the order of a core's streams. Blocks run along a vector, from its beginning, so a value's
    scale may differ between operations and between windows of a convolution. A block with an infinity or NaN makes all
    results NaN to which it contributes.

    Parameters
    ----------
    tile : TileConfig
        A tile with scales, without C input.
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    rows : str
        The operand on the tile's row side, whose zeros the tile skips. Its elements have side B's format.
    values : mapping of str to array of float32
        Both operands ("A", "W" or "G"), with PyTorch's axes.
    seed : int, optional
        Key of NumPy's Philox, for stochastic rounding of G's elements, which gradients need. Without it, rounding is to
        nearest.
    weight_block_height : int
        Number of vectors of W that share the scales of their blocks (`quantise_blocks`).

    Returns
    -------
    array of float32, with PyTorch's axes
        Sums; for NVFP4 multiplied by the product of both tensors' scales. Each of these steps is rounded to FP32.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or values. The message names the argument, what is allowed and its
        value.

    Source: docs/numerics.md, "Scales". Gradients: arXiv:2509.25149, section 4.4.

    Examples
    --------
    >>> from tensordash import load_preset
    >>> layer = Layer(samples=1, channels=2, filters=1, size=(1, 3), kernel=(1, 3), padding=0)
    >>> ones = {name: np.ones(layer.shape(name), np.float32) for name in "AW"}
    >>> contract_scaled(load_preset("mxfp8"), layer, "AxW", "A", ones)
    array([[[[6.]]]], dtype=float32)
    """
    if not isinstance(tile, TileConfig) or tile.numerics.scale is None:
        raise TypeError(f"tile must be a TileConfig with scales, not {tile!r}")
    if operation not in OPERANDS:
        raise ValueError(f"operation must be one of {', '.join(OPERANDS)}, not {operation!r}")
    pair = OPERANDS[operation]
    if rows not in pair:
        raise ValueError(f"rows must be one of {', '.join(pair)}, not {rows!r}")
    for name in pair:
        operand = values.get(name)
        if (
            not isinstance(operand, np.ndarray)
            or operand.dtype != np.float32
            or operand.shape != layer.whole_shape(name)
        ):
            kind = f"{operand.dtype} of shape {operand.shape}" if isinstance(operand, np.ndarray) else repr(operand)
            raise ValueError(f"{name} must be float32 of shape {layer.whole_shape(name)}, not {kind}")
    heights = [weight_block_height if name == "W" else 1 for name in pair]
    sides = _ScaledSides(tile, pair, rows, values, seed, heights)
    sums = all_sums(sides, layer, operation, values).view(np.float32)
    made: NDArray[np.float32] = sums * np.float32(sides.factors[0] * sides.factors[1])
    return made


class _ScaledSides(Sides):
    """Quantises vectors and multiplies them on a tile with scales."""

    gathered = 1 << 22

    def __init__(
        self,
        tile: TileConfig,
        pair: tuple[str, str],
        rows: str,
        values: Mapping[str, NDArray[np.float32]],
        seed: int | None,
        heights: list[int],
    ) -> None:
        super().__init__(tile, rows == pair[0])
        self.batched = 0  # random bits are drawn product by product
        self._formats = [tile.b_format if name == rows else tile.a_format for name in pair]
        self._largest = [_largest(values[name]) for name in pair]
        self._draws = [name == "G" and seed is not None for name in pair]
        self._heights = heights
        self._random = np.random.Philox(key=seed or 0)
        self.factors = [np.float32(1.0), np.float32(1.0)]

    def sums(self, placed: NDArray, other: NDArray, bias: NDArray | None = None) -> NDArray[np.uint32]:
        assert bias is None
        made = [self._quantised(which, vectors) for which, vectors in enumerate((placed, other))]
        columns, rows = made[::-1] if self.placed_on_rows else made
        sums = matrix_product(columns.bits, rows.bits, self.tile, scales=(columns.scales, rows.scales))
        return sums if self.placed_on_rows else sums.mT

    def _quantised(self, which: int, vectors: NDArray[np.float32]) -> Scaled:
        fmt, scale = self._formats[which], self.tile.numerics.scale
        assert isinstance(fmt, FloatFormat)
        assert scale is not None
        random = drawn(self._random, vectors.shape) if self._draws[which] else None
        made = quantise_blocks(
            vectors,
            fmt,
            scale,
            largest=self._largest[which],
            random=random,
            scale_rounding=self.tile.scale_rounding,
            block_height=self._heights[which],
        )
        self.factors[which] = np.float32(made.tensor)
        bad = np.repeat(made.scales == scale.nan, scale.block, axis=-1)[..., : vectors.shape[-1]]
        # The tile would skip zeros, and with them the NaN of their scale.
        return replace(made, bits=np.where(bad, 1, made.bits).astype(np.uint8)) if bad.any() else made


def drawn(random: np.random.Philox, shape: tuple[int, ...]) -> NDArray[np.uint16]:
    """Draw 16 random bits for each value. Each number of the generator supplies four values, lowest bits first."""
    size = int(np.prod(shape))
    return random.random_raw(-(-size // 4)).astype("<u8").view("<u2")[:size].reshape(shape)


def _largest(values: NDArray[np.float32]) -> float:
    """Return the largest finite magnitude."""
    return float(np.abs(values, where=np.isfinite(values), out=np.zeros_like(values)).max(initial=0.0))
