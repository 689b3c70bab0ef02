"""Search for the options of the presets `paper-depth5` and `recommended`.

The paper (Fig. 12) has a 5-deep tile with eight options, but does not print them. The search is a hill climb on random
zeros. It replaces an option, or swaps two in the priority order. It accepts the change if the mean speedup over 30, 50,
70 and 90% zeros with four rows increases.

With --ring, the bench tries connectivities that are equal in every rotation: in each step, the own lane and one
neighbour. The staging buffers can then be rings with eight sources per lane at four steps. Options of the own lane and
of the neighbour are each in the order of steps. The bench tries all 60 orders at four steps, and prints the best ten.

    python bench/connectivity_search.py [--depth 5] [--options 8] [--tries 200] [--seed 0]
    python bench/connectivity_search.py --ring --depth 4
"""

from collections.abc import Iterator
from itertools import combinations
from random import Random

import numpy as np

from common import argument_parser
from tensordash import Connectivity

LANES = 4
ROWS = 4
TILES = 48
CYCLES = 250
DENSITIES = (0.7, 0.5, 0.3, 0.1)

Options = list[tuple[int, int]]


def speedup(options: Options, depth: int, density: float, seed: int = 0) -> float:
    """Return the dense steps per cycle of tiles on endless random streams."""
    connectivity = Connectivity(options, lanes=LANES, depth=depth)
    random = np.random.default_rng(seed)
    window = random.random((TILES, ROWS, depth, LANES)) < density
    total = 0
    for _ in range(CYCLES):
        for level in connectivity.levels:
            for lane in level:
                idle = np.ones((TILES, ROWS), bool)
                for step, place in connectivity.positions(lane):
                    taken = idle & window[:, :, step, place]
                    window[:, :, step, place] &= ~taken
                    idle &= ~taken
        left = window.any(axis=(1, 3))
        drained = np.logical_and.accumulate(~left, axis=1)
        advance = drained.sum(axis=1)
        total += int(advance.sum())
        fresh = random.random((TILES, ROWS, depth, LANES)) < density
        both = np.concatenate([window, fresh], axis=2)
        places = advance[:, None] + np.arange(depth)
        window = np.take_along_axis(both, places[:, None, :, None], axis=2)
    return total / (TILES * CYCLES)


def score(options: Options, depth: int) -> float:
    """Return the mean speedup over the densities."""
    return float(np.mean([speedup(options, depth, density) for density in DENSITIES]))


def neighbour(options: Options, depth: int, random: Random) -> Options:
    """Return the options with two of them swapped in order, or one replaced."""
    changed = list(options)
    if random.random() < 0.3:
        i, j = random.sample(range(1, len(changed)), 2)
        changed[i], changed[j] = changed[j], changed[i]
        return changed
    free = [(s, o) for s in range(1, depth) for o in (-1, 0, 1, 2) if (s, o) not in changed]
    changed[random.randrange(1, len(changed))] = random.choice(free)
    return sorted(changed, key=lambda option: option[0]) if random.random() < 0.5 else changed


def rings(depth: int) -> Iterator[Options]:
    """Yield connectivities for rings: the steps of the own lane and of a neighbour, each in order, interleaved."""
    count = 2 * (depth - 1)
    for offset in (1, -1, 2):
        for own in combinations(range(count), depth - 1):
            steps = {0: iter(range(1, depth)), offset: iter(range(1, depth))}
            offsets = [0 if place in own else offset for place in range(count)]
            yield [(0, 0), *((next(steps[each]), each) for each in offsets)]


def main() -> None:
    """Search and print each improvement."""
    parser = argument_parser(__doc__)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--options", type=int, default=8)
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ring", action="store_true")
    arguments = parser.parse_args()
    if arguments.ring:
        scored = sorted(((score(each, arguments.depth), each) for each in rings(arguments.depth)), reverse=True)
        for found, options in scored[:10]:
            print(f"{found:.4f}  {[list(option) for option in options]}")
        return
    random = Random(arguments.seed)
    every = sorted((s, o) for s in range(1, arguments.depth) for o in (0, 1, -1, 2))
    best = [(0, 0), *every[: arguments.options - 1]]
    best_score = score(best, arguments.depth)
    for _ in range(arguments.tries):
        candidate = neighbour(best, arguments.depth, random)
        found = score(candidate, arguments.depth)
        if found > best_score:
            best, best_score = candidate, found
            print(f"{found:.4f}  {[list(option) for option in candidate]}", flush=True)


if __name__ == "__main__":
    main()
