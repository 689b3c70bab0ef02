"""The compiled loop of `timing.py`: the cycles in which each descriptor of a program is fetched, begins and ends."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.descriptors import UNITS

from ..jit import njit
from .multiply_cycles import move_losses, run_passes, sort_few, write_rates
from .unit_cycles import LAYOUT_CYCLES, LOAD_CYCLES

__all__ = ["DESCRIPTOR", "Core", "run_clock"]

DESCRIPTOR = np.dtype(
    [(name, np.int64) for name in ("is_multiply", "unit", "wait", "signal", "output_wait", "output_signal")]
    + [("cycles", np.float64)]  # Cycles of its unit; for a multiply, of the output unit per block.
    + [("is_layout", np.int64), ("period", np.int64), ("groups", np.float64)]  # For a layout, as in `LayoutWrites`.
    # For a load or a store: its beats if each has a group, or else 0; beats of the first burst.
    + [(name, np.int64) for name in ("beats", "burst", "region")]
    + [(name, np.int64) for name in ("words", "a_streams", "b_streams", "mask", "bias_cycles", "pace", "next_pace")]
)
"""The properties that determine a descriptor's time. `pace` and `next_pace` bound a multiply's entries in the paces."""
LOAD, LAYOUT_A, MULTIPLY, OUTPUT = (UNITS.index(unit) for unit in ("load", "layout_a", "multiply", "output"))
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
NOTED_LOADS = 8
"""Number of latest loads for which fetches may wait."""
UNKNOWN = -1.0
"""Time of an event that has not happened yet."""


class Core(NamedTuple):
    """Parameters of a core.

    Attributes
    ----------
    window, prefetch : int
        Descriptors in the sequencer's window and in its queue.
    outstanding : int
        Maximum of load bursts in flight.
    fetch_cycles : int
        Beats of a descriptor.
    interval_cycles : int
        Minimum of cycles between descriptors.
    latency : float
        Memory latency in cycles.
    is_dense, has_pairs : bool
        Whether the tile is dense, and whether a layout takes two groups per cycle.
    """

    window: int
    prefetch: int
    outstanding: int
    fetch_cycles: int
    interval_cycles: int
    latency: float
    is_dense: bool
    has_pairs: bool


class _State(NamedTuple):
    """The events so far. The time of a later event is `UNKNOWN`.

    Attributes
    ----------
    fetched, came, done, left : array of float, (descriptors,)
        Times at which each descriptor is in the queue, is in the window, is done, and is done with all before it.
    counts : array of int, (COUNTS,)
        Numbers of entries in `fetched`, `came`, `left`, `layouts` and `moves`; of loads; of descriptors sent to units.
    asked : array of float, (1,)
        Time of the last fetch request.
    loads : array of float, (NOTED_LOADS, 3)
        The latest loads: begin, end, and beats in flight.
    layouts : array of float, (descriptors, 5)
        Layouts that end after all multiplies so far, in the format of `write_rates`.
    moves : array of float, (descriptors, 4)
        Loads and stores that end after all multiplies so far, in the format of `move_losses`.
    tokens : array of float, (units, units, descriptors)
        Times at which tokens were signalled, by signalling unit and waiting unit.
    signalled, used : array of int, (units, units)
        Numbers of tokens that were signalled, and that a unit has waited for.
    taken, place : array of int, (units,)
        Number of descriptors that each unit has taken, and the index of the last one.
    free, busy, begun : array of float, (units,)
        Time at which each unit finished its last descriptor, and its busy cycles. For the multiply that runs and its
        output: the time of their descriptors.
    sent : array of float, (2 * units,)
        Times of the last descriptors sent to units.
    """

    fetched: NDArray[np.float64]
    came: NDArray[np.float64]
    done: NDArray[np.float64]
    left: NDArray[np.float64]
    counts: NDArray[np.int64]
    asked: NDArray[np.float64]
    loads: NDArray[np.float64]
    layouts: NDArray[np.float64]
    moves: NDArray[np.float64]
    tokens: NDArray[np.float64]
    signalled: NDArray[np.int64]
    used: NDArray[np.int64]
    taken: NDArray[np.int64]
    place: NDArray[np.int64]
    free: NDArray[np.float64]
    busy: NDArray[np.float64]
    begun: NDArray[np.float64]
    sent: NDArray[np.float64]


FETCHED, CAME, LEFT, LAYOUTS, MOVES, LOADS, SENT, COUNTS = range(8)
"""Entries of `_State.counts`, and their number."""


@njit(cache=True, nogil=True)
def run_clock(program, pace_cycles, pace_losses, core):
    """Time all descriptors of a program.

    A multiply is timed after all descriptors that do not wait for it. By then every layout that writes during the
    multiply has been timed.

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
    count, units = len(program), len(UNITS)
    state = _State(
        fetched=np.zeros(count),
        came=np.zeros(count),
        done=np.full(count, UNKNOWN),
        left=np.zeros(count),
        counts=np.zeros(COUNTS, np.int64),
        asked=np.zeros(1),
        loads=np.zeros((NOTED_LOADS, 3)),
        layouts=np.zeros((count, 5)),
        moves=np.zeros((count, 4)),
        tokens=np.zeros((units, units, count)),
        signalled=np.zeros((units, units), np.int64),
        used=np.zeros((units, units), np.int64),
        taken=np.zeros(units, np.int64),
        place=np.full(units, -1),
        free=np.zeros(units),
        busy=np.zeros(units),
        begun=np.full(units, UNKNOWN),
        sent=np.full(2 * units, -np.inf),
    )
    queues, lengths = _queue(program)
    while True:
        has_moved = False
        for unit in range(units):
            while state.taken[unit] < lengths[unit] and state.begun[unit] == UNKNOWN:
                index = queues[unit, state.taken[unit]]
                begin = _begin(state, core, program[index], unit, index)
                if begin == UNKNOWN:
                    break
                has_moved = True
                if program[index]["is_multiply"]:
                    state.begun[unit] = begin
                else:
                    _execute(state, core, program[index], unit, index, begin)
        if has_moved:
            continue
        if state.begun[MULTIPLY] == UNKNOWN or state.begun[OUTPUT] == UNKNOWN:
            break
        _finish(state, core, program[state.place[MULTIPLY]], pace_cycles, pace_losses)
    end = _known(state, core, count - 1) if state.done[count - 1] == UNKNOWN else 0.0
    return max(end, state.done.max()), state.busy


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
        _note(state.loads[counts[LOADS] % NOTED_LOADS], (begin, done - LOAD_CYCLES, on_way))
        counts[LOADS] += 1
    if each["beats"]:
        # Until the end of a load, or a memory latency before a store's.
        last = done if unit == LOAD else done - core.latency
        is_load = 1.0 if unit == LOAD else 0.0
        _note(state.moves[counts[MOVES]], (is_load, float(each["region"]), last - each["beats"], last))
        counts[MOVES] += 1
    if each["is_layout"]:
        first = begin + LAYOUT_CYCLES
        groups = each["groups"] / (done - first) if core.has_pairs and each["period"] == 1 else 1.0
        _note(state.layouts[counts[LAYOUTS]], (float(unit - LAYOUT_A), first, done, float(each["period"]), groups))
        counts[LAYOUTS] += 1
    _end(state, unit, index, begin, done, each["signal"])


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
        pace_losses[each["pace"] : each["next_pace"]],
        (each["b_streams"], each["a_streams"]),
        (first, opens),
        each["cycles"],
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
def _queue(program):
    """Return the indices of each unit's descriptors, and their numbers."""
    queues, lengths = np.zeros((len(UNITS), len(program)), np.int64), np.zeros(len(UNITS), np.int64)
    for index in range(len(program)):
        unit = program[index]["unit"]
        for each in (unit, OUTPUT if program[index]["is_multiply"] else -1):
            if each >= 0:
                queues[each, lengths[each]] = index
                lengths[each] += 1
    return queues, lengths


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
    wait = core.latency
    for k in range(min(state.counts[LOADS], NOTED_LOADS)):
        begin, end, on_way = state.loads[k]
        if begin <= asked < end:
            wait = max(wait, min(end - asked, on_way))
    place = state.counts[FETCHED]
    bus = state.fetched[place - 1] if place else 0.0
    state.fetched[place] = max(asked + wait, bus) + core.fetch_cycles
    state.counts[FETCHED] += 1


@njit(cache=True, nogil=True)
def _wait_for_fetches(state, core, asked):
    """Return the cycles that a load's first data wait for the data of fetches requested before it."""
    counts = state.counts
    while counts[FETCHED] < min(len(state.fetched), counts[CAME] + core.prefetch):
        asked_next = _next_fetch(state, core)
        if asked_next > asked:
            break
        _fetch(state, core, asked_next)
    return max(0.0, state.fetched[counts[FETCHED] - 1] - asked - core.latency)
