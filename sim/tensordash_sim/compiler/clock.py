"""The compiled loop of `timing.py`: the cycles in which each descriptor of a program is fetched, begins and ends."""

from tensordash.configuration.descriptors import UNITS

from ..jit import njit
from .clock_state import CAME, FETCHED, LAYOUTS, LEFT, LOADS, MOVES, OUTPUT, SENT, UNKNOWN, begin_clock
from .multiply_cycles import move_losses, run_passes, sort_few, write_rates
from .unit_cycles import LAYOUT_CYCLES, LOAD_CYCLES

__all__ = [
    "LOAD",
    "LOAD_ADDRESS_CYCLES",
    "STORE",
    "advance",
    "end_move",
    "fetch_until",
    "last_end",
    "note_load",
    "run_clock",
]

LOAD, STORE, LAYOUT_A, MULTIPLY = (UNITS.index(unit) for unit in ("load", "store", "layout_a", "multiply"))
LOAD_ADDRESS_CYCLES = 7
"""Cycles from a load's descriptor to its first address on the bus."""
KNOWN_CYCLES = 4
"""Cycles from a descriptor's arrival in the window until the sequencer has it."""
OFFER_CYCLES = 4
"""Cycles from a descriptor's fetch, or from the end of the unit's last descriptor, to its offer to the unit."""
TOKEN_CYCLES = 4
"""Cycles from the last token that a descriptor waits for to its offer to the unit."""
SEND_CYCLES = 5
"""Cycles in which the sequencer sends a descriptor."""
MULTIPLY_CYCLES = 5
"""Cycles from a multiply's descriptor to the offer of its first steps to the tile."""
OUTPUT_CYCLES = 2
"""Cycles from the output unit's descriptor until it takes the first row, without biases."""
WRITTEN_CYCLES = 8
"""Cycles from the end of the last block until its results are in the buffer."""


@njit(cache=True, nogil=True)
def run_clock(program, pace_cycles, pace_losses, core):
    """Time all descriptors of a program on one core.

    Parameters
    ----------
    program : array of DESCRIPTOR
        The descriptors.
    pace_cycles, pace_losses : array of float
        `cycles` and `losses` of all paces, concatenated.
    core : Core
        The core.

    Returns
    -------
    float
        Time at which all are done.
    array of float, (units,)
        Cycles in which each unit has a descriptor.
    """
    state = begin_clock(program, core, 0.0)
    advance(state, program, pace_cycles, pace_losses, core)
    return last_end(state, core), state.busy


@njit(cache=True, nogil=True)
def advance(state, program, pace_cycles, pace_losses, core):
    """Time descriptors until all are done, or until the core waits for `end_move`.

    A multiply is timed after all descriptors that do not wait for it. By then every layout that writes during the
    multiply has been timed.
    """
    while True:
        has_moved = False
        for unit in range(len(UNITS)):
            while state.taken[unit] < state.lengths[unit] and state.begun[unit] == UNKNOWN:
                index = state.queues[unit, state.taken[unit]]
                begin = _begin(state, core, program[index], unit, index)
                if begin == UNKNOWN:
                    break
                has_moved = True
                if program[index]["is_multiply"] or (core.cores > 1 and program[index]["beats"]):
                    state.begun[unit] = begin
                else:
                    _execute(state, core, program[index], unit, index, begin)
        if has_moved:
            continue
        if state.begun[LOAD] != UNKNOWN or state.begun[STORE] != UNKNOWN:
            return
        if state.begun[MULTIPLY] == UNKNOWN or state.begun[OUTPUT] == UNKNOWN:
            return
        _finish(state, core, program[state.place[MULTIPLY]], pace_cycles, pace_losses)


@njit(cache=True, nogil=True)
def last_end(state, core):
    """Return the time at which all descriptors are done."""
    last = len(state.done) - 1
    end = _known(state, core, last) if state.done[last] == UNKNOWN else 0.0
    return max(end, state.done.max())


@njit(cache=True, nogil=True)
def end_move(state, core, each, unit, done):
    """End the load or store that waits for memory."""
    begin = state.begun[unit]
    state.begun[unit] = UNKNOWN
    _note_move(state, core, each, unit, done)
    _end(state, unit, state.place[unit], begin, done, each["signal"])


