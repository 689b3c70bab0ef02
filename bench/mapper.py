"""How well a core's cycles are known beforehand: `estimate` against the Verilog on random layers.

    python bench/mapper.py                # 200 layers: minutes
    python bench/mapper.py --layers 20    # fewer
    python bench/mapper.py --json         # one JSON document on stdout, nothing else there

Layers are of any kind and size that takes more than 3,000 cycles, on each preset in turn, from 16 (core-wide: 32) bytes
of memory a cycle after 50 cycles of latency. What the tile gains is counted from where the row side's values are zero.
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from random import Random
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.core.choice import best_blocking, estimate
from tensordash_sim.core.golden import Memory
from tensordash_sim.core.random_layers import random_work
from tensordash_sim.core.scheduled import scheduled_speedup
from tensordash_sim.core.verilated import VerilatedCore

PRESETS = ("core", "core-dense", "core-wide", "core-fp8")
MEMORY, RING = 1 << 24, 1 << 20
MACS = 100_000, 2_000_000
LEAST = 3000
"""Cycles: what takes less is drawn again."""
WORST = 10
"""Layers that are listed."""


def layer_figures(core: VerilatedCore, preset: str, seed: int) -> dict[str, Any] | None:
    """What a layer takes, and was thought to take; None if it is too short."""
    config = core.config
    work = random_work(Random(seed), config, MACS)
    image = work.image(config, Memory(MEMORY))
    contraction = work.contraction(config, image)
    began = time.process_time()
    blocking = best_blocking(contraction)
    chosen = time.process_time() - began
    program = contraction.program(blocking).descriptors
    speedup = scheduled_speedup(config, program, image.memory)
    expected = estimate(replace(contraction, speedup=speedup), blocking)
    core.memory[:MEMORY] = np.frombuffer(image.memory.bytes, np.uint8)
    done = core.run(program, MEMORY)
    if done.outcome.error:
        raise SystemExit(f"seed {seed} on {preset}: error {done.outcome.error} in descriptor {done.outcome.index}")
    if done.cycles <= LEAST:
        return None
    return {
        "preset": preset,
        "seed": seed,
        "layer": str(work.layer),
        "operation": work.operation,
        "rows": work.rows,
        "descriptors": len(program),
        "speedup": round(speedup, 3),
        "cycles": done.cycles,
        "expected": expected,
        "error": round(expected / done.cycles - 1, 4),
        "choice_seconds": round(chosen, 3),
    }


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=200, metavar="N", help="random layers (default: 200)")
    parser.add_argument("--seed", type=int, default=100_000, help="of the first layer (default: 100000)")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout, nothing else there")
    arguments = parser.parse_args()
    told = Console(stderr=True, highlight=False)
    cores: dict[str, VerilatedCore] = {}
    for name in PRESETS:
        config = load_any_preset(name)
        assert isinstance(config, CoreConfig)
        cores[name] = VerilatedCore(config, MEMORY + RING)
    layers: list[dict[str, Any]] = []
    seed = arguments.seed
    while len(layers) < arguments.layers:
        name = PRESETS[len(layers) % len(PRESETS)]
        made = layer_figures(cores[name], name, seed)
        seed += 1
        if made is not None:
            layers.append(made)
            told.print(f"{len(layers)}: {name}, seed {made['seed']}: {made['error']:+.1%}", markup=False)
    errors = [abs(each["error"]) for each in layers]
    document = {
        "layers": layers,
        "median_error": median(errors),
        "worst_error": max(errors),
        "choice_seconds": {"median": median(each["choice_seconds"] for each in layers)}
        | {"worst": max(each["choice_seconds"] for each in layers)},
    }
    if arguments.json:
        json.dump(document, sys.stdout, indent=1)
        print()
        return 0
    print(f"{len(layers)} layers: off by {median(errors):.2%} (median), {max(errors):.2%} (worst)")
    print(f"a way to cut it in {document['choice_seconds']['median']:.2f} s (median)")
    for each in sorted(layers, key=lambda each: -abs(each["error"]))[:WORST]:
        print(
            f"{each['error']:+.1%}: {each['cycles']:,} cycles, {each['expected']:,} expected, {each['preset']}, "
            f"seed {each['seed']}, {each['operation']} with {each['rows']} on rows of {each['layer']}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
