"""The order of a program's descriptors: tokens, races without them, and loads and layouts ahead of multiplies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import HEADER, OPERATIONS, UNITS, decode

from .footprint import Footprint, footprints

__all__ = ["Race", "add_tokens", "find_races", "hoist", "order_descriptors"]

TOKEN_FIELDS = {"output": ("output_wait", "output_signal")}
"""Fields of a unit's tokens, where they are not `wait` and `signal`."""
MEETING_UNITS = {
    "load": ("layout_a", "layout_b", "output", "store"),
    "layout_a": ("load", "multiply", "output"),
    "layout_b": ("load", "multiply", "output"),
    "multiply": ("layout_a", "layout_b"),
    "output": ("load", "layout_a", "layout_b", "store"),
    "store": ("load", "output"),
}
"""Units that share the buffer, a stream buffer or memory with a unit, one of both writing."""
MAX_OVERTAKEN_MULTIPLIES = {"load": 3, "layout_a": 1, "layout_b": 1}
"""Multiplies that a unit's descriptor may overtake. More would fill the sequencer's window."""


@dataclass(frozen=True)
class Race:
    """Two unordered descriptors, one of which writes what the other reads or writes.

    Parameters
    ----------
    first, second : (int, str)
        Index and unit of each.
    """

    first: tuple[int, str]
    second: tuple[int, str]

    def __str__(self) -> str:
        (one, unit), (two, other) = self.first, self.second
        return f"descriptor {two} ({other}) and descriptor {one} ({unit}) meet, and no token orders them"


@dataclass(slots=True)
class _Task:
    """A unit's part of a descriptor, and how many of each unit's tasks have ended when it begins and when it ends.

    Both counts are in the order of `UNITS`.
    """

    index: int
    place: Footprint
    done_before: list[int]
    done_after: list[int]


class _UnitTasks:
    """A unit's tasks in order, searched for those that meet others.

    `_unions[k]` has what each run of `2**k` tasks touches, so that a search passes over runs that touch other places.
    """

    def __init__(self) -> None:
        self.tasks: list[_Task] = []
        self._unions: list[list[Footprint]] = [[]]

    def append(self, task: _Task) -> None:
        self.tasks.append(task)
        self._unions[0].append(task.place)
        count, level = len(self.tasks), 0
        while count % 2 == 0:
            count, level = count // 2, level + 1
            if level == len(self._unions):
                self._unions.append([])
            first, second = self._unions[level - 1][-2:]
            self._unions[level].append(first.union(second))

    def latest_meeting(self, place: Footprint, begin: int, end: int) -> int:
        """Return the number of the last task from `begin` on and before `end` that meets a footprint; -1 if none."""
        while end > begin:
            level = (end & -end).bit_length() - 1
            while place.meets(self._unions[level][(end >> level) - 1]):
                if level == 0:
                    return end - 1
                level -= 1
            end -= 1 << level
        return -1


class _History:
    """Tasks of all units in the program's order, and the order that is known between them."""

    def __init__(self) -> None:
        self.units = {unit: _UnitTasks() for unit in UNITS}

    def begin(self, index: int, place: Footprint) -> _Task:
        """Return the next task of its unit, which waits only for the one before."""
        before = self.units[place.unit].tasks
        return _Task(index, place, before[-1].done_after if before else [0] * len(UNITS), [])

    def wait(self, task: _Task, other: _Task) -> None:
        """Let a task wait for another one's end, too."""
        task.done_before = list(map(max, task.done_before, other.done_after))

    def end(self, task: _Task, multiply: _Task | None = None) -> None:
        """Add a task, whose waits are all known. The end of an output is also the end of its multiply."""
        before = self.units[task.place.unit]
        task.done_after = list(map(max, task.done_before, multiply.done_after if multiply else task.done_before))
        task.done_after[UNITS.index(task.place.unit)] = len(before.tasks) + 1
        before.append(task)

    def unordered(self, task: _Task) -> Iterator[_Task]:
        """Yield tasks of other units that meet it and may still run when it begins, by unit, the latest first.

        The task may wait for what is yielded: then those that are over by that are not yielded.
        """
        for unit in MEETING_UNITS[task.place.unit]:
            others, number = self.units[unit], UNITS.index(unit)
            k = len(others.tasks)
            while (k := others.latest_meeting(task.place, task.done_before[number], k)) >= 0:
                yield others.tasks[k]

    def latest_outside_window(self, task: _Task, before: int) -> _Task:
        """Return the last task of its unit whose descriptor has left the window: waiting is free, and saves tokens."""
        found = task
        for other in reversed(self.units[task.place.unit].tasks):
            if other.index <= max(before, task.index):
                found = other
                break
        return found


