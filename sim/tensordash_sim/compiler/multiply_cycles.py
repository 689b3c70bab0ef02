"""Cycles of a multiply: the passes of the tile, the output unit after it, and layouts that write meanwhile.

Three units determine the time of a multiply. The tile runs its passes one after the other. The output unit takes a
block of sums after each pass; the tile may be two blocks ahead. A layout that writes to a bank of a stream buffer
prevents the tile from reading that bank in the same cycle.

A multiply with `skip_masked` reads the masks of each pass before the pass, one group per cycle. A skipped pass takes no
time of the tile, and the usual time of the output unit.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig

from ..jit import njit
from .unit_cycles import PAIR_GROUPS

__all__ = [
    "PERIODS",
    "Pace",
    "even_losses",
    "layout_loss",
    "losses_of",
    "move_losses",
    "pass_cycles",
    "run_passes",
    "sort_few",
    "write_rates",
]

PERIODS = (1, 2, 4)
"""Cycles from one write of a layout to the next, for all strides."""
BLOCKS_AHEAD_CYCLES = 2
"""Cycles from the end of a block to the tile's next last step, if two blocks wait."""
BLOCK_CYCLES = 4
"""Cycles from a pass's last step to the first row of its block."""
MERGED_SHARE = 0.85
"""Share of cases in which the tile takes steps delayed by a late bank together with the steps after them."""
CROSSED_RATE = 1 / 3
"""Cycles that a dense tile loses per cycle while both sides are laid out. The parities of the memories that both sides
read differ in every second pass, which then takes twice its cycles."""
LOAD_LOSS = 1 / 3
"""Relative increase of the cycles of an output unit with a mask while a load of one group per cycle accesses the same
region of the buffer (measured on single layers). Slower moves fit between the output unit's accesses."""
STORE_LOSS = 1 / 12
"""As `LOAD_LOSS`, for a store."""
MASKED_PASSES = 16
"""Passes whose masks may be read before the output unit takes the first of their blocks."""
MIN_SPEED = 0.25
"""Minimum progress of a tile per cycle, despite all layouts."""
EVEN_CYCLES = 512
"""Cycles of the random pace on which `even_losses` is based."""


@dataclass(frozen=True)
class Pace:
    """The tile's cycles for the row side's streams of a multiply.

    Parameters
    ----------
    cycles : array of float, (streams,) or (streams, passes)
        Cycles of each stream if no layout writes. One entry may represent several consecutive streams. Or the cycles of
        each pass of each stream; 0 for a skipped pass.
    losses : array of float, (streams, periods)
        Cycles lost per write of a layout during that stream, by the layout's period.
    """

    cycles: NDArray[np.float64]
    losses: NDArray[np.float64]


def losses_of(
    paces: NDArray[np.uint8], counts: NDArray[np.int64], depth: int, *, pairs: bool = False
) -> NDArray[np.float64]:
    """Return the cycles that a sparse tile loses per write of a layout.

    When the tile takes a bank's step, the bank reads its next step. A write in the same cycle delays that read by one
    cycle. The tile takes only the steps before the late bank. It takes the others with the steps after them, or in a
    cycle of their own.

    Parameters
    ----------
    paces : array of uint8, (streams, cycles)
        Steps that the tile takes in each cycle if no bank is late.
    counts : array of int, (streams,)
        Cycles of each stream.
    depth : int
        Number of banks.
    pairs : bool
        Add a last column, for layouts that write two banks in every cycle.

    Returns
    -------
    array of float, (streams, periods or periods + 1)
    """
    kinds = [(period, 1) for period in PERIODS] + [(1, 2)] * pairs
    found = [
        MERGED_SHARE * _bank_losses(paces, counts, depth, kind, True)
        + (1 - MERGED_SHARE) * _bank_losses(paces, counts, depth, kind, False)
        for kind in kinds
    ]
    return np.stack(found, axis=1)


