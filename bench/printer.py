"""Prove the printed Verilog equal to Amaranth's RTLIL, module by module.

    python bench/printer.py [PRESET...] [--random N] [--seed S] [--module NAME...] [--jobs J]

The proof pairs registers and instances by name, replaces submodules and memories by free signals, and leaves initial
values of registers free. `--random` adds N tiles and N / 8 cores, drawn as in `tensordash soak`. The bench proves a
module that several configurations share once. The exit status is 1 if a module has no proof.
"""

import sys
import time
from collections.abc import Iterator

from common import argument_parser
from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.verify.soak.core_draw import CoreGoals, draw_core_job
from tensordash_sim.verify.soak.draw import draw_job
from tensordash_synth.printed import PrintedModule, library_of, prove_printed

PRESETS = ("paper", "recommended", "core")
TILES_PER_CORE = 8


def configurations(presets: list[str], count: int, seed: int) -> Iterator[tuple[str, TileConfig | CoreConfig]]:
    """Yield presets, then random tiles and cores, each with a name."""
    for name in presets:
        yield name, load_any_preset(name)
    for i in range(count):
        yield f"tile {seed}:{i}", draw_job(seed, i).config
    for i in range(-(-count // TILES_PER_CORE)):
        goals = CoreGoals(positions=1, descriptors=1, faults=1)
        yield f"core {seed}:{i}", draw_core_job(seed, i, goals).config


def main() -> int:
    """Prove, and print each module's result and a summary."""
    parser = argument_parser(__doc__)
    parser.add_argument("presets", nargs="*", metavar="PRESET", help="default: paper, recommended, core")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--module", nargs="+", default=[], metavar="NAME", help="only these modules")
    parser.add_argument("--jobs", type=int, default=1, metavar="J")
    arguments = parser.parse_args()
    presets = arguments.presets or ([] if arguments.random else list(PRESETS))
    if arguments.random:
        print(f"seed {arguments.seed}")
    results: dict[str, PrintedModule] = {}
    start = time.monotonic()
    for name, config in configurations(presets, arguments.random, arguments.seed):
        library = library_of(config)
        print(f"{name}: {len(library.texts)} modules", flush=True)
        results |= prove_printed(
            library,
            library.verilog(),
            modules=arguments.module,
            skip=results.keys(),
            jobs=arguments.jobs,
            progress=print_result,
        )
    proven = sum(each.proven for each in results.values())
    print(f"{proven} of {len(results)} modules proven, {time.monotonic() - start:.0f} s")
    return 0 if results and proven == len(results) else 1


def print_result(result: PrintedModule) -> None:
    verdict = "proven" if result.proven else f"differs: {result.difference}"
    print(f"  {result.name}: {verdict}, {result.seconds:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
