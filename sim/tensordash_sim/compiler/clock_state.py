"""The state of the clock of a core (`clock.py`): its descriptors' properties, its parameters and the events so far."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.descriptors import UNITS

from ..jit import njit

__all__ = [
    "CAME",
    "DESCRIPTOR",
    "FETCHED",
    "LAYOUTS",
    "LEFT",
    "LOADS",
    "MOVES",
    "OUTPUT",
    "SENT",
    "UNKNOWN",
    "ClockState",
    "Core",
    "begin_clock",
]

DESCRIPTOR = np.dtype(
    [(name, np.int64) for name in ("is_multiply", "unit", "wait", "signal", "output_wait", "output_signal")]
    + [("cycles", np.float64)]  # Cycles of its unit; for a multiply, of the output unit per block.
    + [("is_layout", np.int64), ("period", np.int64), ("groups", np.float64)]  # For a layout, as in `LayoutWrites`.
    # For a load or a store: all data, of a group, and the first burst.
    + [(name, np.int64) for name in ("beats", "group_beats", "burst", "region")]
    + [("bursts", np.float64)]  # For a load or a store: the mean number of bursts.
    + [(name, np.int64) for name in ("words", "a_streams", "b_streams", "mask", "bias_cycles", "mask_cycles")]
    # Bounds of its entries in the cycles and in the losses of all paces.
    + [(name, np.int64) for name in ("pace", "next_pace", "losses", "next_losses")]
)
"""The properties that determine a descriptor's time."""
OUTPUT = UNITS.index("output")
NOTED_LOADS = 8
"""Number of each core's latest loads for which fetches may wait."""
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
    cores : int
        Cores at one memory port. With several, `end_move` ends each load and store.
    """

    window: int
    prefetch: int
    outstanding: int
    fetch_cycles: int
    interval_cycles: int
    latency: float
    is_dense: bool
    has_pairs: bool
    cores: int


class ClockState(NamedTuple):
    """The events so far. The time of a later event is `UNKNOWN`.

    Attributes
    ----------
    fetched, came, done, left : array of float, (descriptors,)
        Times at which each descriptor is in the queue, is in the window, is done, and is done with all before it.
    counts : array of int, (COUNTS,)
        Numbers of entries in `fetched`, `came`, `left`, `layouts` and `moves`; of loads; of descriptors sent to units.
    asked : array of float, (1,)
        Time of the last fetch request.
    loads : array of float, (NOTED_LOADS * cores, 3)
        The latest loads of all cores: begin, end, and beats in flight.
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
        output, and for a move that waits for `end_move`: the time of their descriptors.
    sent : array of float, (2 * units,)
        Times of the last descriptors sent to units.
    queues, lengths : array of int, (units, descriptors) and (units,)
        The indices of each unit's descriptors, and their numbers.
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
    queues: NDArray[np.int64]
    lengths: NDArray[np.int64]


FETCHED, CAME, LEFT, LAYOUTS, MOVES, LOADS, SENT, COUNTS = range(8)
"""Entries of `ClockState.counts`, and their number."""


@njit(cache=True, nogil=True)
def begin_clock(program, core, start):
    """Return the state of a core that begins to fetch a program at cycle `start`."""
    count, units = len(program), len(UNITS)
    queues, lengths = _queue(program)
    return ClockState(
        fetched=np.zeros(count),
        came=np.zeros(count),
        done=np.full(count, UNKNOWN),
        left=np.zeros(count),
        counts=np.zeros(COUNTS, np.int64),
        asked=np.full(1, start),
        loads=np.zeros((NOTED_LOADS * core.cores, 3)),
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
        queues=queues,
        lengths=lengths,
    )


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
