"""Draw a job's tile and number of steps from the campaign's seed and the job's number."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from tensordash import TileConfig
from tensordash.configuration.connectivity import PAPER_OPTIONS, Option
from tensordash.configuration.formats import FORMATS, SCALES, FloatFormat
from tensordash.configuration.numerics import ACCUMULATORS, WIDE_FORMATS

__all__ = ["REDRAW_OFFSET", "SoakJob", "draw_job", "jobs_for"]

SIDES = (1, 1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16)
LANES = (2, 3, 4, 4, 5, 6, 8, 8, 12, 16, 16, 32)
MAX_PES = 64  # Larger tiles take long to build.
MAX_MULTIPLIERS = 1024
LARGE_EVERY = 64
"""Average number of jobs per job with a large tile, up to the limits of a configuration, and few steps."""
LARGE_ROWS = (8, 12, 15, 16, 16)
LARGE_COLUMNS = (8, 12, 15, 16, 32)
LARGE_LANES = (2, 4, 8, 16, 31, 32)
MAX_LARGE_POSITIONS = 400_000
FLOATS = ("fp16", "bf16", "tf32", "fp8_e4m3", "fp8_e5m2", "fp6_e2m3", "fp6_e3m2", "fp4_e2m1")
NARROW = tuple(name for name in FLOATS if FORMATS[name].width <= 8)  # element formats of MX
OTHERS = ("int8", "sides", *SCALES)
BINNED_SHARE = 0.2
"""Share of binned accumulators among tiles whose formats allow them."""
MIN_STEPS = 400
MAX_STEPS = 12_000
"""Limits of a job's steps, which determine the simulator's time."""
MAX_POSITIONS = 4_000_000
"""Maximum multiply positions of a job, which determine golden's time."""
REDRAW_OFFSET = 1_000_000
"""Offset of redrawn jobs: job 1,000,007 has the tile of job 7, other streams, and the maximum number of steps."""


@dataclass(frozen=True, kw_only=True)
class SoakJob:
    """One job of a campaign: one tile, with streams of at least `steps` steps.

    Parameters
    ----------
    seed, index : int
        The campaign's seed and the job's number, which determine everything else.
    config : TileConfig
        The tile.
    steps : int
        Least number of dense steps to consume.
    """

    seed: int
    index: int
    config: TileConfig
    steps: int

    @property
    def name(self) -> str:
        """Name of the job for `tensordash soak --replay`."""
        return f"{self.seed}:{self.index}"

    @property
    def positions(self) -> int:
        """Least number of multiply positions: rows x columns x lanes x steps."""
        return self.steps * self.config.multipliers


