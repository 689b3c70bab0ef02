"""Simulate a training batch of ResNet-50's convolutions on the chip of the paper's Table III.

The bench simulates every pass of every tile, for 64 images of 224x224 pixels. All 53 convolutions run AxW, WxG and
AxG; the first one has no WxG. Zeros are random: `--zeros` is their share in activations and in gradients. Weights have
no zeros.

    python bench/resnet50_batch.py [--images 64] [--zeros 0.5] [--row-order natural] [--join-samples never]
        [--preset paper]
"""

import resource
import time
from collections import Counter

import numpy as np

from common import argument_parser
from tensordash import load_preset
from tensordash_sim.lowering import Operation
from tensordash_sim.performance.chip import (
    BANDWIDTHS,
    JOINS,
    ROW_ORDERS,
    ChipConfig,
    Machine,
    at_bandwidth,
    simulate_operation,
    sufficient_bandwidth,
    totals,
)
from tensordash_sim.performance.planner.published import resnet50_layers


def main() -> None:
    """Print time, speedup and memory."""
    parser = argument_parser(__doc__)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--zeros", type=float, default=0.5)
    parser.add_argument("--row-order", choices=ROW_ORDERS, default="natural")
    parser.add_argument("--join-samples", choices=JOINS, default="never")
    parser.add_argument("--preset", default="paper")
    arguments = parser.parse_args()
    chip = ChipConfig()
    preset = load_preset(arguments.preset)
    machine = Machine(preset, chip, row_order=arguments.row_order, join_samples=arguments.join_samples)
    rng = np.random.default_rng(0)
    begin, simulation_seconds, results = time.perf_counter(), 0.0, []
    for name, layer in resnet50_layers(arguments.images):
        densities = {"A": 1 - arguments.zeros, "W": 1.0, "G": 1 - arguments.zeros}
        masks = {side: rng.random(shape, np.float32) < densities[side] for side, shape in layer.shapes.items()}
        for operation in Operation:
            if name == "conv1" and operation is Operation.INPUT_GRADIENT:
                continue
            start = time.perf_counter()
            results.append(simulate_operation(layer, operation, masks, machine).to_json())
            simulation_seconds += time.perf_counter() - start
    sums = totals(results)
    bandwidths = [at_bandwidth(results, gbps, chip.clock_mhz) for gbps in BANDWIDTHS]
    speedups = ", ".join(f"{each['speedup']:.3f}x at {each['gbps']:g}" for each in bandwidths)
    limits = Counter(result["limit"] for result in results)
    print(
        f"{arguments.images} images, {arguments.zeros:.0%} zeros, {sums['macs']:,} MACs: {sums['compute']:,} cycles, "
        f"{sums['compute_speedup']:.3f}x the baseline's {sums['dense_compute']:,}\n"
        f"over a baseline that skips steps of padding: {sums['unpadded_speedup']:.3f}x; "
        f"with tiles that wait for shared reads: {sums['shared_speedup']:.3f}x\n"
        f"with memory: {speedups} GB/s; DRAM adds at most 1% of time "
        f"at {sufficient_bandwidth(results, chip.clock_mhz):g} GB/s or more\n"
        f"at 25.6 GB/s operations are limited by "
        f"{', '.join(f'{limit}: {count}' for limit, count in limits.most_common())}\n"
        f"simulated in {simulation_seconds:.1f} s ({time.perf_counter() - begin:.1f} s including the random zeros), "
        f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB"
    )


if __name__ == "__main__":
    main()
