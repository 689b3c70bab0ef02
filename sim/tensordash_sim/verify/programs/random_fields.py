"""Random fields of the descriptors of a random program."""

from collections.abc import Mapping
from random import Random
from typing import Any

from tensordash.configuration.core_config import CoreConfig

from ...compiler.program import Loop

__all__ = ["MAX_GAP_GROUPS", "block_loops", "draw_flags", "draw_moves", "draw_places", "result_fields", "split_loop"]

MAX_GAP_GROUPS = 32
"""Maximum groups of a move with gaps between its runs, and of a move next to the product, so that they fit memory."""


def draw_places(random: Random, room: int, region: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Draw the first group of each tensor in the buffer; tensors do not overlap.

    In half of the draws, most tensors have their own region, so that units never conflict. The others pack tensors.
    """
    free = room - sum(sizes.values())
    if free < 0 or random.random() < 0.5:
        half = region // 2
        places = {"b": 0, "a": region, "aside": region + half, "result": 2 * region}
        return places | {"bias": 3 * region, "mask": 3 * region + half}
    places, begin = {}, random.randint(0, free)
    for name in random.sample(sorted(sizes), len(sizes)):
        places[name] = begin
        begin += sizes[name]
    return places


def draw_flags(random: Random, config: CoreConfig) -> dict[str, int]:
    """Draw the flags of the output unit."""
    flags = {
        name: int(random.random() < 0.4 and getattr(config, name, True))
        for name in ("transposed", "fp32", "bias", "relu", "mask", "stochastic")
    }
    flags["stride"] = random.choice([1, 1, 1, 2, 3, 4])
    flags["toward_zero"] = int(random.random() < 0.2)
    flags["scale"] = random.randint(-3, 3) if config.scale and random.random() < 0.4 else 0
    if config.scale and config.tile.numerics.result == "int32":  # Unscaled sums exceed the format.
        flags["scale"] = random.choice((0, random.randint(-3, 3), random.randint(-16, 0), random.randint(-34, -12)))
    flags["seed"] = random.getrandbits(32) if flags["stochastic"] else 0
    flags["skip_masked"] = int(config.skip_masked and random.random() < 0.7)
    if flags["skip_masked"]:
        flags |= {"stride": 1, "mask": int(random.random() < 0.6)}
    return flags


def draw_moves(random: Random, groups: int) -> tuple[dict[str, Any], list[int]]:
    """Draw the fields of a move with up to four loops, and the offset of each run in memory, in groups."""
    counts = _factors(random, groups, 4)
    offsets, span = [0], counts[0]
    fields: dict[str, Any] = {"count_0": span}
    for k, count in enumerate(counts[1:], 1):
        stride = span + (random.choice([0, 0, 1]) if groups <= MAX_GAP_GROUPS else 0)
        fields |= {f"count_{k}": count, f"stride_{k}": stride}
        offsets = [turn * stride + offset for turn in range(count) for offset in offsets]
        span += (count - 1) * stride
    return fields, offsets


def split_loop(random: Random, loop: Loop) -> list[Loop]:
    """Split a loop into three nested loops with the same effect."""
    loops, inside = [], 1
    for count in _factors(random, loop.count, 3):
        loops.append(Loop(count=count, address=inside * loop.address, x=inside * loop.x))
        inside *= count
    return loops


def _factors(random: Random, number: int, most: int) -> list[int]:
    """Draw `most` factors of `number`: the number and ones, random divisors, or the smallest divisors."""
    how, factors = random.choice(("alone", "any", "small")), []
    for _ in range(most - 1):
        divisors = [n for n in range(1, number + 1) if number % n == 0]
        factors.append({"alone": number, "any": random.choice(divisors), "small": divisors[:2][-1]}[how])
        number //= factors[-1]
    return [*factors, number]


def result_fields(flags: dict[str, int], places: dict[str, int], a_positions: int, b_positions: int) -> dict[str, int]:
    """Return the fields for the place and the format of results."""
    fields = {name: value for name, value in flags.items() if value}
    counted = (a_positions if flags["transposed"] else b_positions) * flags["stride"]
    fields |= {"address": places["result"], "x_size": counted}
    return fields | {"bias_address": places["bias"], "mask_address": places["mask"]}


def block_loops(
    config: CoreConfig, flags: dict[str, int], a_streams: int, b_streams: int, positions: int
) -> list[Loop]:
    """Return the loops over a multiply's groups: columns within rows of a block, streams of A within streams of B."""
    lanes = config.tile.lanes
    width = config.fp32_groups if flags["fp32"] else 1
    along = {"x": lanes * flags["stride"]}
    across = {"address": positions * width, "y": 1}
    a_step, b_step = (along, across) if flags["transposed"] else (across, along)
    parts_a, parts_b = config.parts("a"), config.parts("b")
    return [
        Loop(count=parts_a, **a_step),
        Loop(count=parts_b, **b_step),
        Loop(count=a_streams, **{name: parts_a * value for name, value in a_step.items()}),
        Loop(count=b_streams, **{name: parts_b * value for name, value in b_step.items()}),
    ]
