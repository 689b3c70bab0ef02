"""The scheduler: chooses the position of the window that each lane takes in a cycle."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Option", "Position", "Schedule", "TileSchedule", "levels", "reach", "schedule", "schedule_stream"]

Option = tuple[int, int]
"""(step, lane offset)."""

Position = tuple[int, int]
"""(step, lane) of a window, step 0 the oldest."""


def reach(lane: int, options: Sequence[Option], lanes: int) -> list[Position]:
    """Return the positions that a lane may take, in priority order; lane offsets wrap around the lanes.

    >>> reach(3, ((0, 0), (1, 0), (1, 1)), 4)
    [(0, 3), (1, 3), (1, 0)]
    """
    return [(step, (lane + offset) % lanes) for step, offset in options]


@cache
def levels(options: tuple[Option, ...], lanes: int) -> tuple[tuple[int, ...], ...]:
    """Partition the lanes into levels; no two lanes of a level can reach the same position, so they choose in parallel.

    The partition is greedy, in lane order: the first level takes lane 0 and every later lane that conflicts with no
    lane already in it. Each further level does the same with the remaining lanes.

    Parameters
    ----------
    options : tuple of (step, lane offset)
        In priority order.
    lanes : int
        Lanes of a PE.

    Source
    ------
    Section III-A, Fig. 6 of the paper, and its six levels for 16 lanes.

    Examples
    --------
    >>> levels(((0, 0), (1, 0), (1, 1)), 4)
    ((0, 2), (1, 3))
    """
    positions = [set(reach(lane, options, lanes)) for lane in range(lanes)]
    found = []
    waiting = list(range(lanes))
    while waiting:
        level: list[int] = []
        for lane in waiting:
            if all(positions[lane].isdisjoint(positions[other]) for other in level):
                level.append(lane)
        found.append(tuple(level))
        waiting = [lane for lane in waiting if lane not in level]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Schedule:
    """One cycle of one scheduler.

    Parameters
    ----------
    selected : tuple of (step, lane) or None, one for each lane
        The position whose pair the lane multiplies; None if the lane has no work.
    options : tuple of int or None, one for each lane
        The index of the lane's choice among the connectivity's options (MS in the paper).
    remaining : tuple of tuple of bool, (depth, lanes)
        The effectual positions that are not consumed after this cycle.
    advance : int
        Leading eligible steps with no effectual position left (AS in the paper).
    """

    selected: tuple[Position | None, ...]
    options: tuple[int | None, ...]
    remaining: tuple[tuple[bool, ...], ...]
    advance: int

    @property
    def consumed(self) -> int:
        """Number of positions consumed."""
        return sum(position is not None for position in self.selected)


@dataclass(frozen=True, slots=True)
class TileSchedule:
    """The schedules of all schedulers of a tile in one cycle.

    Parameters
    ----------
    schedules : tuple of tuple of Schedule, (rows, schedulers of a row)
        One scheduler for each row; with sparsity "both" one for each PE.
    row_advance : tuple of int, (rows,)
        AS of each row.
    advance : int
        AS of the tile: steps that leave the window.
    first, last : bool
        Whether this is the first, and the last, schedule of its stream.
    input_limited : bool
        The tile drained all steps present; with more input it might have advanced further.
    """

    schedules: tuple[tuple[Schedule, ...], ...]
    row_advance: tuple[int, ...]
    advance: int
    first: bool
    last: bool
    input_limited: bool

    @property
    def consumed(self) -> int:
        """Positions consumed, over all schedulers."""
        return sum(one.consumed for row in self.schedules for one in row)

    @property
    def row_wait(self) -> tuple[int, ...]:
        """For each row, the steps by which it could have advanced further than the tile."""
        return tuple(advance - self.advance for advance in self.row_advance)


def schedule(
    effectual: Sequence[Sequence[int]] | NDArray[np.bool_], eligible_steps: int, options: tuple[Option, ...]
) -> Schedule:
    """Make the schedule of one cycle.

    The levels choose in order. Every lane of a level takes the first position among its options that is eligible,
    effectual and not consumed, and consumes it.

    Parameters
    ----------
    effectual : array of bool, (depth, lanes)
        The effectual positions that are not consumed, the oldest step first.
    eligible_steps : int
        Leading steps that may be scheduled, 0 to depth: the steps present, up to the end of the stream.
    options : tuple of (step, lane offset)
        In priority order.

    Returns
    -------
    Schedule

    Raises
    ------
    ValueError
        If `eligible_steps` exceeds the window.

    Source
    ------
    Section III-A of the paper.

    Examples
    --------
    Similar to Fig. 3: 16 pairs, seven of them effectual, a window of depth 2 and the four options of Fig. 3c (dense,
    lookahead, lookaside to both sides). The schedule takes two cycles, the dense schedule four.

    >>> options = ((0, 0), (1, 0), (1, 1), (1, -1))
    >>> pairs = [[0, 1, 0, 0],
    ...          [0, 1, 1, 1],
    ...          [1, 0, 0, 1],
    ...          [1, 0, 0, 0]]

    Lane 1 works as in the dense schedule, lanes 2 and 3 look ahead, lane 0 takes from its neighbour at +1:

    >>> first = schedule(pairs[0:2], 2, options)
    >>> first.selected
    ((1, 1), (0, 1), (1, 2), (1, 3))
    >>> first.options, first.advance
    ((2, 0, 1, 1), 2)

    Lanes 0 and 3 work as in the dense schedule, lane 1 takes from its neighbour at -1, lane 2 has no work:

    >>> second = schedule(pairs[2:4], 2, options)
    >>> second.selected
    ((0, 0), (1, 0), None, (0, 3))
    >>> second.options, second.advance
    ((0, 3, None, 0), 2)
    """
    remaining = [list(map(bool, step)) for step in effectual]
    if not 0 <= eligible_steps <= len(remaining):
        raise ValueError(f"eligible_steps must be from 0 to the window's {len(remaining)} steps, not {eligible_steps}")
    if not remaining:
        return Schedule((), (), (), 0)
    lanes = len(remaining[0])
    selected: list[Position | None] = [None] * lanes
    indices: list[int | None] = [None] * lanes
    for level in levels(options, lanes):
        for lane in level:
            for index, (step, offset) in enumerate(options):
                source = (lane + offset) % lanes
                if step < eligible_steps and remaining[step][source]:
                    selected[lane], indices[lane] = (step, source), index
                    break
        # All lanes of the level chose from the same positions. Remove their choices for the next level.
        for lane in level:
            position = selected[lane]
            if position is not None:
                remaining[position[0]][position[1]] = False
    advance = next((step for step in range(eligible_steps) if any(remaining[step])), eligible_steps)
    return Schedule(tuple(selected), tuple(indices), tuple(map(tuple, remaining)), advance)


def schedule_stream(effectual: ArrayLike, options: tuple[Option, ...], depth: int) -> NDArray[np.int64]:
    """Schedule a complete stream on parallel schedulers that advance together.

    A tile that never stalls for input or output takes the same number of cycles for the stream.

    Parameters
    ----------
    effectual : array of bool, (schedulers, T, lanes)
        One scheduler for each row (or, if both sides are skipped, for each PE).
    options : tuple of (step, lane offset)
        In priority order.
    depth : int
        Steps of the window.

    Returns
    -------
    array of int64, (cycles, schedulers)
        AS of each scheduler in each cycle. The tile's AS is the minimum of a cycle; these minima add up to T.

    Examples
    --------
    A row of zeros next to a dense row waits for it:

    >>> schedule_stream([[[0, 0], [0, 0]], [[1, 1], [1, 1]]], ((0, 0), (1, 0)), 2)
    array([[2, 1],
           [1, 1]])
    """
    marks = np.asarray(effectual, dtype=bool)
    waiting: list[list[Sequence[bool]]] = marks.tolist()
    steps_left = marks.shape[1]
    advances = []
    while steps_left:
        eligible = min(depth, steps_left)
        made = [schedule(steps[:eligible], eligible, options) for steps in waiting]
        advances.append([one.advance for one in made])
        advance = min(advances[-1])
        for index, one in enumerate(made):
            waiting[index][:eligible] = one.remaining[advance:]
        steps_left -= advance
    return np.array(advances, dtype=np.int64)
