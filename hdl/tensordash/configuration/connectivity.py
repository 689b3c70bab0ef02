"""Connectivity: the window positions that a lane may take its pair from, and the order in which lanes decide.

An option at a later step is lookahead; one at another lane is lookaside.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

__all__ = ["PAPER_OPTIONS", "Connectivity", "Option", "Position", "auto_options"]

Option = tuple[int, int]
"""(step, lane offset): a position relative to the lane and the oldest step."""
Position = tuple[int, int]
"""(step, lane): a place in the window."""

PAPER_OPTIONS: tuple[Option, ...] = ((0, 0), (1, 0), (2, 0), (3, 0), (1, 1), (1, -1), (2, 2), (3, 3))
"""The paper's eight options for four lanes and four steps, in its priority order (section III-A)."""

# (lanes, steps): options after (0, 0), from this number of lanes on, for windows that shift. Hill climbing on random
# zeros, the mean over 30, 50, 70 and 90%, with four rows. `python bench/connectivity_auto.py search` prints this table.
SEARCHED: dict[tuple[int, int], tuple[Option, ...]] = {
    (2, 2): ((1, 0), (1, 1)),
    (2, 3): ((1, 0), (1, 1), (2, 0), (2, 1)),
    (2, 4): ((1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)),
    (2, 5): ((1, 1), (1, 0), (2, 1), (2, 0), (3, 1), (4, 0), (3, 0)),
    (2, 6): ((1, 1), (1, 0), (2, 0), (3, 1), (4, 1), (2, 1), (5, 1)),
    (3, 2): ((1, 0), (1, 1), (1, -1)),
    (3, 3): ((1, 0), (1, 1), (1, -1), (2, 0), (2, 1), (2, -1)),
    (3, 4): ((1, 1), (1, -1), (2, -1), (2, 0), (3, 0), (3, -1), (3, 1)),
    (3, 5): ((1, 0), (1, 1), (2, 0), (2, 1), (3, 1), (4, 0), (3, -1)),
    (3, 6): ((1, 1), (2, 0), (3, 0), (2, 1), (4, 0), (5, 0), (4, 1)),
    (4, 2): ((1, 0), (1, 1), (1, -1), (1, 2)),
    (4, 3): ((1, 0), (1, 1), (1, 2), (2, -1), (2, 2), (2, 0), (2, 1)),
    (4, 4): ((1, 2), (1, -1), (2, -1), (2, 0), (3, 1), (2, 1), (3, 2)),
    (4, 5): ((1, 0), (1, 1), (2, 1), (2, -1), (3, 0), (4, -1), (3, 1)),
    (4, 6): ((1, -1), (2, 0), (2, 1), (4, 0), (3, 0), (3, 2), (5, 1)),
    (5, 2): ((1, -1), (1, 0), (1, 1), (1, 2)),
    (5, 3): ((1, -2), (1, -1), (1, 0), (2, -2), (2, 2), (2, 0), (2, -1)),
    (5, 4): ((1, -2), (1, -1), (2, -2), (2, -1), (2, 0), (3, 0), (3, -2)),
    (5, 5): ((1, -1), (1, 0), (2, 2), (2, 0), (3, 0), (4, 1), (3, 1)),
    (5, 6): ((1, 0), (2, 1), (2, 2), (4, -2), (3, -1), (3, 1), (5, -1)),
    (8, 2): ((1, -1), (1, 0), (1, 1), (1, 2)),
    (8, 3): ((1, 0), (1, 2), (1, -1), (1, 1), (2, 3), (2, 0), (2, 1)),
    (8, 4): ((1, -2), (1, 0), (2, 0), (2, -3), (2, 2), (3, -3), (3, 0)),
    (8, 5): ((1, 2), (1, 3), (2, -3), (2, 0), (3, 0), (3, 1), (4, -2)),
    (8, 6): ((1, 2), (2, 1), (3, -1), (2, 2), (4, 2), (3, -3), (5, 3)),
    (16, 2): ((1, 2), (1, -1), (1, 0), (1, 1)),
    (16, 3): ((1, -2), (1, 0), (1, -3), (1, -1), (2, 3), (2, 0), (2, -3)),
    (16, 4): ((1, -2), (1, 0), (2, -3), (2, 2), (2, 0), (3, 1), (3, -3)),
    (16, 5): ((1, 2), (1, -1), (2, 2), (2, 1), (3, -2), (3, 3), (4, -2)),
    (16, 6): ((1, -3), (2, 0), (3, 2), (2, 2), (4, -2), (3, -2), (5, -3)),
}


