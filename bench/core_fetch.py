"""What memory's latency costs: cycles of a descriptor, and of a load of many runs, on the Verilog.

    python bench/core_fetch.py          # a table, and whether the goals are met
    python bench/core_fetch.py --json

The descriptors are layouts of one step, alternately of both sides. Two units at work limit them to 8.5 cycles each;
compare the rows to read what latency adds. The load is 512 runs of one group, against the same groups in one run.
"""

import argparse
import json
import sys
from typing import Any

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.core.program import Program
from tensordash_sim.core.verilated import VerilatedCore

MEMORY = 1 << 17
LATENCIES = (50, 200)
GROUPS = 512
SHORT, LONG = 64, 264
"""Layouts of the two programs whose difference is measured."""
MAX_LATENCY_COST = 0.5
"""Cycles of a descriptor that 150 more cycles of latency may add."""
MAX_LOAD_RATIO = 1.3


def layouts(count: int) -> Program:
    """Layouts of one step, alternately of both sides."""
    program = Program()
    for number in range(count):
        program.add(("layout_a", "layout_b")[number % 2], address=0, x_size=4, steps=1, streams=1)
    program.add("end")
    return program


def load(runs: int) -> Program:
    """A load of `GROUPS` groups in runs that are apart in memory."""
    program = Program()
    program.add("load", memory=0, address=0, count_0=GROUPS // runs, count_1=runs, stride_1=2 * GROUPS // runs)
    program.add("end")
    return program


def measure(config: CoreConfig) -> list[dict[str, Any]]:
    """Figures for each latency."""
    found = []
    for latency in LATENCIES:

        def cycles(program: Program, latency: int = latency) -> int:
            with VerilatedCore(config, MEMORY, latency=(latency, latency)) as core:
                done = core.run(program.descriptors, MEMORY // 2)
            if done.outcome.error:
                raise SystemExit(f"error {done.outcome.error} in descriptor {done.outcome.index}")
            return done.cycles

        each = (cycles(layouts(LONG)) - cycles(layouts(SHORT))) / (LONG - SHORT)
        one, many = cycles(load(1)), cycles(load(GROUPS))
        found.append(
            {"latency": latency, "descriptor_cycles": each, "one_run": one, "many_runs": many, "ratio": many / one}
        )
    return found


def main() -> int:
    """Print the figures; exit with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    arguments = parser.parse_args()
    config = load_any_preset("core")
    assert isinstance(config, CoreConfig)
    found = measure(config)
    added = found[-1]["descriptor_cycles"] - found[0]["descriptor_cycles"]
    met = added <= MAX_LATENCY_COST and all(each["ratio"] <= MAX_LOAD_RATIO for each in found)
    if arguments.json:
        json.dump({"latencies": found, "added_by_latency": added, "met": met}, sys.stdout, indent=1)
        print()
    else:
        print("| latency | cycles a descriptor | load, one run | 512 runs | ratio |\n|---|---|---|---|---|")
        for each in found:
            print(
                f"| {each['latency']} | {each['descriptor_cycles']:.1f} | {each['one_run']:,} | "
                f"{each['many_runs']:,} | {each['ratio']:.2f} |"
            )
        print(f"goals (latency adds <= {MAX_LATENCY_COST} a descriptor, ratio <= {MAX_LOAD_RATIO}): {met}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
