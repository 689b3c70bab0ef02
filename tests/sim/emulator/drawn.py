"""Draw tiles, and operands with all kinds of values of a format."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.formats import FloatFormat, Format
from tensordash.configuration.numerics import ROUNDINGS, WIDE_FORMATS, Fused

EXACT_FLOATS = ("fp16", "fp8_e4m3", "fp8_e5m2", "fp6_e2m3", "fp6_e3m2", "fp4_e2m1")


def random_config(rng: np.random.Generator) -> TileConfig:
    """Draw a small tile of any numerics. Most have a fused accumulator, whose results depend on the schedule."""
    lanes, depth = int(rng.choice([2, 3, 4, 4, 8, 16])), int(rng.integers(2, 5))
    places = [(step, offset) for step in range(1, depth) for offset in range(lanes)]
    chosen = rng.permutation(len(places))[: rng.integers(0, 8)]
    accumulator: str | Fused = "exact"
    names = [str(name) for name in rng.choice(EXACT_FLOATS, 2)] if rng.random() < 0.8 else ["int8", "int8"]
    if rng.random() < 0.7:
        fraction_bits = (8, 23, 24, 25, 64, int(rng.integers(8, 65)))[rng.integers(6)]
        names = [str(name) for name in rng.choice([*EXACT_FLOATS, *WIDE_FORMATS], 2)]
        options = random_options(rng, narrow=not set(names) & set(WIDE_FORMATS))
        accumulator = Fused(fraction_bits, ROUNDINGS[rng.integers(2)], **options)
    return TileConfig(
        rows=int(rng.integers(1, 4)),
        columns=int(rng.integers(1, 3)),
        lanes=lanes,
        depth=depth,
        connectivity=((0, 0), *(places[index] for index in chosen)),
        sparsity=str(rng.choice(["none", "rows", "rows", "both"])),
        format={"a": names[0], "b": names[1]},
        accumulator=accumulator,
        headroom_bits=(0, 1, 16)[rng.integers(3)],
        full_window=bool(rng.integers(2)),
    )


def random_options(rng: np.random.Generator, *, narrow: bool) -> dict[str, Any]:
    """Draw more options of a fused accumulator, or none in half of the cases. `narrow` allows FP16 results."""
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options = {"addend": "after"} if rng.random() < 0.4 else {"result_bits": int(rng.integers(7, 24))}
        if "result_bits" in options and narrow and rng.random() < 0.4:
            options = {"result_bits": 10, "result_exponent_bits": 5}
        if "result_bits" in options and rng.random() < 0.3:
            options["addend"] = "last"
    if rng.random() < 0.2:
        options["zero_exponent"] = (-132, -133, -149, int(rng.integers(-149, -125)))[rng.integers(4)]
    return options


def random_bits(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> NDArray:
    """Draw bit patterns: any, near 1, subnormals, large values, infinities, NaN and zeros."""
    pattern = np.uint8 if fmt.width <= 8 else np.uint16 if fmt.width == 16 else np.uint32
    top = 1 << (fmt.width - 1)
    drawn = rng.integers(0, 2 * top, shape)
    if isinstance(fmt, FloatFormat):
        one = fmt.bias << fmt.fraction_bits
        near = rng.integers(max(1, one - (3 << fmt.fraction_bits)), one + (3 << fmt.fraction_bits), shape)
        small = rng.integers(1, 2 << fmt.fraction_bits, shape)
        large = fmt.largest - rng.integers(0, 1 << (fmt.fraction_bits - 1), shape)
        chances = rng.dirichlet([0.5, 1.0, 0.2, 0.3])
        magnitude = np.choose(
            rng.choice(4, shape, p=chances), [np.minimum(drawn % top, fmt.largest), near, small, large]
        )
        special = fmt.largest + 1 + rng.integers(0, 2, shape)
        share = rng.choice([0, 0, 0.02, 0.1])
        magnitude = np.where(rng.random(shape) < share, np.minimum(special, top - 1), magnitude)
        sign = rng.random(shape) < rng.choice([0, 0.5, 1])
        drawn = magnitude + top * sign
    zero = rng.integers(0, 2, shape) * top if isinstance(fmt, FloatFormat) else 0
    return np.where(rng.random(shape) < rng.choice([0, 0.3, 0.7]), zero, drawn).astype(pattern)
