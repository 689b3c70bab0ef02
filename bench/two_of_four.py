"""Write a trace with weights pruned to 2:4 for `tensordash explore`, or print the areas of tiles for such weights.

    python bench/two_of_four.py build/traces/values/gpt-gelu.trace -o build/two_of_four.trace
    tensordash explore --trace build/two_of_four.trace --depth 2,3,4 --sources 4,5,8 --no-area
    python bench/two_of_four.py --area

The trace has only the layers' AxW, and no zeros in A. `--area` maps two tiles: `paper-depth2`, and a tile whose lanes
reach all lanes of the next step. A 2:4 tensor core needs at least the A multiplexers of `paper-depth2`, which select
one of four values for each multiplier.
"""

from dataclasses import replace

import numpy as np

from common import argument_parser
from tensordash import load_preset
from tensordash_sim.evaluation.measure_formats import pruned_weights
from tensordash_sim.evaluation.two_of_four import NEXT_STEP
from tensordash_sim.lowering import Operation
from tensordash_sim.trace import Trace, TraceWriter
from tensordash_sim.trace.layer_operands import recorded_values
from tensordash_synth import measure_areas


def main() -> None:
    """Write the trace, or print areas."""
    parser = argument_parser(__doc__)
    parser.add_argument("trace", nargs="?", help="trace with values")
    parser.add_argument("-o", "--output", help="trace to write")
    parser.add_argument("--area", action="store_true", help="print areas")
    arguments = parser.parse_args()
    if not arguments.area and None in (arguments.trace, arguments.output):
        parser.error("pass a trace and --output, or --area")
    if arguments.trace is not None:
        prune(arguments.trace, arguments.output)
    if arguments.area:
        print_areas()


def prune(source: str, target: str) -> None:
    """Write the last step of a trace, with the two smallest of each four weights pruned."""
    trace = Trace.open(source)
    conditions = {**trace.conditions, "weights": "2:4 along the reduction of AxW"}
    with TraceWriter(target, conditions=conditions) as writer, writer.step(trace.steps[-1].index) as step:
        for record in trace.steps[-1].records:
            if record.operation is Operation.FORWARD:
                mask = pruned_weights(recorded_values(record, "W"), record.geometry, "2:4")
                operands = {"A": np.ones(record.geometry.shapes["A"], np.bool_), "W": mask}
                step.record(record.layer, record.operation, record.geometry, operands)


def print_areas() -> None:
    """Print the gate equivalents of a PE and of its share of the tile."""
    depth2 = load_preset("paper-depth2")
    tiles = {"paper-depth2": depth2, "all of the next step": replace(depth2, connectivity=NEXT_STEP)}
    for name, config in tiles.items():
        areas = measure_areas(config)
        total, baseline = areas.ge_per_pe("total")
        muxes, _ = areas.ge_per_pe("a_muxes")
        ratio = f"ratio {total / baseline:.3f}"
        print(f"{name}: {total:,.0f} GE per PE, baseline {baseline:,.0f}, {ratio}; A muxes {muxes:,.0f}")


if __name__ == "__main__":
    main()
