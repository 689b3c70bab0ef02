"""Cycles that each unit of a core takes for a descriptor, if it waits for nothing else."""

from collections.abc import Mapping
from math import gcd

from tensordash.configuration.core_config import CoreConfig

__all__ = [
    "LATENCY",
    "LAYOUT_CYCLES",
    "LOAD_CYCLES",
    "MAX_BURST_BEATS",
    "PAIR_GROUPS",
    "STORE_CYCLES",
    "block_cycles",
    "block_cycles_of",
    "layout_cycles",
    "load_cycles",
    "store_cycles",
]

LATENCY = 50
"""Default latency of memory in cycles."""
MAX_BURST_BEATS = 32
"""Beats of the longest burst."""
LOAD_CYCLES = 9
"""Cycles of a load beside memory's latency and its data."""
BURST_CYCLES = 2
"""Cycles of a burst beside memory's latency and its data."""
STORE_CYCLES = 10
"""Cycles of a store beside memory's latency and its data."""
LAYOUT_CYCLES = 10
"""Cycles of a layout beside those for its groups."""


PAIR_GROUPS = 1.8
"""Groups that a layout of two groups a cycle reads in a cycle, roughly; `pair_cycles` counts them."""


def _bursts(config: CoreConfig, groups: int, runs: int) -> tuple[float, int]:
    """Bursts of a move and its beats; a run begins with any group of its first burst."""
    group_beats = config.group_bits // config.axi_bits
    beats = groups * group_beats
    return runs * (1 + (beats / runs - group_beats) / MAX_BURST_BEATS), beats


def load_cycles(config: CoreConfig, groups: int, runs: int, latency: int) -> float:
    """Cycles of a plain load of some groups in some runs."""
    bursts, beats = _bursts(config, groups, runs)
    # `outstanding` bursts are on their way; the first of the next `outstanding` waits for the first of these.
    burst = beats / bursts
    wait = max(0.0, latency + BURST_CYCLES + burst - config.outstanding * burst)
    return LOAD_CYCLES + latency + beats + (bursts - 1) // config.outstanding * wait


def store_cycles(config: CoreConfig, groups: int, runs: int, latency: int) -> float:
    """Cycles of a plain store in some runs; memory answers when it has all data."""
    bursts, beats = _bursts(config, groups, runs)
    return STORE_CYCLES + latency + beats + (bursts - 1) * max(0.0, 2 - beats / bursts)


def layout_cycles(config: CoreConfig, runs: int, steps: int, stride: int) -> float:
    """Cycles of a layout with a run for each part of each stream; rough if the core lays out two groups a cycle."""
    if config.layout_groups == 2:
        turns = gcd(stride, config.tile.lanes)
        return LAYOUT_CYCLES + runs * steps * (turns if turns > 1 else 1 / PAIR_GROUPS)
    filling = int(steps % config.tile.window_depth > 0)
    return LAYOUT_CYCLES + runs * (steps + filling) * gcd(stride, config.tile.lanes)


def block_cycles(
    config: CoreConfig, stride: int, *, fp32: int, transposed: int, mask: int, emit: int, add: int, bias: int
) -> float:
    """Cycles of the output unit for a block: its rows, and the groups of results."""
    lanes, parts = config.tile.lanes, config.parts("a")
    # In a cycle goes a row to which nothing is added, or a piece of one that gets a partial sum or a bias.
    row = max(1, config.result_cycles * (max(add, 1 - emit) + emit * bias))
    rows = lanes * row
    if not emit:
        return config.parts("b") * rows
    # A group of FP32 is written a word, or as many of its positions, at a time.
    batches = config.fp32_groups if fp32 else 1
    words = gcd(stride, lanes) * (1 + 2 * mask) * (1 if transposed else batches)
    # Three rows of the next batch wait for the last word, with which the first is taken; then come the others, if any.
    # Of one that gets both, the partial sum is there by then.
    more = lanes // batches - 1
    late = max(more - 2, 0) * (row - (add & bias))
    written = batches * (words * parts + min(more, 2) + late + (fp32 & (parts > 1)))
    # Meanwhile the next rows' biases are read, which wait for the mask.
    read = bias * (2 * parts - add + (mask & (parts > 1)))
    return config.parts("b") * max(rows + read, written)


def block_cycles_of(config: CoreConfig, values: Mapping[str, int]) -> float:
    """Cycles of the output unit for a block, from the fields of a multiply."""
    how = {name: values[name] for name in ("fp32", "transposed", "mask", "emit", "add", "bias")}
    return block_cycles(config, values["stride"], **how)
