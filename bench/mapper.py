"""Compare a core's estimated cycles with the Verilog's cycles on random layers.

    python bench/mapper.py                                      # 200 layers: minutes
    python bench/mapper.py --layers 20                          # fewer
    python bench/mapper.py --preset core --seed 7 --layers 1    # one of them
    python bench/mapper.py --json                               # one JSON document on stdout

Layers are matrix products, some with short reductions or in batches, and convolutions, some grouped or depthwise. Each
operand has 0 to 99% zeros. All layers take more than 3,000 cycles. Presets take turns. Memory transfers 16
(core-wide: 32) bytes per cycle after a latency of 50 cycles.

The bench compares two estimates with the Verilog. *Expected* is the runtime's report on the emulator: it counts a
sample of the row side's streams. *Estimate* counts all streams. The exit status is 0 even if goals are missed.
"""

import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

from rich.console import Console

from common import argument_parser, core_preset, print_json
from mapper_layers import random_operation
from tensordash_runtime import Device
from tensordash_runtime.jobs import ExecutedOperation
from tensordash_sim.compiler.emission import placeholder_addresses
from tensordash_sim.compiler.images import layer_values, non_zero_groups
from tensordash_sim.compiler.row_streams import RowStreams
from tensordash_sim.compiler.timing import timing

PRESETS = ("core", "core-dense", "core-wide", "core-fp8", "core-bf16")
MIN_CYCLES = 3000
"""The bench leaves out layers with at most this number of cycles."""
MEDIAN_GOAL = 0.01
"""Largest allowed median of the relative errors of a preset's estimates."""
WORST_GOAL = 0.05
"""Largest allowed relative error of a preset's estimates."""
MAX_LISTED = 10
"""Maximum number of layers that the bench lists."""
ESTIMATES = ("expected", "estimate")


class Comparison:
    """A core preset on the emulator, which estimates cycles, and on the Verilog, which counts them."""

    def __init__(self, preset: str) -> None:
        self.preset, self.config = preset, core_preset(preset)
        self._devices = Device(self.config, "emulator"), Device(self.config, "verilator")

    def layer(self, seed: int, scale: float = 1.0) -> dict[str, Any]:
        """Run a random layer on both backends, and return the figures."""
        drawn = random_operation(seed, self.config, scale)
        emulator, _ = self._devices
        expected, counted = (
            each.contract(drawn.geometry, drawn.operation, drawn.operands, **drawn.options).executed
            for each in self._devices
        )
        assert expected.problem == counted.problem
        assert emulator.expectations is not None
        assert counted.cycles is not None
        began = time.process_time()
        descriptors = len(emulator.expectations.program(expected.problem).descriptors)
        searched = time.process_time()
        cycles = {"expected": emulator.expectations.cycles_of(expected)}
        estimated = time.process_time()
        cycles["estimate"] = self._estimate(drawn.operands[expected.problem.rows], expected)
        return {
            "preset": self.preset,
            "seed": seed,
            "layer": str(drawn),
            "rows": expected.problem.rows,
            "descriptors": descriptors,
            "cycles": counted.cycles,
            **cycles,
            **{f"{name}_error": round(cycles[name] / counted.cycles - 1, 4) for name in ESTIMATES},
            "tiling_seconds": round(searched - began, 3),
            "expected_seconds": round(estimated - searched, 3),
        }

    def _estimate(self, operand: Any, executed: ExecutedOperation) -> int:
        """Estimate a layer's cycles from all streams of the row side."""
        expectations, problem = self._devices[0].expectations, executed.problem
        assert expectations is not None
        program = expectations.program(problem)
        if self.config.tile.sparsity == "none":
            return timing(self.config, program.descriptors).cycles
        values = layer_values(executed.geometry, problem.rows, operand.float().numpy() != 0)
        groups = non_zero_groups(self.config, problem.layer, problem.rows, values)
        streams = RowStreams(self.config, program.descriptors, placeholder_addresses(problem)[problem.rows])
        return timing(self.config, program.descriptors, speedup=streams.paces(groups)).cycles


def summary(layers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the errors of both estimates on some layers, and whether they meet the goals."""
    document: dict[str, Any] = {"layers": len(layers)}
    for name in ESTIMATES:
        errors = [abs(each[f"{name}_error"]) for each in layers]
        document[name] = {
            "median_error": median(errors),
            "worst_error": max(errors),
            "median_goal_met": median(errors) <= MEDIAN_GOAL,
            "worst_goal_met": max(errors) <= WORST_GOAL,
        }
    return document


def _print_summary(name: str, document: dict[str, Any]) -> None:
    for estimate in ESTIMATES:
        found = document[estimate]
        goals = []
        for which, goal in (("median", MEDIAN_GOAL), ("worst", WORST_GOAL)):
            outcome = "met" if found[f"{which}_goal_met"] else "missed"
            goals.append(f"{found[f'{which}_error']:.2%} {which} (goal {goal:.0%}: {outcome})")
        print(f"{name}, {document['layers']} layers, {estimate}: off by {', '.join(goals)}")


def _print_layers(layers: Sequence[dict[str, Any]]) -> None:
    print(f"worst of {len(layers)} layers:")
    for each in sorted(layers, key=lambda each: -max(abs(each[f"{name}_error"]) for name in ESTIMATES))[:MAX_LISTED]:
        print(
            f"{each['expected_error']:+.1%} expected, {each['estimate_error']:+.1%} estimate, "
            f"{each['cycles']:,} cycles, --preset {each['preset']} --seed {each['seed']}: "
            f"{each['layer']}, {each['rows']} on rows"
        )


def main() -> int:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("--layers", type=int, default=200, metavar="N", help="random layers (default: 200)")
    parser.add_argument("--seed", type=int, default=100_000, help="seed of the first layer (default: 100000)")
    parser.add_argument("--preset", choices=PRESETS, help="only this preset (default: all)")
    parser.add_argument("--json", action="store_true", help="print only one JSON document to stdout")
    arguments = parser.parse_args()
    if arguments.layers < 1:
        parser.error(f"--layers must be at least 1, not {arguments.layers}")
    progress = Console(stderr=True, highlight=False)
    names = (arguments.preset,) if arguments.preset else PRESETS[: arguments.layers]
    comparisons = [Comparison(name) for name in names]
    layers: list[dict[str, Any]] = []
    seed = arguments.seed
    while len(layers) < arguments.layers:
        found = comparisons[len(layers) % len(comparisons)].layer(seed)
        seed += 1
        if found["cycles"] > MIN_CYCLES:
            layers.append(found)
            line = f"{len(layers)}: {found['preset']}, seed {found['seed']}: {found['expected_error']:+.1%}"
            progress.print(line, markup=False)
    summaries = {name: summary([each for each in layers if each["preset"] == name]) for name in names}
    summaries["all"] = summary(layers)
    seconds = {name: median(each[f"{name}_seconds"] for each in layers) for name in ("tiling", "expected")}
    if arguments.json:
        print_json({"layers": layers, "summaries": summaries, "median_seconds": seconds})
        return 0
    for name, document in summaries.items():
        _print_summary(name, document)
    print(f"median CPU time: {seconds['tiling']:.2f} s to choose a tiling, {seconds['expected']:.3f} s to estimate it")
    _print_layers(layers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
