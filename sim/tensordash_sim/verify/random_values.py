"""Random values of every format, and random scales."""

from random import Random

from tensordash.configuration.formats import FloatFormat, Format, IntegerFormat, ScaleFormat

__all__ = [
    "EXPONENTS",
    "Exponents",
    "largest",
    "largest_scale",
    "random_scale",
    "random_value",
    "scale_of_one",
    "signed_value",
    "special_values",
    "zeros",
]

Exponents = tuple[int, int] | None
# Exponent ranges of a stream's operands and of its C, relative to the exponent of 1; None is any exponent. A format
# clips a range to its own. The terms of a sum overlap less and less in the first three rows. The next rows are at
# FP32's lower end and at its upper end.
EXPONENTS: tuple[tuple[Exponents, Exponents], ...] = (
    ((-2, 2), (-4, 4)),
    ((-12, 12), (-24, 24)),
    ((-40, 40), (-80, 80)),
    ((-70, -56), (-140, -110)),
    ((56, 70), (110, 127)),
    (None, None),
)


def random_value(random: Random, fmt: Format, specials: float = 0.0, exponents: Exponents = None) -> int:
    """Return bits of a nonzero value; extreme integers are frequent.

    Parameters
    ----------
    random : Random
        Source of all random decisions.
    fmt : Format
        The format.
    specials : float
        Share of infinities and NaN, if the format has them.
    exponents : (int, int), optional
        Least and largest exponent of finite values, relative to the exponent of 1. With None, exponents span the
        format; subnormals and the limits are frequent.
    """
    if isinstance(fmt, IntegerFormat):
        least = 1 << (fmt.width - 1)
        if random.random() < 0.3:
            return random.choice((least, least + 1, least - 1, 1, 2 * least - 1))
        return random.randrange(1, 2 * least)
    sign = random.getrandbits(1) << (fmt.width - 1)
    fraction = random.getrandbits(fmt.fraction_bits)
    if random.random() < specials and fmt.nan:
        return sign | fmt.largest + 1 + (random.choice((0, fraction)) if fmt.infinities else 0)
    top = fmt.exponent_range  # also the largest exponent field of a finite value
    kind = random.random()
    if exponents is not None:
        exponent = random.randint(*(min(max(fmt.bias + end, 0), top) for end in exponents))
    elif kind < 0.1:
        exponent = 0
    elif kind < 0.2:
        exponent, fraction = random.choice((1, top)), random.choice((0, (1 << fmt.fraction_bits) - 1))
    elif kind < 0.6:
        exponent = fmt.bias + random.randint(-2, 2)
    else:
        exponent = random.randint(1, top)
    return sign | min(max(exponent << fmt.fraction_bits | fraction, 1), fmt.largest)


def signed_value(random: Random, fmt: Format, sign: int, exponents: Exponents = None) -> int:
    """Return bits of a finite value with a sign bit (1 is negative), drawn by `random_value`."""
    while True:
        bits = random_value(random, fmt, exponents=exponents)
        if bits >> (fmt.width - 1) == sign:
            return bits


def zeros(fmt: Format) -> tuple[int, ...]:
    """Return bits of the zeros that a format has."""
    return (0, 1 << (fmt.width - 1)) if isinstance(fmt, FloatFormat) else (0,)


def largest(fmt: Format) -> int:
    """Return bits of the finite value with the largest square; for integers, the most negative one."""
    return fmt.largest if isinstance(fmt, FloatFormat) else 1 << (fmt.width - 1)


def special_values(fmt: Format) -> tuple[int, ...]:
    """Return bits of a positive infinity and a positive NaN, as far as the format has them."""
    if isinstance(fmt, IntegerFormat) or not fmt.nan:
        return ()
    first = fmt.largest + 1
    return (first, first | 1 << (fmt.fraction_bits - 1)) if fmt.infinities else (first,)


def random_scale(random: Random, scale: ScaleFormat, specials: float = 0.0, around: int | None = None) -> int:
    """Return bits of a scale.

    Parameters
    ----------
    random : Random
        Source of all random decisions.
    scale : ScaleFormat
        The scale's format.
    specials : float
        Share of NaN.
    around : int, optional
        For power-of-two scales, bits that most scales are near, so that products overlap. With None, scales span the
        format, and the limits are frequent.
    """
    if scale.number is not None:
        if random.random() < specials:
            return scale.nan | random.getrandbits(1) << 7
        chosen = random.random()
        if chosen < 0.1:
            return random.choice(zeros(scale.number))
        return random_value(random, scale.number, exponents=(-2, 2) if chosen < 0.5 else None)
    if random.random() < specials:
        return scale.nan
    top = scale.nan - 1
    if around is not None and random.random() < 0.9:
        return min(max(around + random.randint(-12, 12), 0), top)
    return random.choice((0, 1, top - 1, top, random.randint(0, top)))


def scale_of_one(scale: ScaleFormat) -> int:
    """Return bits of the scale 1.

    >>> from tensordash.configuration.formats import SCALES
    >>> [hex(scale_of_one(scale)) for scale in SCALES.values()]
    ['0x7f', '0x38']
    """
    return scale.bias if scale.number is None else scale.number.bias << scale.number.fraction_bits


def largest_scale(scale: ScaleFormat) -> int:
    """Return bits of the largest scale."""
    return scale.nan - 1
