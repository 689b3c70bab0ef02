"""Coverage of a campaign of tiles: points by group, counted in the golden model in cycles that equal the Verilog's.

A point is a string within a group. `universe` lists every point that a campaign can reach, so that a report includes
points that were never met.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from tensordash import TileConfig
from tensordash.configuration.formats import (
    FORMATS,
    FP32,
    INT32,
    SCALES,
    FloatFormat,
    Format,
    IntegerFormat,
    ScaleFormat,
)
from tensordash.configuration.numerics import ACCUMULATORS, Binned, Fused

from ...golden.numbers import Kind, decode
from ...golden.ports import COUNTER_LIMIT, Counters, Outputs
from ...golden.scheduler import TileSchedule
from ...golden.tile import Tile
from ..lockstep import COUNTERS, FLAGS
from .draw import connectivity_style
from .stimulus import ARRIVALS, STALLS, ZEROS

__all__ = ["EVENTS", "Counts", "Coverage", "lane_options", "merged", "universe"]

Counts = dict[str, Counter[str]]
"""Counts of points: group to point to count."""

DEPTHS = range(1, 7)  # 1 is the dense baseline.
EVENTS = (
    "schedule while steps are missing",
    "frozen",
    "result waits for the sink",
    "stream of one schedule",
    "stream without an effectual pair",
    "C waits for room",
    "stream waits for C",
    "reset in a stream",
    "reset while frozen",
    "reset while a result waits",
    "clear in a cycle with a schedule",
    "clear in a frozen cycle",
)
"""Events in a cycle or of a stream that have no group of their own."""


class Coverage:
    """Coverage of one job.

    Parameters
    ----------
    config : TileConfig
        The job's tile.

    Attributes
    ----------
    counts : dict of str to Counter
        Counts by group and point.
    options : list of list of int, (lanes, options)
        Number of times that each lane took each of its options.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.counts: Counts = {}
        self.options = [[0] * len(config.options) for _ in range(config.lanes)]
        self._effectual = 0  # effectual pairs of the current stream so far
        self._in_stream = False
        for point in _config_points(config):
            self.add("tile", point)

    def add(self, group: str, point: str, count: int = 1) -> None:
        self.counts.setdefault(group, Counter())[point] += count

    def operands(self, side: str, fmt: Format, values: Iterable[int]) -> None:
        """Record values that are fed to a side, "a", "b" or "c"."""
        for kind, count in _kinds(fmt, values).items():
            self.add("operand", f"{fmt.name} {side} {kind}", count)

    def scales(self, side: str, values: Iterable[int]) -> None:
        """Record scales that are fed to a side, "a" or "b"."""
        if (scale := self.config.numerics.scale) is None:
            return
        for bits, count in Counter(values).items():
            self.add("scale", f"{scale.name} {side} {_kind_of_scale(scale, bits)}", count)

    def results(self, values: Iterable[int]) -> None:
        """Record results, which are equal in Verilog and golden."""
        integer = self.config.numerics.result == "int32"
        how = type(self.config.numerics.accumulator).__name__.lower()
        for kind, count in _kinds(INT32 if integer else FP32, values).items():
            self.add("result", f"{'int32' if integer else how} {kind}", count)

    def cycle(self, tile: Tile, outputs: Outputs, *, waited: bool, clear: bool, reset: bool) -> None:
        """Record a cycle.

        Parameters
        ----------
        tile : Tile
            The golden tile, after the cycle.
        outputs : Outputs
            Its outputs in the cycle.
        waited : bool
            Whether a result was offered and not accepted.
        clear, reset : bool
            Whether `clear` or reset was high in the cycle.
        """
        depth = self.config.window_depth
        window, initial = tile.control.rows[0], tile.datapath.initial
        self.add("steps taken", f"{outputs.taken} of {depth}")
        self.add("steps present", f"{window.present} of {depth}")
        self.add("stream ends in the window", f"{sum(window.ends)} of {depth}")
        self._counters(outputs)
        events = {
            "frozen": outputs.frozen,
            "result waits for the sink": waited,
            "C waits for room": initial is not None and not outputs.c_ready,
            "stream waits for C": initial is not None
            and initial.blocks == 0
            and tile.control.first
            and window.present > 0,
            "reset in a stream": reset and self._in_stream,
            "reset while frozen": reset and outputs.frozen,
            "reset while a result waits": reset and waited,
            "clear in a cycle with a schedule": clear and outputs.schedule_made,
            "clear in a frozen cycle": clear and outputs.frozen,
        }
        if outputs.schedule is not None:
            events |= self._schedule(outputs.schedule)
        for event, happened in events.items():
            if happened:
                self.add("event", event)
        self._in_stream = not tile.control.first

    def _schedule(self, made: TileSchedule) -> dict[str, bool]:
        depth = self.config.window_depth
        self.add("AS", f"{made.advance} of {depth}")
        for wait in made.row_wait:
            self.add("row wait", f"{wait} of {depth}")
        for row in made.schedules:
            for one in row:
                for taken, option in zip(self.options, one.options, strict=True):
                    if option is not None:
                        taken[option] += 1
        self._effectual = made.consumed + (0 if made.first else self._effectual)
        return {
            "schedule while steps are missing": made.input_limited,
            "stream of one schedule": made.first and made.last,
            "stream without an effectual pair": made.last and not self._effectual,
        }

    def _counters(self, outputs: Outputs) -> None:
        for name, value in _values(outputs.counters):
            if value:
                self.add("counter", f"{name} counts")
            if value == COUNTER_LIMIT:
                self.add("counter", f"{name} saturated")
        number = "int32" if self.config.numerics.result == "int32" else "floating point"
        for flag in FLAGS:
            if getattr(outputs, flag):
                self.add("flag", f"{flag}, {number}")

    def to_json(self) -> dict[str, dict[str, int]]:
        """Return the points' counts as JSON types."""
        return {group: dict(counts) for group, counts in self.counts.items()}


