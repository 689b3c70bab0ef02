"""Fused accumulators: add the products of each cycle together, in the order that the tile's schedulers choose."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FP32, FloatFormat
from tensordash.configuration.numerics import Fused

from ..cycles.count import pack
from ..cycles.scheduler import Order, Scheduler
from .kernels import FAR, add_fused
from .tables import INFINITE, NAN, Operand, Scaled, is_finite, marks, operand_formats, scaled

__all__ = ["fused_products"]

Terms = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]
"""Significands and exponents of vectors, and whether each vector has an infinity or NaN."""
MAX_SCHEDULE_ENTRIES = 1 << 25
"""Maximum of schedule entries that are computed at a time."""


def fused_products(columns: NDArray, rows: NDArray, config: TileConfig) -> NDArray[np.uint32]:
    """Return sums of products in a fused accumulator.

    Parameters
    ----------
    columns : array of unsigned, (M, K)
    rows : array of unsigned, (N, K)
        Bit patterns of both sides, with scales if there are any (`operand_formats`).
    config : TileConfig
        The tile: formats, accumulator and connectivity. Its schedule decides which products are added together.

    Returns
    -------
    array of uint32, (N, M)
        FP32 bits.

    Source: docs/numerics.md, "`fused(F, rounding)`".
    """
    a, b, accumulator = config.a_format, config.b_format, config.numerics.accumulator
    assert isinstance(accumulator, Fused)
    assert isinstance(a, FloatFormat)
    assert isinstance(b, FloatFormat)
    a_operand, b_operand = operand_formats(config)
    both, lanes = config.sparsity == "both", config.lanes
    width = config.columns if both else 1
    a_bits, b_bits = _filled(columns, width, lanes), _filled(rows, config.rows, lanes)
    product_fraction = a.fraction_bits + b.fraction_bits
    # An emulated tile has no C; without C, an addend "last" equals "inside".
    after = accumulator.addend == "after"
    exponent_bits, result_bits = accumulator.result_exponent_bits, accumulator.result_bits
    narrow = exponent_bits < FP32.exponent_bits
    # Columns are added one by one if they have their own schedules, if sums exceed 64 bits, if the addend comes
    # after, or if results have fewer exponent bits than FP32.
    together = not both and not after and not narrow and accumulator.fraction_bits - product_fraction < 32
    result = result_bits, 2 - (1 << (exponent_bits - 1)) - result_bits, (1 << exponent_bits) - 1 << result_bits
    nearest = accumulator.rounding == "nearest"
    left = _terms(a_bits, a_operand)
    turned = [np.ascontiguousarray(side.T if together else side[:0]) for side in left[:2]]
    out = np.empty((len(b_bits), len(a_bits)), np.uint32)
    batch = max(1, MAX_SCHEDULE_ENTRIES // (config.rows * width * b_bits.shape[1])) * config.rows
    for i in range(0, len(b_bits), batch):
        right = _terms(b_bits[i : i + batch], b_operand)
        for j in range(0, len(a_bits), width if both else len(a_bits)):
            here: Terms = (left[0][j : j + width], left[1][j : j + width], left[2][j : j + width]) if both else left
            add_fused(
                here,
                right,
                (turned[0], turned[1]),
                tuple(_order(here[0], right[0], config)),
                (config.rows, width),
                config.sparsity == "none",
                product_fraction,
                (accumulator.fraction_bits, nearest, accumulator.zero_exponent, after, *result),
                out[i : i + batch, j : j + len(here[0])],
            )
    return out[: len(rows), : len(columns)]


def _filled(vectors: NDArray, ports: int, lanes: int) -> NDArray:
    """Pad vectors with zeros to full blocks and full steps."""
    return np.pad(vectors, [(0, -size % unit) for size, unit in zip(vectors.shape, (ports, lanes), strict=True)])


def _order(a: NDArray[np.int32], b: NDArray[np.int32], config: TileConfig) -> Order:
    """Return the schedule of each block of rows; the dense tile has one schedule for all blocks."""
    lanes, steps = config.lanes, b.shape[1] // config.lanes
    if config.sparsity == "none":
        chosen = np.arange(b.shape[1], dtype=np.int32).reshape(1, 1, -1)
        return Order(np.array([steps]), chosen, chosen[..., lanes - 1 :: lanes] + np.int32(1))
    words = [pack(side.reshape(-1, steps, lanes) != 0) for side in (a, b)]
    blocks = words[1].reshape(-1, config.rows, steps)
    columns = np.repeat(words[0][None], len(blocks), axis=0) if config.sparsity == "both" else None
    return Scheduler(config).order(blocks, columns)


@cache
def _table(fmt: Operand) -> Scaled:
    """Tabulate a format as `scaled` does, but with exponents that mark infinities and NaN (`FAR`)."""
    significand, exponent = scaled(fmt)
    marked = marks(fmt)
    far = np.where(marked & INFINITE, FAR, np.where(marked & NAN, 4 * FAR, exponent))
    return Scaled(significand, far.astype(np.int32))


def _terms(vectors: NDArray, fmt: Operand) -> Terms:
    """Return significands and exponents, and whether each vector has an infinity or NaN."""
    significand, exponent = _table(fmt)
    return significand[vectors], exponent[vectors], np.any(~is_finite(vectors, fmt), axis=1)
