"""The order of a program's descriptors: tokens, races without them, and loads and layouts ahead of multiplies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import HEADER, OPERATIONS, UNITS, decode

from .footprint import Footprint, footprints

__all__ = ["Race", "add_tokens", "find_races", "hoist"]

TOKEN_FIELDS = {"output": ("output_wait", "output_signal")}
"""Fields of a unit's tokens, where they are not `wait` and `signal`."""
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


@dataclass
class _Task:
    """A unit's part of a descriptor, and how many of each unit's tasks have ended when it begins and when it ends."""

    index: int
    place: Footprint
    done_before: dict[str, int]
    done_after: dict[str, int]


class _History:
    """Tasks of all units in the program's order, and the order that is known between them."""

    def __init__(self) -> None:
        self.tasks: dict[str, list[_Task]] = {unit: [] for unit in UNITS}

    def begin(self, index: int, place: Footprint) -> _Task:
        """Return the next task of its unit, which waits only for the one before."""
        before = self.tasks[place.unit]
        known = dict(before[-1].done_after) if before else dict.fromkeys(UNITS, 0)
        return _Task(index, place, known, {})

    def wait(self, task: _Task, other: _Task) -> None:
        """Let a task wait for another one's end, too."""
        task.done_before = {unit: max(count, other.done_after[unit]) for unit, count in task.done_before.items()}

    def end(self, task: _Task, multiply: _Task | None = None) -> None:
        """Add a task, whose waits are all known. The end of an output is also the end of its multiply."""
        before = self.tasks[task.place.unit]
        task.done_after = {**task.done_before, task.place.unit: len(before) + 1}
        if multiply is not None:
            task.done_after = {unit: max(count, multiply.done_after[unit]) for unit, count in task.done_after.items()}
        before.append(task)

    def unordered(self, task: _Task) -> Iterator[_Task]:
        """Yield tasks of other units that meet it and may still run when it begins, by unit, the latest first."""
        for unit, tasks in self.tasks.items():
            if unit == task.place.unit:
                continue
            for other in reversed(tasks[task.done_before[unit] :]):
                if other.index != task.index and task.place.meets(other.place):
                    yield other

    def latest_outside_window(self, task: _Task, before: int) -> _Task:
        """Return the last task of its unit whose descriptor has left the window: waiting is free, and saves tokens."""
        found = task
        for other in reversed(self.tasks[task.place.unit]):
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
    history, descriptors = _History(), [_clear_tokens(bits) for bits in program]
    for index, bits in enumerate(descriptors):
        places = footprints(config, bits)
        multiply = None
        for place in places:
            task = history.begin(index, place)
            while (other := next(history.unordered(task), None)) is not None:
                other = history.latest_outside_window(other, index - config.window + 2)
                history.wait(task, other)
                descriptors[other.index] |= _token(other.place.unit, "signal", place.unit)
                descriptors[index] |= _token(place.unit, "wait", other.place.unit)
            history.end(task, multiply)
            multiply = task
    return descriptors


def _token(unit: str, end: str, other: str) -> int:
    """Return the bit of a unit's descriptor that names another unit as `wait` or `signal`."""
    name = f"output_{end}" if unit == "output" else end
    fields = OPERATIONS["multiply" if unit in ("multiply", "output") else unit].fields
    return 1 << UNITS.index(other) << next(field.low for field in (*HEADER, *fields) if field.name == name)


def _clear_tokens(bits: int) -> int:
    """Return a descriptor without its tokens."""
    operation, _ = decode(bits)
    assert operation is not None
    for field in (*HEADER, *operation.fields):
        if field.name in ("wait", "signal", "output_wait", "output_signal"):
            bits &= ~field.mask
    return bits


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
    moved: list[tuple[int, str, list[Footprint]]] = []
    for bits in program:
        operation, _ = decode(bits)
        assert operation is not None
        places = footprints(config, bits)
        target, overtakes_left = len(moved), max_overtaken.get(operation.unit, 0)
        k = target
        while k > 0 and overtakes_left and moved[k - 1][1] != operation.unit and moved[k - 1][1]:
            others = moved[k - 1]
            if any(place.meets(other) for place in places for other in others[2]):
                break
            k -= 1
            if others[1] == "multiply":
                overtakes_left -= 1
                target = k
        moved.insert(target, (bits, operation.unit, places))
    return [bits for bits, _, _ in moved]
