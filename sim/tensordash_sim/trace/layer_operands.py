"""Operands of a tile for passes of a recorded layer."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS, FloatFormat, Format

from ..golden.numbers import to_float
from ..golden.quantization import quantized, scale
from ..lowering import Operation, Vectors, lower
from .format import TraceError
from .reader import Record

__all__ = ["LayerPasses", "describe_values", "layer_passes", "operand_scales", "recorded_values"]

PATTERNS = {"bfloat16": "bf16", "float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2"}
"""Types that a trace stores as bit patterns, and the names of their formats."""
EXACT = PATTERNS | {"float16": "fp16"}
"""Types of a trace that a format represents exactly."""


class LayerPasses(NamedTuple):
    """Passes of one product, all with the same number of steps.

    Attributes
    ----------
    a : array of unsigned int, (passes, columns, T, lanes)
    b : array of unsigned int, (passes, rows, T, lanes)
        Bit patterns in the tile's formats. The sparser operand is on the row side.
    """

    a: NDArray
    b: NDArray


def layer_passes(record: Record, config: TileConfig, *, sample: int, seed: int) -> list[LayerPasses]:
    """Draw passes of an operation, and round its values to a tile's formats.

    The values come from the trace. If it has only the mask of an operand, the function draws the non-zeros at random.

    Parameters
    ----------
    record : Record
        The operation.
    config : TileConfig
        The tile.
    sample : int
        Number of passes to draw. If the operation has fewer, all are returned.
    seed : int
        Seed of the draw of passes and values.

    Returns
    -------
    list of LayerPasses
        One item for each product with a drawn pass.

    Raises
    ------
    TraceError
        If an operand is missing or damaged, or has infinities or NaN.
    ConfigError
        If the tile has scales.
    """
    config.require_no_scale("for operations of a trace")
    rng = np.random.default_rng(seed)
    operation: Operation = record.operation
    sparser = record.sparser
    formats = _formats(record, config)
    bits = {name: _bits(record, name, formats[name], rng) for name in record.operands}
    masks = {name: pattern != 0 for name, pattern in bits.items()}
    sides = [
        (product.left, product.right) if sparser == operation.left else (product.right, product.left)
        for product in lower(record.geometry, operation, masks, config.lanes)
    ]
    chosen = _chosen(sides, config, sample, rng)
    width = max(fmt.width for fmt in formats.values())
    pattern_type = np.dtype(np.uint16 if width <= 16 else np.uint32)
    found = {
        (index, side): np.zeros((*numbers.shape, sides[index][side].steps, config.lanes), pattern_type)
        for index, ends in chosen.items()
        for side, numbers in enumerate(ends)
    }
    # Lowering works on masks, so each bit of the values is lowered as a mask of its own.
    for bit in range(width):
        planes = {name: (pattern >> bit & 1).astype(bool) for name, pattern in bits.items()}
        products = lower(record.geometry, operation, planes, config.lanes)
        for (index, side), streams in found.items():
            product, numbers = products[index], chosen[index][side]
            vectors = product.left if (side == 0) == (sparser == operation.left) else product.right
            words = vectors.words(numbers.ravel()).reshape(*numbers.shape, vectors.steps, 1)
            streams |= (words >> np.arange(config.lanes, dtype=np.uint32) & 1).astype(
                pattern_type
            ) << pattern_type.type(bit)
    return [LayerPasses(a=found[index, 1], b=found[index, 0]) for index in chosen]


def operand_scales(record: Record, config: TileConfig) -> dict[str, int]:
    """Return the powers of two by which `layer_passes` multiplies recorded operands before it rounds them.

    Parameters
    ----------
    record : Record
        The operation.
    config : TileConfig
        The tile.

    Returns
    -------
    dict of str to int
        Exponents by operand, without operands whose values are drawn.

    Raises
    ------
    TraceError
        If an operand is missing or damaged, or has infinities or NaN.
    """
    formats = _formats(record, config)
    return {
        name: scale(recorded_values(record, name), formats[name])
        for name, operand in record.operands.items()
        if operand.values is not None
    }


def describe_values(record: Record, config: TileConfig, scales: Mapping[str, int]) -> str:
    """Describe how an operation's recorded values were scaled and rounded.

    Parameters
    ----------
    record : Record
        The operation.
    config : TileConfig
        The tile.
    scales : mapping of str to int
        The result of `operand_scales`.
    """
    if len(scales) < len(record.operands):
        return "values drawn at random where the trace has masks only"
    formats = _formats(record, config)
    changed = []
    for name, exponent in scales.items():
        scaled = f" scaled by 2^{exponent} and" * (exponent != 0)
        if exponent or EXACT.get(record.operands[name].dtype) != formats[name].name:
            changed.append(f"{name}{scaled} rounded to {formats[name].name}")
    return f"values {', '.join(changed)}" if changed else "values as recorded"


def recorded_values(record: Record, name: str) -> NDArray[np.float32]:
    """Return an operand's recorded values as numbers.

    Parameters
    ----------
    record : Record
        The operation.
    name : str
        The operand.

    Raises
    ------
    TraceError
        If the trace has no values for the operand, or some are not finite.
    """
    stored = record.values(name)
    if (dtype := record.operands[name].dtype) in PATTERNS:
        decoded = FORMATS[PATTERNS[dtype]]
        assert isinstance(decoded, FloatFormat)
        patterns, places = np.unique(stored, return_inverse=True)
        stored = np.array([to_float(int(pattern), decoded) for pattern in patterns])[places].reshape(stored.shape)
    values: NDArray[np.float32] = stored.astype(np.float32)
    if not np.isfinite(values).all():
        raise TraceError(f"{record.trace}: operand {name} of {record.layer} {record.operation} has infinities or NaN")
    return values


def _formats(record: Record, config: TileConfig) -> dict[str, Format]:
    """Return the format of each operand; the sparser one is on the row side."""
    return {name: config.b_format if name == record.sparser else config.a_format for name in record.operands}


def _bits(record: Record, name: str, fmt: Format, rng: np.random.Generator) -> NDArray:
    """Return an operand's bit patterns in a format."""
    if record.operands[name].values is not None:
        return quantized(recorded_values(record, name), fmt)
    mask = record.mask(name)
    drawn = rng.uniform(0.25, 4, mask.shape) * rng.choice([-1.0, 1.0], mask.shape)
    return quantized(np.where(mask, drawn, 0).astype(np.float32), fmt)


def _chosen(
    sides: list[tuple[Vectors, Vectors]], config: TileConfig, sample: int, rng: np.random.Generator
) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Draw passes; return, by product, the numbers of the vectors in their rows and columns."""
    shapes = []
    for rows, columns in sides:
        shapes.append((rows.batch, -(-rows.count // config.rows), -(-columns.count // config.columns)))
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    drawn = np.sort(rng.choice(ends[-1], size=min(sample, int(ends[-1])), replace=False))
    products = np.searchsorted(ends, drawn, side="right")
    chosen = {}
    for index in np.unique(products):
        number = drawn[products == index] - (ends[index - 1] if index else 0)
        element, row_group, column_group = np.unravel_index(number, shapes[index])
        rows, columns = sides[index]
        chosen[int(index)] = (
            _numbers(rows, element, row_group, config.rows),
            _numbers(columns, element, column_group, config.columns),
        )
    return chosen


def _numbers(vectors: Vectors, element: NDArray, group: NDArray, size: int) -> NDArray[np.int64]:
    index = group[:, None] * size + np.arange(size)
    return np.where(index < vectors.count, element[:, None] * vectors.count + index, -1)
