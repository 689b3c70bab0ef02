"""Measure cycles on the Verilog: of descriptors, of runs of a load, and of segments of a compressed load.

    python bench/core_fetch.py          # a table, and whether the goals are met
    python bench/core_fetch.py --json

The descriptors are layouts of one step, alternately of both sides. The plain load has 512 runs of one group and is
compared with the same groups in one run. The compressed load has half zeros and 512 segments of one group. It is
compared with the same groups in one segment.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from common import argument_parser, core_preset, print_json, render
from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.program import Program
from tensordash_sim.golden.core.tensors import deflate, value_type
from tensordash_sim.verify.verilated_core import VerilatedCore

MEMORY = 1 << 17
TABLE = MEMORY // 4
DESCRIPTORS = MEMORY // 2
LATENCIES = (50, 200)
GROUPS = 512
SHORT_PROGRAM = 64
"""Layouts of the shorter program; the bench measures the difference between both programs."""
LONG_PROGRAM = 264
"""Layouts of the longer program."""
MAX_LATENCY_COST = 0.5
"""Cycles of a descriptor that 150 more cycles of latency may add."""
MAX_DESCRIPTOR_CYCLES = 8
MAX_LOAD_RATIO = 1.3
"""Cycles of a load of many runs over those of one run; the same for segments of a compressed load."""


def layouts(count: int) -> Program:
    """Return a program of layouts of one step, alternately of both sides."""
    program = Program()
    for number in range(count):
        program.add(("layout_a", "layout_b")[number % 2], address=0, x_size=4, steps=1, streams=1)
    program.add("end")
    return program


def load(runs: int) -> Program:
    """Return a load of `GROUPS` groups in runs that are apart in memory."""
    program = Program()
    program.add("load", memory=0, address=0, count_0=GROUPS // runs, count_1=runs, stride_1=2 * GROUPS // runs)
    program.add("end")
    return program


def compressed_load(config: CoreConfig, segment: int) -> tuple[Program, bytes, bytes]:
    """Return the program, tensor and table of a load: `GROUPS` groups, half zeros, `segment` groups in a segment."""
    random = np.random.default_rng(0)
    shape = GROUPS, config.tile.lanes**2
    groups = random.integers(1, 1 << config.value_bits, shape) * (random.random(shape) < 0.5)
    data, table = deflate(groups.astype(value_type(config.value_bits)), config, segment)
    program = Program()
    program.add("load", memory=0, table=TABLE, address=0, count_0=GROUPS, compressed=1, segment=segment)
    program.add("end")
    return program, data, table.astype("<u4").tobytes()


def cycles(config: CoreConfig, latency: int, program: Program, data: bytes = b"", table: bytes = b"") -> int:
    """Run a program on memory that holds a tensor and its table; return its cycles."""
    with VerilatedCore(config, MEMORY, latency=(latency, latency)) as core:
        core.memory[: len(data)] = np.frombuffer(data, np.uint8)
        core.memory[TABLE : TABLE + len(table)] = np.frombuffer(table, np.uint8)
        done = core.run(program.descriptors, DESCRIPTORS)
    if done.outcome.error:
        raise SystemExit(f"error {done.outcome.error} in descriptor {done.outcome.index}")
    return done.cycles


def measure(config: CoreConfig) -> list[dict[str, Any]]:
    """Return the figures of each latency."""
    found = []
    for latency in LATENCIES:
        long, short = (cycles(config, latency, layouts(count)) for count in (LONG_PROGRAM, SHORT_PROGRAM))
        one_run, many_runs = (cycles(config, latency, load(runs)) for runs in (1, GROUPS))
        one_segment, many_segments = (cycles(config, latency, *compressed_load(config, n)) for n in (GROUPS, 1))
        found.append(
            {
                "latency": latency,
                "descriptor_cycles": (long - short) / (LONG_PROGRAM - SHORT_PROGRAM),
                "one_run": one_run,
                "many_runs": many_runs,
                "run_ratio": many_runs / one_run,
                "one_segment": one_segment,
                "many_segments": many_segments,
                "segment_ratio": many_segments / one_segment,
            }
        )
    return found


def goals(found: Sequence[dict[str, Any]]) -> dict[str, bool]:
    """Return for each goal whether the figures of all latencies meet it."""
    added = found[-1]["descriptor_cycles"] - found[0]["descriptor_cycles"]
    return {
        f"a descriptor in {MAX_DESCRIPTOR_CYCLES} cycles": all(
            each["descriptor_cycles"] <= MAX_DESCRIPTOR_CYCLES for each in found
        ),
        f"latency adds {MAX_LATENCY_COST} to a descriptor": added <= MAX_LATENCY_COST,
        f"runs cost {MAX_LOAD_RATIO} times one run": all(each["run_ratio"] <= MAX_LOAD_RATIO for each in found),
        f"segments cost {MAX_LOAD_RATIO} times one segment": all(
            each["segment_ratio"] <= MAX_LOAD_RATIO for each in found
        ),
    }


def main() -> int:
    """Print the figures; exit with 1 if a goal is missed."""
    parser = argument_parser(__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    arguments = parser.parse_args()
    found = measure(core_preset())
    met = goals(found)
    if arguments.json:
        print_json({"latencies": found, "goals": met})
    else:
        print(render("core_fetch", groups=GROUPS, figures=found, goals=met))
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
