"""Control of a tile: its window and its schedules (steps 3 and 5 of docs/tile.md)."""

from collections.abc import Mapping, Sequence

from tensordash.configuration.config import TileConfig

from .numbers import Kind, decode_scale, fixed_values
from .ports import Offer
from .scheduler import TileSchedule, schedule
from .staging import StagingBuffer

__all__ = ["Control", "Pairs"]

Pairs = tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]
"""The operands of one schedule: for each row and column, the bit patterns (a, b) of the active lanes, each with the
scales of its step (of a, of b), if any."""


class Control:
    """The window of a tile: the steps of all ports, and the effectual positions that are not consumed.

    Parameters
    ----------
    config : TileConfig
        The tile.

    Attributes
    ----------
    columns, rows : list of StagingBuffer
        Column side, one for each column, and row side, one for each row. All hold the same number of steps.
    effectual : list of list of list of list of bool, (rows, schedulers of a row, steps present, lanes)
        The positions that each scheduler still has to consume.
    first : bool
        The next schedule is the first of its stream.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self._a_values, self._b_values = fixed_values(config.a_format), fixed_values(config.b_format)
        self._schedulers = config.columns if config.sparsity == "both" else 1
        self._scale = config.numerics.scale
        self.columns = [StagingBuffer(config.window_depth, config.step_values) for _ in range(config.columns)]
        self.rows = [StagingBuffer(config.window_depth, config.step_values) for _ in range(config.rows)]
        self.reset()

    def reset(self) -> None:
        for buffer in self.columns + self.rows:
            buffer.reset()
        self.effectual: list[list[list[Sequence[bool]]]] = [
            [[] for _ in range(self._schedulers)] for _ in range(self.config.rows)
        ]
        self.first = True

    @property
    def idle(self) -> bool:
        """Whether the window is empty and every stream that began has ended."""
        return self.first and self.rows[0].present == 0

    def decide(self, may_start: bool = True) -> TileSchedule | None:
        """Return the schedule to be made in this cycle unless the tile is frozen; None if steps are missing.

        Parameters
        ----------
        may_start : bool
            A stream may start: the tile holds its C or has no C input.
        """
        if self.first and not may_start:
            return None
        window = self.rows[0]
        ends = any(window.ends)
        full = window.present == self.config.window_depth or ends
        if window.present == 0 or (self.config.needs_full_window and not full):
            return None
        eligible = window.eligible
        made = tuple(
            tuple(schedule(steps, eligible, self.config.options) for steps in schedulers)
            for schedulers in self.effectual
        )
        row_advance = tuple(min(one.advance for one in row) for row in made)
        advance = min(row_advance)
        return TileSchedule(
            schedules=made,
            row_advance=row_advance,
            advance=advance,
            first=self.first,
            last=ends and advance == eligible,
            input_limited=advance == window.present < self.config.window_depth and not ends,
        )

    def operands(self, made: TileSchedule) -> Pairs:
        """Return the pairs that each PE multiplies: B values of its row, A values of its column, same positions."""
        operands: list[list[tuple]] = []
        for row, schedules in zip(self.rows, made.schedules, strict=True):
            operands.append([])
            for index, column in enumerate(self.columns):
                selected = schedules[index % len(schedules)].selected
                pairs = tuple(self._pair(column.steps[p[0]], row.steps[p[0]], p[1]) for p in selected if p is not None)
                operands[-1].append(pairs)
        return tuple(map(tuple, operands))

    def _pair(self, a: Sequence[int], b: Sequence[int], lane: int) -> tuple[int, ...]:
        """Return a lane's two values of a step and the step's scales, the last entry of each side."""
        return (a[lane], b[lane]) if self._scale is None else (a[lane], b[lane], a[-1], b[-1])

    def clock(self, made: TileSchedule | None, a: Sequence[Offer], b: Sequence[Offer], taken: int) -> tuple[bool, bool]:
        """Apply a clock edge: steps leave, then the first `taken` steps offered enter.

        Parameters
        ----------
        made : TileSchedule or None
            The schedule made in this cycle.
        a, b : sequence of Offer
            Column side, one for each column, and row side, one for each row.
        taken : int
            Steps that enter.

        Returns
        -------
        protocol_error, non_finite : bool
            The ports disagree on the end of the stream; an infinity or NaN entered.
        """
        if made is not None:
            self._drain(made)
        if taken == 0:
            return False, False
        port_ends = [offer.last and self.offered(offer) == taken for offer in (*a, *b)]
        for buffer, offer in zip(self.columns + self.rows, (*a, *b), strict=True):
            buffer.push(offer.steps[:taken], any(port_ends))
        for index in range(-taken, 0):
            self._mark(index)
        return any(port_ends) and not all(port_ends), self._non_finite(taken)

    def offered(self, offer: Offer) -> int:
        """Return the steps that a port offers, limited to the window's depth."""
        return min(offer.available, self.config.window_depth)

    def _drain(self, made: TileSchedule) -> None:
        for buffer in self.columns + self.rows:
            buffer.advance(made.advance)
        self.effectual = [[list(one.remaining[made.advance :]) for one in row] for row in made.schedules]
        self.first = made.last

    def _mark(self, index: int) -> None:
        """Mark the effectual positions of the step at `index`."""
        sparsity = self.config.sparsity
        columns = [self._nonzero(buffer.steps[index], self._a_values) for buffer in self.columns]
        rows = [self._nonzero(buffer.steps[index], self._b_values) for buffer in self.rows]
        for b_marks, schedulers in zip(rows, self.effectual, strict=True):
            for number, steps in enumerate(schedulers):
                if sparsity == "both":
                    steps.append([x and y for x, y in zip(columns[number], b_marks, strict=True)])
                else:
                    steps.append(b_marks if sparsity == "rows" else [True] * self.config.lanes)

    def _nonzero(self, step: Sequence[int], values: Mapping[int, int | None]) -> list[bool]:
        """Return which values of a step are not zero. A scale of zero makes all of them zeros."""
        if self._scale is not None and decode_scale(step[-1], self._scale).kind is Kind.ZERO:
            return [False] * self.config.lanes
        return [values[bits] != 0 for bits in step[: self.config.lanes]]

    def _non_finite(self, taken: int) -> bool:
        """Return whether the youngest `taken` steps hold an infinity or NaN, or have a NaN scale."""
        for buffers, values in ((self.columns, self._a_values), (self.rows, self._b_values)):
            for buffer in buffers:
                for step in buffer.steps[-taken:]:
                    if any(values[bits] is None for bits in step[: self.config.lanes]):
                        return True
                    if self._scale is not None and decode_scale(step[-1], self._scale).kind is Kind.NAN:
                        return True
        return False
