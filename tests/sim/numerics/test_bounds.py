"""Test that errors stay within the bounds of docs/numerics.md, and nearly reach them."""

from fractions import Fraction
from random import Random

import pytest

from tensordash import TileConfig
from tensordash.configuration.numerics import Fused
from tensordash_sim.golden import FP32, make_accumulator
from tensordash_sim.golden.exact import value_of

from .format_values import table

CASES = [
    ("fp16", "volta"),
    ("fp16", "hopper"),
    ("bf16", "ampere"),
    ("fp16", {"fused": 10, "rounding": "zero"}),
    ("fp16", {"fused": 23, "rounding": "nearest"}),
    ("fp8_e5m2", {"fused": 12, "rounding": "nearest"}),
    ("fp8_e4m3", "hopper-fp8"),
    ("bf16", "blackwell-fp8"),
    ("fp16", {"fused": 12, "rounding": "nearest", "addend": "after"}),
]


def value(bits: int, fmt) -> Fraction:
    """Draw a finite value."""
    found = value_of(bits, fmt)
    assert isinstance(found, Fraction)
    return found


def exponent(number: Fraction) -> int:
    """Return the exponent of the greatest power of two that is not above a magnitude."""
    power = abs(number.numerator).bit_length() - number.denominator.bit_length()
    return power if abs(number) >= Fraction(2) ** power else power - 1


def spacing(number: Fraction, fraction_bits: int = 23) -> Fraction:
    """Return the distance of neighbouring numbers at a magnitude, with FP32's exponents; zero at zero."""
    return Fraction(2) ** (max(exponent(number), -126) - fraction_bits) if number else Fraction(0)


def operand(random: Random, fmt, least: bool = False) -> int:
    """Draw an operand near 1, so that alignment usually cuts bits off, or one of the `least` magnitudes."""
    field = random.randint(0, 4) if least else fmt.bias + random.randint(-4, 4)
    return random.getrandbits(1) << (fmt.width - 1) | field << fmt.fraction_bits | random.getrandbits(fmt.fraction_bits)


@pytest.mark.parametrize(("fmt", "accumulator"), CASES)
def test_error_of_one_cycle_is_bounded(fmt, accumulator):
    config = TileConfig(format=fmt, accumulator=accumulator)
    fused = config.numerics.accumulator
    assert isinstance(fused, Fused)
    random = Random(f"{fmt} {accumulator}")
    golden = make_accumulator(config)
    names = table(fmt)
    nearest_to_bound = Fraction(0)
    for case in range(3000):
        start = Fraction(0) if case % 20 == 0 else value(golden.result_bits(), FP32)
        least = [case // 20 % 4 in sides for sides in ((1, 2), (2, 3))]  # Both sides, one or neither are near 1.
        pairs = [
            (operand(random, config.a_format, least[0]), operand(random, config.b_format, least[1])) for _ in range(4)
        ]
        golden.accumulate(pairs, first=case % 20 == 0)
        terms = [value(a, config.a_format) * value(b, config.b_format) for a, b in pairs]
        exact, found = start + sum(terms), value(golden.result_bits(), FP32)
        exponents = [names.exponents[a] + names.exponents[b] for (a, b), term in zip(pairs, terms, strict=True) if term]
        share = Fraction(1 if fused.rounding == "zero" else 2)
        if fused.addend == "inside":
            largest = max(-126, *exponents, *([exponent(start)] if start else []))
            rounding, count = spacing(exact, fused.result_bits) / share, len(pairs) + 1
        else:
            largest, count = max(-126, *exponents), len(pairs)
            rounding = spacing(sum(terms, Fraction(0))) / share + spacing(exact) / 2
        bound = count * Fraction(2) ** (largest - fused.fraction_bits) + rounding
        assert abs(found - exact) < bound
        nearest_to_bound = max(nearest_to_bound, abs(found - exact) / bound)
    assert nearest_to_bound > Fraction(1, 4)


@pytest.mark.parametrize("accumulator", ["volta", "hopper"])
def test_long_sums_are_biased_toward_zero(accumulator):
    """With rounding toward zero, a long sum of one sign is too small, by an error that grows with its length."""
    config = TileConfig(accumulator=accumulator)
    random = Random(7)
    golden = make_accumulator(config)
    exact, relative = Fraction(0), []
    for cycle in range(1024):
        pairs = [tuple(operand(random, config.a_format) & 0x7FFF for _ in range(2)) for _ in range(4)]
        golden.accumulate(pairs, first=cycle == 0)
        exact += sum(value(a, config.a_format) * value(b, config.b_format) for a, b in pairs)
        relative.append((exact - value(golden.result_bits(), FP32)) / exact)
    assert all(error >= 0 for error in relative)
    assert relative[1023] > 4 * relative[15] > 0