@njit(cache=True, nogil=True)
def note_load(state, begin, end, on_way):
    """Note a load for which fetches may wait: its begin, its end, and its beats in flight."""
    _note(state.loads[state.counts[LOADS] % len(state.loads)], (begin, end, on_way))
    state.counts[LOADS] += 1


@njit(cache=True, nogil=True)
def _begin(state, core, each, unit, index):
    """Return when a unit gets its next descriptor, and take its tokens.

    The time is `UNKNOWN` if the time of the descriptor's arrival or of a token is unknown.
    """
    wait = each["output_wait"] if unit == OUTPUT else each["wait"]
    begin = _known(state, core, index)
    for other in range(len(UNITS)):
        if wait >> other & 1 and state.used[other, unit] == state.signalled[other, unit]:
            return UNKNOWN
    if begin == UNKNOWN:
        return UNKNOWN
    # The sequencer searches the window from the unit's last descriptor on, one place per cycle.
    begin = max(begin, state.free[unit] + index - state.place[unit] - 1) + OFFER_CYCLES
    for other in range(len(UNITS)):
        if wait >> other & 1:
            begin = max(begin, state.tokens[other, unit, state.used[other, unit]] + TOKEN_CYCLES)
            state.used[other, unit] += 1
    # The sequencer sends one descriptor at a time.
    for before in sort_few(state.sent.copy()):
        if before - SEND_CYCLES < begin < before + SEND_CYCLES:
            begin = before + SEND_CYCLES
    state.sent[state.counts[SENT] % len(state.sent)] = begin
    state.counts[SENT] += 1
    state.place[unit] = index
    state.taken[unit] += 1
    return begin


@njit(cache=True, nogil=True)
def _execute(state, core, each, unit, index, begin):
    """Time a descriptor other than a multiply, and record its accesses."""
    counts, done = state.counts, begin + each["cycles"]
    if unit == LOAD:
        done += _wait_for_fetches(state, core, begin + LOAD_ADDRESS_CYCLES)
        on_way = min(float(core.outstanding * each["burst"]), done - begin)
        note_load(state, begin, done - LOAD_CYCLES, on_way)
    if each["beats"]:
        _note_move(state, core, each, unit, done)
    if each["is_layout"]:
        first = begin + LAYOUT_CYCLES
        groups = each["groups"] / (done - first) if core.has_pairs and each["period"] == 1 else 1.0
        _note(state.layouts[counts[LAYOUTS]], (float(unit - LAYOUT_A), first, done, float(each["period"]), groups))
        counts[LAYOUTS] += 1
    _end(state, unit, index, begin, done, each["signal"])


@njit(cache=True, nogil=True)
def _note_move(state, core, each, unit, done):
    """Record a move's accesses to the buffer: until the end of a load, or a memory latency before a store's.

    A move with several beats per group leaves the output unit cycles for its masks.
    """
    if each["group_beats"] != 1:
        return
    last = done if unit == LOAD else done - core.latency
    is_load = 1.0 if unit == LOAD else 0.0
    _note(state.moves[state.counts[MOVES]], (is_load, float(each["region"]), last - each["beats"], last))
    state.counts[MOVES] += 1


@njit(cache=True, nogil=True)
def _finish(state, core, each, pace_cycles, pace_losses):
    """Time the tile and the output unit of the multiply that has begun."""
    counts, begun, index = state.counts, state.begun, state.place[MULTIPLY]
    first = begun[MULTIPLY] + MULTIPLY_CYCLES
    opens = begun[OUTPUT] + OUTPUT_CYCLES + each["bias_cycles"]
    layouts = state.layouts[: counts[LAYOUTS]]
    moves = state.moves[: counts[MOVES] if each["mask"] else 0]
    times, rates = write_rates(layouts, each["words"], each["a_streams"], first, core.is_dense, core.has_pairs)
    tile, blocks = run_passes(
        pace_cycles[each["pace"] : each["next_pace"]],
        pace_losses[each["losses"] : each["next_losses"]],
        (each["b_streams"], each["a_streams"]),
        (first, opens),
        each["cycles"],
        each["mask_cycles"],
        times,
        rates,
        move_losses(moves, each["region"], opens),
    )
    counts[LAYOUTS] = _keep_later(state.layouts, counts[LAYOUTS], 2, tile)
    counts[MOVES] = _keep_later(state.moves, counts[MOVES], 3, blocks)
    _end(state, MULTIPLY, index, begun[MULTIPLY], tile, each["signal"])
    _end(state, OUTPUT, index, begun[OUTPUT], blocks + WRITTEN_CYCLES, each["output_signal"])
    begun[MULTIPLY] = begun[OUTPUT] = UNKNOWN


