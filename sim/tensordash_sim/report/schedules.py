"""What the schedule viewer shows: streams, and what the golden model's tile decides in every cycle."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.formats import Format

from ..cycles import count_words, pack
from ..golden import Counters, Producer, Tile, TileSchedule, levels, to_float
from ..golden.quantization import non_zeros
from ..trace import Record
from ..trace.layer_operands import describe_values, layer_passes, operand_scales

__all__ = ["ScheduleRun", "layer_runs", "record_run"]

Stream = tuple[NDArray[np.unsignedinteger[Any]], NDArray[np.unsignedinteger[Any]]]
"""Bit patterns of a, (columns, T, lanes), and of b, (rows, T, lanes)."""


@dataclass(frozen=True)
class ScheduleRun:
    """Streams through a tile, one after the other, cycle by cycle.

    Attributes
    ----------
    title, about : str
        What the streams are.
    config : TileConfig
        The tile.
    streams : tuple of (a, b)
        Bit patterns: a (columns, T, lanes), b (rows, T, lanes).
    schedules : tuple of TileSchedule
        What the golden model decides, one for each cycle in which a schedule is made.
    present : tuple of int
        Steps in the window in each of these cycles, those of the next stream included.
    counters : Counters
        The golden model's, at the end.
    """

    title: str
    about: str
    config: TileConfig
    streams: tuple[Stream, ...]
    schedules: tuple[TileSchedule, ...]
    present: tuple[int, ...]
    counters: Counters

    @property
    def simulated_cycles(self) -> int:
        """Cycles that the cycle simulator counts for the streams."""
        config = self.config
        blocks = [pack(non_zeros(b, config.b_format))[None] for _, b in self.streams]
        sides = [pack(non_zeros(a, config.a_format))[None] for a, _ in self.streams]
        return count_words(blocks, config, a=sides).cycles

    def to_json(self) -> dict[str, Any]:
        """Return the document that the viewer reads.

        Steps are numbered over all streams. `taken` holds for each cycle, scheduler (the rows; if both sides are
        skipped, each row's PEs) and lane the option taken, -1 for none. Values have three significant digits; only a
        zero is 0.
        """
        config = self.config
        return {
            "title": self.title,
            "about": self.about,
            "tile": {
                "rows": config.rows,
                "columns": config.columns,
                "lanes": config.lanes,
                "depth": config.window_depth,
                "sparsity": config.sparsity,
                "options": config.options,
                "levels": levels(config.options, config.lanes),
                "formats": [config.a_format.name, config.b_format.name],
            },
            "streams": [a.shape[1] for a, _ in self.streams],
            "a": _values([a for a, _ in self.streams], config.a_format),
            "b": _values([b for _, b in self.streams], config.b_format),
            "present": self.present,
            "advance": [made.advance for made in self.schedules],
            "row_advance": [made.row_advance for made in self.schedules],
            "taken": [
                [-1 if option is None else option for row in made.schedules for one in row for option in one.options]
                for made in self.schedules
            ],
            "counters": {
                "cycles": self.counters.cycles,
                "steps": self.counters.steps,
                "effectual": self.counters.effectual,
                "row_wait": self.counters.row_wait,
            },
            "simulated_cycles": self.simulated_cycles,
        }


def record_run(streams: Sequence[Stream], config: TileConfig, title: str, about: str = "") -> ScheduleRun:
    """Run streams on the golden model's tile and keep every schedule.

    Producers always offer all they can and the output is always taken. A C input is left out: it changes no schedule.

    Parameters
    ----------
    streams : sequence of (a, b)
        Bit patterns, arrays of unsigned int: a (columns, T, lanes), b (rows, T, lanes); T >= 1.
    config : TileConfig
        The tile.
    title, about : str
        What the streams are.

    Returns
    -------
    ScheduleRun

    Examples
    --------
    >>> b = np.array([[[1, 0, 0, 0], [0, 1, 0, 0]]], np.uint16)
    >>> run = record_run([(np.ones((1, 2, 4), np.uint16), b)], TileConfig(rows=1, columns=1), "two pairs")
    >>> run.counters.cycles, run.simulated_cycles, run.schedules[0].advance
    (1, 1, 2)
    """
    config = replace(config, initial=False)
    tile = Tile(config)
    a_ports = [Producer([a[column].tolist() for a, _ in streams]) for column in range(config.columns)]
    b_ports = [Producer([b[row].tolist() for _, b in streams]) for row in range(config.rows)]
    schedules: list[TileSchedule] = []
    present: list[int] = []
    ended = 0
    while ended < len(streams):
        held = tile.control.rows[0].present
        offers = [[port.offer(config.window_depth) for port in side] for side in (a_ports, b_ports)]
        outputs = tile.cycle(offers[0], offers[1], out_ready=True)
        for port in a_ports + b_ports:
            port.take(outputs.taken)
        if outputs.schedule is not None:
            schedules.append(outputs.schedule)
            present.append(held)
            ended += outputs.schedule.last
    return ScheduleRun(title, about, config, tuple(streams), tuple(schedules), tuple(present), tile.counters)


def layer_runs(records: Sequence[Record], config: TileConfig, *, passes: int, seed: int) -> list[ScheduleRun]:
    """Passes of recorded operations, drawn at random, as `layer_passes` gives them.

    Parameters
    ----------
    records : sequence of Record
        The operations; a run for each.
    config : TileConfig
        The tile.
    passes : int
        Passes of each; all, if there are not as many.
    seed : int
        Which ones; and the values, where the trace has masks only.

    Raises
    ------
    TraceError
        If an operand is missing or damaged, or has infinities or NaN.
    """
    runs = []
    for record in records:
        streams = [
            pair
            for found in layer_passes(record, config, sample=passes, seed=seed)
            for pair in zip(found.a, found.b, strict=True)
        ]
        other = next(name for name in record.operands if name != record.sparser)
        values = describe_values(record, config, operand_scales(record, config))
        about = (
            f"{len(streams)} pass{'es' * (len(streams) != 1)} drawn with seed {seed}; "
            f"{record.sparser} on the row side, {other} on the column side; {values}."
        )
        runs.append(record_run(streams, config, f"{record.layer} {record.operation}", about))
    return runs


def _values(blocks: Sequence[NDArray[np.unsignedinteger[Any]]], fmt: Format) -> list[list[float]]:
    """Return values of each port, all streams' steps and lanes in one list."""
    joined = np.concatenate(blocks, axis=1)
    patterns, places = np.unique(joined, return_inverse=True)
    values = [float(f"{to_float(int(bits), fmt):.3g}") or 0.0 for bits in patterns]  # no -0
    short = [int(value) if value == int(value) else value for value in values]
    return [[short[place] for place in port] for port in places.reshape(len(joined), -1).tolist()]