def _values(counters: Counters) -> Iterator[tuple[str, int]]:
    for name in COUNTERS:
        yield name, getattr(counters, name)
    yield "row_wait", max(counters.row_wait)


@cache
def _kind(fmt: Format, bits: int) -> str:
    """Return the class of a value in the coverage."""
    if isinstance(fmt, IntegerFormat):
        half = 1 << (fmt.width - 1)
        special = {0: "zero", half: "least", half - 1: "largest"}
        return special.get(bits, "positive" if bits < half else "negative")
    number = decode(bits, fmt)
    sign = "-" if number.sign else "+"
    if number.kind is Kind.NAN:
        return "NaN"
    if number.kind is Kind.NORMAL and bits & ~(1 << (fmt.width - 1)) == fmt.largest:
        return f"{sign}largest"
    return f"{sign}{number.kind.value}"


def _kind_of_scale(scale: ScaleFormat, bits: int) -> str:
    """Return the class of a scale in the coverage."""
    if scale.number is not None:
        return _kind(scale.number, bits)
    return {0: "least", scale.nan - 1: "largest", scale.nan: "NaN"}.get(bits, "between")


def _kinds_of_scale(scale: ScaleFormat) -> list[str]:
    return ["least", "largest", "NaN", "between"] if scale.number is None else _all_kinds(scale.number)


