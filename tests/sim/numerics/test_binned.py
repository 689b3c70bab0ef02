"""Compare binned sums in any order with their definition in rational arithmetic, and test their errors."""

from collections import Counter
from collections.abc import Iterator
from random import Random

import ml_dtypes
import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS, FP32, FloatFormat
from tensordash.configuration.numerics import Binned
from tensordash_sim.golden import make_accumulator
from tensordash_sim.verify.random_values import EXPONENTS, largest, random_scale, random_value, special_values

from .reference_dots import Pairs, binned_dot

LANES = 4
CASES = {
    "bf16": (("bf16", "bf16"), Binned(3)),
    "bf16, 4 bins of 8": (("bf16", "bf16"), Binned(4, 8)),
    "tf32": (("tf32", "tf32"), Binned(4)),
    "tf32, 3 bins of 13": (("tf32", "tf32"), Binned(3, 13)),
    "fp16": (("fp16", "fp16"), Binned(3)),
    "fp8": (("fp8_e4m3", "fp8_e5m2"), Binned(3, 9)),
    "fp6": (("fp6_e2m3", "fp6_e3m2"), Binned(3, 8)),
    "fp4": (("fp4_e2m1", "fp4_e2m1"), Binned(3, 32)),
    "mixed": (("bf16", "fp8_e5m2"), Binned(4, 11)),
    "MXFP8": (("fp8_e4m3", "fp8_e5m2", "e8m0"), Binned(3)),
    "MXFP4": (("fp4_e2m1", "fp4_e2m1", "e8m0"), Binned(4, 8)),
}


def config_of(names: tuple[str, ...], accumulator: Binned, **more) -> TileConfig:
    """Return the tile of two formats, and of scales if there are three names."""
    scale = names[2] if len(names) > 2 else "none"
    return TileConfig(format={"a": names[0], "b": names[1]}, accumulator=accumulator.table(), scale=scale, **more)


def golden(config: TileConfig, steps: list[Pairs], c: int | None) -> int:
    """Return the golden model's result."""
    accumulator = make_accumulator(config)
    for index, pairs in enumerate(steps):
        assert not accumulator.accumulate(pairs, first=index == 0, c=c or 0)
    return accumulator.result_bits()


def in_steps(random: Random, pairs: list[tuple[int, ...]]) -> list[Pairs]:
    """Shuffle pairs into cycles of up to `LANES`, some of them empty."""
    shuffled = random.sample(pairs, len(pairs))
    steps: list[Pairs] = []
    while shuffled or not steps:
        count = random.randint(0, LANES)
        steps.append(shuffled[:count])
        shuffled = shuffled[count:]
    return steps


def random_pairs(random: Random, config: TileConfig, kind: str, exponents) -> list[tuple[int, ...]]:
    """Draw the pairs of a sum."""
    formats, scale = (config.a_format, config.b_format), config.numerics.scale

    def scales() -> tuple[int, ...]:
        if scale is None:
            return ()
        return tuple(random_scale(random, scale, 0.02 if kind == "special" else 0, around=127) for _ in "ab")

    def pair() -> tuple[int, ...]:
        operands = [
            random_value(random, fmt, 0.03 if kind == "special" else 0, exponents) if random.random() < 0.9 else 0
            for fmt in formats
        ]
        return (*operands, *scales())

    pairs = [pair() for _ in range(random.randrange(1, 40))]
    if kind == "cancellation":  # Terms far above the rest cancel, down to the last place.
        high = [largest(fmt) if random.random() < 0.3 else random_value(random, fmt) for fmt in formats]
        above = scales()
        minus = 1 << (formats[0].width - 1)
        pairs += [(*high, *above), (high[0] ^ minus, *high[1:], *above)]
        pairs += [(a ^ minus, b, *more) for a, b, *more in pairs[: random.randrange(len(pairs) + 1)]]
    if kind == "ends":
        pairs += [(largest(formats[0]), largest(formats[1]), *(254,) * (2 * (scale is not None)))] * 3
        pairs += [(1, 1, *(0,) * (2 * (scale is not None)))] * 3
    return pairs