@dataclass(frozen=True)
class Connectivity:
    """The options of every lane, checked against the window.

    Lane offsets count modulo `lanes`: the lanes form a ring.

    Parameters
    ----------
    options : iterable of (step, lane offset)
        Options in priority order. The first is (0, 0), every other has 1 <= step < depth, and no two coincide.
    lanes, depth : int
        Shape of the window.

    Raises
    ------
    TypeError, ValueError
        With the option and what is allowed.

    Source: paper, section III-A, "The Hardware Scheduler", and Figs. 5 and 6. The paper gives the levels for one
    pattern; here they are computed, so that any pattern is valid by construction.

    Examples
    --------
    >>> paper = Connectivity(PAPER_OPTIONS, lanes=4, depth=4)
    >>> paper.levels
    ((0,), (1,), (2,), (3,))
    >>> paper.positions(1)[:5]
    ((0, 1), (1, 1), (2, 1), (3, 1), (1, 2))
    """

    options: tuple[Option, ...]
    lanes: int
    depth: int

    def __init__(self, options: Iterable[Iterable[int]], *, lanes: int, depth: int) -> None:
        object.__setattr__(self, "options", self._checked(options, lanes, depth))
        object.__setattr__(self, "lanes", lanes)
        object.__setattr__(self, "depth", depth)

    @staticmethod
    def _checked(options: Any, lanes: int, depth: int) -> tuple[Option, ...]:
        if not isinstance(options, (list, tuple)) or not options:
            raise TypeError(f"connectivity must be a list of [step, lane offset], not {options!r}")
        checked: list[Option] = []
        reached: dict[Position, Option] = {}
        for option in options:
            if (
                not isinstance(option, (list, tuple))
                or len(option) != 2
                or not all(isinstance(part, int) and not isinstance(part, bool) for part in option)
            ):
                raise TypeError(f"connectivity option must be [step, lane offset] in integers, not {option!r}")
            step, offset = option
            shown = [step, offset]
            if not checked and (step, offset) != (0, 0):
                raise ValueError(f"connectivity must begin with [0, 0], not {shown}")
            if checked and not 1 <= step < depth:
                raise ValueError(
                    f"connectivity option {shown} lies outside the window: "
                    f"step must be from 1 to {depth - 1} (the first option alone has step 0)"
                )
            if not -lanes < offset < lanes:
                raise ValueError(
                    f"connectivity option {shown} lies outside the window: "
                    f"lane offset must be from {1 - lanes} to {lanes - 1}"
                )
            place = (step, offset % lanes)
            if place in reached:
                raise ValueError(
                    f"connectivity options {list(reached[place])} and {shown} coincide on {lanes} lanes: "
                    "every option must reach a position of its own"
                )
            reached[place] = (step, offset)
            checked.append((step, offset))
        return tuple(checked)

    def positions(self, lane: int) -> tuple[Position, ...]:
        """Return the positions that `lane` can take its pair from, in priority order."""
        return tuple((step, (lane + offset) % self.lanes) for step, offset in self.options)

    @cached_property
    def rotation_invariant(self) -> bool:
        """Whether every step but the oldest offers the same lane offsets, as a staging ring requires.

        >>> Connectivity([(0, 0), (1, 0), (2, 1), (1, 1), (2, 0)], lanes=4, depth=3).rotation_invariant
        True
        >>> Connectivity(PAPER_OPTIONS, lanes=4, depth=4).rotation_invariant
        False
        """
        offsets: dict[int, set[int]] = {step: set() for step in range(1, self.depth)}
        for step, offset in self.options[1:]:
            offsets[step].add(offset % self.lanes)
        return len({frozenset(each) for each in offsets.values()}) == 1

    def sources(self, ring: bool) -> tuple[Option, ...]:
        """Return (slot, lane offset) of every source of an operand mux.

        With slots that shift, slot 0 holds the oldest step, and a lane's sources are its options. In a ring any slot
        may hold the oldest step, and a lane reaches every slot at the offsets of all options.

        >>> Connectivity([(0, 0), (1, 0), (1, 1)], lanes=4, depth=2).sources(ring=True)
        ((0, 0), (1, 0), (0, 1), (1, 1))
        """
        if not ring:
            return self.options
        offsets = dict.fromkeys(offset % self.lanes for _, offset in self.options)
        # In order of lane offset: synthesis pairs neighbours, and finds a smaller mux than in order of slot.
        return tuple((slot, offset) for offset in offsets for slot in range(self.depth))

    @cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Lanes that decide at the same time, level by level.

        Greedy, in lane order: a level takes the first remaining lane, and every later lane whose positions are disjoint
        from those of the level's lanes so far.

        >>> t_shape = [(0, 0), (1, 0), (2, 0), (1, -1), (1, 1), (2, -2), (2, 2), (1, 3)]
        >>> Connectivity(t_shape, lanes=16, depth=3).levels
        ((0, 5, 10), (1, 6, 11), (2, 7, 12), (3, 8, 13), (4, 9, 14), (15,))
        """
        left = list(range(self.lanes))
        levels = []
        while left:
            level: list[int] = []
            taken: set[Position] = set()
            for lane in left:
                reach = set(self.positions(lane))
                if taken.isdisjoint(reach):
                    level.append(lane)
                    taken |= reach
            left = [lane for lane in left if lane not in level]
            levels.append(tuple(level))
        return tuple(levels)


def auto_options(lanes: int, depth: int, *, ring: bool) -> tuple[Option, ...]:
    """Return the best known options for a shape, in priority order.

    Eight options, or all if there are fewer, and five with two steps. A ring of more steps offers a lane's own offset
    and its neighbour's at every step, so that its muxes have two sources per step.

    Parameters
    ----------
    lanes, depth : int
        Shape of the window.
    ring : bool
        Whether every step from 1 on has to offer the same lane offsets.

    Source: a search of this project (docs/simulator.md, "Any shape"). A ring of 4 lanes and 4 steps has the options of
    the preset `recommended`.

    Examples
    --------
    >>> auto_options(4, 4, ring=True)
    ((0, 0), (1, 1), (1, 0), (2, 0), (2, 1), (3, 0), (3, 1))
    >>> auto_options(7, 2, ring=False) == auto_options(7, 2, ring=True) == auto_options(5, 2, ring=True)
    True
    """
    if ring and depth > 2:
        # From four lanes on, a neighbour's next step is more useful than a lane's own.
        first = ((1, 1), (1, 0)) if lanes > 3 else ((1, 0), (1, 1))
        return ((0, 0), *first, *((step, offset) for step in range(2, depth) for offset in (0, 1)))
    serving = max(least for least, steps in SEARCHED if steps == depth and least <= lanes)
    return ((0, 0), *SEARCHED[serving, depth])