def pass_cycles(config: CoreConfig, steps: int, speedup: float) -> float:
    """Return the tile's cycles for a stream at a speedup: at least one per word, or one if the core drops steps.

    Parameters
    ----------
    config : CoreConfig
        The core.
    steps : int
        Dense steps of the stream.
    speedup : float
        Dense steps over cycles.
    """
    words = 1 if config.drop_steps else -(-steps // config.tile.window_depth)
    return max(float(words), steps / speedup)


@lru_cache(maxsize=256)
def _even_losses(depth: int, speedup: float, pairs: bool) -> NDArray[np.float64]:
    draw = np.random.default_rng(0).binomial(depth - 1, (speedup - 1) / max(1, depth - 1), (1, EVEN_CYCLES))
    return losses_of((1 + draw).astype(np.uint8), np.array([EVEN_CYCLES]), depth, pairs=pairs)


def even_losses(config: CoreConfig, speedup: float) -> NDArray[np.float64]:
    """Return the cycles lost per write, as `losses_of` does, for a tile with a mean number of steps per cycle."""
    if config.tile.sparsity == "none":
        return np.ones((1, len(PERIODS)))
    depth = config.tile.window_depth
    return _even_losses(depth, round(min(max(speedup, 1.0), depth), 1), config.layout_groups == 2)


def layout_loss(config: CoreConfig, speedup: float, period: int) -> float:
    """Estimate the cycles lost per cycle of a layout that writes once in a period."""
    if config.tile.sparsity == "none" and period == 1:
        return 0.0
    losses = even_losses(config, speedup)[0]
    if config.layout_groups == 2 and period == 1:
        return float((PAIR_GROUPS - 1) * losses[-1] + (2 - PAIR_GROUPS) * losses[0])
    return float(losses[PERIODS.index(period)]) / period


@njit(cache=True, nogil=True)
def _bank_losses(paces, counts, depth, kind, merged):
    """Return the cycles lost per write, for each stream, while a layout writes to one bank after the other.

    `kind` is the cycles from one write to the next, and the banks of each write.
    """
    period, banks = kind
    losses = np.zeros(len(counts))
    ready = np.zeros(depth)
    head, cycle = 0, 0
    for stream in range(len(counts)):
        began, count, taken, left = cycle, counts[stream], 0, 0
        steps = 0
        for k in range(count):
            steps += paces[stream, k]
        k = 0
        while taken < steps:
            if k < count and (merged or left == 0):
                left += paces[stream, k]
                k += 1
            offered = 0
            while offered < min(left, depth) and ready[(head + offered) % depth] <= cycle:
                offered += 1
            for step in range(offered):
                bank = (head + step) % depth
                written = cycle % period == 0 and (bank - cycle // period * banks) % depth < banks
                ready[bank] = cycle + (2 if written else 1)
            head += offered
            left -= offered
            taken += offered
            cycle += 1
        losses[stream] = period * (cycle - began - count) / max(1, cycle - began)
    return losses


@njit(cache=True, nogil=True)
def run_passes(cycles, losses, streams, opens, block, mask_cycles, times, rates, moves):
    """Return when the tile and the output unit end all passes of a multiply.

    `cycles`, in one dimension, and `losses` are the fields of a `Pace`. `streams` are the numbers of streams of sides B
    and A. `opens` is when the tile and the output unit begin. `block` is the output unit's cycles per block, and
    `mask_cycles` the cycles to read the masks of a pass that may be skipped; 0 if none is skipped. From `times[k]` to
    `times[k + 1]`, layouts of each period make `rates[k]` writes per cycle. Each row of `moves` is a move in the output
    unit's region of the buffer: its first and last cycle, and the relative increase of the output unit's cycles.
    """
    now, b_streams, a_streams = opens[0], streams[0], streams[1]
    done, last, before = opens[1], opens[1], -np.inf
    part, parts = 0, len(rates)
    masked, taken = opens[0], np.zeros(MASKED_PASSES)
    is_by_pass = len(cycles) > len(losses)
    for stream in range(b_streams):
        k = stream * len(losses) // b_streams
        for turn in range(a_streams):
            number = stream * a_streams + turn
            left = cycles[number if is_by_pass else k]
            is_skipped = left == 0
            if mask_cycles:
                masked = max(masked, taken[number % MASKED_PASSES]) + mask_cycles
                now = now if is_skipped else max(now, masked)
            while left > 0:
                while part < parts and times[part + 1] <= now:
                    part += 1
                if part == parts or now < times[part]:
                    room, speed = (times[part] - now if part < parts else np.inf), 1.0
                else:
                    room, speed = times[part + 1] - now, 1.0
                    for period in range(len(rates[part])):
                        speed -= rates[part, period] * losses[k, period]
                    speed = max(MIN_SPEED, speed)
                if left <= room * speed:
                    now += left / speed
                    left = 0.0
                else:
                    now += room
                    left -= room * speed
            if is_skipped:
                begun = max(masked, done)
            else:
                now = max(now, before - BLOCKS_AHEAD_CYCLES)
                before = last
                begun = max(now + BLOCK_CYCLES, done)
            taken[number % MASKED_PASSES] = begun
            done = begun + block
            for move in range(len(moves)):
                first, end, loss = moves[move]
                done += loss * max(0.0, min(begun + block, end) - max(begun, first))
            last = last if is_skipped else done
    return max(now, masked), done


@njit(cache=True, nogil=True)
def sort_few(values):
    """Sort a few values in place, and return them. Numba takes longer to compile `np.sort`."""
    for k in range(1, len(values)):
        value = values[k]
        while k > 0 and values[k - 1] > value:
            values[k] = values[k - 1]
            k -= 1
        values[k] = value
    return values


@njit(cache=True, nogil=True)
def _ends(layouts, begin):
    """Return the different times from `begin` on at which layouts begin or end to write, in order."""
    times = np.empty(2 * len(layouts))
    count = 0
    for _, first, last, _, _ in layouts:
        if last > begin:
            times[count], times[count + 1] = max(first, begin), last
            count += 2
    times = sort_few(times[:count])
    distinct = 0
    for k in range(count):
        if k == 0 or times[k] > times[k - 1]:
            times[distinct] = times[k]
            distinct += 1
    return times[:distinct]


@njit(cache=True, nogil=True)
def write_rates(layouts, words, streams, begin, is_dense, has_pairs):
    """Return the times at which layouts begin or end to write, and the writes per cycle between them, by period.

    A dense tile has one bank, in two memories that alternate. Reads and writes of consecutive words collide once and
    then alternate without conflict. They collide again after a pass with an odd number of words, because reads then
    continue in the same memory. They also collide with each write of a layout that does not write in every cycle.

    Parameters
    ----------
    layouts : array of float, (layouts, 5)
        For each layout: its side (0 or 1), the cycles of the first and the last write, the cycles between writes, and
        the groups per write, 1 to 2 on average.
    words : int
        Words of a stream.
    streams : int
        Streams of side A.
    begin : float
        Time at which the multiply begins.
    is_dense : bool
        Whether the tile is dense.
    has_pairs : bool
        Whether layouts take two groups per cycle. The last column then has the writes to two banks.
    """
    times = _ends(layouts, begin)
    # For a dense tile: how often per pass reads of a side continue in the same memory.
    repeats = (words * streams % 2 / streams, words % 2 * (streams - 1) / streams)
    rates = np.zeros((max(0, len(times) - 1), len(PERIODS) + has_pairs))
    for k in range(len(rates)):
        steady = 0
        for side, first, last, period, groups in layouts:
            if first >= times[k + 1] or last <= times[k]:
                continue
            steady += period == 1
            alone = repeats[int(side)] / (words + 1) if is_dense and period == 1 else (2 - groups) / period
            for number in range(len(PERIODS)):
                if PERIODS[number] == period:
                    rates[k, number] += alone
            if has_pairs:
                rates[k, -1] += groups - 1
        if is_dense and steady == 2:
            rates[k, 0] += CROSSED_RATE
    return times, rates


@njit(cache=True, nogil=True)
def move_losses(moves, region, begin):
    """Return the moves that delay an output unit with a mask in a region after cycle `begin`, for `run_passes`.

    Each row of `moves` has whether the move is a load, the region of its first group, and its first and last access.
    """
    losses = np.empty((len(moves), 3))
    count = 0
    for is_load, first_region, first, last in moves:
        if first_region == region and last > begin:
            losses[count, 0], losses[count, 1] = first, last
            losses[count, 2] = LOAD_LOSS if is_load > 0 else STORE_LOSS
            count += 1
    return losses[:count]
