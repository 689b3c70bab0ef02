"""Expected cycles of a trace's products on a core, without computing results."""

from dataclasses import dataclass
from typing import Any

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.emission import emit, placeholder_addresses
from tensordash_sim.compiler.images import layer_values, non_zero_groups
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.row_streams import RowStreams
from tensordash_sim.compiler.timing import timing
from tensordash_sim.trace import Record

from .expected import SAMPLED_STREAMS
from .programs import moved_bytes, schedule_of
from .sides import choose_rows, requested_rows

__all__ = ["TracedProduct", "expect_product"]


@dataclass(frozen=True)
class TracedProduct:
    """Expected figures of a product on a core.

    Attributes
    ----------
    cycles : int
        Cycles. Memory transfers one beat per cycle in each direction.
    moved_bytes : int
        Bytes that loads and stores move.
    rows : str
        The operand on the row side.
    limit : str
        The unit that is busy longest. The output unit is left out, because it is busy while it waits for a multiply.
    """

    cycles: int
    moved_bytes: int
    rows: str
    limit: str

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "TracedProduct":
        """Build from the output of `dataclasses.asdict`."""
        return cls(int(document["cycles"]), int(document["moved_bytes"]), str(document["rows"]), str(document["limit"]))


def expect_product(config: CoreConfig, record: Record) -> TracedProduct:
    """Return the expected figures of a recorded product: no bias, no mask, and results in the operand format.

    The tile skips the zeros of the trace. The row side and the tiling are those that a device chooses. Operands are
    plain tensors in memory. Unlike a device's program, this one has no `record`.

    Parameters
    ----------
    config : CoreConfig
        The core.
    record : Record
        The product.

    Raises
    ------
    ValueError
        If a core cannot run the layer.
    ProgramError
        If no tiling of the product fits this core.
    """
    geometry, operation = record.geometry, str(record.operation)
    layer = Layer.of(geometry)
    non_zeros = {name: record.mask(name) for name in OPERANDS[operation]}
    possible = requested_rows(config.tile, operation, list(non_zeros), None)
    rows, counts = choose_rows(config, geometry, operation, possible, non_zeros)
    problem = Problem(layer=layer, operation=operation, rows=rows, speedup=counts.tiling_speedup)
    program = emit(schedule_of(config, problem))
    if config.tile.sparsity == "none":
        estimate = timing(config, program.descriptors)
    else:
        address = placeholder_addresses(problem)[rows]
        streams = RowStreams(config, program.descriptors, address, SAMPLED_STREAMS)
        groups = non_zero_groups(config, layer, rows, layer_values(geometry, rows, non_zeros[rows]))
        estimate = timing(config, program.descriptors, speedup=streams.paces(groups))
    busy = {unit: taken for unit, taken in estimate.busy.items() if unit != "output"}
    return TracedProduct(
        cycles=estimate.cycles,
        moved_bytes=moved_bytes(program, config),
        rows=rows,
        limit=max(busy, key=lambda unit: busy[unit]),
    )
