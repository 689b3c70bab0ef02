"""Runs for the schedule viewer: streams, and the schedules of the golden model's tile in every cycle."""

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
"""Bit patterns of A, (columns, T, lanes), and of B, (rows, T, lanes)."""


@dataclass(frozen=True)
class ScheduleRun:
    """Streams that pass through a tile one after the other, and the schedule of every cycle.

    Attributes
    ----------
    title, about : str
        Title and description of the streams.
    config : TileConfig
        The tile.
    streams : tuple of (a, b)
        Bit patterns: a (columns, T, lanes), b (rows, T, lanes).
    schedules : tuple of TileSchedule
        Schedules of the golden model, one for each cycle that has one.
    present : tuple of int
        Number of steps in the window in each of these cycles, including steps of the next stream.
    counters : Counters
        Counters of the golden model at the end.
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

        Steps are numbered over all streams. `taken` has the option taken by each lane of each scheduler in each cycle,
        or -1. There is one scheduler for each row or, if both sides are skipped, for each PE. Values have three
        significant digits; only a zero is 0.
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
    """Run streams on the golden model's tile, and record every schedule.

    Producers always offer all steps that they can, and every output is taken. The tile has no C input because C does
    not change the schedules.

    Parameters
    ----------
    streams : sequence of (a, b)
        Bit patterns, arrays of unsigned int: a (columns, T, lanes), b (rows, T, lanes); T >= 1.
    config : TileConfig
        The tile.
    title, about : str
        Title and description of the streams.

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
    """Run randomly drawn passes of recorded operations (`layer_passes`).

    Parameters
    ----------
    records : sequence of Record
        The operations. Each has its own run.
    config : TileConfig
        The tile.
    passes : int
        Passes of each operation, or all if it has fewer.
    seed : int
        Seed of the drawn passes and, if the trace has only masks, of the values.

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
    """Return one list of values for each port, with the steps and lanes of all streams."""
    joined = np.concatenate(blocks, axis=1)
    patterns, places = np.unique(joined, return_inverse=True)
    values = [float(f"{to_float(int(bits), fmt):.3g}") or 0.0 for bits in patterns]  # no -0
    short = [int(value) if value == int(value) else value for value in values]
    return [[short[place] for place in port] for port in places.reshape(len(joined), -1).tolist()]
