"""Random tensors for the benches of inflate and deflate."""

from collections.abc import Iterable
from random import Random

from tensordash.configuration.core_config import CoreConfig

__all__ = ["min_cycles", "random_tensor"]


def random_tensor(random: Random, config: CoreConfig) -> tuple[list[list[int]], bool, list[int]]:
    """Draw groups, (count, lanes**2), with a random share of zeros; also return whether they are plain, and units."""
    width, size = config.value_bits, config.tile.lanes**2
    count = random.choice([1, 2, random.randint(3, 40)])
    share = random.choice([0.0, 0.1, 0.5, 0.9, 1.0])
    plain = random.random() < 0.2
    groups = [[random.getrandbits(width) if random.random() < share else 0 for _ in range(size)] for _ in range(count)]
    needs = [size if plain else size // width + sum(value != 0 for value in group) for group in groups]
    return groups, plain, needs


def min_cycles(needs: Iterable[int], place: int, per_beat: int) -> int:
    """Return the cycles of groups if no beat is late and the first item is `place` items after a beat's start."""
    cycles = 0
    for need in needs:
        cycles += max(1, (place + need) // per_beat - place // per_beat)
        place += need
    return cycles
