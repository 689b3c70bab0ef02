"""Compiled loops: the schedulers of many tiles, each on its own streams.

A step is a word. Its bit `lane` is set if the position is effectual. A narrow window (at most 16 positions) is one
integer with the oldest step in its lowest bits, and a table holds its next state. A wide window has one word for each
step, and all lanes of a level select in parallel, bit by bit.
"""

import numpy as np

from ..jit import njit, prange

__all__ = ["NARROW_BITS", "count_narrow", "count_wide", "fill_table", "take_in_order"]

NARROW_BITS = 16


@njit(cache=True, nogil=True)
def _schedule(window, free, undecided, levels, steps, ups, downs):
    """Remove the selected positions from the windows (depth, schedulers).

    Lanes of a level cannot reach the same position, so they select together, option by option. The loops have no
    branches, so one vector instruction serves many schedulers.
    """
    for scheduler in range(len(free)):
        # A lane's first option is its own position of the oldest step, which no other lane can reach.
        free[scheduler] = ~window[0, scheduler]
        window[0, scheduler] = 0
    for level in levels:
        for scheduler in range(len(free)):
            undecided[scheduler] = free[scheduler] & level
        for option in range(len(steps)):
            words, up, down = window[steps[option]], ups[option], downs[option]
            for scheduler in range(len(free)):
                # Bit `lane` is position (lane + offset) modulo lanes. No lane selects bits beyond the lanes.
                word = words[scheduler]
                taken = undecided[scheduler] & (word >> up | word << down)
                undecided[scheduler] ^= taken
                words[scheduler] = word & ~(taken << up | taken >> down)


@njit(cache=True, nogil=True)
def fill_table(table, lanes, depth, levels, steps, ups, downs):
    """Tabulate the remaining positions of every window and, in the bits above, the number of leading empty steps."""
    count = len(table)
    window, scratch = np.empty((depth, count), np.uint32), np.empty((2, count), np.uint32)
    for bits in range(count):
        for step in range(depth):
            window[step, bits] = (bits >> step * lanes) & ((1 << lanes) - 1)
    _schedule(window, scratch[0], scratch[1], levels, steps, ups, downs)
    for bits in range(count):
        remaining, advance = np.uint64(0), depth
        for step in range(depth - 1, -1, -1):
            remaining = remaining << np.uint64(lanes) | window[step, bits]
            if window[step, bits]:
                advance = step
        table[bits] = remaining | np.uint64(advance << NARROW_BITS)


@njit(cache=True, nogil=True)
def _windows(words, lanes, depth, out):
    """Write for every step of a stream the window that begins with it. Steps after the end are empty."""
    count = len(words)
    for step in range(count):
        out[step] = np.uint16(words[step])
    out[count] = np.uint16(0)
    for later in range(1, depth):
        shift = np.uint32(later * lanes)
        for step in range(count - later):
            out[step] |= np.uint16(words[step + later] << shift)


@njit(parallel=True, cache=True, nogil=True)
def count_narrow(words_b, words_a, both, lanes, depth, table, cycles, advances, paces):
    """Schedule every group with the table.

    Inputs are `words_b` (groups, rows, T) and, with `both`, `words_a` (groups, columns, T). The function writes
    `cycles` (groups,), `advances` (groups, rows) and `paces` (groups, T). `advances` is each row's AS, summed over the
    cycles. `paces` is the number of steps taken in each cycle; if its shape is (groups, 0), it stays empty.
    """
    groups, rows, count = words_b.shape
    columns = words_a.shape[1] if both else 1
    for group in prange(groups):
        side_b = np.empty((rows, count + 1), np.uint16)
        side_a = np.empty((columns, count + 1), np.uint16)
        window = np.empty((rows, columns), np.uint32)
        paces[group] = 0
        for row in range(rows):
            _windows(words_b[group, row], lanes, depth, side_b[row])
            advances[group, row] = 0
        for column in range(columns):
            if both:
                _windows(words_a[group, column], lanes, depth, side_a[column])
            else:
                side_a[column] = np.uint16(0xFFFF)
        for row in range(rows):
            for column in range(columns):
                window[row, column] = side_b[row, 0] & side_a[column, 0]
        step, cycle = 0, 0
        while step < count:
            advance = min(depth, count - step)
            left = advance
            for row in range(rows):
                row_advance = left
                for column in range(columns):
                    entry = table[window[row, column]]
                    window[row, column] = entry
                    row_advance = min(row_advance, np.int64(entry >> np.uint32(NARROW_BITS)))
                advances[group, row] += row_advance
                advance = min(advance, row_advance)
            if paces.shape[1]:
                paces[group, cycle] = advance
            step += advance
            cycle += 1
            shift = np.uint32(advance * lanes)
            # Steps that stay keep their remaining positions. All others enter with all their positions.
            entered = ~np.uint32((np.uint32(1) << np.uint32((depth - advance) * lanes)) - np.uint32(1))
            for row in range(rows):
                fresh = side_b[row, step] & entered
                for column in range(columns):
                    stays = (window[row, column] & np.uint32(0xFFFF)) >> shift
                    window[row, column] = stays | (fresh & side_a[column, step])
        cycles[group] = cycle


