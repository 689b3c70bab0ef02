"""Search for the options of `connectivity = "auto"`, and their speedups.

    python bench/connectivity_auto.py search     # the table in hdl/tensordash/configuration/connectivity.py (minutes)
    python bench/connectivity_auto.py compare    # against plain options with as many sources

The search is a hill climb (`tensordash_sim.performance.explore`) on random zeros, for buffers that shift. It maximises
the mean speedup over 30, 50, 70 and 90% zeros with four rows. It tries sets of eight options (five for two steps) with
lane offsets up to 3. Each level above six must gain `LEVEL_COST`. An entry of the table is for a range of lane counts,
and the search takes the mean over some of them. Plain options are those of the own lane and its neighbours, the oldest
step first.
"""

from collections.abc import Sequence
from functools import cache

from common import argument_parser
from tensordash import Connectivity, TileConfig
from tensordash.configuration.connectivity import Option, auto_options
from tensordash_sim.performance.explore import Structure, Workload, climb, random_workload, start_options

ZEROS = (0.3, 0.5, 0.7, 0.9)
ROWS = 4
# First lane count of each range, and the lane counts that are tried in it.
RANGES = {2: (2,), 3: (3,), 4: (4,), 5: (5, 6, 7), 8: (8, 11, 14), 16: (16, 23, 32)}
DEPTHS = (2, 3, 4, 5, 6)
MAX_OPTIONS = 8
MAX_TWO_STEP_OPTIONS = 5
MAX_LEVELS = 6  # The levels of the paper's widest tile.
LEVEL_COST = 0.05  # Speedup that each further level must gain.
SHOWN_SEEDS = range(1, 5)
SHOWN_LANES = (2, 3, 4, 6, 8, 12, 16, 24, 32)


@cache
def workloads(lanes: int, seed: int) -> list[Workload]:
    """Draw random zeros of four densities."""
    return [random_workload(lanes, ROWS, zeros=zeros, passes=8, steps=1000, seed=seed) for zeros in ZEROS]


def speedup(options: Sequence[Option], lanes: int, depth: int, staging: str = "shift", seed: int = 0) -> float:
    """Return the mean speedup over the densities."""
    structure = Structure(lanes, depth, ROWS, 1, len(options), staging)
    config = structure.config(TileConfig(out_rows=ROWS), options)
    speedups = [workload.speedup(config) for workload in workloads(lanes, seed)]
    return sum(speedups) / len(speedups)


def levels(options: Sequence[Option], lanes: int, depth: int) -> int:
    """Return the number of levels of the scheduler."""
    return len(Connectivity(options, lanes=lanes, depth=depth).levels)


def lanes_of(first: int) -> range:
    """Return the range of lane counts that begins at `first`."""
    return range(first, min((other for other in RANGES if other > first), default=33))


def search_entry(first: int, depth: int, tries: int, seeds: int) -> tuple[Option, ...]:
    """Return the best options that the search finds for a range of lane counts."""
    most = MAX_OPTIONS if depth > 2 else MAX_TWO_STEP_OPTIONS
    structure = Structure(first, depth, ROWS, 1, min(most, 1 + (depth - 1) * min(first, 7)))

    def score(options: Sequence[Option]) -> float:
        over = max(levels(options, lanes, depth) for lanes in lanes_of(first)) - MAX_LEVELS
        speedups = [speedup(options, lanes, depth) for lanes in RANGES[first]]
        return sum(speedups) / len(speedups) - LEVEL_COST * max(0, over)

    found = [climb(structure, score, tries=tries, seed=seed) for seed in range(seeds)]
    return max(found, key=lambda each: each.speedup).options


def print_search(tries: int, seeds: int) -> None:
    """Print the lines of the table."""
    for first in RANGES:
        for depth in DEPTHS:
            options = search_entry(first, depth, tries, seeds)
            print(f"    ({first}, {depth}): {options[1:]},".replace("),)", "))"), flush=True)


def print_comparison() -> None:
    """Print the speedups of found and plain options as a Markdown table."""
    print("| lanes | staging | " + " | ".join(f"{depth} steps" for depth in DEPTHS) + " |")
    print("|---" * (len(DEPTHS) + 2) + "|")
    for lanes in SHOWN_LANES:
        for staging in ("shift", "ring"):
            cells = []
            for depth in DEPTHS:
                options = auto_options(lanes, depth, ring=staging == "ring")
                plain = plain_options(options, lanes, depth, staging)
                pair = [mean_speedup(each, lanes, depth, staging) for each in (options, plain)]
                cells.append(f"{pair[0]:.3f} ({pair[1]:.3f})")
            print(f"| {lanes} | `{staging}` | {' | '.join(cells)} |", flush=True)


def mean_speedup(options: Sequence[Option], lanes: int, depth: int, staging: str) -> float:
    """Return the mean speedup over streams that the search did not use."""
    return sum(speedup(options, lanes, depth, staging, seed) for seed in SHOWN_SEEDS) / len(SHOWN_SEEDS)


def plain_options(options: Sequence[Option], lanes: int, depth: int, staging: str) -> tuple[Option, ...]:
    """Return the same number of options of the own lane and its neighbours, the oldest step first."""
    sources = len(Connectivity(options, lanes=lanes, depth=depth).sources(ring=staging == "ring"))
    return start_options(Structure(lanes, depth, ROWS, 1, sources, staging))


if __name__ == "__main__":
    parser = argument_parser(__doc__)
    parser.add_argument("what", choices=["search", "compare"])
    parser.add_argument("--tries", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.what == "search":
        print_search(arguments.tries, arguments.seeds)
    else:
        print_comparison()