def find_races(config: CoreConfig, program: Sequence[int]) -> list[Race]:
    """Find pairs of descriptors that need an order and have none.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors.

    Source: docs/core.md, "Tokens".
    """
    history, races = _History(), []
    tokens: dict[tuple[str, str], list[_Task]] = {(one, other): [] for one in UNITS for other in UNITS}
    for index, bits in enumerate(program):
        _, values = decode(bits)
        places = footprints(config, bits)
        multiply = None
        for place in places:
            wait, signal = TOKEN_FIELDS.get(place.unit, ("wait", "signal"))
            task = history.begin(index, place)
            for k, unit in enumerate(UNITS):
                if values[wait] >> k & 1 and tokens[unit, place.unit]:
                    history.wait(task, tokens[unit, place.unit].pop(0))
            races += [Race((other.index, other.place.unit), (index, place.unit)) for other in history.unordered(task)]
            history.end(task, multiply)
            multiply = task
            for k, unit in enumerate(UNITS):
                if values[signal] >> k & 1:
                    tokens[place.unit, unit].append(task)
    return races


def add_tokens(config: CoreConfig, program: Sequence[int]) -> list[int]:
    """Add the tokens without which two descriptors would race.

    A descriptor waits for the last one of each unit that meets it, unless an earlier wait already covers it.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors in an order in which they could be executed one by one; their tokens are replaced.

    Examples
    --------
    >>> from .program import Loop, Program
    >>> program = Program()
    >>> program.add("load", memory=0, address=0, count_0=4)
    0
    >>> program.add("layout_a", steps=4, streams=1, x_size=4, loops=[Loop(count=4, address=1)])
    1
    >>> program.descriptors = add_tokens(CoreConfig(), program.descriptors)
    >>> print(program.listing())
       0 load     count_0=4 signal=layout_a
       1 layout_a steps=4 x_size=4 address_0=1 count_0=4 wait=load
    """
    cleared = [_clear_tokens(bits) for bits in program]
    return _add_tokens(config, [_Item(bits, footprints(config, bits)) for bits in cleared])


@dataclass(slots=True)
class _Item:
    """A descriptor without tokens, and what its units read and write."""

    bits: int
    places: list[Footprint]


def order_descriptors(config: CoreConfig, program: Sequence[int]) -> list[int]:
    """Move loads and layouts ahead as `hoist` does, and add tokens as `add_tokens` does.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors without tokens, in an order in which they could be executed one by one.
    """
    items = [_Item(bits, footprints(config, bits)) for bits in program]
    return _add_tokens(config, _hoist(items, MAX_OVERTAKEN_MULTIPLIES))


def _add_tokens(config: CoreConfig, items: Sequence[_Item]) -> list[int]:
    history, descriptors = _History(), [item.bits for item in items]
    for index, item in enumerate(items):
        multiply = None
        for place in item.places:
            task = history.begin(index, place)
            for other in history.unordered(task):
                other = history.latest_outside_window(other, index - config.window + 2)
                history.wait(task, other)
                descriptors[other.index] |= _token(other.place.unit, "signal", place.unit)
                descriptors[index] |= _token(place.unit, "wait", other.place.unit)
            history.end(task, multiply)
            multiply = task
    return descriptors


@cache
def _token(unit: str, end: str, other: str) -> int:
    """Return the bit of a unit's descriptor that names another unit as `wait` or `signal`."""
    name = f"output_{end}" if unit == "output" else end
    fields = OPERATIONS["multiply" if unit in ("multiply", "output") else unit].fields
    return 1 << UNITS.index(other) << next(field.low for field in (*HEADER, *fields) if field.name == name)


def _clear_tokens(bits: int) -> int:
    """Return a descriptor without tokens."""
    return bits & ~_token_mask(bits & HEADER[0].mask)


@cache
def _token_mask(code: int) -> int:
    """Return the bits of the tokens of descriptors with a code."""
    operation, _ = decode(code)
    assert operation is not None
    names = ("wait", "signal", "output_wait", "output_signal")
    return sum(field.mask for field in (*HEADER, *operation.fields) if field.name in names)


def hoist(
    config: CoreConfig, program: Sequence[int], max_overtaken: Mapping[str, int] = MAX_OVERTAKEN_MULTIPLIES
) -> list[int]:
    """Move loads and layouts ahead in a program, so that they run while the tile multiplies.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors in an order in which they could be executed one by one.
    max_overtaken : mapping of str to int
        By unit, the multiplies that a descriptor may overtake. It overtakes none that it meets.
    """
    return [item.bits for item in _hoist([_Item(bits, footprints(config, bits)) for bits in program], max_overtaken)]


def _hoist(items: Sequence[_Item], max_overtaken: Mapping[str, int]) -> list[_Item]:
    moved: list[_Item] = []
    for item in items:
        unit = item.places[0].unit if item.places else ""
        target, overtakes_left = len(moved), max_overtaken.get(unit, 0)
        k = target
        while k > 0 and overtakes_left and moved[k - 1].places and moved[k - 1].places[0].unit != unit:
            others = moved[k - 1].places
            if any(place.meets(other) for place in item.places for other in others):
                break
            k -= 1
            if others[0].unit == "multiply":
                overtakes_left -= 1
                target = k
        moved.insert(target, item)
    return moved
