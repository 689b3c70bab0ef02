"""Infinities and NaN in operands: results as in PyTorch, whichever operand's zeros the tile skips.

Zero times infinity would be NaN if the zero were on the column side, but the tile skips zeros of the row side. The
device therefore replaces non-finite values by zeros. Further products, of zeros and ones, find the results that depend
on non-finite values. These results become infinities or NaN.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.formats import FloatFormat
from tensordash.configuration.numerics import Binned, Exact
from tensordash_sim.compiler.layer import OPERANDS, RESULTS
from tensordash_sim.emulator import result_bits
from tensordash_sim.lowering import Convolution, Geometry

__all__ = ["insert_results", "non_finite_results"]

Multiply = Callable[[Geometry, Mapping[str, NDArray[np.float32]]], NDArray[np.float32]]
"""Runs the operation on float32 arrays that every format holds exactly."""
MAX_COUNT_BITS = 24
"""FP32 counts exactly up to this power of two."""


def non_finite_results(
    tile: TileConfig,
    geometry: Geometry,
    operation: str,
    numbers: Mapping[str, NDArray[np.float32]],
    multiply: Multiply,
    *,
    has_scales: bool,
) -> NDArray[np.float32]:
    """Return the results that depend on non-finite values of operands.

    A result is NaN if one of its products has a NaN, or an infinity and a zero, or if there are infinities of both
    signs. Otherwise it is an infinity if one of its products is an infinity. Spatial padding is zeros. If operands
    have scales, each result that depends on a non-finite value is NaN.

    Parameters
    ----------
    tile : TileConfig
        The tile.
    geometry : Convolution or MatrixProduct
        The layer.
    operation : str
        "AxW", "WxG" or "AxG".
    numbers : mapping of str to array of float32
        Both operands, at least one of which has infinities or NaN.
    multiply : callable
        Runs the operation on the device.
    has_scales : bool
        Whether operands are quantised to elements and scales.

    Returns
    -------
    array of float32, in the geometry's shape of the result
        Infinities and NaN; 0 for results without non-finite products.
    """
    first, second = OPERANDS[operation]
    x, y = numbers[first], numbers[second]
    counts = np.zeros(geometry.shapes[RESULTS[operation]], np.float32)
    signs = counts.copy()

    def add(left: NDArray, right: NDArray, x_padding: float, y_padding: float, into: NDArray) -> None:
        wider, padded = _padded(geometry, {first: (left, x_padding), second: (right, y_padding)})
        into += multiply(wider, padded)

    # The first product counts pairs with a non-finite x, the second pairs with a finite x and a non-finite y.
    x_finite, y_finite = np.isfinite(x), np.isfinite(y)
    if not x_finite.all():
        add(~x_finite, np.ones_like(y), 0.0, 1.0, counts)
        if not has_scales:
            add(np.where(np.isinf(x), np.sign(x), 0), _signs(y), 0.0, 0.0, signs)
    if not y_finite.all():
        add(x_finite, ~y_finite, 1.0, 0.0, counts)
        if not has_scales:
            add(np.where(x_finite, np.sign(x), 0), np.where(np.isinf(y), np.sign(y), 0), 0.0, 0.0, signs)
    certain = (np.abs(signs) == counts) & (counts < 2.0 ** _count_bits(tile))
    infinities = np.where(certain, np.copysign(np.float32(np.inf), signs), np.float32(np.nan))
    return np.where(counts == 0, np.float32(0), infinities).astype(np.float32)


def _signs(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return -1, 0 or 1 for each value; 0 for NaN."""
    return np.where(np.isnan(numbers), np.float32(0), np.sign(numbers)).astype(np.float32)


def _count_bits(tile: TileConfig) -> int:
    """Return the exponent of the power of two below which sums of ones are exact; larger counts give NaN."""
    accumulator = tile.numerics.accumulator
    if isinstance(accumulator, Exact):
        return MAX_COUNT_BITS
    if isinstance(accumulator, Binned):
        return min(MAX_COUNT_BITS, accumulator.headroom_bits)
    return min(MAX_COUNT_BITS, accumulator.fraction_bits, accumulator.result_bits)


def _padded(
    geometry: Geometry, operands: Mapping[str, tuple[NDArray, float]]
) -> tuple[Geometry, dict[str, NDArray[np.float32]]]:
    """Return operands as float32, with spatial padding made explicit if it is not zero."""
    arrays = {name: np.asarray(values, np.float32) for name, (values, _) in operands.items()}
    if not isinstance(geometry, Convolution) or not any(geometry.padding) or operands.get("A", (None, 0.0))[1] == 0:
        return geometry, arrays
    widths = [(0, 0), (0, 0), *((each, each) for each in geometry.padding)]
    arrays["A"] = np.pad(arrays["A"], widths, constant_values=np.float32(operands["A"][1]))
    size = tuple(extent + 2 * each for extent, each in zip(geometry.size, geometry.padding, strict=True))
    return replace(geometry, size=size, padding=(0,) * len(size)), arrays


def insert_results(
    bits: NDArray,
    special: NDArray[np.float32],
    fmt: FloatFormat,
    *,
    bias: NDArray[np.float32] | None,
    relu: bool,
    mask: NDArray | None,
) -> NDArray:
    """Return results with infinities and NaN inserted.

    Parameters
    ----------
    bits : array of unsigned
        Results of finite operands in the layer's shape, after bias, ReLU and mask.
    special : array of float32
        Infinities and NaN in the layer's shape, 0 elsewhere.
    fmt : FloatFormat
        Format of the results.
    bias, relu, mask
        Operations after the sum, as in `DeviceJob`.
    """
    numbers = special
    if bias is not None:
        with np.errstate(invalid="ignore"):
            numbers = special + bias.reshape(*bias.shape, 1, 1)[..., None, :, :, :]
    special_bits = result_bits(np.ascontiguousarray(numbers).view(np.uint32), fmt, relu=relu, mask=mask)
    return np.where(special == 0, bits, special_bits)
