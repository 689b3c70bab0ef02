"""The signals at a tile's ports."""

from collections.abc import Sequence
from dataclasses import dataclass

from .scheduler import TileSchedule

__all__ = ["COUNTER_LIMIT", "Beat", "Counters", "Offer", "Outputs"]

COUNTER_LIMIT = 2**32 - 1
"""Value at which counters saturate."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The steps that a producer offers in one cycle.

    Parameters
    ----------
    steps : sequence of sequence of int, (at least `available`, lanes, or with a scale lanes + 1)
        Bit patterns, the oldest step first. A step's scale follows its values.
    available : int
        Number of steps offered. The tile ignores steps beyond its window's depth.
    last : bool
        The step at ``available - 1`` is the last of its stream.
    """

    steps: Sequence[Sequence[int]] = ()
    available: int = 0
    last: bool = False


@dataclass(frozen=True, slots=True)
class Beat:
    """One beat of results, or of C.

    Parameters
    ----------
    values : tuple of tuple of int, (out_rows, columns)
        FP32 or INT32 bits.
    last : bool
        The final beat of a block.
    """

    values: tuple[tuple[int, ...], ...]
    last: bool


@dataclass(frozen=True, slots=True)
class Counters:
    """A tile's counters, as docs/tile.md defines them."""

    cycles: int = 0
    steps: int = 0
    effectual: int = 0
    stall_input: int = 0
    stall_output: int = 0
    input_limited: int = 0
    row_wait: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of a tile in one cycle, before its clock edge.

    Parameters
    ----------
    taken : int
        Steps taken from every port; depends on this cycle's offers.
    out_valid : bool
        The output port holds a beat.
    out : Beat or None
        That beat.
    c_ready : bool
        The tile accepts a beat of C; False if it has no C input.
    counters : Counters
        Counts up to the previous cycle; with `counters` = "snapshot", the copy. If the tile has no counter ports, the
        values that they would show.
    protocol_error, non_finite, overflow, result_non_finite : bool
        Sticky flags: events up to the previous cycle.
    idle : bool
        Nothing is in flight.
    entry_line : int or None
        The ring's line that the next step enters; None without a ring.
    schedule : TileSchedule or None
        For debugging: the schedule made in this cycle, if any.
    frozen : bool
        For debugging: the tile is frozen in this cycle.
    """

    taken: int
    out_valid: bool
    out: Beat | None
    c_ready: bool
    counters: Counters
    protocol_error: bool
    non_finite: bool
    overflow: bool
    result_non_finite: bool
    idle: bool
    entry_line: int | None
    schedule: TileSchedule | None
    frozen: bool

    @property
    def schedule_made(self) -> bool:
        """Whether a schedule is made in this cycle."""
        return self.schedule is not None

    @property
    def advance(self) -> int:
        """Steps that leave the window at the end of this cycle."""
        return 0 if self.schedule is None else self.schedule.advance
