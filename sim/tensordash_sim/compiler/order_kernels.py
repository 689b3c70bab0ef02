"""Compiled loops of `order.py`: find conflicting tasks of a program's units that no wait orders yet."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.descriptors import UNITS

from ..jit import njit
from .footprint import Footprint

__all__ = ["Tasks", "find_meetings", "hoisted_items", "tasks_of"]

MEETING_UNITS = {
    "load": ("layout_a", "layout_b", "output", "store"),
    "layout_a": ("load", "multiply", "output"),
    "layout_b": ("load", "multiply", "output"),
    "multiply": ("layout_a", "layout_b"),
    "output": ("load", "layout_a", "layout_b", "store"),
    "store": ("load", "output"),
}
"""Units that share the buffer, a stream buffer or memory with a unit, if one of the two units writes."""
UNITS_MEET = np.array([[other in MEETING_UNITS[unit] for other in UNITS] for unit in UNITS])
MEMORIES = ("buffer", "a", "b")
"""Keys of a footprint's read and write sets: the buffer and the two stream buffers."""
OUTPUT = UNITS.index("output")
MULTIPLY = UNITS.index("multiply")
WORD_BITS = 64
"""Bits of a word of a set of places."""
NO_BYTES = np.array([1, 0], np.uint64)
"""First and last byte of an empty range."""


