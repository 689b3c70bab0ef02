"""The order of a program's descriptors: adds tokens, finds races, and moves loads and layouts ahead of multiplies."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import HEADER, OPERATIONS, UNITS, decode

from .footprint import relative_footprints, split_address
from .order_kernels import Tasks, find_meetings, hoisted_items, tasks_of

__all__ = ["Race", "add_tokens", "find_races", "hoist", "order_descriptors"]

TOKEN_FIELDS = {"output": ("output_wait", "output_signal")}
"""Fields of a unit's tokens if they are not `wait` and `signal`."""
MAX_OVERTAKEN_MULTIPLIES = {"load": 3, "layout_a": 1, "layout_b": 1}
"""Multiplies that a unit's descriptor may overtake. More would fill the sequencer's window."""


@dataclass(frozen=True)
class Race:
    """Two unordered descriptors, one of which writes a place that the other accesses.

    Parameters
    ----------
    first, second : (int, str)
        Index and unit of each.
    """

    first: tuple[int, str]
    second: tuple[int, str]

    def __str__(self) -> str:
        (one, unit), (two, other) = self.first, self.second
        return f"descriptor {two} ({other}) and descriptor {one} ({unit}) conflict, and no token orders them"


def find_races(config: CoreConfig, program: Sequence[int]) -> list[Race]:
    """Find pairs of descriptors that need an order but have none.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors.

    Source: docs/core.md, "Tokens".
    """
    tasks = _tasks(config, program)
    units = [UNITS[unit] for unit in tasks.units.tolist()]
    queues: dict[tuple[str, str], deque[int]] = {(one, other): deque() for one in UNITS for other in UNITS}
    waits = []
    for task, (index, unit) in enumerate(zip(tasks.items.tolist(), units, strict=True)):
        _, values = decode(program[index])
        wait, signal = TOKEN_FIELDS.get(unit, ("wait", "signal"))
        for k, other in enumerate(UNITS):
            if values[wait] >> k & 1 and queues[other, unit]:
                waits.append((task, queues[other, unit].popleft()))
            if values[signal] >> k & 1:
                queues[unit, other].append(task)
    meetings = find_meetings(tasks, np.array(waits, np.int64).reshape(-1, 2), 0)
    return [Race(*((int(tasks.items[k]), units[k]) for k in (other, task))) for task, other in meetings]


def add_tokens(config: CoreConfig, program: Sequence[int]) -> list[int]:
    """Add the tokens without which two descriptors would race.

    A descriptor waits for the last conflicting descriptor of each unit, unless an earlier wait already covers that.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors in an order in which they could be executed one by one. The function replaces their tokens.

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
    return _add_tokens(config, cleared, _tasks(config, cleared))


def order_descriptors(config: CoreConfig, program: Sequence[int]) -> list[int]:
    """Move loads and layouts ahead as `hoist` does, and add tokens as `add_tokens` does.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors without tokens, in an order in which they could be executed one by one.
    """
    tasks = _tasks(config, program)
    order = _hoist(tasks, len(program), MAX_OVERTAKEN_MULTIPLIES)
    return _add_tokens(config, [program[k] for k in order.tolist()], tasks.reorder(order))


def _tasks(config: CoreConfig, program: Iterable[int]) -> Tasks:
    """Return the tasks of a program."""
    footprints = relative_footprints(config)
    return tasks_of((footprints(bits), address) for bits, address in map(split_address, program))


def _add_tokens(config: CoreConfig, program: Sequence[int], tasks: Tasks) -> list[int]:
    descriptors = list(program)
    items, units = tasks.items.tolist(), [UNITS[unit] for unit in tasks.units.tolist()]
    for task, other in find_meetings(tasks, np.zeros((0, 2), np.int64), config.window):
        descriptors[items[other]] |= _token(units[other], "signal", units[task])
        descriptors[items[task]] |= _token(units[task], "wait", units[other])
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
        By unit, the number of multiplies that a descriptor may overtake. It overtakes no conflicting descriptor.
    """
    tasks = _tasks(config, program)
    return [program[k] for k in _hoist(tasks, len(program), max_overtaken).tolist()]


def _hoist(tasks: Tasks, count: int, max_overtaken: Mapping[str, int]) -> NDArray[np.int64]:
    order: NDArray[np.int64] = hoisted_items(tasks, count, np.array([max_overtaken.get(unit, 0) for unit in UNITS]))
    return order
