"""Measure several cores that share one memory port, against one core, on the emitted Verilog.

    python bench/system.py                 # print a summary: minutes
    python bench/system.py --json          # print one JSON document
    python bench/system.py --cores 2 --layer conv2
    python bench/system.py --page          # also write docs/cores.json and docs/core-results.md

Each core of the preset `core` has a part of the operation: samples, or for the gradient of weights channels or filters.
Memory transfers 16 bytes per cycle after a latency of 50 cycles. Each operation runs on one core, on several cores
without sharing, and on several cores that read the shared operand once. Results must equal PyTorch's.
"""

import sys
from collections.abc import Iterator
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
    measured_at,
    print_json,
    render,
    replace_between,
    store_figures,
)
from core import RESNET, Workload, best_tiling, run_layer, workloads
from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.emission import emit
from tensordash_sim.compiler.images import TensorImage, expected
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.schedule import schedule_tiling
from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.verilated_multicore import VerilatedMulticore
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "cores.json"
PAGE = DOCS / "core-results.md"
CORES = (2, 4)
SAMPLES = 4
"""Samples of ResNet-50's layers, except for the gradient of weights."""
LANES = 4
"""Channels of a group."""
IMAGE_BYTES = 1 << 22
PAGE_BYTES = 4096
PATIENCE = 0xFFFF
"""Cycles that a shared burst waits for the other cores."""


def larger_workloads(config: CoreConfig) -> Iterator[Workload]:
    """Yield the workloads of bench/core.py; those of ResNet-50 have `SAMPLES` samples, each shifted by one position."""
    for each in workloads(config.tile):
        if each.name in RESNET and each.operation != "AxG":
            values = {
                name: value if name == "W" else np.concatenate([np.roll(value, k, -1) for k in range(SAMPLES)])
                for name, value in each.values.items()
            }
            each = replace(each, layer=replace(each.layer, samples=SAMPLES), values=values)
        yield each


def divided(each: Workload, cores: int) -> str:
    """Return the operand that is divided among the cores; all of them read the other one.

    Samples are divided. The gradient of weights has the larger operand divided by channels, if it has enough of them.
    """
    if each.operation != "AxG":
        return each.operation.replace("W", "").replace("x", "")
    by_size = sorted("AG", key=lambda name: each.values[name].size, reverse=True)
    return next(name for name in by_size if each.values[name].shape[1] % (cores * LANES) == 0)


def part(each: Workload, core: int, cores: int) -> Workload:
    """Return the part of a workload that one of several cores executes."""
    name = divided(each, cores)
    axis = int(each.operation == "AxG")  # samples, or channels
    values = {**each.values, name: np.array_split(each.values[name], cores, axis)[core]}
    size = ("samples", "channels" if name == "A" else "filters")[axis]
    layer = replace(each.layer, **{size: values[name].shape[axis]})
    return replace(each, layer=layer, values=values)


def run_parts(
    config: CoreConfig, parts: list[Workload], shared: str, *, shares: bool, quick: bool = False
) -> dict[str, Any]:
    """Run the parts of a workload on several cores, which read the shared operand once or each on its own.

    With `quick`, the Verilog is built faster and runs slower.
    """
    images = [TensorImage(config, Memory(IMAGE_BYTES), p.layer, p.operation, p.values) for p in parts]
    first = parts[0]
    space = IterationSpace(problem=Problem(layer=first.layer, operation=first.operation, rows=first.rows), core=config)
    tiling = best_tiling(space, images[0])
    memory, places, end = _place(images, shared)
    programs = [emit(schedule_tiling(space, tiling), each).descriptors for each in places]
    rings = []
    for program in programs:
        rings.append(end)
        end += -(-len(program) * 64 // PAGE_BYTES) * PAGE_BYTES
    with VerilatedMulticore(config, len(parts), end, quick=quick) as multicore:
        multicore.memory[: len(memory)] = memory
        if shares:
            size = -(-_size(images[0], shared) // PAGE_BYTES) * PAGE_BYTES
            multicore.share(places[0][shared], places[0][shared] + size, PATIENCE)
        multicore.silence("")  # counts transfers from now on
        runs = multicore.run_all(programs, rings)
        if shares and multicore.patience != PATIENCE:
            raise SystemExit(f"{first.name} {first.operation}: {len(parts)} cores stopped sharing")
        for core_run, workload, image, place in zip(runs, parts, images, places, strict=True):
            if core_run.outcome.error:
                raise SystemExit(f"error {core_run.outcome.error} in descriptor {core_run.outcome.index}")
            begin, size = image.tensors["result"], _size(image, "result")
            image.memory.bytes[begin : begin + size] = multicore.memory[place["result"] :][:size].tobytes()
            if not np.array_equal(image.result(), expected(workload.layer, workload.operation, workload.values)):
                raise SystemExit(f"{workload.name} {workload.operation} on {len(parts)} cores differs from PyTorch")
        cycles = max(core_run.cycles for core_run in runs)
        scheduled = sum(core_run.counters["scheduled"] for core_run in runs)
        return {"cycles": cycles, "beats": multicore.moved["r"], "busy": round(scheduled / len(runs) / cycles, 3)}


def _size(image: TensorImage, name: str) -> int:
    """Return the bytes from a tensor to the next one."""
    begin = image.tensors[name]
    return min([*(each for each in image.tensors.values() if each > begin), image.end]) - begin


def _place(images: list[TensorImage], shared: str) -> tuple[NDArray[np.uint8], list[dict[str, int]], int]:
    """Place the tensors of all images in one memory, the shared one once, each at a page of its own."""
    end = PAGE_BYTES
    places: list[dict[str, int]] = []
    contents: list[tuple[int, bytes]] = []
    for number, image in enumerate(images):
        places.append({})
        for name, begin in image.tensors.items():
            if name == shared and number:
                places[number][name] = places[0][name]
                continue
            size = _size(image, name)
            contents.append((end, bytes(image.memory.bytes[begin : begin + size])))
            places[number][name] = end
            end += -(-size // PAGE_BYTES) * PAGE_BYTES
    memory = np.zeros(end, np.uint8)
    for begin, data in contents:
        memory[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
    return memory, places, end


def measure(config: CoreConfig, each: Workload, counts: list[int]) -> dict[str, Any]:
    """Return the figures of a workload by number of cores."""
    one, _, _ = run_layer(config, each)
    figures: dict[str, Any] = {}
    for cores in counts:
        parts = [part(each, core, cores) for core in range(cores)]
        (shared,) = each.values.keys() - {divided(each, cores)}
        apart, together = (run_parts(config, parts, shared, shares=shares) for shares in (False, True))
        figures[str(cores)] = {
            **together,
            "one_core_cycles": one.cycles,
            "ratio": round(one.cycles / together["cycles"], 3),
            "ratio_apart": round(one.cycles / apart["cycles"], 3),
            "beats_apart": apart["beats"],
        }
    return figures


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
    document = {"cores": figures, **measured_at()}
    if options.page:
        store_figures(RESULTS, document)
        write_page()
    if options.json:
        print_json(document)
    return 0


def write_page() -> None:
    """Write the table of docs/core-results.md from docs/cores.json."""
    table = render("cores", **load_figures(RESULTS))
    text = PAGE.read_text(encoding="utf-8")
    atomic_write(PAGE, replace_between(text, "<!-- cores -->", "<!-- end of cores -->", table))


if __name__ == "__main__":
    sys.exit(main())
