"""The AXI4-Stream feeders, as docs/tile.md defines them under "AXI4-Stream"."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from .ports import Offer

__all__ = ["AxiBeat", "Feeder"]


@dataclass(frozen=True, slots=True)
class AxiBeat:
    """An input beat.

    Parameters
    ----------
    steps : sequence of sequence of int, (depth, lanes)
        Bit patterns on `tdata`, the lowest step first.
    keep : int
        Bits of `tkeep`.
    last : bool
        `tlast`.
    """

    steps: Sequence[Sequence[int]]
    keep: int
    last: bool


class Feeder:
    """An AXI4-Stream feeder after reset.

    Each cycle, call `offer`, then `ready` with the steps that the tile takes, then `clock` with the beat on the port.

    Parameters
    ----------
    depth : int
        Steps in a beat.
    step_bytes : int
        Bytes of a step.

    Examples
    --------
    A beat of two steps; a null beat marks the end of the stream:

    >>> feeder = Feeder(depth=2, step_bytes=1)
    >>> feeder.clock(0, AxiBeat([[1], [2]], keep=0b11, last=False))
    False
    >>> feeder.offer()
    Offer(steps=([1],), available=1, last=False)
    >>> feeder.ready(taken=1)
    True
    >>> feeder.clock(1, AxiBeat([[0], [0]], keep=0, last=True))
    False
    >>> feeder.offer()
    Offer(steps=([2],), available=1, last=True)
    """

    def __init__(self, *, depth: int, step_bytes: int) -> None:
        self.depth, self.step_bytes = depth, step_bytes
        self.reset()

    def reset(self) -> None:
        """Apply a clock edge with reset."""
        # Steps, and whether each ends its stream: True, False, or None for an open one.
        self._held: deque[tuple[Sequence[int], bool | None]] = deque()

    @property
    def empty(self) -> bool:
        """Whether no step is held."""
        return not self._held

    def offer(self) -> Offer:
        """Return the offer to the tile."""
        offered: list[Sequence[int]] = []
        for step, ends in self._held:
            if ends is None or len(offered) == self.depth:
                break
            offered.append(step)
            if ends:
                return Offer(tuple(offered), len(offered), last=True)
        return Offer(tuple(offered), len(offered), last=False)

    def ready(self, taken: int) -> bool:
        """Return whether a beat on the port enters while the tile takes `taken` steps; in reset none does."""
        return 2 * self.depth - (len(self._held) - taken) >= self.depth

    def clock(self, taken: int, beat: AxiBeat | None) -> bool:
        """End a cycle in which the tile takes `taken` steps.

        Parameters
        ----------
        taken : int
            Steps that leave.
        beat : AxiBeat or None
            The beat on the port; it enters if `ready`.

        Returns
        -------
        bool
            Whether a beat entered that breaks the protocol.
        """
        entering = beat if self.ready(taken) else None
        for _ in range(taken):
            self._held.popleft()
        if entering is None:
            return False
        open_before = bool(self._held) and self._held[-1][1] is None
        steps = self._steps(entering)
        for step in steps:
            self._settle(False)
            self._held.append((step, None))
        if entering.last:
            self._settle(True)
        marks_whole_steps = entering.keep == (1 << (self.step_bytes * len(steps))) - 1
        if not marks_whole_steps:
            return True
        if entering.last:
            return not steps and not open_before
        return len(steps) not in (0, self.depth)

    def _settle(self, ends: bool) -> None:
        """Set whether the open step, if any, ends its stream."""
        if self._held and self._held[-1][1] is None:
            self._held[-1] = self._held[-1][0], ends

    def _steps(self, beat: AxiBeat) -> list[Sequence[int]]:
        steps: list[Sequence[int]] = []
        for number, step in enumerate(beat.steps):
            if not beat.keep >> (number * self.step_bytes) & 1:
                break
            steps.append(step)
        return steps
