"""Measure several cores that share one memory port, against one core, on the emitted Verilog.

    python bench/system.py                 # print a summary: minutes
    python bench/system.py --json          # print one JSON document
    python bench/system.py --cores 2 --layer conv2
    python bench/system.py --page          # also write docs/cores.json and docs/core-results.md

Each core of the preset `core` has a part of the operation: samples, or for the gradient of weights channels or filters.
Memory transfers 16 bytes per cycle after a latency of 50 cycles. Each operation runs on one core, on several cores
without sharing, and on several cores that read the shared operand once. Results must equal PyTorch's.

The chip's model predicts each figure: for a chip of cores (`simulate_cores`), which must predict all bytes exactly, and
for a chip of tiles (`simulate_operation`). The bench also maps to gates what joins the memory ports.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from common import (
    DOCS,
    argument_parser,
    core_preset,
    load_figures,
    map_module,
    measured_at,
    print_json,
    render,
    replace_between,
    store_figures,
)
from core import RESNET, Workload, run_layer, workloads
from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.core_files import core_verilog
from tensordash_runtime.jobs import BackendResult, DeviceJob
from tensordash_runtime.multicore import Multicore
from tensordash_sim.compiler.emission import emit
from tensordash_sim.compiler.images import expected
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import dense_steps
from tensordash_sim.compiler.schedule import schedule_tiling
from tensordash_sim.lowering import Convolution, Operation
from tensordash_sim.performance.chip import ChipConfig, Machine, simulate_cores, simulate_operation
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "cores.json"
PAGE = DOCS / "core-results.md"
CORES = (2, 4)
SAMPLES = 4
"""Samples of ResNet-50's layers, except for the gradient of weights."""
MEMORY_BYTES = 1 << 22
CLOCK_MHZ = 500


def larger_workloads(config: CoreConfig) -> Iterator[Workload]:
    """Yield the workloads of bench/core.py; those of ResNet-50 have `SAMPLES` samples, each shifted by one position."""
    for each in workloads(config):
        if each.name in RESNET and each.operation != "AxG":
            values = {
                name: value if name == "W" else np.concatenate([np.roll(value, k, -1) for k in range(SAMPLES)])
                for name, value in each.values.items()
            }
            each = replace(each, layer=replace(each.layer, samples=SAMPLES), values=values)
        yield each


def run_parts(config: CoreConfig, job: DeviceJob, cores: int, *, shares: bool, quick: bool = False) -> BackendResult:
    """Run a job on several cores, which read the shared operand once or each on its own.

    With `quick`, the Verilog is built faster and runs slower.
    """
    multicore = Multicore(config, MEMORY_BYTES, cores, shares=shares, quick=quick)
    try:
        result = multicore.run(job)
    finally:
        multicore.close()
    problem = job.problem
    if not np.array_equal(result.bits, expected(problem.layer, problem.operation, job.values).view(result.bits.dtype)):
        raise SystemExit(f"{problem.operation} of {problem.layer} on {cores} cores differs from PyTorch")
    if multicore.stopped_sharing:
        raise SystemExit(f"{problem.operation} of {problem.layer} on {cores} cores: sharing ended early")
    return result


