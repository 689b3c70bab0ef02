"""Simulation of a layer's operation on the chip: cycles, the limiting resource and energy, with the baseline's."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...lowering import Convolution, Geometry, Operation, join_samples, lower
from .energy import energy
from .machine import Machine
from .run import ProductsRun
from .traffic import RESULT_BYTES, Operand, Traffic, dram_traffic

__all__ = ["OperationResult", "ratio", "scheduled_operand", "simulate_operation"]


def ratio(dividend: float, divisor: float) -> float | None:
    """Return ``dividend / divisor``, or None if the divisor is 0."""
    return dividend / divisor if divisor else None


@dataclass(frozen=True)
class OperationResult:
    """Results of one operation.

    Attributes
    ----------
    scheduled : str
        The operand whose zeros the tile skips: "A", "W" or "G".
    macs : int
        Multiplications of the operation, without padding and fragmentation.
    zeros : float
        Share of zeros in the scheduled operand.
    padding_share : float
        Share of the dense schedule's multiplications whose scheduled position (`both`: either position) is spatial
        padding or fragmentation.
    ideal_speedup : float or None
        All other multiplications over the effectual ones (`none`: 1); None if none is effectual.
    dense_compute, compute : int
        Cycles of the baseline's and of TensorDash's tiles, including output stalls, if no tile waits for another one.
    dense_shared, shared : int
        The same for tiles that share reads and wait for each other (`both`: without waits).
    dense_busy, busy : int
        Cycles in which tiles have work, summed over tiles. In the remaining cycles they wait for each other or for
        memory, or have no pass.
    dense_unpadded : int
        Cycles of a baseline that skips steps that are padding in all vectors of a side (`padding.skip_padding`), if no
        tile waits for another one.
    dram_cycles, bank_cycles, transposer_cycles : int
        Cycles of memories and transposers.
    dense_cycles, cycles : int
        The maximum of the cycles of shared tiles, DRAM, banks and transposers.
    dense_on_chip, on_chip : int
        The same without DRAM.
    limit : str
        The resource with the maximum: "compute", "dram", "banks" or "transposers".
    utilisation : float
        Effectual positions over all slots of the chip's multipliers in `cycles`.
    idle : dict
        Shares of idle slots by cause: "options" (no option of the lane had work), "waits" (for the slowest row),
        "rows" and "columns" (without a vector), "stalls" (results could not leave), "reads" (waits for tiles that share
        reads), "tail" (no pass left for the tile), "memory".
    traffic : Traffic
        Bytes moved by TensorDash.
    dense_energy, energy : dict
        "core" (active tiles), "idle" (idle tiles), "sram" and "dram", in microjoule, of the baseline and of
        TensorDash.
    dropped : int or None
        Cycles of tiles that drop empty steps, if no tile waits for another one; None unless `Machine.drop_steps`.
    dropped_on_chip : int or None
        The maximum of cycles of tiles that drop empty steps, banks and transposers; None unless `Machine.drop_steps`.
        These tiles hold complete streams, and tiles that share reads begin each pass together. `faster` selects it by
        these cycles.
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
    dense_busy: int
    busy: int
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
    dropped: int | None = None
    dropped_on_chip: int | None = None

    @property
    def compute_speedup(self) -> float | None:
        """The baseline's compute cycles over TensorDash's; None if nothing is multiplied."""
        return ratio(self.dense_compute, self.compute)

    @property
    def shared_speedup(self) -> float | None:
        """The same for tiles that wait for the tiles with which they share reads."""
        return ratio(self.dense_shared, self.shared)

    @property
    def speedup(self) -> float | None:
        """The same, including memory."""
        return ratio(self.dense_cycles, self.cycles)

    @property
    def dropped_speedup(self) -> float | None:
        """The baseline's compute cycles over the cycles of tiles that drop empty steps."""
        return ratio(self.dense_compute, self.dropped) if self.dropped is not None else None

    def to_json(self) -> dict[str, Any]:
        document = asdict(self)
        speedups = ["compute_speedup", "shared_speedup", "speedup"]
        if self.dropped is None:
            del document["dropped"], document["dropped_on_chip"]
        else:
            speedups.append("dropped_speedup")
        return document | {name: getattr(self, name) for name in speedups}


def simulate_operation(
    geometry: Geometry, operation: Operation, operands: Mapping[str, NDArray[np.bool_]], machine: Machine
) -> OperationResult:
    """Simulate one operation: every pass of every tile.

    Parameters
    ----------
    geometry, operation : Geometry, Operation
        The layer and its operation.
    operands : mapping of str to array of bool
        The two operands by name: true where not zero.
    machine : Machine
        Tile, chip and mapping.

    Returns
    -------
    OperationResult

    Raises
    ------
    ValueError
        If operands do not match the shapes of the geometry.

    Source
    ------
    Section IV and Tables II and III of the paper.

    Examples
    --------
    >>> from tensordash import TileConfig
    >>> from tensordash_sim.performance.chip import ChipConfig
    >>> from tensordash_sim.lowering import MatrixProduct
    >>> layer = MatrixProduct(batch=1, samples=64, in_features=64, out_features=64)
    >>> masks = {"A": np.tile([True, False], (1, 64, 32)), "W": np.ones((1, 64, 64), bool)}
    >>> result = simulate_operation(layer, Operation("AxW"), masks, Machine(TileConfig(), ChipConfig()))
    >>> result.scheduled, result.zeros, result.compute_speedup
    ('A', 0.5, 2.0)
    """
    sides = {name: operands[name] for name in (operation.left, operation.right)}
    tried = [_simulated(geometry, operation, sides, each) for each in _choices(geometry, operation, sides, machine)]
    dropped = [each.dropped_on_chip for each in tried if each.dropped_on_chip is not None]
    return replace(min(tried, key=lambda result: result.on_chip), dropped_on_chip=min(dropped, default=None))


