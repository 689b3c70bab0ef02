"""Layer operations, bit-identical to a core's results in memory."""

from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.configuration.config import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FP32, IntegerFormat
from tensordash.configuration.numerics import Binned, Fused

from ..compiler.layer import OPERANDS, RESULTS, Layer
from .conversions import result_bits
from .integers import integer_result_bits
from .lowering import Fill, activations, filled, gradient, weights, windows
from .products import matrix_product
from .tables import checked_bits

__all__ = ["Sides", "all_sums", "contract"]

EXPONENT_FIELD = np.uint32(0x7F800000)
SIGN = np.uint32(0x80000000)
"""Bits of FP32."""
BATCHED_MACS = 1 << 22
"""Multiply-accumulates of a batch of products: enough to make a call's overhead negligible."""


def contract(
    config: CoreConfig | TileConfig,
    layer: Layer,
    operation: str,
    rows: str,
    values: Mapping[str, ArrayLike],
    *,
    fp32: bool = False,
    bias: NDArray[np.float32] | NDArray[np.int32] | None = None,
    relu: bool = False,
    mask: ArrayLike | None = None,
    toward_zero: bool = False,
    random: NDArray[np.uint16] | None = None,
    scale: int = 0,
) -> NDArray:
    """Compute one of a layer's three operations as a core does.

    Parameters
    ----------
    config : CoreConfig or TileConfig
        The core, or a tile with any number format that stands for a core's tile: a reduction is one stream.
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    rows : str
        The operand on the tile's row side, whose zeros the tile skips. It has side B's format.
    values : mapping of str to array of unsigned
        Bit patterns of both operands ("A", "W" or "G"), with PyTorch's axes.
    fp32 : bool
        Return FP32 results; for int8, INT32 results.
    bias : array of float32, for int8 of int32, (products,) filters, optional
        Added to the sums of AxW before they are rounded.
    relu : bool
        Replace negative results by zero.
    mask : array of unsigned, optional
        Bit patterns of side A's format, shaped like the result. Where they are zeros of either sign, the result is +0.
        Not allowed for FP32 results.
    toward_zero : bool
        Round toward zero, even if there are random bits. FP32 results are always rounded to nearest.
    random : array of uint16, optional
        Random bits for stochastic rounding, shaped like the result; `RandomBits` computes a program's bits. Not allowed
        for FP32 results.
    scale : int
        Exponent of a power of two. Results are multiplied by it after bias, ReLU and mask, before they are rounded.

    Returns
    -------
    array of unsigned, with PyTorch's axes
        Bit patterns of side A's format, or of FP32 (int8: INT32). A `TileConfig` in int8 always returns INT32.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or values. The message names the argument, what is allowed and its
        value.

    Source: docs/core.md, "Multiply", and docs/compiler.md.

    Examples
    --------
    >>> layer = Layer(samples=1, channels=2, filters=1, size=(1, 3), kernel=(1, 3), padding=0)
    >>> ones = {name: np.full(layer.shape(name), 0x3C00, np.uint16) for name in "AW"}
    >>> contract(CoreConfig(), layer, "AxW", "A", ones).view(np.float16)
    array([[[[6.]]]], dtype=float16)
    """
    tile = _tile_of(config)
    if not isinstance(config, CoreConfig):
        _refuse_for_int8(tile, bias=bias is not None, relu=relu, mask=mask is not None, random=random is not None)
    operands = _checked_operands(tile, layer, operation, rows, values)
    operands |= {} if bias is None else {"bias": _checked_bias(bias, tile, layer, operation)}
    mask = None if mask is None else checked_bits("mask", mask, tile.a_format)
    _check_shapes({"mask": mask, "random": random}, None if fp32 else layer.whole_shape(RESULTS[operation]))
    sums = all_sums(Sides(tile, rows == OPERANDS[operation][0]), layer, operation, operands)
    if isinstance(fmt := tile.a_format, IntegerFormat):
        if fp32 or not isinstance(config, CoreConfig):
            return np.where(sums.view(np.int32) < 0, np.uint32(0), sums) if relu else sums
        return integer_result_bits(sums, fmt, relu=relu, mask=mask, toward_zero=toward_zero, random=random, scale=scale)
    if isinstance(config, CoreConfig) and isinstance(tile.numerics.accumulator, Binned):
        sums[sums & EXPONENT_FIELD == 0] &= SIGN  # subnormal sums: docs/core.md, "Multiply", 2
    if fp32:
        return result_bits(sums, FP32, relu=relu, scale=scale)
    return result_bits(sums, fmt, relu=relu, mask=mask, toward_zero=toward_zero, random=random, scale=scale)


