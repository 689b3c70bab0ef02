"""An operation of a layer on the chip: cycles, what limits them, energy; TensorDash next to the baseline."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.parameters import require_choice

from ..lowering import Convolution, Geometry, Operation, Product, Vectors, join_samples, lower
from .config import ChipConfig
from .padding import skip_padding
from .passes import ROW_ORDERS, Passes, grouped, run_passes
from .shared import Grid, SharedReads, run_ahead
from .spread import Spread
from .traffic import RESULT_BYTES, Operand, Traffic, dram_traffic, on_chip_traffic

__all__ = ["JOINS", "SIDES", "Machine", "OperationResult", "ratio", "scheduled_operand", "simulate_operation"]

SIDES = ("sparser", "left", "right", "faster")
"""Which operand is scheduled: `faster` counts the cycles of both."""
JOINS = ("never", "always", "faster")
"""Whether weights' gradients of a convolution are summed over all samples at once; `faster` counts both."""


def ratio(dividend: float, divisor: float) -> float | None:
    """How many times as much; None if it is of nothing."""
    return dividend / divisor if divisor else None


@dataclass(frozen=True)
class Machine:
    """What is simulated.

    Attributes
    ----------
    config : TileConfig
        The tile.
    chip : ChipConfig
        What is around it.
    side : "sparser", "left", "right" or "faster"
        The operand whose zeros are skipped; the operation's name has the left one first. `faster` is the one with which
        the operation takes fewer cycles, without DRAM, or the sparser one if it does not matter.
    row_order : "natural" or "density"
        Which vectors share the rows of a tile.
    join_samples : "never", "always" or "faster"
        Whether the gradients of a convolution's weights are sums over all samples at once (`lowering.join_samples`),
        instead of one for each sample that are added up in memory. Streams are fewer and longer: where few are left,
        some tiles have none. `faster` is as of `side`.
    """

    config: TileConfig
    chip: ChipConfig
    side: str = "sparser"
    row_order: str = "natural"
    join_samples: str = "never"

    def __post_init__(self) -> None:
        require_choice("side", self.side, SIDES)
        require_choice("row_order", self.row_order, ROW_ORDERS)
        require_choice("join_samples", self.join_samples, JOINS)

    def to_mapping(self) -> dict[str, Any]:
        """Everything that results depend on."""
        return {
            **self.config.to_mapping(),
            **self.chip.to_mapping(),
            "side": self.side,
            "row_order": self.row_order,
            "join_samples": self.join_samples,
        }


@dataclass(frozen=True)
class OperationResult:
    """Results of one operation.

    Attributes
    ----------
    scheduled : str
        The operand whose zeros are skipped: "A", "W" or "G".
    macs : int
        Multiplications of the operation, padding and fragmentation left out.
    zeros : float
        Share of zeros in the scheduled operand.
    padding_share : float
        Share of the dense schedule's multiplications whose scheduled position (`both`: either one) is spatial padding
        or fragmentation: zeros not of the data.
    ideal_speedup : float or None
        All other multiplications over the effectual ones (`none`: 1); None if none is effectual.
    dense_compute, compute : int
        Cycles of the baseline's tiles and of TensorDash's, output stalls with them, if none waits for another one.
    dense_shared, shared : int
        The same of tiles that share reads, and wait for each other (`both`: as if they did not wait).
    dense_unpadded : int
        Of a baseline that skips steps that are padding in all vectors of a side (`padding.skip_padding`), if no tile
        waits for another one.
    dram_cycles, bank_cycles, transposer_cycles : int
        What the memories and transposers need.
    dense_cycles, cycles : int
        The largest of shared, DRAM, banks and transposers.
    dense_on_chip, on_chip : int
        The same without DRAM.
    limit : str
        Which of them: "compute", "dram", "banks" or "transposers".
    utilisation : float
        Effectual positions over all slots of the chip's multipliers in `cycles`.
    idle : dict
        Shares of slots idle by cause: "options" (no option of the lane had work), "waits" (for the slowest row),
        "rows" and "columns" (no vector for them), "stalls" (results could not leave), "reads" (for tiles that share
        them), "tail" (no pass left for the tile), "memory".
    traffic : Traffic
        Bytes moved by TensorDash.
    dense_energy, energy : dict
        "core", "sram" and "dram", in microjoule, of the baseline and of TensorDash.
    """

    scheduled: str
    macs: int
    zeros: float
    padding_share: float
    ideal_speedup: float | None
    dense_compute: int
    compute: int
    dense_shared: int
    shared: int
    dense_unpadded: int
    dram_cycles: int
    bank_cycles: int
    transposer_cycles: int
    dense_cycles: int
    cycles: int
    dense_on_chip: int
    on_chip: int
    limit: str
    utilisation: float
    idle: dict[str, float]
    traffic: Traffic
    dense_energy: dict[str, float]
    energy: dict[str, float]

    @property
    def compute_speedup(self) -> float | None:
        """The baseline's compute cycles over TensorDash's; None if nothing is multiplied."""
        return ratio(self.dense_compute, self.compute)

    @property
    def shared_speedup(self) -> float | None:
        """The same with tiles that wait for those with which they share reads."""
        return ratio(self.dense_shared, self.shared)

    @property
    def speedup(self) -> float | None:
        """The same with memory."""
        return ratio(self.dense_cycles, self.cycles)

    def to_json(self) -> dict[str, Any]:
        """As a document."""
        speedups = ("compute_speedup", "shared_speedup", "speedup")
        return asdict(self) | {name: getattr(self, name) for name in speedups}


