"""Random operands and arrival patterns for the benches."""

from collections.abc import Sequence
from random import Random

from tensordash.formats import FloatFormat

from ..golden.ports import Offer
from ..golden.producer import Producer

__all__ = ["Arrival", "Source", "random_streams", "random_value"]

DENSITIES = (0.0, 0.1, 0.3, 0.5, 0.9, 1.0)


def random_value(random: Random, fmt: FloatFormat, specials: float = 0.0) -> int:
    """Bits of a value other than zero: any finite one, subnormals often, `specials` of them infinite or NaN."""
    fraction = random.getrandbits(fmt.fraction_bits)
    sign = random.getrandbits(1) << (fmt.width - 1)
    infinite = (1 << fmt.exponent_bits) - 1
    if random.random() < specials:
        return sign | infinite << fmt.fraction_bits | random.choice((0, fraction))
    kind = random.random()
    if kind < 0.1:
        exponent, fraction = 0, fraction or 1
    elif kind < 0.2:
        exponent, fraction = random.choice((1, infinite - 1)), random.choice((0, (1 << fmt.fraction_bits) - 1))
    elif kind < 0.6:
        exponent = fmt.bias + random.randint(-2, 2)
    else:
        exponent = random.randrange(1, infinite)
    return sign | exponent << fmt.fraction_bits | fraction


def random_streams(
    random: Random, fmt: FloatFormat, lanes: int, lengths: list[int], *, specials: float = 0.0
) -> list[list[list[int]]]:
    """One port's streams, (stream, T, lanes): each with a density of its own; zeros of both signs."""
    minus_zero = 1 << (fmt.width - 1)
    streams = []
    for length in lengths:
        density = random.choice(DENSITIES)
        streams.append(
            [
                [
                    random_value(random, fmt, specials)
                    if random.random() < density
                    else (minus_zero if random.random() < 0.1 else 0)
                    for _ in range(lanes)
                ]
                for _ in range(length)
            ]
        )
    return streams


def random_lengths(random: Random, count: int, depth: int) -> list[int]:
    """Lengths of streams: mostly around the window's depth, where boundaries meet, now and then long."""
    return [
        random.choice((1, 1, 2, 3, depth, depth + 1, 2 * depth, random.randint(1, 24), random.randint(20, 120)))
        for _ in range(count)
    ]


class Arrival:
    """How eagerly a port's producer offers: `idle` is the probability to hold something back in a cycle."""

    def __init__(self, random: Random, idle: float) -> None:
        self.random, self.idle = random, idle

    def most(self, depth: int) -> int:
        """Steps to offer in this cycle, at most."""
        return self.random.randint(0, depth) if self.random.random() < self.idle else depth


class Source:
    """A port's producer, which also knows its offers as the bits of the port.

    Parameters
    ----------
    streams : list of list of list of int
        (stream, T, lanes) bit patterns.
    width, lanes : int
        Bits of a value and values of a step.
    """

    def __init__(self, streams: list[list[list[int]]], width: int, lanes: int) -> None:
        self._values = Producer(streams)
        self._packed = Producer([[[_packed(step, width)] for step in stream] for stream in streams])
        self._step_bits = width * lanes

    @property
    def done(self) -> bool:
        """Whether all steps were taken."""
        return self._values.done

    def offer(self, most: int) -> tuple[Offer, int]:
        """Up to `most` steps, as values and as the bits of the port, the oldest lowest."""
        bits = _packed([step[0] for step in self._packed.offer(most).steps], self._step_bits)
        return self._values.offer(most), bits

    def take(self, count: int) -> None:
        """Go on behind `count` steps."""
        self._values.take(count)
        self._packed.take(count)


def _packed(fields: Sequence[int], width: int) -> int:
    number = 0
    for i, field in enumerate(fields):
        number |= field << (i * width)
    return number