def draw_job(seed: int, index: int) -> SoakJob:
    """Return a campaign's job by its number.

    >>> draw_job(3, 5) == draw_job(3, 5), draw_job(3, 5) == draw_job(3, 6)
    (True, False)
    >>> draw_job(3, 2 * REDRAW_OFFSET + 5).config == draw_job(3, 5).config
    True
    """
    redraw, first = divmod(index, REDRAW_OFFSET)
    random = Random(f"soak {seed} {first}")
    large = Random(f"soak large {seed} {first}").randrange(LARGE_EVERY) == 0
    config = _draw_large(random) if large else _draw_config(random)
    most = min(MAX_STEPS, (MAX_LARGE_POSITIONS if large else MAX_POSITIONS) // config.multipliers)
    steps = most if redraw else random.randint(min(MIN_STEPS, most), most)
    return SoakJob(seed=seed, index=index, config=config, steps=steps)


def jobs_for(seed: int, positions: int) -> Iterator[SoakJob]:
    """Yield jobs in order until their sum reaches `positions` multiply positions."""
    index = planned = 0
    while planned < positions:
        job = draw_job(seed, index)
        planned += job.positions
        index += 1
        yield job


def _draw_large(random: Random) -> TileConfig:
    """Return a tile with more PEs or multipliers than `_draw_config` allows."""
    while True:
        rows, columns, lanes = random.choice(LARGE_ROWS), random.choice(LARGE_COLUMNS), random.choice(LARGE_LANES)
        if rows * columns > MAX_PES or rows * columns * lanes > MAX_MULTIPLIERS:
            with suppress(ValueError):  # The tile's ports are too wide for a module.
                return _draw_rest(random, rows, columns, lanes)


def _draw_config(random: Random) -> TileConfig:
    """Return a valid tile with random parameters; large tiles are rarer."""
    rows, columns, lanes = random.choice(SIDES), random.choice(SIDES), random.choice(LANES)
    while rows * columns > MAX_PES or rows * columns * lanes > MAX_MULTIPLIERS:
        rows, columns, lanes = random.choice(SIDES), random.choice(SIDES), random.choice(LANES)
    return _draw_rest(random, rows, columns, lanes)


def _draw_rest(random: Random, rows: int, columns: int, lanes: int) -> TileConfig:
    depth = random.randint(2, 6)
    settings: dict[str, Any] = {"rows": rows, "columns": columns, "lanes": lanes, "depth": depth}
    style = random.choice(("paper", "any", "any", "invariant"))
    if style == "paper":
        settings |= {"lanes": 4, "depth": 4}
    elif style == "any":
        settings["connectivity"] = _any_options(random, lanes, depth)
    else:
        settings["connectivity"] = _invariant_options(random, lanes, depth)
        if "staging" in TileConfig.__dataclass_fields__:
            settings["staging"] = random.choice(("shift", "ring"))
    name = random.choice((*FLOATS, *OTHERS))
    if name in SCALES and SCALES[name].block % settings["lanes"]:
        name = "sides"  # The block size must be a multiple of a step.
    settings |= _draw_formats(random, name)
    narrow = name != "e8m0" and not any(wide in str(settings["format"]) for wide in WIDE_FORMATS)
    exact = name in ("int8", "e4m3") or (narrow and random.random() < 0.5)
    if not exact:
        other = {"fused": random.randint(8, 64), "rounding": random.choice(("zero", "nearest"))}
        results: list[dict[str, Any]] = [{"result_bits": random.randint(7, 23)}]
        results += [{"result_bits": 10, "result_exponent_bits": 5}] * narrow  # FP16
        result = random.choice(results)
        other |= random.choice(({}, {"addend": "last"}, {"addend": "after"}, result, result | {"addend": "last"}))
        least_normal = -14 if "result_exponent_bits" in other else -126
        other |= random.choice(({}, {}, {}, {"zero_exponent": random.randint(-149, least_normal)}))
        known = [name for name, one in ACCUMULATORS.items() if narrow or one.result_exponent_bits == 8]
        settings["accumulator"] = random.choice((*known, other, other))
    settings["sparsity"] = random.choice(("rows", "rows", "rows", "both", "none"))
    settings["initial"] = random.random() < 0.5
    settings["headroom_bits"] = random.choice((0, 0, 1, 3, random.randint(0, 16), 16))
    settings["out_rows"] = random.choice([divisor for divisor in range(1, rows + 1) if rows % divisor == 0])
    settings["pipeline"] = random.choice(("auto", 1, 2, 3))
    settings["full_window"] = random.choice(("auto", "auto", True, False))
    settings["registered_ready"] = random.random() < 0.4
    settings["counters"] = random.choice((True, True, "snapshot", "snapshot", False))
    if name not in ("int8", "e4m3") and random.random() < BINNED_SHARE:
        settings["accumulator"] = _draw_bins(random, settings)
    return TileConfig(**settings)


def _draw_bins(random: Random, settings: dict[str, Any]) -> dict[str, int]:
    """Return a binned accumulator whose bins fit the products of the drawn formats."""
    bins = random.choice((3, 3, 4))
    names = settings["format"]
    sides = names.values() if isinstance(names, dict) else [names] * 2
    formats = [fmt for each in sides if isinstance(fmt := FORMATS[each], FloatFormat)]
    least = max(8, -(-(sum(fmt.significand_bits for fmt in formats) - 1) // (bins - 1)))
    return {"bins": bins, "bin_bits": random.choice((least, 16, random.randint(least, 32)))}


def _draw_formats(random: Random, name: str) -> dict[str, Any]:
    """Return the formats of both sides, and a scale, for a name from `FLOATS` or `OTHERS`."""
    if name == "sides":
        return {"format": dict(zip("ab", random.sample(FLOATS, 2), strict=True))}
    if name == "e4m3":
        return {"format": "fp4_e2m1", "scale": name}
    if name == "e8m0":
        return {"format": dict(zip("ab", random.choices(NARROW, k=2), strict=True)), "scale": name}
    return {"format": name}


def _any_options(random: Random, lanes: int, depth: int) -> tuple[Option, ...]:
    """Return random options in random order."""
    places = [(step, offset) for step in range(1, depth) for offset in range(lanes)]
    chosen = random.sample(places, min(random.randint(1, 11), len(places)))
    signed = [(step, offset - lanes if offset and random.random() < 0.5 else offset) for step, offset in chosen]
    return ((0, 0), *signed)


def _invariant_options(random: Random, lanes: int, depth: int) -> tuple[Option, ...]:
    """Return rotation-invariant options, in time-major or random order: all steps from 1 on have the same offsets."""
    offsets = random.sample(range(lanes), random.randint(1, min(3, lanes)))
    rest = [(step, offset) for step in range(1, depth) for offset in offsets]
    if random.random() < 0.5:
        random.shuffle(rest)
    return ((0, 0), *rest)


def connectivity_style(config: TileConfig) -> str:
    """Return the class of a tile's options in the coverage.

    >>> [connectivity_style(TileConfig(depth=3, connectivity=((0, 0), *rest)))
    ...  for rest in ([(1, 0), (2, 0)], [(1, 0), (2, 1)])]
    ['rotation-invariant', 'any']
    """
    if config.sparsity == "none":
        return "dense"
    if config.options == PAPER_OPTIONS:
        return "paper"
    offsets = [
        {offset % config.lanes for at, offset in config.options if at == step} for step in range(1, config.depth)
    ]
    return "rotation-invariant" if all(each == offsets[0] for each in offsets) else "any"
