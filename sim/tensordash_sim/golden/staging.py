"""The staging buffer: the next steps of one side."""

from collections.abc import Sequence

__all__ = ["StagingBuffer"]


class StagingBuffer:
    """The window of one port: 0 to `depth` steps, the oldest first, each marked if it ends a stream.

    In each cycle, a tile calls `advance`, then `push`: steps can enter the space of steps that leave in the same cycle.

    Parameters
    ----------
    depth : int
        Capacity in steps.
    lanes : int
        Values of a step, including its scale (if any).

    Attributes
    ----------
    steps : list of tuple of int
        The bit patterns of each step present, the oldest first.
    ends : list of bool
        Whether each step present is the last of its stream.

    Source
    ------
    Section III-A, Fig. 4 of the paper; docs/tile.md, "State".

    Examples
    --------
    >>> buffer = StagingBuffer(depth=4, lanes=2)
    >>> buffer.push([(1, 2), (3, 4)], ends=True)
    >>> buffer.push([(5, 6)])
    >>> buffer.present, buffer.space, buffer.eligible
    (3, 1, 2)
    >>> buffer.advance(2)
    >>> buffer.steps, buffer.eligible
    ([(5, 6)], 1)
    """

    def __init__(self, depth: int, lanes: int) -> None:
        self.depth = depth
        self.lanes = lanes
        self.reset()

    def reset(self) -> None:
        self.steps: list[tuple[int, ...]] = []
        self.ends: list[bool] = []

    @property
    def present(self) -> int:
        return len(self.steps)

    @property
    def space(self) -> int:
        """Free steps."""
        return self.depth - len(self.steps)

    @property
    def eligible(self) -> int:
        """Steps from the oldest to the first that ends a stream, or all steps if none does."""
        return self.ends.index(True) + 1 if True in self.ends else len(self.ends)

    def advance(self, count: int) -> None:
        """Drop the `count` oldest steps."""
        if not 0 <= count <= self.present:
            raise ValueError(f"count must be from 0 to the {self.present} steps present, not {count}")
        del self.steps[:count]
        del self.ends[:count]

    def push(self, steps: Sequence[Sequence[int]], ends: bool = False) -> None:
        """Append steps after the youngest; with `ends`, the last one ends its stream."""
        if len(steps) > self.space:
            raise ValueError(f"steps must be at most {self.space}, the space left, not {len(steps)}")
        for step in steps:
            if len(step) != self.lanes:
                raise ValueError(f"a step must have lanes={self.lanes} values, not {len(step)}")
        if ends and not steps:
            raise ValueError("ends must be false when no step is pushed, not True")
        self.steps += [tuple(map(int, step)) for step in steps]
        self.ends += [ends and index == len(steps) - 1 for index in range(len(steps))]
