"""Cycles of each unit of a core for a descriptor, if the unit never waits."""

from collections.abc import Mapping
from math import gcd

from tensordash.configuration.core_config import CoreConfig

__all__ = [
    "BURST_CYCLES",
    "LATENCY",
    "LAYOUT_CYCLES",
    "LENGTH_CYCLES",
    "LOAD_CYCLES",
    "MAX_BURST_BEATS",
    "PAIR_GROUPS",
    "STORE_CYCLES",
    "block_cycles",
    "block_cycles_of",
    "burst_count",
    "group_beats",
    "layout_cycles",
    "load_cycles",
    "store_cycles",
]

LATENCY = 50
"""Default latency of memory in cycles."""
MAX_BURST_BEATS = 32
"""Beats of the longest burst."""
LOAD_CYCLES = 9
"""Cycles of a load, in addition to memory latency and data."""
BURST_CYCLES = 2
"""Cycles of a burst, in addition to memory latency and data."""
STORE_CYCLES = 10
"""Cycles of a store, in addition to memory latency and data."""
LAYOUT_CYCLES = 10
"""Cycles of a layout, in addition to the cycles for its groups."""
LENGTH_CYCLES = 2
"""Cycles from a layout's last step to the write of its last stream's lengths."""
PAIR_GROUPS = 1.8
"""Approximate groups per cycle of a layout that reads up to two; `pair_cycles` counts them exactly."""


def group_beats(config: CoreConfig, *, is_nvfp4: bool = False) -> int:
    """Return the beats of a group in memory, for an uncompressed move."""
    return (config.group_bits >> is_nvfp4) // config.axi_bits


def burst_count(groups: int, runs: int, beats: int) -> float:
    """Return a move's mean number of bursts, with `beats` of a group; a run may begin at any group of a burst."""
    return runs + (groups - runs) * beats / MAX_BURST_BEATS


def load_cycles(config: CoreConfig, groups: int, runs: int, latency: int, *, is_nvfp4: bool = False) -> float:
    """Return the cycles of an uncompressed load."""
    of_group = group_beats(config, is_nvfp4=is_nvfp4)
    bursts, beats = burst_count(groups, runs, of_group), groups * of_group
    # `outstanding` bursts are in flight; the first of the next `outstanding` bursts waits for the first of these.
    burst = beats / bursts
    wait = max(0.0, latency + BURST_CYCLES + burst - config.outstanding * burst)
    return LOAD_CYCLES + latency + beats + (bursts - 1) // config.outstanding * wait


def store_cycles(config: CoreConfig, groups: int, runs: int, latency: int) -> float:
    """Return the cycles of an uncompressed store; memory responds when it has all data."""
    of_group = group_beats(config)
    bursts, beats = burst_count(groups, runs, of_group), groups * of_group
    return STORE_CYCLES + latency + beats + (bursts - 1) * max(0.0, 2 - beats / bursts)


def layout_cycles(config: CoreConfig, runs: int, steps: int, stride: int) -> float:
    """Return the cycles of a layout with a run for each part of each stream; approximate for `layout_groups` = 2."""
    if config.layout_groups == 2:
        turns = gcd(stride, config.tile.lanes)
        return LAYOUT_CYCLES + runs * steps * (turns if turns > 1 else 1 / PAIR_GROUPS)
    filling = int(steps % config.tile.window_depth > 0)
    return LAYOUT_CYCLES + runs * (steps + filling) * gcd(stride, config.tile.lanes)


def block_cycles(
    config: CoreConfig, stride: int, *, fp32: int, transposed: int, mask: int, emit: int, add: int, bias: int
) -> float:
    """Return the output unit's cycles for a block: for its rows and its groups of results."""
    lanes, parts = config.tile.lanes, config.parts("a")
    # In a cycle, the unit takes a row without an addend, or a piece of a row with a partial sum or a bias.
    row = max(1, config.result_cycles * (max(add, 1 - emit) + emit * bias))
    rows = lanes * row
    if not emit:
        return config.parts("b") * rows
    # The unit writes a group of FP32 results in `batches` batches, a word or a share of the positions at a time.
    batches = config.fp32_groups if fp32 else 1
    words = gcd(stride, lanes) * (1 + 2 * mask) * (1 if transposed else batches)
    # Three rows of the next batch wait for the last word. The first is taken with that word, then the others, if any.
    # A row with both a partial sum and a bias has its partial sum by then.
    more = lanes // batches - 1
    late = max(more - 2, 0) * (row - (add & bias))
    written = batches * (words * parts + min(more, 2) + late + (fp32 & (parts > 1)))
    # Meanwhile, the unit reads the next rows' biases, after the mask.
    read = bias * (2 * parts - add + (mask & (parts > 1)))
    return config.parts("b") * max(rows + read, written)


def block_cycles_of(config: CoreConfig, values: Mapping[str, int]) -> float:
    """Return the output unit's cycles for a block, from the fields of a multiply."""
    how = {name: values[name] for name in ("fp32", "transposed", "mask", "emit", "add", "bias")}
    return block_cycles(config, values["stride"], **how)