def _kinds(fmt: Format, values: Iterable[int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for bits, count in Counter(values).items():
        found[_kind(fmt, bits)] += count
    return found


def _all_kinds(fmt: Format) -> list[str]:
    if isinstance(fmt, IntegerFormat):
        return ["zero", "least", "largest", "positive", "negative"]
    kinds = ["zero", "subnormal", "normal", "largest", *(["infinite"] if fmt.infinities else [])]
    return [sign + kind for kind in kinds for sign in "+-"] + ["NaN"] * fmt.nan


def _config_points(config: TileConfig) -> list[str]:
    """Return the coverage points of a tile's configuration."""
    a, b, accumulator = config.a_format.name, config.b_format.name, config.numerics.accumulator
    numbers = how = type(accumulator).__name__.lower()
    if isinstance(accumulator, Binned):
        numbers = f"binned, {accumulator.bins}"
    elif isinstance(accumulator, Fused):
        named = isinstance(config.accumulator, str)
        numbers = str(config.accumulator) if named else f"fused, {accumulator.rounding}"
    out_rows = "1" if config.out_rows == 1 else "all" if config.out_rows == config.rows else "some"
    return [
        f"sparsity {config.sparsity}",
        f"window of {config.window_depth}",
        f"options {connectivity_style(config)}",
        f"format {a}" if a == b else "format of each side",
        f"scale {config.scale}",
        f"accumulator {numbers}",
        f"initial {config.initial}",
        f"pipeline {config.stages}",
        f"out_rows {out_rows}",
        f"full_window {config.needs_full_window}, {how}",
        *([f"staging {config.staging}"] if hasattr(config, "staging") else []),
        f"registered_ready {config.registered_ready}",
        f"counters {config.counters}",
    ]


SUMS = ("exact", "fused", "binned")
"""Kinds of accumulators of floating-point products."""


@cache
def universe() -> Mapping[str, tuple[str, ...]]:
    """Return every point that a campaign can reach, by group."""
    floats = [fmt for fmt in FORMATS.values() if isinstance(fmt, FloatFormat)]
    operands = [f"{fmt.name} {side} {kind}" for fmt in FORMATS.values() for side in "ab" for kind in _all_kinds(fmt)]
    operands += [f"{fmt.name} c {kind}" for fmt in (FP32, INT32) for kind in _all_kinds(fmt)]
    # A zero result is +0, and a sum of products is the largest number only by chance.
    finite = ["+zero", "+subnormal", "-subnormal", "+normal", "-normal", "+infinite", "-infinite", "NaN"]
    numbers = [*(f"format {fmt.name}" for fmt in floats), "format int8", "format of each side"]
    accumulators = ["exact", *ACCUMULATORS, "fused, zero", "fused, nearest", "binned, 3", "binned, 4"]
    staging = ["shift", "ring"] if "staging" in TileConfig.__dataclass_fields__ else []
    tiles = [
        *(f"sparsity {name}" for name in ("none", "rows", "both")),
        *(f"window of {depth}" for depth in DEPTHS),
        *(f"options {name}" for name in ("dense", "paper", "any", "rotation-invariant")),
        *numbers,
        *(f"scale {name}" for name in ("none", *SCALES)),
        *(f"accumulator {name}" for name in accumulators),
        *(f"initial {flag}" for flag in (False, True)),
        *(f"pipeline {stages}" for stages in (1, 2, 3)),
        *(f"out_rows {share}" for share in ("1", "some", "all")),
        *(f"full_window {flag}, {how}" for flag in (False, True) for how in SUMS),
        *(f"staging {kind}" for kind in staging),
        *(f"registered_ready {flag}" for flag in (False, True)),
        *(f"counters {kind}" for kind in (True, False, "snapshot")),
    ]
    up_to = [(depth, count) for depth in DEPTHS for count in range(depth + 1)]
    return {
        "tile": tuple(tiles),
        "arrival and stalls": tuple(f"{arrival}, {stall}" for arrival in ARRIVALS for stall in STALLS),
        "zeros": tuple(f"{side} {style}" for side in "ab" for style in ZEROS),
        "AS": tuple(f"{count} of {depth}" for depth, count in up_to if count),
        "row wait": tuple(f"{count} of {depth}" for depth, count in up_to if count < depth),
        "stream ends in the window": tuple(f"{count} of {depth}" for depth, count in up_to),
        "steps present": tuple(f"{count} of {depth}" for depth, count in up_to),
        "steps taken": tuple(f"{count} of {depth}" for depth, count in up_to),
        "operand": tuple(operands),
        "scale": tuple(
            f"{scale.name} {side} {kind}"
            for scale in SCALES.values()
            for side in "ab"
            for kind in _kinds_of_scale(scale)
        ),
        "result": (
            *(f"{how} {kind}" for how in SUMS for kind in finite),
            *(f"int32 {kind}" for kind in ("zero", "positive", "negative")),
        ),
        "counter": tuple(f"{name} {how}" for name in (*COUNTERS, "row_wait") for how in ("counts", "saturated")),
        "flag": (
            *(f"{flag}, floating point" for flag in FLAGS),
            *(f"{flag}, int32" for flag in FLAGS if not flag.endswith("non_finite")),
        ),
        "event": EVENTS,
    }


def lane_options(options: Iterable[Iterable[int]]) -> tuple[int, int]:
    """Return the number of (lane, option) pairs that a job's `Coverage.options` met, and of all pairs.

    >>> lane_options([[3, 0], [1, 1]])
    (3, 4)
    """
    counts = [count for lane in options for count in lane]
    return sum(count > 0 for count in counts), len(counts)


def merged(jobs: Iterable[Mapping[str, Mapping[str, int]]]) -> Counts:
    """Return the sum of many jobs' counts, with every point of the universe."""
    total: Counts = {group: Counter(dict.fromkeys(points, 0)) for group, points in universe().items()}
    for job in jobs:
        for group, counts in job.items():
            total.setdefault(group, Counter()).update(counts)
    return total
