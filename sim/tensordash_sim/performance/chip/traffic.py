"""Traffic of an operation: between DRAM and the chip, in and out of the banks, through the scratchpads."""

from dataclasses import dataclass, fields
from math import ceil

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig

from ...lowering import Operation, Product, Vectors
from .config import ChipConfig
from .shared import Grid, scratchpad_side

__all__ = ["Operand", "Traffic", "dram_traffic", "on_chip_traffic"]

INDEX_BYTES = 4
"""Bytes of a vector's index, which locates its results if vectors are not in their natural order."""
TRANSPOSED = {Operation.FORWARD: "", Operation.INPUT_GRADIENT: "W", Operation.WEIGHT_GRADIENT: "AG"}
"""Operands that are not stored along the operation's reduction. A and W are stored along channels, G along filters."""
RESULT_BYTES = 4
"""Bytes of FP32 or INT32, the formats of a tile's results and of weight gradients."""
BLOCK_NUMBERS = 1 << 20
"""Number of vectors whose blocks are counted at a time."""


@dataclass(frozen=True)
class Operand:
    """A tensor.

    Attributes
    ----------
    size, non_zeros : int
        Numbers of values and of non-zero values.
    value_bytes : float
        Bytes of a value.
    """

    size: int
    non_zeros: int
    value_bytes: float

    @property
    def bytes(self) -> float:
        """Bytes on the chip, where zeros are stored, too."""
        return self.size * self.value_bytes

    @property
    def compressed(self) -> float:
        """Bytes in DRAM: a bit for each value, and the non-zero values."""
        return self.size / 8 + self.non_zeros * self.value_bytes


@dataclass
class Traffic:
    """Bytes moved.

    Attributes
    ----------
    dram : float
        Off-chip reads and writes, with compressed operands.
    rows, columns : float
        Reads of tiles from the memories of the scheduled operand and of the other one.
    sums, results : float
        Reads from and writes to the memory of the results.
    scratchpad : float
        Reads and writes of scratchpads.
    transposed : float
        Number of blocks (not bytes) of `lanes` values that pass a transposer.
    """

    dram: float = 0.0
    rows: float = 0.0
    columns: float = 0.0
    sums: float = 0.0
    results: float = 0.0
    scratchpad: float = 0.0
    transposed: float = 0.0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def bank_cycles(self, chip: ChipConfig) -> int:
        """Return the cycles of the busiest of the three memories."""
        busiest = max(self.rows, self.columns, self.sums + self.results)
        return ceil(busiest / chip.memory.bytes_per_cycle)

    def transposer_cycles(self, chip: ChipConfig) -> int:
        """Return the cycles of the transposers."""
        return ceil(self.transposed / chip.memory.transposers)

    def dram_cycles(self, chip: ChipConfig) -> int:
        return ceil(self.dram / chip.dram_bytes_per_cycle)


def dram_traffic(
    left: Operand, right: Operand, result: Operand, chip: ChipConfig, *, elements: int = 1, sums: int = 1
) -> float:
    """Return the bytes between DRAM and the chip.

    If one operand fits into its memory, both operands are read once. If neither fits, one of them is read again for
    each part of the other, whichever needs fewer bytes. The result is written once, uncompressed, because its zeros are
    unknown when it leaves. The `elements` of a batch, of equal size, share no data and are processed one after the
    other. With several `sums` per result, sums stay on the chip. A result that does not fit into its memory is then
    computed in parts over all elements, so one operand is read again for each part.

    Source: section III-E and Table III of the paper (CompressingDMA).

    Examples
    --------
    >>> half = Operand(size=1000, non_zeros=500, value_bytes=2)
    >>> dram_traffic(half, half, half, ChipConfig())
    4250.0
    """
    # An operand that fits is one part, and the other operand is read once.
    parts = ceil(result.bytes / chip.memory.capacity) if sums > 1 else 1
    left_parts, right_parts = (
        max(parts, ceil(operand.bytes / elements / chip.memory.capacity)) for operand in (left, right)
    )
    loads = min(left.compressed + right.compressed * left_parts, right.compressed + left.compressed * right_parts)
    return float(loads + result.bytes)


def on_chip_traffic(
    product: Product,
    rows: tuple[Vectors, NDArray[np.int64]],
    columns: tuple[Vectors, NDArray[np.int64]],
    config: TileConfig,
    chip: ChipConfig,
    *,
    grid: Grid,
    reordered: bool,
    sums: int = 1,
) -> Traffic:
    """Return the bytes that the passes of a product move on the chip.

    A block of `lanes` values that several vectors of a group use, such as overlapping windows, is read once for the
    group. One read reaches all tiles that need it at the same time. A row group that fits into half of a tile's
    scratchpad is not read again for further columns. Reordered vectors have an index each. If a result has several
    sums, such as one per sample in a convolution's `AxG`, the banks add them up.

    Parameters
    ----------
    product : Product
        The product.
    rows, columns : (Vectors, array of int64 (batch, groups, size))
        The scheduled side and the other side, with their groups.
    config, chip : TileConfig, ChipConfig
        The tile and the chip.
    grid : Grid
        The sharing of reads.
    reordered : bool
        Whether rows are not in natural order.
    sums : int
        Number of sums per result.
    """
    sides = ((rows, columns, config.b_format, grid.repeats), (columns, rows, config.a_format, grid.bands))
    reads = []
    scratchpad = transposed = 0.0
    scratchpad_bytes = scratchpad_side(chip)
    for (vectors, groups), (_, others), fmt, times in sides:
        block_bytes = vectors.lanes * fmt.width / 8
        blocks = _distinct_blocks(vectors, groups.reshape(-1, groups.shape[-1]))
        if vectors is rows[0] and groups.shape[2] * vectors.steps * block_bytes <= scratchpad_bytes:
            times = min(times, grid.copies)  # the group stays in the scratchpad
        blocks *= times
        reads.append(blocks * block_bytes)
        if vectors.name in TRANSPOSED[product.operation]:
            transposed += blocks
        # Every pass writes the steps of its vectors to its scratchpad and reads them.
        scratchpad += 2 * vectors.batch * vectors.count * others.shape[1] * vectors.steps * block_bytes
    if reordered:
        reads[0] += rows[0].batch * rows[0].count * INDEX_BYTES
    result = product.outputs * RESULT_BYTES
    # The first sum of a result is only written; all others are added to the sum that is read.
    return Traffic(
        rows=reads[0],
        columns=reads[1],
        sums=result - result / sums,
        results=result,
        scratchpad=scratchpad,
        transposed=transposed,
    )


def _distinct_blocks(vectors: Vectors, groups: NDArray[np.int64]) -> int:
    """Count the blocks that all groups read, in batches, since there may be millions of groups."""
    most = max(1, BLOCK_NUMBERS // groups.shape[1])
    parts = (groups[start : start + most] for start in range(0, len(groups), most))
    return sum(int(vectors.distinct_blocks(part).sum()) for part in parts)