def simulate_operation(
    geometry: Geometry, operation: Operation, operands: Mapping[str, NDArray[np.bool_]], machine: Machine
) -> OperationResult:
    """Simulate one operation: every pass of every tile.

    Parameters
    ----------
    geometry, operation : Geometry, Operation
        The layer, and what is done.
    operands : mapping of str to array of bool
        The two operands by name: true where not zero.
    machine : Machine
        Tile, chip and how work is put on them.

    Returns
    -------
    OperationResult

    Raises
    ------
    ValueError
        If operands do not have the shapes of the geometry.

    Source
    ------
    Section IV and Tables II and III of the paper.

    Examples
    --------
    >>> from tensordash_sim.lowering import MatrixProduct
    >>> layer = MatrixProduct(batch=1, samples=64, in_features=64, out_features=64)
    >>> masks = {"A": np.tile([True, False], (1, 64, 32)), "W": np.ones((1, 64, 64), bool)}
    >>> result = simulate_operation(layer, Operation("AxW"), masks, Machine(TileConfig(), ChipConfig()))
    >>> result.scheduled, result.zeros, result.compute_speedup
    ('A', 0.5, 2.0)
    """
    sides = {name: operands[name] for name in (operation.left, operation.right)}
    # Each sample gives sums of its own for the gradient of a convolution's weights.
    is_summed = operation is Operation.WEIGHT_GRADIENT and isinstance(geometry, Convolution)
    if machine.join_samples == "faster":
        choices = ("never", "always") if is_summed and geometry.batch > 1 else ("never",)
        return _fastest(geometry, operation, operands, [replace(machine, join_samples=each) for each in choices])
    if machine.side == "faster":
        first = scheduled_operand(sides, operation)
        in_order = ("left", "right") if first == operation.left else ("right", "left")
        return _fastest(geometry, operation, operands, [replace(machine, side=side) for side in in_order])
    config, chip = machine.config, machine.chip
    products = lower(geometry, operation, sides, config.lanes)
    has_padding = any(side.padding for product in products for side in (product.left, product.right))
    ones = {name: np.ones(mask.shape, np.bool_) for name, mask in sides.items()} if has_padding else sides
    full = lower(geometry, operation, ones, config.lanes) if has_padding else products
    scheduled = scheduled_operand(sides, operation, machine.side)
    spread, dense, unpadded = (Spread(chip.tiles) for _ in range(3))
    totals, traffic, dense_traffic = Passes(), Traffic(), Traffic()
    positions = padding = dense_shared = shared_cycles = reads = 0
    ahead, beats = run_ahead(config, chip), config.rows // config.out_rows
    if is_summed and machine.join_samples == "always":
        products, full = ([join_samples(each, geometry.batch) for each in some] for some in (products, full))
        is_summed = False
    sums = geometry.batch if is_summed else 1
    for product, without_zeros in zip(products, full, strict=True):
        rows, columns = _in_order(product, scheduled)
        natural, column_groups = grouped(rows, config.rows), grouped(columns, config.columns)
        order = natural if machine.row_order == "natural" else grouped(rows, config.rows, machine.row_order)
        sizes = {"row_groups": natural.shape[1], "column_groups": column_groups.shape[1]}
        grid = Grid.of(batch=rows.batch, **sizes, chip=chip)
        shared = SharedReads(grid, steps=rows.steps, depth=config.window_depth, ahead=ahead, beats=beats)
        totals += run_passes(rows, columns, order, config, spread, dense, shared)
        full_rows, full_columns = _in_order(without_zeros, scheduled)
        skip_padding((full_rows, natural), (full_columns, column_groups), beats, unpadded)
        dense_shared += grid.rounds * max(rows.steps, beats)
        shared_cycles += shared.finish()
        reads += shared.waits
        move = partial(on_chip_traffic, product, columns=(columns, column_groups), config=config, chip=chip)
        moved = move(rows=(rows, natural), grid=grid, reordered=False, sums=sums)
        dense_traffic += moved
        if order is not natural:
            moved = move(rows=(rows, order), grid=grid, reordered=True, sums=sums)
        traffic += moved
        positions += product.positions
        padding += (rows.fragmentation + rows.padding) * columns.count
    elements = products[0].left.batch if products else 1
    dram = Traffic(dram=_dram(geometry, operation, sides, scheduled, machine, elements, sums))
    traffic, dense_traffic = traffic + dram, dense_traffic + dram
    memory, dense_memory = (
        {"dram": one.dram_cycles(chip), "banks": one.bank_cycles(chip), "transposers": one.transposer_cycles(chip)}
        for one in (traffic, dense_traffic)
    )
    if config.sparsity == "both":  # each pair of groups has a pass of its own
        dense_shared, shared_cycles = dense.cycles, spread.cycles
    needs = {"compute": shared_cycles, **memory}
    dense_needs = {"compute": dense_shared, **dense_memory}
    cycles = max(needs.values())
    inside = geometry.macs if config.sparsity == "both" else positions - padding
    effectual = inside if config.sparsity == "none" else totals.work
    tile_slots = config.rows * config.columns * config.lanes
    slots = cycles * chip.tiles * tile_slots
    idle = {
        "options": totals.options,
        "waits": totals.waits,
        "rows": totals.no_row,
        "columns": totals.no_column,
        "stalls": totals.stalls * tile_slots,
        "reads": reads * tile_slots,
        "tail": (shared_cycles * chip.tiles - spread.busy - reads) * tile_slots,
        "memory": (cycles - shared_cycles) * chip.tiles * tile_slots,
    }
    return OperationResult(
        scheduled=scheduled,
        macs=geometry.macs,
        zeros=1 - int(np.count_nonzero(sides[scheduled])) / sides[scheduled].size,
        padding_share=(positions - inside) / positions if positions else 0.0,
        ideal_speedup=ratio(inside, effectual),
        dense_compute=dense.cycles,
        compute=spread.cycles,
        dense_shared=dense_shared,
        shared=shared_cycles,
        dense_unpadded=unpadded.cycles,
        dram_cycles=needs["dram"],
        bank_cycles=needs["banks"],
        transposer_cycles=needs["transposers"],
        dense_cycles=max(dense_needs.values()),
        cycles=cycles,
        dense_on_chip=_without_dram(dense_needs),
        on_chip=_without_dram(needs),
        limit=max(needs, key=lambda name: needs[name]),
        utilisation=totals.work / slots,
        idle={cause: idle_slots / slots for cause, idle_slots in idle.items()},
        traffic=traffic,
        dense_energy=_energy(dense.cycles, chip.power.dense, dense_traffic, chip),
        energy=_energy(
            spread.cycles, chip.power.dense if config.sparsity == "none" else chip.power.sparse, traffic, chip
        ),
    )