def sums(name: str, count: int) -> Iterator[tuple[TileConfig, Random, list[tuple[int, ...]], int | None]]:
    """Draw a tile, pairs, and C if the tile has a C input, for each sum."""
    names, accumulator = CASES[name]
    random = Random(f"binned {name}")
    for index in range(count):
        kind = ("random", "cancellation", "ends", "special")[index % 4]
        config = config_of(names, accumulator, initial=bool(index // 4 % 2))
        exponents, c_exponents = random.choice(EXPONENTS)
        c = random.choice((0, 1 << 31, random_value(random, FP32, 0.02, c_exponents))) if config.initial else None
        yield config, random, random_pairs(random, config, kind, exponents), c


@pytest.mark.parametrize("name", CASES)
def test_results_match_the_definition_in_any_order(name):
    """In ten orders, the result equals the definition's."""
    names, accumulator = CASES[name]
    seen = Counter()
    for config, random, pairs, c in sums(name, 160):
        expected = binned_dot(names, [pairs], c, accumulator, seen)
        for _ in range(10):
            found = golden(config, in_steps(random, pairs), c)
            assert found == expected, (config.initial, pairs, c, hex(found), hex(expected))
    a, b = (FORMATS[name] for name in names[:2])
    required = ["rounded", "truncated", "cancellation", *(["nan"] if special_values(a) and special_values(b) else [])]
    if name in ("fp6", "fp4"):  # Every product is a multiple of every quantum.
        required.remove("truncated")
    assert all(seen[each] for each in required), seen


def test_all_formats_are_tested():
    named = {name for names, _ in CASES.values() for name in names[:2]}
    assert named == {name for name, fmt in FORMATS.items() if isinstance(fmt, FloatFormat)}


def test_results_of_every_kind():
    """Cases include subnormal results, overflow and ties if formats have FP32's exponents."""
    names, accumulator = CASES["bf16"]
    seen = Counter()
    for _, _, pairs, c in sums("bf16", 800):
        binned_dot(names, [pairs], c, accumulator, seen)
    assert seen["subnormal result"]
    assert seen["overflow"]
    one, half_a_place, more = (0x3F80, 0x3F80), (0x3380, 0x3F80), (0x2000, 0x3F80)
    config = config_of(names, accumulator)
    assert golden(config, [[one, half_a_place]], None) == 0x3F800000
    assert golden(config, [[one, half_a_place, half_a_place, half_a_place]], None) == 0x3F800002
    assert golden(config, [[half_a_place, more, one]], None) == 0x3F800000  # 2**-63 is below the quantum.


@pytest.mark.parametrize("headroom_bits", [0, 1, 3])
def test_wrapping(headroom_bits):
    """A bin wraps modulo its width. The flag shows the wrap, and the order does not change the result."""
    names, accumulator = CASES["bf16"]
    config, random = config_of(names, accumulator, headroom_bits=headroom_bits), Random("wrapping")
    flagged = 0
    for _ in range(60):
        pairs = random_pairs(random, config, "random", (-4, 4)) * 4
        pairs = [(a & 0x7FFF, b & 0x7FFF) for a, b in pairs]  # Products have one sign.
        results, flags = set(), set()
        for _ in range(10):
            total = make_accumulator(config)
            steps = in_steps(random, pairs)
            wrapped = [total.accumulate(step, first=not index) for index, step in enumerate(steps)]
            flags.add(any(wrapped))
            results.add((total.block_bits(), total.result_bits()))
        assert len(results) == 1
        flagged += True in flags
    assert flagged > 10


def test_overflow_flag_at_the_limits():
    """Sums at a register's limits do not set the flag; the next sums beyond do."""
    config = config_of(*CASES["bf16"], headroom_bits=2)
    accumulator = make_accumulator(config)
    one, minus_one = (0x3F80, 0x3F80), (0xBF80, 0x3F80)
    accumulator.accumulate([one], first=True)
    ((number, digit),) = accumulator.sums.items()
    for pair, added, end in ((one, digit, (1 << 18) - 1), (minus_one, -digit, -(1 << 18))):
        for start, flag in ((end - added, False), (end - added + (1 if added > 0 else -1), True)):
            accumulator.accumulate([], first=True)
            accumulator.top, accumulator.sums = number, {number: start}
            assert accumulator.accumulate([pair], first=False) == flag


def test_small_terms_are_lost_below_a_cancelling_pair():
    """Terms below the quantum of a large cancelling pair are lost; more places keep them."""
    names, accumulator = CASES["bf16"]
    pair = [(0x4980, 0x4280), (0xC980, 0x4280)]  # 2**26 of either sign
    small = [(0x2B80, 0x3F80)]  # 2**-40
    assert golden(config_of(names, accumulator), [small, pair], None) == 0
    assert golden(config_of(names, accumulator), [small], None) == 0x2B800000
    assert golden(config_of(names, Binned(4, 32)), [small, pair], None) == 0x2B800000


COUNT = 4096
DISTRIBUTIONS = ("normal", "lognormal", "cauchy")


def draw_numbers(name: str, rng: np.random.Generator) -> np.ndarray:
    """Draw bf16 numbers of a distribution."""
    if name == "normal":
        numbers = rng.normal(size=COUNT)
    elif name == "lognormal":
        numbers = rng.lognormal(0, 3, COUNT) * rng.choice((-1.0, 1.0), COUNT)
    else:
        numbers = rng.standard_cauchy(COUNT)
    return numbers.astype(ml_dtypes.bfloat16)


def errors(name: str, count: int = 24) -> tuple[float, float]:
    """Return RMS errors of 3 bins of 16 bits and of sequential FP32, in units of the exact sum's last place."""
    rng, config, found = np.random.default_rng(41), config_of(*CASES["bf16"]), []
    for _ in range(count):
        a, b = draw_numbers(name, rng), draw_numbers(name, rng)
        accumulator = make_accumulator(config)
        accumulator.accumulate(
            list(zip(a.view(np.uint16).tolist(), b.view(np.uint16).tolist(), strict=True)), first=True
        )
        binned = np.array([accumulator.result_bits()], np.uint32).view(np.float32)[0]
        products = a.astype(np.float64) * b.astype(np.float64)  # Float64 holds them exactly.
        sequential = np.add.accumulate(products.astype(np.float32))[-1]
        exact = sum(int(np.ldexp(each, 160)) for each in products)
        place = float(np.spacing(np.abs(np.float32(exact / 2**160))))
        found.append([(int(np.ldexp(float(each), 160)) - exact) / 2**160 / place for each in (binned, sequential)])
    binned_rms, sequential_rms = np.sqrt(np.mean(np.square(found), axis=0))
    return float(binned_rms), float(sequential_rms)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_errors(name):
    """Binned sums are nearly as accurate as one correct rounding. Sequential FP32 is many times worse."""
    binned, sequential = errors(name)
    assert binned < 0.6
    assert sequential > 5 * binned


if __name__ == "__main__":
    print("distribution  binned 3 x 16  FP32 in sequence   (RMS errors, last places of FP32)")
    for each in DISTRIBUTIONS:
        print("{:12}  {:13.2f}  {:16.1f}".format(each, *errors(each)))