def _tile_of(config: CoreConfig | TileConfig) -> TileConfig:
    """Return the tile of a core, or the tile itself."""
    tile = config.tile if isinstance(config, CoreConfig) else config
    if not isinstance(tile, TileConfig):
        raise TypeError(f"config must be a CoreConfig or a TileConfig, not {config!r}")
    tile.require_no_scale("for operations of layers")
    return tile


def _refuse_for_int8(tile: TileConfig, **requested: bool) -> None:
    for field, is_requested in requested.items():
        if is_requested and tile.numerics.result == "int32":
            raise ValueError(f"{field} must be left out for a tile in int8, whose results are sums")


def _check_shapes(arrays: Mapping[str, NDArray | None], shape: tuple[int, ...] | None) -> None:
    """Check that arrays have the result's shape, or that all are None if results are FP32 (`shape` is None)."""
    for name, array in arrays.items():
        if array is not None and array.shape != shape:
            wanted = "none for FP32 results" if shape is None else f"of shape {shape}"
            raise ValueError(f"{name} must be {wanted}, not of shape {array.shape}")


def _checked_operands(
    tile: TileConfig, layer: Layer, operation: str, rows: str, values: Mapping[str, ArrayLike]
) -> dict[str, NDArray]:
    if operation not in OPERANDS:
        raise ValueError(f"operation must be one of {', '.join(OPERANDS)}, not {operation!r}")
    if rows not in OPERANDS[operation]:
        raise ValueError(f"rows must be one of {', '.join(OPERANDS[operation])}, not {rows!r}")
    if not set(OPERANDS[operation]) <= set(values):
        raise ValueError(f"values must have {' and '.join(OPERANDS[operation])}, not {', '.join(values) or 'none'}")
    operands = {}
    for name in OPERANDS[operation]:
        operands[name] = checked_bits(name, values[name], tile.b_format if name == rows else tile.a_format)
        shape = layer.whole_shape(name)
        if operands[name].shape != shape:
            raise ValueError(f"{name} must have shape {shape}, not {operands[name].shape}")
    return operands


def _checked_bias(
    bias: NDArray[np.float32] | NDArray[np.int32], tile: TileConfig, layer: Layer, operation: str
) -> NDArray:
    if isinstance(tile.numerics.accumulator, Fused):
        raise ValueError("bias must be left out for a fused accumulator: it is added to an exact or binned sum")
    shape, kind = layer.whole_shape("bias"), "int32" if tile.numerics.result == "int32" else "float32"
    if operation != "AxW":
        raise ValueError(f"bias must be none for {operation}: results of AxW have one")
    if not isinstance(bias, np.ndarray) or bias.dtype != kind or bias.shape != shape:
        actual = f"{bias.dtype} of shape {bias.shape}" if isinstance(bias, np.ndarray) else repr(bias)
        raise ValueError(f"bias must be {kind} of shape {shape}, not {actual}")
    return bias


