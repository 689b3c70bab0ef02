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
    "load": ("layout_a", "layout_b", "multiply", "output", "store"),
    "layout_a": ("load", "multiply", "output"),
    "layout_b": ("load", "multiply", "output"),
    "multiply": ("load", "layout_a", "layout_b", "output"),
    "output": ("load", "layout_a", "layout_b", "multiply", "store"),
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
NO_BYTES = (1, 0)
"""First and last byte of an empty range."""
WRAP = 1 << 64
"""Addresses are computed modulo this number."""


class Tasks(NamedTuple):
    """Tasks in the order of the program; a task is the part of one unit in a descriptor.

    Tasks with the same places are of one kind.

    Attributes
    ----------
    items : array of int64, (tasks,)
        Index of the descriptor of each task.
    units : array of int64, (tasks,)
        Number of its unit.
    kinds : array of int64, (tasks,)
        Number of its kind.
    addresses : array of uint64, (tasks,)
        Address in memory to which its kind's runs are relative.
    hulls : array of uint64, (tasks, 2)
        First and last byte of memory that it accesses. If it accesses none, the first one is greater.
    places : array of uint64, (2, kinds, words)
        Read and write sets as bit masks of places, in the buffer and then in both stream buffers.
    run_counts : array of int64, (kinds + 1,)
        Number of runs of memory of all kinds before each kind.
    runs : array of uint64, (runs, 2)
        First and last byte of each run, modulo 2**64.
    """

    items: NDArray[np.int64]
    units: NDArray[np.int64]
    kinds: NDArray[np.int64]
    addresses: NDArray[np.uint64]
    hulls: NDArray[np.uint64]
    places: NDArray[np.uint64]
    run_counts: NDArray[np.int64]
    runs: NDArray[np.uint64]

    def reorder(self, order: NDArray[np.int64]) -> "Tasks":
        """Return the tasks of the same descriptors in another order: `order[k]` is the new k-th descriptor."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        items = place[self.items]
        by_item = np.argsort(items, kind="stable")
        return self._replace(
            items=items[by_item],
            units=self.units[by_item],
            kinds=self.kinds[by_item],
            addresses=self.addresses[by_item],
            hulls=self.hulls[by_item],
        )


def tasks_of(footprints: Iterable[tuple[Sequence[Footprint], int]]) -> Tasks:
    """Return the tasks of a program.

    Parameters
    ----------
    footprints : iterable of (sequence of Footprint, int)
        For each descriptor, its footprints, and the address to which their runs of memory are relative.
    """
    numbers: dict[Footprint, int] = {}
    tasks = [
        (index, numbers.setdefault(each, len(numbers)), address)
        for index, (found, address) in enumerate(footprints)
        for each in found
    ]
    distinct = list(numbers)
    touched = (*(each.reads for each in distinct), *(each.writes for each in distinct))
    # Descriptors with an error may exceed a memory.
    sizes = [max((each.get(name, 0).bit_length() for each in touched), default=0) for name in MEMORIES]
    words = -(-sum(sizes) // WORD_BITS)
    shifts = dict(zip(MEMORIES, accumulate(sizes, initial=0), strict=False))
    sets = [
        sum(bits << shifts[name] for name, bits in each.items()).to_bytes(words * WORD_BITS // 8, "little")
        for each in touched
    ]
    ends = [(first % WRAP, (stop - 1) % WRAP) for each in distinct for first, stop, _ in each.memory]
    hulls = [
        (min(run[0] for run in each.memory) % WRAP, (max(run[1] for run in each.memory) - 1) % WRAP)
        if each.memory
        else NO_BYTES
        for each in distinct
    ]
    items, kinds, addresses = zip(*tasks, strict=True) if tasks else ((), (), ())
    kind_of, address_of = np.array(kinds, np.int64), np.array(addresses, np.uint64)
    return Tasks(
        np.array(items, np.int64),
        np.array([UNITS.index(each.unit) for each in distinct], np.int64)[kind_of],
        kind_of,
        address_of,
        np.array(hulls, np.uint64).reshape(-1, 2)[kind_of] + address_of[:, None],
        np.frombuffer(b"".join(sets), np.uint64).reshape(2, len(distinct), words),
        np.cumsum([0, *(len(each.memory) for each in distinct)]),
        np.array(ends, np.uint64).reshape(-1, 2),
    )


@njit(cache=True, nogil=True)
def _meet(tasks, one, other):
    """Return whether one of two tasks of different units writes a place or byte that the other accesses."""
    reads, writes = tasks.places
    first, second = tasks.kinds[one], tasks.kinds[other]
    for word in range(writes.shape[1]):
        if writes[first, word] & (reads[second, word] | writes[second, word]):
            return True
        if writes[second, word] & reads[first, word]:
            return True
    return _meet_in_memory(tasks, one, other)


@njit(cache=True, nogil=True)
def _meet_in_memory(tasks, one, other):
    """Return whether two tasks, one of which writes to memory, have bytes in common."""
    hulls, addresses, run_counts, runs = tasks.hulls, tasks.addresses, tasks.run_counts, tasks.runs
    if hulls[one, 0] > hulls[other, 1] or hulls[other, 0] > hulls[one, 1]:
        return False
    kind, other_kind = tasks.kinds[one], tasks.kinds[other]
    for first in range(run_counts[kind], run_counts[kind + 1]):
        begin, end = runs[first, 0] + addresses[one], runs[first, 1] + addresses[one]
        for second in range(run_counts[other_kind], run_counts[other_kind + 1]):
            if begin <= runs[second, 1] + addresses[other] and runs[second, 0] + addresses[other] <= end:
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
    count, words = len(tasks.items), tasks.places.shape[2]
    (all_reads, all_writes), hulls = tasks.places, tasks.hulls
    done = np.zeros((count, len(UNITS)), np.int64)  # Number of each unit's tasks done at the end of each task.
    numbers = np.zeros((len(UNITS), count), np.int64)  # Tasks of each unit.
    counts = np.zeros(len(UNITS), np.int64)
    # By unit, the number (from 1) of the last task that reads or writes each place.
    last = np.zeros((2, len(UNITS), words * WORD_BITS), np.int64)
    found = [(0, 0)]
    wait = 0
    for task in range(count):
        unit, kind = tasks.units[task], tasks.kinds[task]
        reads, writes = all_reads[kind], all_writes[kind]
        begun = done[task]  # Number of each unit's tasks done at the beginning of the task.
        if counts[unit]:
            _raise(begun, done[numbers[unit, counts[unit] - 1]])
        if unit == OUTPUT:  # A multiply reads the masks of a block before its output writes the block.
            begun[MULTIPLY] = counts[MULTIPLY]
        while wait < len(waits) and waits[wait, 0] == task:
            _raise(begun, done[waits[wait, 1]])
            wait += 1
        for other_unit in range(len(UNITS)):
            if not UNITS_MEET[unit, other_unit]:
                continue
            k = max(
                _last_use(reads, last[1, other_unit]),
                _last_use(writes, last[0, other_unit]),
                _last_use(writes, last[1, other_unit]),
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
        _note_use(reads, last[0, unit], counts[unit])
        _note_use(writes, last[1, unit], counts[unit])
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
