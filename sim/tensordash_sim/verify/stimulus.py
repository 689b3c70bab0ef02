"""Random operands and arrival patterns for the benches."""

from collections.abc import Sequence
from random import Random

from tensordash import TileConfig
from tensordash.configuration.formats import RESULT_FORMATS, Format

from ..golden.ports import Beat, Offer
from ..golden.producer import Producer
from .random_values import (
    EXPONENTS,
    Exponents,
    largest,
    random_scale,
    random_value,
    signed_value,
    special_values,
    zeros,
)

__all__ = [
    "EXPONENTS",
    "Arrival",
    "BlockSource",
    "Source",
    "largest",
    "on_lines",
    "packed",
    "packed_beat",
    "random_inputs",
    "random_lengths",
    "random_scale",
    "random_streams",
    "random_value",
    "scaled",
    "signed_value",
    "special_values",
    "zeros",
]

DENSITIES = (0.0, 0.1, 0.3, 0.5, 0.9, 1.0)


def scaled(random: Random, config: TileConfig, a: list, b: list, specials: float = 0.0) -> tuple[list, list]:
    """Return both sides' streams with scales, or unchanged for a tile without scales."""
    if config.numerics.scale is None:
        return a, b
    # The product of both sides' scales is near 1, near an end of FP32's range, or arbitrary.
    middle = random.choice((127, 127, random.randint(0, 254)))
    other = min(max(random.choice((254, 254, 254 - 130, 254 + 125)) - middle, 0), 254)
    return (
        [_scaled_blocks(random, config, streams, specials, middle) for streams in a],
        [_scaled_blocks(random, config, streams, specials, other) for streams in b],
    )