@njit(cache=True, nogil=True)
def _fill(window, first, words_b, words_a, both, step, places, stop):
    """Fill the window of each scheduler of a group from place `places` up to `stop`; `step` is the step in place 0."""
    rows, count = words_b.shape
    columns = words_a.shape[0] if both else 1
    for place in range(places, stop):
        in_stream = step + place < count
        for row in range(rows):
            for column in range(columns):
                word = words_b[row, step + place] if in_stream else np.uint32(0)
                if both and in_stream:
                    word &= words_a[column, step + place]
                window[place, first + row * columns + column] = word


@njit(parallel=True, cache=True, nogil=True)
def count_wide(words_b, words_a, both, depth, levels, steps, ups, downs, parts, cycles, advances, paces):
    """Count as `count_narrow` does, without a table. A slot holds one group; several slots fill the CPU's vectors."""
    groups, rows, count = words_b.shape
    columns = words_a.shape[1] if both else 1
    size = rows * columns
    slots = max(1, 64 // size)
    batch = max(slots, -(-groups // parts))
    for item in prange(-(-groups // batch)):
        next_group, stop = item * batch, min(groups, (item + 1) * batch)
        window = np.zeros((depth, slots * size), np.uint32)
        scratch = np.empty((2, slots * size), np.uint32)
        group_of = np.full(slots, -1)
        step_of, cycles_of = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        busy = 0
        paces[next_group:stop] = 0
        for slot in range(min(slots, stop - next_group)):
            group_of[slot] = next_group
            advances[next_group] = 0
            side_a = words_a[next_group if both else 0]
            _fill(window, slot * size, words_b[next_group], side_a, both, 0, 0, depth)
            next_group += 1
            busy += 1
        while busy:
            _schedule(window, scratch[0], scratch[1], levels, steps, ups, downs)
            for slot in range(slots):
                group, first = group_of[slot], slot * size
                if group < 0:
                    continue
                left = min(depth, count - step_of[slot])
                advance = left
                for row in range(rows):
                    drained, begin = 0, first + row * columns
                    while drained < left and not window[drained, begin : begin + columns].any():
                        drained += 1
                    advances[group, row] += drained
                    advance = min(advance, drained)
                if paces.shape[1]:
                    paces[group, cycles_of[slot]] = advance
                step_of[slot] += advance
                cycles_of[slot] += 1
                if step_of[slot] < count:
                    for place in range(depth - advance):
                        for scheduler in range(first, first + size):
                            window[place, scheduler] = window[place + advance, scheduler]
                    held = depth - advance
                else:
                    cycles[group] = cycles_of[slot]
                    step_of[slot], cycles_of[slot], held = 0, 0, 0
                    group = next_group if next_group < stop else -1
                    group_of[slot] = group
                    if group < 0:
                        busy -= 1
                        continue
                    advances[group] = 0
                    next_group += 1
                side_a = words_a[group if both else 0]
                _fill(window, first, words_b[group], side_a, both, step_of[slot], held, depth)


@njit(parallel=True, cache=True, nogil=True)
def take_in_order(words_b, words_a, both, lanes, depth, levels, steps, ups, downs, cycles, chosen, ends):
    """Schedule as `count_wide` does, and record which cycle takes which position.

    The function writes `cycles` (groups,), `chosen` (groups, schedulers, T * lanes) and `ends` (groups, schedulers, T).
    `chosen` has each scheduler's positions, in the order of the cycles that take them. `ends` is the number of
    positions taken up to the end of each cycle.
    """
    groups, _, count = words_b.shape
    schedulers = chosen.shape[1]
    for group in prange(groups):
        window, before = np.empty((depth, schedulers), np.uint32), np.empty((depth, schedulers), np.uint32)
        scratch, taken = np.empty((2, schedulers), np.uint32), np.zeros(schedulers, np.int64)
        side_a = words_a[np.int64(group) if both else 0]
        _fill(window, 0, words_b[group], side_a, both, 0, 0, depth)
        step, cycle = 0, 0
        while step < count:
            before[:] = window
            _schedule(window, scratch[0], scratch[1], levels, steps, ups, downs)
            left = min(depth, count - step)
            advance = left
            for scheduler in range(schedulers):
                drained = left
                for place in range(left - 1, -1, -1):
                    for lane in range(lanes):
                        if (before[place, scheduler] ^ window[place, scheduler]) >> np.uint32(lane) & np.uint32(1):
                            chosen[group, scheduler, taken[scheduler]] = (step + place) * lanes + lane
                            taken[scheduler] += 1
                    if window[place, scheduler]:
                        drained = place
                ends[group, scheduler, cycle] = taken[scheduler]
                advance = min(advance, drained)
            step += advance
            cycle += 1
            for place in range(depth - advance):
                window[place] = window[place + advance]
            _fill(window, 0, words_b[group], side_a, both, step, depth - advance, depth)
        cycles[group] = cycle