@njit(cache=True, nogil=True)
def _end(state, unit, index, begin, done, signal):
    """End a unit's part of a descriptor and signal its tokens."""
    state.busy[unit] += done - begin
    state.free[unit] = done
    state.done[index] = done
    for other in range(len(UNITS)):
        if signal >> other & 1:
            state.tokens[unit, other, state.signalled[unit, other]] = done
            state.signalled[unit, other] += 1


@njit(cache=True, nogil=True)
def _keep_later(rows, count, column, time):
    """Move the rows with a value greater than `time` in `column` to the front; return their number."""
    remaining = 0
    for k in range(count):
        if rows[k, column] > time:
            _note(rows[remaining], rows[k])
            remaining += 1
    return remaining


@njit(cache=True, nogil=True)
def _note(row, values):
    """Set a row to values. Numba takes longer to compile an assignment to the whole row."""
    for k in range(len(values)):
        row[k] = values[k]


@njit(cache=True, nogil=True)
def _over(state, index):
    """Return when all descriptors up to `index` are done, or `UNKNOWN`."""
    counts = state.counts
    while counts[LEFT] <= index:
        done = state.done[counts[LEFT]]
        if done == UNKNOWN:
            return UNKNOWN
        state.left[counts[LEFT]] = max(done, state.left[counts[LEFT] - 1]) if counts[LEFT] else done
        counts[LEFT] += 1
    return state.left[index]


@njit(cache=True, nogil=True)
def _known(state, core, index):
    """Return when the sequencer has a descriptor, or `UNKNOWN`."""
    counts = state.counts
    while counts[CAME] <= index:
        place = counts[CAME]
        over = _over(state, place - core.window) if place >= core.window else 0.0
        if over == UNKNOWN:
            return UNKNOWN
        if place == counts[FETCHED]:
            _fetch(state, core, _next_fetch(state, core))
        before = state.came[place - 1] if place else 0.0
        state.came[place] = max(state.fetched[place], over, before + core.interval_cycles)
        counts[CAME] += 1
    return state.came[index] + KNOWN_CYCLES


@njit(cache=True, nogil=True)
def _next_fetch(state, core):
    """Return when the next descriptor is requested: one in every cycle while the queue has a free place."""
    place = state.counts[FETCHED] - core.prefetch
    return max(state.asked[0] + 1, state.came[place] if place >= 0 else 0.0)


@njit(cache=True, nogil=True)
def _fetch(state, core, asked):
    """Fetch a descriptor; its data follow the data of earlier fetches and of loads requested before."""
    state.asked[0] = asked
    before, last = 0.0, 0.0
    for k in range(min(state.counts[LOADS], len(state.loads))):
        begin, end, on_way = state.loads[k]
        if begin <= asked < end:
            before += min(end - asked, on_way)
            last = max(last, end - asked)
    place = state.counts[FETCHED]
    # Cores fetch at about the same time, so data of the other cores' fetches come between two of a core's.
    bus = state.fetched[place - 1] + (core.cores - 1) * core.fetch_cycles if place else 0.0
    state.fetched[place] = max(asked + max(core.latency, min(before, last)), bus) + core.fetch_cycles
    state.counts[FETCHED] += 1


@njit(cache=True, nogil=True)
def fetch_until(state, core, asked):
    """Time all fetches requested until cycle `asked`; return when the data of the last one have arrived."""
    counts = state.counts
    while counts[FETCHED] < min(len(state.fetched), counts[CAME] + core.prefetch):
        asked_next = _next_fetch(state, core)
        if asked_next > asked:
            break
        _fetch(state, core, asked_next)
    return state.fetched[counts[FETCHED] - 1] if counts[FETCHED] else 0.0


@njit(cache=True, nogil=True)
def _wait_for_fetches(state, core, asked):
    """Return the cycles that a load's first data wait for the data of fetches requested before it."""
    return max(0.0, fetch_until(state, core, asked) - asked - core.latency)