def _sums(geometry: Geometry, operation: Operation) -> int:
    """Return the number of sums per result: one per sample for a convolution's weight gradient, otherwise 1."""
    return geometry.batch if operation is Operation.WEIGHT_GRADIENT and isinstance(geometry, Convolution) else 1


def _choices(
    geometry: Geometry, operation: Operation, sides: Mapping[str, NDArray[np.bool_]], machine: Machine
) -> list[Machine]:
    """Return the machines to simulate for `faster`; the first one wins a tie."""
    joins, names = [machine.join_samples], [machine.side]
    if machine.join_samples == "faster":
        joins = ["never", "always"] if _sums(geometry, operation) > 1 else ["never"]
    if machine.side == "faster":
        names = ["left", "right"]
        if scheduled_operand(sides, operation) == operation.right:
            names.reverse()
    return [replace(machine, join_samples=join, side=side) for join in joins for side in names]


def _simulated(
    geometry: Geometry, operation: Operation, sides: Mapping[str, NDArray[np.bool_]], machine: Machine
) -> OperationResult:
    """Simulate an operation as `simulate_operation` does, on a machine without `faster`."""
    config, chip = machine.config, machine.chip
    products = lower(geometry, operation, sides, config.lanes)
    has_padding = any(side.padding for product in products for side in (product.left, product.right))
    ones = {name: np.ones(mask.shape, np.bool_) for name, mask in sides.items()} if has_padding else sides
    full = lower(geometry, operation, ones, config.lanes) if has_padding else products
    scheduled, sums = scheduled_operand(sides, operation, machine.side), _sums(geometry, operation)
    if sums > 1 and machine.join_samples == "always":
        products, full = ([join_samples(each, sums) for each in some] for some in (products, full))
        sums = 1
    ran = ProductsRun(machine, scheduled, sums)
    for product, without_zeros in zip(products, full, strict=True):
        ran.run(product, without_zeros)
    if config.sparsity == "both":  # each pair of groups has its own pass
        ran.dense_shared, ran.shared = ran.dense.cycles, ran.spread.cycles
    elements = products[0].left.batch if products else 1
    dram = Traffic(dram=_dram(geometry, operation, sides, scheduled, machine, elements, sums))
    traffic, dense_traffic = ran.traffic + dram, ran.dense_traffic + dram
    memory, dense_memory = (
        {"dram": one.dram_cycles(chip), "banks": one.bank_cycles(chip), "transposers": one.transposer_cycles(chip)}
        for one in (traffic, dense_traffic)
    )
    needs = {"compute": ran.shared, **memory}
    dense_needs = {"compute": ran.dense_shared, **dense_memory}
    cycles = max(needs.values())
    inside = geometry.macs if config.sparsity == "both" else ran.positions - ran.padding
    effectual = inside if config.sparsity == "none" else ran.passes.work
    slots = cycles * chip.tiles * config.multipliers
    return OperationResult(
        scheduled=scheduled,
        macs=geometry.macs,
        zeros=1 - int(np.count_nonzero(sides[scheduled])) / sides[scheduled].size,
        padding_share=(ran.positions - inside) / ran.positions if ran.positions else 0.0,
        ideal_speedup=ratio(inside, effectual),
        dense_compute=ran.dense.cycles,
        compute=ran.spread.cycles,
        dense_shared=ran.dense_shared,
        shared=ran.shared,
        dense_busy=ran.dense.busy,
        busy=ran.spread.busy,
        dense_unpadded=ran.unpadded.cycles,
        dram_cycles=needs["dram"],
        bank_cycles=needs["banks"],
        transposer_cycles=needs["transposers"],
        dense_cycles=max(dense_needs.values()),
        cycles=cycles,
        dense_on_chip=_without_dram(dense_needs),
        on_chip=_without_dram(needs),
        limit=max(needs, key=lambda name: needs[name]),
        utilisation=ran.passes.work / slots,
        idle={cause: idle_slots / slots for cause, idle_slots in ran.idle(cycles).items()},
        traffic=traffic,
        dense_energy=energy(ran.dense.busy, max(dense_needs.values()), dense_traffic, chip, skips=False),
        energy=energy(ran.spread.busy, cycles, traffic, chip, skips=config.sparsity != "none"),
        dropped=None if ran.dropped is None else ran.dropped.cycles,
        dropped_on_chip=None if ran.dropped is None else _without_dram(needs | {"compute": ran.dropped_shared}),
    )


def scheduled_operand(sides: Mapping[str, NDArray[np.bool_]], operation: Operation, side: str = "sparser") -> str:
    """Return the scheduled operand; the left one if both are equally sparse."""
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
    """Return the off-chip traffic: weight gradients leave as FP32 or INT32, other results in side B's format."""
    config = machine.config
    widths = {name: config.b_format.width if name == scheduled else config.a_format.width for name in sides}
    left, right = (
        Operand(sides[name].size, int(np.count_nonzero(sides[name])), widths[name] / 8)
        for name in (operation.left, operation.right)
    )
    value_bytes = RESULT_BYTES if operation is Operation.WEIGHT_GRADIENT else config.b_format.width / 8
    result = Operand(prod(geometry.shapes[operation.output]), 0, value_bytes)
    return dram_traffic(left, right, result, machine.chip, elements=elements, sums=sums)