def _fastest(
    geometry: Geometry, operation: Operation, operands: Mapping[str, NDArray[np.bool_]], machines: list[Machine]
) -> OperationResult:
    """On the machine that needs the fewest cycles without DRAM; of equal ones the first."""
    results = [simulate_operation(geometry, operation, operands, machine) for machine in machines]
    return min(results, key=lambda result: result.on_chip)


def _in_order(product: Product, scheduled: str) -> tuple[Vectors, Vectors]:
    """The scheduled side, and the other one."""
    sides = (product.left, product.right)
    return sides if scheduled == product.left.name else sides[::-1]


def scheduled_operand(sides: Mapping[str, NDArray[np.bool_]], operation: Operation, side: str = "sparser") -> str:
    """The operand that is scheduled; of two that are as sparse, the left one."""
    if side != "sparser":
        return operation.left if side == "left" else operation.right
    left, right = (np.count_nonzero(sides[name]) / sides[name].size for name in (operation.left, operation.right))
    return operation.left if left <= right else operation.right


def _without_dram(needs: Mapping[str, int]) -> int:
    return max(cycles for name, cycles in needs.items() if name != "dram")


def _dram(
    geometry: Geometry,
    operation: Operation,
    sides: Mapping[str, NDArray[np.bool_]],
    scheduled: str,
    machine: Machine,
    elements: int,
    sums: int,
) -> float:
    """Off-chip traffic: weights' gradients leave in full precision, other results in that of their kind."""
    config = machine.config
    widths = {name: config.b_format.width if name == scheduled else config.a_format.width for name in sides}
    left, right = (
        Operand(sides[name].size, int(np.count_nonzero(sides[name])), widths[name] / 8)
        for name in (operation.left, operation.right)
    )
    value_bytes = RESULT_BYTES if operation is Operation.WEIGHT_GRADIENT else config.b_format.width / 8
    result = Operand(prod(geometry.shapes[operation.output]), 0, value_bytes)
    return dram_traffic(left, right, result, machine.chip, elements=elements, sums=sums)


def _energy(cycles: int, milliwatt: float, traffic: Traffic, chip: ChipConfig) -> dict[str, float]:
    """Microjoule. Logic draws its power while it computes, not while it waits for memory."""
    cost = chip.energy
    reads = traffic.rows + traffic.columns + traffic.sums
    on_chip = reads * cost.bank_read_pj + traffic.results * cost.bank_write_pj + traffic.scratchpad * cost.scratchpad_pj
    return {
        "core": cycles / chip.clock_mhz * chip.tiles * milliwatt / 1e3,
        "sram": on_chip / 8 / 1e6,
        "dram": traffic.dram * 8 * cost.dram_pj_per_bit / 1e6,
    }
