"""Streams, arrivals and stalls of a soak job: zeros and idle cycles at random places and in clusters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tensordash import TileConfig
from tensordash.configuration.formats import RESULT_FORMATS, Format, IntegerFormat

from ..stimulus import EXPONENTS, Arrival, largest, random_value, scaled, zeros

__all__ = ["ARRIVALS", "STALLS", "ZEROS", "Inputs", "draw_arrival", "draw_inputs", "draw_stalls", "zero_mask"]

ZEROS = ("anywhere", "steps", "lanes", "runs", "lone", "all", "none")
"""Places of zeros: random; full steps; full lanes; runs; one lane per step that differs from all others; all; none.

With "lone", a lane takes its last options, because only one lane of the dense step has no work.
"""

ARRIVALS = ("eager", "jitter", "scarce", "single", "bursts")
"""Arrivals of steps: full rate; random gaps; rare; at most one per cycle; bursts after long gaps."""

STALLS = ("none", "jitter", "blocked", "bursts")
"""Stalls of the output: never; in random cycles; nearly always; for many cycles in a row."""

DENSITIES = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Inputs:
    """Streams for a tile.

    Parameters
    ----------
    a, b : list of list of list of list of int, (columns or rows, stream, T, lanes)
        Bit patterns. With a scale format, a step's scale follows its values: (..., lanes + 1).
    c : list of list of list of int, (stream, rows, columns)
        Bit patterns; empty if the tile has no C input.
    styles : dict of str to list of str
        Places of each stream's zeros, from `ZEROS`, for sides "a" and "b".
    """

    a: list
    b: list
    c: list
    styles: dict[str, list[str]]


def draw_inputs(random: Random, config: TileConfig, lengths: Sequence[int]) -> Inputs:
    """Draw streams of these lengths for all ports, with zeros in a style of `ZEROS`, and some infinities and NaN."""
    ends = [random.choice(EXPONENTS) for _ in lengths]
    specials = random.choice((0.0, 0.0, 0.0, 0.002, 0.05))
    at_the_end = random.random() < 0.1  # mostly the largest magnitude
    styles = {side: [random.choice(ZEROS) for _ in lengths] for side in "ab"}
    sides: dict[str, list] = {"a": [], "b": []}
    for side, fmt, ports in (("a", config.a_format, config.columns), ("b", config.b_format, config.rows)):
        for _ in range(ports):
            masks = [zero_mask(random, style, T, config.lanes) for style, T in zip(styles[side], lengths, strict=True)]
            sides[side].append(
                [
                    _filled(random, fmt, mask, None if at_the_end else exponents, specials, at_the_end)
                    for mask, (exponents, _) in zip(masks, ends, strict=True)
                ]
            )
    a, b = scaled(random, config, sides["a"], sides["b"], specials)
    if not config.initial:
        return Inputs(a=a, b=b, c=[], styles=styles)
    result = RESULT_FORMATS[config.numerics.result]
    shape = config.rows, config.columns
    blocks = [
        _filled(random, result, zero_mask(random, random.choice(ZEROS), *shape), exponents, specials, at_the_end)
        for _, exponents in ends
    ]
    return Inputs(a=a, b=b, c=blocks, styles=styles)


def _filled(
    random: Random, fmt: Format, mask: list[list[bool]], exponents, specials: float, at_the_end: bool
) -> list[list[int]]:
    """Return values where the mask is true, and zeros of both signs elsewhere."""
    extreme = largest(fmt)
    minus_zero = zeros(fmt)[-1]

    def value() -> int:
        if at_the_end and random.random() < 0.9:
            return extreme
        return random_value(random, fmt, 0 if isinstance(fmt, IntegerFormat) else specials, exponents)

    def zero() -> int:
        return minus_zero if random.random() < 0.1 else 0

    return [[value() if effectual else zero() for effectual in step] for step in mask]


def zero_mask(random: Random, style: str, steps: int, lanes: int) -> list[list[bool]]:
    """Return a mask of nonzero values, (steps, lanes), in one of the styles of `ZEROS`.

    >>> zero_mask(Random(0), "none", 2, 3)
    [[True, True, True], [True, True, True]]
    """
    density = random.choice(DENSITIES)

    def chance() -> bool:
        return random.random() < density

    if style in ("all", "none"):
        return [[style == "none"] * lanes for _ in range(steps)]
    if style == "anywhere":
        return [[chance() for _ in range(lanes)] for _ in range(steps)]
    if style == "steps":
        return [[chance()] * lanes for _ in range(steps)]
    if style == "lanes":
        full = [chance() for _ in range(lanes)]
        return [[lane and random.random() < 0.9 for lane in full] for _ in range(steps)]
    if style == "lone":
        return [_lone(random, lanes) for _ in range(steps)]
    full_now, mask = chance(), []
    for _ in range(steps):  # "runs": most positions equal the previous one.
        row = []
        for _ in range(lanes):
            full_now = chance() if random.random() < 0.1 else full_now
            row.append(full_now)
        mask.append(row)
    return mask


def _lone(random: Random, lanes: int) -> list[bool]:
    """Return a step in which only one lane is zero, or only one lane is nonzero."""
    chosen, dense = random.randrange(lanes), random.random() < 0.5
    return [(lane != chosen) == dense for lane in range(lanes)]


class Bursts(Arrival):
    """Arrival pattern that alternates between silence and full rate.

    Parameters
    ----------
    random : Random
        Source of all random decisions.
    length : float
        Average number of calls between changes.
    """

    def __init__(self, random: Random, length: float) -> None:
        super().__init__(random, 0)
        self.length, self.silent = length, False

    def ready(self) -> bool:
        """Return whether the producer offers in this cycle."""
        if self.random.random() * self.length < 1:
            self.silent = not self.silent
        return not self.silent

    def most(self, depth: int) -> int:
        return depth if self.ready() else 0


class _Single(Arrival):
    """Arrival pattern with at most one step per cycle."""

    def most(self, depth: int) -> int:
        """Return 1 or 0."""
        return min(1, super().most(depth))


def draw_arrival(random: Random, kind: str, config: TileConfig) -> Arrival:
    """Draw the arrival pattern of all ports' producers, of a kind from `ARRIVALS`.

    A tile accepts only steps that all ports offer, so with more ports each one is idle less often.
    """
    ports = config.rows + config.columns
    if kind == "bursts":  # Every port calls once per cycle.
        return Bursts(random, ports * random.choice((2, 8, 20)))
    if kind == "single":
        return _Single(random, random.choice((0.0, 0.5)) / ports)
    share = {"eager": 0.0, "jitter": random.uniform(0.05, 1), "scarce": 2.5}[kind]
    return Arrival(random, min(0.97, share * (config.window_depth + 1) / ports))


def draw_stalls(random: Random, kind: str, config: TileConfig) -> Callable[[], float]:
    """Draw a function that returns the output's stall probability for the next cycle, of a kind from `STALLS`.

    "blocked" scales the probability such that a full block is delayed.
    """
    if kind == "bursts":
        bursts = Bursts(random, random.choice((5, 30)))
        return lambda: float(not bursts.ready())
    beats = config.rows // config.out_rows
    blocked = 1 - min(1, beats * random.uniform(0.03, 0.1))
    share = {"none": 0.0, "jitter": random.uniform(0.05, 0.7), "blocked": blocked}[kind]
    return lambda: share