def _scaled_blocks(
    random: Random, config: TileConfig, streams: list[list[list[int]]], specials: float, around: int
) -> list[list[list[int]]]:
    """Return one port's streams with a scale after each step's values.

    In a stream, either all steps of a block share a scale, or each step has its own.
    """
    scale = config.numerics.scale
    assert scale is not None
    each = scale.block // config.lanes
    made = []
    for stream in streams:
        length = random.choice((each, each, 1))
        scales = [random_scale(random, scale, specials, around) for _ in range(-(-len(stream) // length))]
        made.append([[*step, scales[number // length]] for number, step in enumerate(stream)])
    return made


def random_streams(
    random: Random,
    fmt: Format,
    lanes: int,
    lengths: list[int],
    exponents: Sequence[Exponents],
    *,
    specials: float = 0.0,
) -> list[list[list[int]]]:
    """Return one port's streams, (stream, T, lanes), with an exponent range for each stream; zeros have both signs.

    Each stream has its own density.
    """
    minus_zero = zeros(fmt)[-1]
    streams = []
    for length, ends in zip(lengths, exponents, strict=True):
        density = random.choice(DENSITIES)
        streams.append(
            [
                [
                    random_value(random, fmt, specials, ends)
                    if random.random() < density
                    else (minus_zero if random.random() < 0.1 else 0)
                    for _ in range(lanes)
                ]
                for _ in range(length)
            ]
        )
    return streams


def random_inputs(
    random: Random, config: TileConfig, lengths: list[int], *, specials: float = 0.0, c_specials: float | None = None
) -> tuple[list, list, list]:
    """Return random streams for all ports of a tile.

    Parameters
    ----------
    random : Random
        Source of all random decisions.
    config : TileConfig
        The tile.
    lengths : list of int
        T of each stream.
    specials, c_specials : float
        Share of infinities and NaN among the operands, and in C (equal to `specials` if None).

    Returns
    -------
    a, b : list of list of list of list of int, (columns or rows, stream, T, lanes)
        Bit patterns. With a scale format, a step's scale follows its values: (..., lanes + 1).
    c : list of list of list of int, (stream, rows, columns)
        Bit patterns; empty if the tile has no C input.
    """
    chosen = [random.choice(EXPONENTS) for _ in lengths]
    a, b = (
        [
            random_streams(random, fmt, config.lanes, lengths, [ends for ends, _ in chosen], specials=specials)
            for _ in range(count)
        ]
        for fmt, count in ((config.a_format, config.columns), (config.b_format, config.rows))
    )
    a, b = scaled(random, config, a, b, specials)
    if not config.initial:
        return a, b, []
    c = random_streams(
        random,
        RESULT_FORMATS[config.numerics.result],
        config.columns,
        [config.rows] * len(lengths),
        [ends for _, ends in chosen],
        specials=specials if c_specials is None else c_specials,
    )
    return a, b, c


def random_lengths(random: Random, count: int, depth: int) -> list[int]:
    """Return random stream lengths, mostly near the window's depth, where streams share windows, and some long ones."""
    return [
        random.choice((1, 1, 2, 3, depth, depth + 1, 2 * depth, random.randint(1, 24), random.randint(20, 120)))
        for _ in range(count)
    ]


class Arrival:
    """Arrival pattern of a port's producer; `idle` is the probability per cycle that it offers fewer steps."""

    def __init__(self, random: Random, idle: float) -> None:
        self.random, self.idle = random, idle

    def most(self, depth: int) -> int:
        """Return the maximum number of steps to offer in this cycle."""
        return self.random.randint(0, depth) if self.random.random() < self.idle else depth

    def ready(self) -> bool:
        """Return whether a producer of single beats offers in this cycle."""
        return self.random.random() >= self.idle


class Source:
    """A port's producer, which offers steps as values and as the port's bits.

    Parameters
    ----------
    streams : list of list of list of int
        (stream, T, lanes) bit patterns; a step's scale, if any, follows its values.
    width, lanes : int
        Bits of a value and values of a step.
    """

    def __init__(self, streams: list[list[list[int]]], width: int, lanes: int) -> None:
        self._values = Producer(streams)
        self._packed = Producer([[[packed(step[:lanes], width)] for step in stream] for stream in streams])
        self._step_bits = width * lanes

    @property
    def done(self) -> bool:
        """Whether the tile has accepted all steps."""
        return self._values.done

    def offer(self, most: int) -> tuple[Offer, int]:
        """Return up to `most` steps as values and as the port's bits, the oldest step lowest."""
        bits = packed([step[0] for step in self._packed.offer(most).steps], self._step_bits)
        return self._values.offer(most), bits

    def take(self, count: int) -> None:
        """Remove the `count` oldest steps."""
        self._values.take(count)
        self._packed.take(count)


class BlockSource:
    """A producer of C; an offered beat stays until it is accepted.

    Parameters
    ----------
    blocks : sequence of sequence of sequence of int
        (stream, rows, columns) bit patterns.
    out_rows : int
        Rows of a beat.

    Attributes
    ----------
    beats : list of Beat
        Beats not accepted yet, the next one first.

    Examples
    --------
    >>> source = BlockSource([[[1, 2], [3, 4]]], out_rows=1)
    >>> source.offer(False), source.offer(True), source.offer(False)
    (None, Beat(values=((1, 2),), last=False), Beat(values=((1, 2),), last=False))
    >>> source.take()
    >>> source.offer(True)
    Beat(values=((3, 4),), last=True)
    """

    def __init__(self, blocks: Sequence[Sequence[Sequence[int]]], out_rows: int) -> None:
        self.beats = [
            Beat(tuple(map(tuple, block[row : row + out_rows])), row + out_rows == len(block))
            for block in blocks
            for row in range(0, len(block), out_rows)
        ]
        self._offered = False

    @property
    def done(self) -> bool:
        """Whether the tile has accepted all beats."""
        return not self.beats

    def offer(self, ready: bool) -> Beat | None:
        """Return the next beat if it is already offered or the producer is `ready`, else None."""
        self._offered = bool(self.beats) and (self._offered or ready)
        return self.beats[0] if self._offered else None

    def take(self) -> None:
        """Remove the offered beat."""
        self.beats.pop(0)
        self._offered = False


def packed_beat(beat: Beat) -> int:
    """Pack a beat into a port's payload: the values, the first one lowest, and `last` above them."""
    values = [value for row in beat.values for value in row]
    return packed([*values, int(beat.last)], 32)


def on_lines(bits: int, step_bits: int, depth: int, first: int) -> int:
    """Rotate steps from number `first`, the oldest lowest, to a ring's port: step t is on line t modulo `depth`.

    >>> hex(on_lines(0x3210, 4, 4, first=6))
    '0x1032'
    """
    shift = first % depth * step_bits
    return (bits << shift | bits >> (depth * step_bits - shift)) & ((1 << (depth * step_bits)) - 1)


def packed(fields: Sequence[int], width: int) -> int:
    """Pack fields of `width` bits into one number, the first one lowest.

    >>> hex(packed([1, 2, 3], 8))
    '0x30201'
    """
    number = 0
    for i, field in enumerate(fields):
        number |= field << (i * width)
    return number