def measure(config: CoreConfig, each: Workload, counts: list[int]) -> dict[str, Any]:
    """Return the figures of a workload by number of cores."""
    one, _, tiling = run_layer(config, each)
    problem = Problem(layer=each.layer, operation=each.operation, rows=each.rows)
    program = emit(schedule_tiling(IterationSpace(problem=problem, core=config), tiling)).descriptors
    problem = replace(problem, speedup=round(dense_steps(config, program) / one.counters["scheduled"], 1))
    job = DeviceJob(problem=problem, values=each.values)
    nonzero = {name: value != 0 for name, value in each.values.items()}
    predicted_one = simulate_cores(problem, config, 1, nonzero=nonzero, tiling=tiling, has_record=False)
    figures: dict[str, Any] = {}
    for cores in counts:
        apart, together = (run_parts(config, job, cores, shares=shares) for shares in (False, True))
        assert apart.cycles is not None
        assert together.cycles is not None
        predicted_apart, predicted = (
            simulate_cores(problem, config, cores, nonzero=nonzero, shares=shares) for shares in (False, True)
        )
        for ran, expected_run in ((apart, predicted_apart), (together, predicted)):
            if ran.traffic != expected_run.traffic:
                raise SystemExit(f"{each.name} {each.operation} on {cores} cores moves other bytes than predicted")
        figures[str(cores)] = {
            "cycles": together.cycles,
            "cycles_apart": apart.cycles,
            "one_core_cycles": one.cycles,
            "predicted": predicted.cycles,
            "predicted_apart": predicted_apart.cycles,
            "one_core_predicted": predicted_one.cycles,
            "tiles": predict_tiles(config, each, nonzero, cores),
            "one_core_tiles": predict_tiles(config, each, nonzero, 1),
            "ratio": round(one.cycles / together.cycles, 3),
            "ratio_apart": round(one.cycles / apart.cycles, 3),
            "bytes": together.traffic,
            "bytes_apart": apart.traffic,
        }
    return figures


def predict_tiles(config: CoreConfig, each: Workload, nonzero: Mapping[str, NDArray[np.bool_]], tiles: int) -> int:
    """Return the cycles of a workload on a chip of tiles with the bandwidth of a core's memory port."""
    layer, operation = each.layer, Operation(each.operation)
    assert isinstance(layer.stride, tuple)
    assert isinstance(layer.padding, tuple)
    geometry = Convolution(
        batch=layer.samples,
        in_channels=layer.channels,
        out_channels=layer.filters,
        size=layer.size,
        kernel=layer.kernel,
        stride=layer.stride,
        padding=layer.padding,
        dilation=(1, 1),
        groups=1,
    )
    chip = ChipConfig(
        tiles=tiles,
        clock_mhz=CLOCK_MHZ,
        dram_channels=1,
        dram_channel_bits=config.axi_bits,
        dram_mega_transfers=CLOCK_MHZ,
    )
    side = "left" if each.rows == operation.left else "right"
    machine = Machine(config.tile, chip, side=side, join_samples="always")
    return simulate_operation(geometry, operation, nonzero, machine).cycles


def main() -> int:
    """Run the bench; return the exit status."""
    parser = argument_parser(__doc__)
    parser.add_argument("--cores", type=int, choices=CORES, help="only this number of cores")
    parser.add_argument("--layer", default="", help="only layers whose names contain this text")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--page", action="store_true", help="also write docs/cores.json and docs/core-results.md")
    options = parser.parse_args()
    if options.page and (options.cores or options.layer):
        parser.error("--page needs all layers and numbers of cores")
    console = Console(stderr=True)
    config = core_preset("core")
    counts = [options.cores] if options.cores else list(CORES)
    figures: dict[str, Any] = {str(count): {} for count in counts}
    for each in larger_workloads(config):
        title = f"{each.name} {each.operation}"
        if options.layer not in title:
            continue
        for count, measured in measure(config, each, counts).items():
            figures[count][title] = measured
            console.print(
                f"{count} cores, {title}: {measured['ratio']:.2f}, without sharing {measured['ratio_apart']:.2f}",
                markup=False,
            )
    join = {str(count): map_module(core_verilog(config, count), "tensordash_join") for count in counts}
    document = {"cores": figures, "join": join, **measured_at()}
    if options.page:
        store_figures(RESULTS, document)
        atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8"), load_figures(RESULTS)))
    if options.json:
        print_json(document)
    return 0


def fill_page(text: str, figures: Mapping[str, Any]) -> str:
    """Return docs/core-results.md with the table of several cores."""
    return replace_between(text, "<!-- cores -->", "<!-- end of cores -->", render("cores", **figures))


if __name__ == "__main__":
    sys.exit(main())