class Sides:
    """Multiplies vectors of an operation's two operands on a tile.

    Parameters
    ----------
    tile : TileConfig
        The tile.
    placed_on_rows : bool
        Whether the first of an operation's `OPERANDS` is on the row side.

    Attributes
    ----------
    fill : Fill
        Units of padding. Exact and binned sums need none, since they do not depend on pairs of zeros or on other rows.
    gathered : int
        Maximum of values that are gathered at once. Windows overlap, so all of them may exceed the memory.
    batched : int
        Multiply-accumulates of a batch of products; if 0, each product is computed alone.
    """

    gathered = 1 << 25

    def __init__(self, tile: TileConfig, placed_on_rows: bool) -> None:
        self.tile, self.placed_on_rows = tile, placed_on_rows
        ports = tile.rows if placed_on_rows else tile.columns
        if isinstance(tile.numerics.accumulator, Fused):
            self.fill = Fill(channels=tile.lanes, ports=ports, lanes=tile.lanes)
            self.batched = 0
        else:
            self.fill = Fill(channels=1, ports=1, lanes=tile.lanes)
            self.batched = BATCHED_MACS

    def sums(self, placed: NDArray, other: NDArray, bias: NDArray | None = None) -> NDArray[np.uint32]:
        """Return each product's sums for all pairs of vectors of `placed` and `other`, with the biases of `other`."""
        if self.placed_on_rows:
            return matrix_product(other, placed, self.tile, None if bias is None else bias[:, None])
        return matrix_product(placed, other, self.tile, None if bias is None else bias[..., None]).mT


def all_sums(sides: Sides, layer: Layer, operation: str, values: Mapping[str, NDArray]) -> NDArray[np.uint32]:
    """Return an operation's sums, with PyTorch's axes, from the layer's operands and its "bias", if any."""
    compute = _over_taps if operation == "AxG" else _over_positions
    if layer.products == 1:
        return compute(sides, layer, operation, {name: array[None] for name, array in values.items()})[0]
    macs = prod(layer.shape("G")) * prod(layer.shape("W")[1:])
    together = max(1, sides.batched // macs)
    parts = [slice(k, k + together) for k in range(0, layer.products, together)]
    return np.concatenate(
        [compute(sides, layer, operation, {name: array[part] for name, array in values.items()}) for part in parts]
    )


def _over_positions(sides: Sides, layer: Layer, operation: str, values: Mapping[str, NDArray]) -> NDArray[np.uint32]:
    """Return the sums of all positions of AxW or WxG for a batch of products, phase by phase."""
    placed, other = OPERANDS[operation]
    fill, bias, tensor = sides.fill, values.get("bias"), values[placed]
    products, (samples, made, down, across) = len(tensor), layer.shape(RESULTS[operation])
    out = np.zeros((products, samples, made, down, across), np.uint32)
    for phase in layer.phases(operation):
        place = out[..., phase.y.first :: phase.y.apart, phase.x.first :: phase.x.apart]
        if not (place.size and phase.taps):
            continue
        counts = place.shape[3], filled(place.shape[4], fill.ports)
        theirs = weights(values[other], phase, operation, fill)
        batch = max(1, sides.gathered // (products * counts[0] * counts[1] * theirs.shape[2]))
        for n in range(0, samples, batch):
            part = tensor[:, n : n + batch]
            vectors = windows(part, phase, counts, fill.channels).reshape(products, -1, theirs.shape[2])
            sums = sides.sums(vectors, theirs, bias).reshape(products, -1, *counts, made)
            place[:, n : n + batch] = sums[:, :, :, : place.shape[4]].transpose(0, 1, 4, 2, 3)
    return out


def _over_taps(sides: Sides, layer: Layer, operation: str, values: Mapping[str, NDArray]) -> NDArray[np.uint32]:
    """Return the sums of AxG for each filter, channel and tap, for a batch of products."""
    fill = sides.fill
    mine, theirs = gradient(values["G"], fill), activations(values["A"], layer, fill)
    sums, shape = sides.sums(mine, theirs), mine.shape[:2]
    grouped = sums.reshape(*shape, -1, *layer.kernel, fill.channels).transpose(0, 1, 2, 5, 3, 4)
    return grouped.reshape(*shape, -1, *layer.kernel)[:, :, : layer.channels]