class Tasks(NamedTuple):
    """Tasks in the order of the program; a task is the part of one unit in a descriptor.

    Attributes
    ----------
    items : array of int64, (tasks,)
        Index of the descriptor of each task.
    units : array of int64, (tasks,)
        Number of its unit.
    places : array of uint64, (2, tasks, words)
        Read and write sets as bit masks of places, in the buffer and then in both stream buffers.
    hulls : array of uint64, (tasks, 2)
        First and last byte of memory that a task accesses. If it accesses none, the first one is greater.
    run_counts : array of int64, (tasks + 1,)
        Number of runs of memory of all tasks before each task.
    runs : array of uint64, (runs, 2)
        First and last byte of each run.
    """

    items: NDArray[np.int64]
    units: NDArray[np.int64]
    places: NDArray[np.uint64]
    hulls: NDArray[np.uint64]
    run_counts: NDArray[np.int64]
    runs: NDArray[np.uint64]

    def reorder(self, order: NDArray[np.int64]) -> "Tasks":
        """Return the tasks of the same descriptors in another order: `order[k]` is the new k-th descriptor."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        items = place[self.items]
        by_item = np.argsort(items, kind="stable")
        counts = np.diff(self.run_counts)[by_item]
        first = self.run_counts[:-1][by_item]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        runs = self.runs[np.repeat(first - ends[:-1], counts) + np.arange(ends[-1])]
        return Tasks(items[by_item], self.units[by_item], self.places[:, by_item], self.hulls[by_item], ends, runs)


def tasks_of(places: Iterable[Sequence[Footprint]]) -> Tasks:
    """Return the tasks of a program.

    Parameters
    ----------
    places : iterable of sequence of Footprint
        Footprints of each descriptor.
    """
    numbered = [(index, place) for index, item in enumerate(places) for place in item]
    touched = (*(place.reads for _, place in numbered), *(place.writes for _, place in numbered))
    # Descriptors with an error may exceed a memory.
    sizes = [max((each.get(name, 0).bit_length() for each in touched), default=0) for name in MEMORIES]
    words = -(-sum(sizes) // WORD_BITS)
    shifts = dict(zip(MEMORIES, accumulate(sizes, initial=0), strict=False))
    sets = [
        sum(bits << shifts[name] for name, bits in each.items()).to_bytes(words * WORD_BITS // 8, "little")
        for each in touched
    ]
    run_counts = np.cumsum([0, *(len(place.memory) for _, place in numbered)])
    runs = np.array([(first, stop - 1) for _, place in numbered for first, stop, _ in place.memory], np.uint64)
    runs = runs.reshape(-1, 2)
    has_runs = np.diff(run_counts) > 0
    hulls = np.ones((len(numbered), 2), np.uint64) * NO_BYTES
    for column, extreme in enumerate((np.minimum, np.maximum)):
        hulls[has_runs, column] = extreme.reduceat(runs[:, column], run_counts[:-1][has_runs]) if len(runs) else ()
    return Tasks(
        np.array([index for index, _ in numbered], np.int64),
        np.array([UNITS.index(place.unit) for _, place in numbered], np.int64),
        np.frombuffer(b"".join(sets), np.uint64).reshape(2, len(numbered), words),
        hulls,
        run_counts,
        runs,
    )


@njit(cache=True, nogil=True)
def _meet(tasks, one, other):
    """Return whether one of two tasks of different units writes a place or byte that the other accesses."""
    reads, writes = tasks.places
    for word in range(writes.shape[1]):
        if writes[one, word] & (reads[other, word] | writes[other, word]) or writes[other, word] & reads[one, word]:
            return True
    return _meet_in_memory(tasks, one, other)


@njit(cache=True, nogil=True)
def _meet_in_memory(tasks, one, other):
    """Return whether two tasks, one of which writes to memory, have bytes in common."""
    hulls, run_counts, runs = tasks.hulls, tasks.run_counts, tasks.runs
    if hulls[one, 0] > hulls[other, 1] or hulls[other, 0] > hulls[one, 1]:
        return False
    for first in range(run_counts[one], run_counts[one + 1]):
        for second in range(run_counts[other], run_counts[other + 1]):
            if runs[first, 0] <= runs[second, 1] and runs[second, 0] <= runs[first, 1]:
                return True
    return False


@njit(cache=True, nogil=True)
def hoisted_items(tasks, count, max_overtaken):
    """Return an order of `count` descriptors with loads and layouts moved ahead.

    `max_overtaken` is the number of multiplies that a descriptor may overtake, by unit.
    """
    first = np.zeros(count + 1, np.int64)  # Index of the first task of each descriptor.
    for item in tasks.items:
        first[item + 1] += 1
    for item in range(count):
        first[item + 1] += first[item]
    moved = np.empty(count, np.int64)
    for item in range(count):
        target = item
        if first[item] < first[item + 1]:
            unit = tasks.units[first[item]]
            overtakes_left = max_overtaken[unit]
            k = item
            while k > 0 and overtakes_left > 0:
                before = moved[k - 1]
                if first[before] == first[before + 1] or tasks.units[first[before]] == unit:
                    break
                meets = False
                for one in range(first[item], first[item + 1]):
                    for other in range(first[before], first[before + 1]):
                        meets = meets or _meet(tasks, one, other)
                if meets:
                    break
                k -= 1
                if tasks.units[first[before]] == MULTIPLY:
                    overtakes_left -= 1
                    target = k
        for place in range(item, target, -1):
            moved[place] = moved[place - 1]
        moved[target] = item
    return moved


@njit(cache=True, nogil=True)
def find_meetings(tasks, waits, window):
    """Find tasks that conflict with an earlier task of another unit and may begin before that ends.

    Parameters
    ----------
    tasks : Tasks
        All tasks.
    waits : array of int64, (waits, 2)
        A task, and an earlier task for whose end it waits, in the order of the first column.
    window : int
        If not 0, each task found waits for the conflicting task, or for the last task of the same unit whose descriptor
        has left the window. A wait for the latter costs no time, and saves tokens.

    Returns
    -------
    list of (int, int)
        A task, and the task with which it conflicts or for which it waits. Tasks are in order; for each, the latest
        conflict comes first.
    """
    count, words = tasks.places.shape[1:]
    (reads, writes), hulls = tasks.places, tasks.hulls
    done = np.zeros((count, len(UNITS)), np.int64)  # Number of each unit's tasks done at the end of each task.
    numbers = np.zeros((len(UNITS), count), np.int64)  # Tasks of each unit.
    counts = np.zeros(len(UNITS), np.int64)
    # By unit, the number (from 1) of the last task that reads or writes each place.
    last = np.zeros((2, len(UNITS), words * WORD_BITS), np.int64)
    found = [(0, 0)]
    wait = 0
    for task in range(count):
        unit = tasks.units[task]
        begun = done[task]  # Number of each unit's tasks done at the beginning of the task.
        if counts[unit]:
            _raise(begun, done[numbers[unit, counts[unit] - 1]])
        while wait < len(waits) and waits[wait, 0] == task:
            _raise(begun, done[waits[wait, 1]])
            wait += 1
        for other_unit in range(len(UNITS)):
            if not UNITS_MEET[unit, other_unit]:
                continue
            k = max(
                _last_use(reads[task], last[1, other_unit]),
                _last_use(writes[task], last[0, other_unit]),
                _last_use(writes[task], last[1, other_unit]),
            )
            latest = counts[other_unit] if hulls[task, 0] <= hulls[task, 1] else 0
            while latest > max(k, begun[other_unit]):
                other = numbers[other_unit, latest - 1]
                are_near = hulls[task, 0] <= hulls[other, 1] and hulls[other, 0] <= hulls[task, 1]
                if are_near and _meet_in_memory(tasks, task, other):
                    k = latest
                latest -= 1
            while k > begun[other_unit]:
                other = numbers[other_unit, k - 1]
                if window == 0:
                    found.append((task, other))
                    k -= 1
                    while k > begun[other_unit] and not _meet(tasks, task, numbers[other_unit, k - 1]):
                        k -= 1
                    continue
                later = counts[other_unit]
                limit = max(tasks.items[task] - window + 2, tasks.items[other])
                while tasks.items[numbers[other_unit, later - 1]] > limit:
                    later -= 1
                other = numbers[other_unit, later - 1]
                found.append((task, other))
                _raise(begun, done[other])
        if unit == OUTPUT:  # The end of an output is also the end of its multiply.
            _raise(done[task], done[task - 1])
        numbers[unit, counts[unit]] = task
        counts[unit] += 1
        done[task, unit] = counts[unit]
        _note_use(reads[task], last[0, unit], counts[unit])
        _note_use(writes[task], last[1, unit], counts[unit])
    return found[1:]


@njit(cache=True, nogil=True)
def _raise(values, others):
    """Set each value to the maximum of the two arrays. Numba takes longer to compile `np.maximum`."""
    for k in range(len(values)):
        values[k] = max(values[k], others[k])


@njit(cache=True, nogil=True)
def _note_use(places, last, number):
    """Set the entries of `last` for a set of places to `number`."""
    for word in range(len(places)):
        left, place = places[word], word * WORD_BITS
        while left:
            if left & np.uint64(1):
                last[place] = number
            left >>= np.uint64(1)
            place += 1


@njit(cache=True, nogil=True)
def _last_use(places, last):
    """Return the greatest entry of `last` in a set of places; 0 for an empty set."""
    greatest = 0
    for word in range(len(places)):
        left, place = places[word], word * WORD_BITS
        while left:
            if left & np.uint64(1):
                greatest = max(greatest, last[place])
            left >>= np.uint64(1)
            place += 1
    return greatest
