"""Measure a core: the busy share of its tile, its speedup, savings by compression, and costs of its logic.

    python bench/core.py              # everything: minutes, most of them for synthesis
    python bench/core.py --no-logic   # only the runs on the Verilog
    python bench/core.py --page       # also write docs/core.json and docs/core-results.md
    python bench/core.py --over-core  # only the speedup of larger cores over `core`: minutes
    python bench/core.py --over-core --layer conv2 --set core.layout_groups=1  # for some layers, with another key
    python bench/core.py --over-core --page  # also write this table alone into both files
    python bench/core.py --nvfp4      # only NVFP4 operands (`core_nvfp4.py`): minutes; with --page as above

All runs are on the emitted Verilog of the presets `core` and `core-dense`. Memory transfers 16 bytes per cycle after a
latency of 50 cycles. Results must equal PyTorch's in float64, rounded as docs/core.md defines. Both cores must leave
the same memory. Otherwise the bench exits with an error.

`--over-core` compares `core-wide` with `core`, with 16 and with 32 bytes of memory per cycle, and a core with a 4x32
tile with 32. On each core, the row side has the operand that takes the tile fewer cycles, and each core has its own
tiling.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
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
from core_nvfp4 import measure_nvfp4
from cost_pages import CORES
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_runtime.sides import choose_rows
from tensordash_sim.compiler.emission import emit
from tensordash_sim.compiler.images import TensorImage, expected
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import Program
from tensordash_sim.compiler.schedule import schedule_tiling
from tensordash_sim.compiler.scheduled import scheduled_speedup
from tensordash_sim.compiler.search import best_schedule
from tensordash_sim.compiler.tiling import Tiling
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.golden.core.tensors import deflate, to_groups
from tensordash_sim.lowering.geometry import Convolution
from tensordash_sim.trace import Trace, example_trace
from tensordash_sim.verify.programs.random_programs import PROGRAM, random_program
from tensordash_sim.verify.verilated_core import CoreRun, VerilatedCore
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "core.json"
COSTS = DOCS / "cost.json"
"""Figures of `bench/cost.py`, which has the logic of all presets."""
PAGE = DOCS / "core-results.md"
MEMORY_BYTES = 1 << 22
POLL_CYCLES = 32
"""Cycles between two checks whether the tile multiplies: the error of the first and the last multiply's cycle."""
SEGMENT_GROUPS = 256
"""Groups in a segment of a compressed tensor."""
GOALS = {"busy": 0.85, "speedup_ratio": 0.92, "traffic_ratio": 0.57, "logic_ratio": 0.6, "over_core_4x32": 7.0}
RESNET = {
    "ResNet-50 3x3, 128 to 128 channels": Layer(
        samples=1, channels=128, filters=128, size=(8, 8), kernel=(3, 3), padding=1
    ),
    "ResNet-50 1x1, 512 to 128 channels": Layer(samples=1, channels=512, filters=128, size=(8, 8)),
}
ZEROS = {"A": 0.5, "W": 0.0, "G": 0.5}
"""Share of zeros of ResNet-50's random tensors, as after a ReLU and its backward pass."""
RESULT_CYCLES = (1, 2, 4)
"""Cycles in which the compared output units add to a row."""
LARGER_CORES: dict[str, tuple[str, tuple[str, ...], tuple[int, ...]]] = {
    "core-wide": ("core-wide", (), (16, 32)),
    "4x32": ("core-wide", ("tile.columns=32", "core.stream_buffer=64"), (32,)),
}
"""Cores that are compared with `core`: the preset, changed keys, and bytes that memory transfers per cycle."""
LISTED_UNITS = ("load", "layout_a", "layout_b", "output", "store")
"""Units whose busy share the comparison lists next to the tile's."""
SHORTEST_OPERATION = ("digits CNN.conv1", "AxW")
"""Layer and operation with the shortest passes, on which a slower output unit costs most."""


@dataclass(frozen=True)
class Workload:
    """An operation, the name of the operand on the row side, and the operands."""

    name: str
    layer: Layer
    operation: str
    rows: str
    values: Mapping[str, NDArray]


def workloads(config: CoreConfig) -> Iterator[Workload]:
    """Yield the trace's convolutions, with the runtime's row side, and ResNet-50's layers on smaller images."""
    for record in Trace.open(example_trace()).records:
        if isinstance(record.geometry, Convolution):
            operation = str(record.operation)
            values = {name: record.values(name).astype(np.float16) for name in OPERANDS[operation]}
            nonzero = {name: each != 0 for name, each in values.items()}
            rows, _ = choose_rows(config, record.geometry, operation, list(nonzero), nonzero)
            yield Workload(f"digits {record.layer}", Layer.of(record.geometry), operation, rows, values)
    rng = np.random.default_rng(0)
    for name, layer in RESNET.items():
        tensors = {}
        for each, zeros in ZEROS.items():
            drawn = rng.standard_normal(layer.shape(each)).astype(np.float16)
            tensors[each] = np.where(rng.random(drawn.shape) < zeros, np.float16(0), drawn)
        for operation, (first, second) in OPERANDS.items():
            yield Workload(name, layer, operation, first, {each: tensors[each] for each in (first, second)})


def run(config: CoreConfig, program: Program, image: bytes) -> tuple[CoreRun, bytes]:
    """Run a program on an image of memory; return the run and the memory after it."""
    with VerilatedCore(config, MEMORY_BYTES + (1 << 18)) as core:
        core.memory[: len(image)] = np.frombuffer(image, np.uint8)
        core_run = core.run(program.descriptors, MEMORY_BYTES, every=POLL_CYCLES)
        outcome = core_run.outcome
        if outcome.error:
            raise SystemExit(f"error {outcome.error} in descriptor {outcome.index}:\n{program.listing()}")
        return core_run, core.memory[: len(image)].tobytes()


def run_layer(config: CoreConfig, each: Workload, tiling: Tiling | None = None) -> tuple[CoreRun, bytes, Tiling]:
    """Run an operation with a tiling, by default its best one. Return the run, the memory and the tiling."""
    problem = Problem(layer=each.layer, operation=each.operation, rows=each.rows, bias="bias" in each.values)
    image = TensorImage(config, Memory(MEMORY_BYTES), each.layer, each.operation, each.values)
    space = IterationSpace(problem=problem, core=config)
    tiling = tiling or _best_tiling(space, image)
    program = emit(schedule_tiling(space, tiling), image.tensors)
    core_run, memory = run(config, program, bytes(image.memory.bytes))
    image.memory.bytes[:] = memory
    if not np.array_equal(image.result(), expected(each.layer, each.operation, each.values)):
        raise SystemExit(
            f"{each.name} {each.operation}: a tile of {config.tile.rows}x{config.tile.columns} differs from PyTorch"
        )
    return core_run, memory, tiling


def compare_layer(each: Workload, cores: Mapping[str, CoreConfig]) -> dict[str, Any]:
    """Compare both cores on one operation, with one tiling. The programs differ only in the addresses of streams."""
    tiling: Tiling | None = None
    runs, memories = {}, {}
    for name, config in cores.items():
        runs[name], memories[name], tiling = run_layer(config, each, tiling)
    if memories["core"] != memories["core-dense"]:
        raise SystemExit(f"{each.name} {each.operation}: the cores leave different memories")
    core, dense = runs["core"], runs["core-dense"]
    tile_speedup = dense.counters["scheduled"] / core.counters["scheduled"]
    figures = {"name": each.name, "operation": each.operation, "rows": each.rows, "cycles": core.cycles}
    for name, core_run in runs.items():
        busy = core_run.counters["scheduled"] / (core_run.span[1] - core_run.span[0])
        figures["busy" if name == "core" else "dense_busy"] = round(busy, 3)
    speedup = dense.cycles / core.cycles
    return {
        **figures,
        "dense_cycles": dense.cycles,
        "tile_speedup": round(tile_speedup, 3),
        "speedup": round(speedup, 3),
        "speedup_ratio": round(speedup / tile_speedup, 3),
        "stall_output": round(core.counters["stall_output"] / core.cycles, 3),
    }


def _best_tiling(space: IterationSpace, image: TensorImage) -> Tiling:
    """Return the best tiling for the tile's speedup on these values."""
    program = emit(best_schedule(space), image.tensors).descriptors
    speedup = scheduled_speedup(space.core, program, image.memory)
    return best_schedule(replace(space, problem=replace(space.problem, speedup=round(speedup, 1)))).tiling


def compare_larger_cores(layer: str, assignments: Sequence[str], console: Console) -> dict[str, Any]:
    """Compare larger cores with `core` on layers whose names contain `layer`.

    Return the figures by name in `LARGER_CORES`, bytes per cycle, and layer.
    """
    figures: dict[str, Any] = {}
    cycles: dict[tuple[int, str], int] = {}
    for name, (preset, changes, counts) in LARGER_CORES.items():
        figures[name] = {}
        for count in counts:
            bus = f"core.axi_bits={8 * count}"
            core, larger = load_any_preset("core", [bus]), load_any_preset(preset, [*changes, *assignments, bus])
            assert isinstance(core, CoreConfig)
            assert isinstance(larger, CoreConfig)
            layers = figures[name][str(count)] = {}
            for each in workloads(core):
                title = f"{each.name} {each.operation}"
                if layer in title and (count, title) not in cycles:
                    cycles[count, title] = run_layer(core, each)[0].cycles
            for each in workloads(larger):
                title = f"{each.name} {each.operation}"
                if layer not in title:
                    continue
                core_run, _, _ = run_layer(larger, each)
                ratio = cycles[count, title] / core_run.cycles
                console.print(f"{name}, {count} bytes a cycle, {title}: {ratio:.2f}", markup=False)
                layers[title] = {
                    "rows": each.rows,
                    "cycles": core_run.cycles,
                    "core_cycles": cycles[count, title],
                    "ratio": round(ratio, 3),
                    "scheduled": round(core_run.counters["scheduled"] / core_run.cycles, 3),
                    "stall_output": round(core_run.counters["stall_output"] / core_run.cycles, 3),
                    **{unit: round(core_run.counters[f"{unit}_busy"] / core_run.cycles, 3) for unit in LISTED_UNITS},
                }
    return figures


def compare_output_units(
    cores: Mapping[str, CoreConfig], shortest: Workload, console: Console
) -> Iterator[dict[str, Any]]:
    """Yield the logic and the speed of cores whose output unit adds to a row in 1, 2 and 4 cycles.

    The speed is measured on the layer with the shortest passes. Biases give the unit sums to add.
    """
    from tensordash_synth.core_cost import synthesize_core

    # Biases are FP16 values, so that the core, like PyTorch, drops none of their bits.
    biases = np.random.default_rng(2).standard_normal(shortest.layer.filters).astype(np.float16).astype(np.float32)
    biased = replace(shortest, values={**shortest.values, "bias": biases})
    for cycles in RESULT_CYCLES:
        with_cycles = {name: replace(config, result_cycles=cycles) for name, config in cores.items()}
        console.print(f"output unit of {cycles} cycles a row", markup=False)
        logic = synthesize_core(with_cycles["core"], progress=lambda line: console.print(line, markup=False)).to_json()
        figures = compare_layer(biased, with_cycles)
        yield {
            "result_cycles": cycles,
            "logic": logic,
            **{name: figures[name] for name in ("busy", "speedup", "speedup_ratio")},
        }


def measure_compression(config: CoreConfig, zeros: float) -> dict[str, Any]:
    """Load and store a tensor, plain and compressed. Return the traffic ratio and the cycles of a group."""
    rng = np.random.default_rng(1)
    groups, size = 1024, config.tile.lanes**2
    values = rng.integers(1, 1 << 15, (groups, size))
    sparse = np.where(rng.random(values.shape) < zeros, 0, values).reshape(-1, config.tile.lanes, config.tile.lanes)
    grouped = to_groups(sparse, config).reshape(groups, size)
    data, table = deflate(grouped, config, segment=SEGMENT_GROUPS)
    plain, packed, table_address = 0x1000, 0x20000, 0x40000
    result, result_table = 0x50000, 0x70000
    figures: dict[str, Any] = {"zeros": zeros}
    moved = {}
    for kind in ("plain", "compressed"):
        image = Memory(1 << 20)
        for address, each in (
            (plain, grouped.tobytes()),
            (packed, data),
            (table_address, table.astype("<u4").tobytes()),
        ):
            image.write(address, each)
        program = Program()
        fields: dict[str, Any] = {"address": 0, "count_0": groups}
        if kind == "plain":
            program.add("load", memory=plain, signal=["store"], **fields)
            program.add("store", memory=result, wait=["load"], **fields)
        else:
            fields |= {"compressed": 1, "segment": SEGMENT_GROUPS}
            program.add("load", memory=packed, table=table_address, signal=["store"], **fields)
            program.add("store", memory=result, table=result_table, wait=["load"], **fields)
        program.add("end")
        core_run, memory = run(config, program, bytes(image.bytes))
        golden = GoldenCore(config, image)
        if golden.run(program.descriptors).error or bytes(image.bytes) != memory:
            raise SystemExit(f"{kind} moves of {zeros:.0%} zeros leave other memory than the golden core")
        moved[kind] = core_run.counters["read_beats"] + core_run.counters["write_beats"]
        figures[f"{kind}_cycles_per_group"] = {
            unit: round(core_run.counters[f"{unit}_busy"] / groups, 3) for unit in ("load", "store")
        }
    return {**figures, "traffic_ratio": round(moved["compressed"] / moved["plain"], 3)}


def check_random_programs(config: CoreConfig, count: int) -> int:
    """Run random programs, and compare memory and outcome with the golden core. Return the number of programs."""
    with VerilatedCore(config, 1 << 17, latency=(0, 100), pause=0.2, seed=1) as core:
        for seed in range(count):
            job = random_program(Random(seed), config)
            golden = GoldenCore(config, job.memory)
            core.memory[:] = np.frombuffer(job.memory.bytes, np.uint8)
            expected_outcome = golden.run(job.program.descriptors)
            outcome = core.run(job.program.descriptors, PROGRAM).outcome
            ring = slice(PROGRAM, PROGRAM + 4096)
            core.memory[ring] = np.frombuffer(golden.memory.bytes, np.uint8)[ring]
            if outcome != expected_outcome or core.memory.tobytes() != bytes(golden.memory.bytes):
                raise SystemExit(
                    f"random program {seed} ({job.title}): "
                    f"the core ends with {outcome}, the golden core with {expected_outcome}"
                )
    return count


def main() -> int:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("--json", action="store_true", help="print only one JSON document on stdout")
    parser.add_argument("--programs", type=int, default=1000, metavar="N", help="random programs (default: 1000)")
    parser.add_argument("--no-logic", action="store_true", help="no synthesis")
    parser.add_argument("--over-core", action="store_true", help="only compare larger cores with `core`")
    parser.add_argument("--nvfp4", action="store_true", help="only measure NVFP4 operands in memory")
    parser.add_argument("--layer", default="", metavar="TEXT", help="with --over-core: layers whose name contains this")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="with --over-core: a key to change"
    )
    parser.add_argument("--page", action="store_true", help="write docs/core.json and docs/core-results.md")
    arguments = parser.parse_args()
    console = Console(stderr=True, highlight=False)
    if arguments.nvfp4:
        nvfp4 = measure_nvfp4(console)
        if arguments.page:
            _write_page(load_figures(RESULTS) | nvfp4)
        print_json(nvfp4) if arguments.json else print(render("core_nvfp4", document=nvfp4))
        return 0
    if arguments.over_core:
        if arguments.page and (arguments.layer or arguments.set):
            parser.error("--page is for all layers and the preset's keys: pass neither --layer nor --set")
        figures = {
            "over_core": compare_larger_cores(arguments.layer, arguments.set, console),
            "over_core_at": measured_at(),
            "logic_ratio": stored_logic_ratios(),
        }
        if arguments.page:
            _write_page(load_figures(RESULTS) | figures)
        if arguments.json:
            print_json(figures)
        else:
            print(render("core_ratios", **figures))
        return 0
    cores: dict[str, CoreConfig] = {name: core_preset(name) for name in ("core", "core-dense")}
    assert cores["core-dense"] == replace(cores["core"], tile=cores["core"].tile.baseline)
    document: dict[str, Any] = {"layers": []}
    layers = list(workloads(cores["core"]))
    for each in layers:
        document["layers"].append(compare_layer(each, cores))
        console.print(f"{each.name} {each.operation}: {document['layers'][-1]['busy']:.3f} busy", markup=False)
    document |= {"over_core": compare_larger_cores("", [], console), "over_core_at": measured_at()}
    document |= measure_nvfp4(console)
    document["compression"] = [measure_compression(cores["core"], zeros) for zeros in (0.0, 0.5, 0.9)]
    console.print(
        f"{check_random_programs(cores['core'], arguments.programs)} random programs leave the golden core's memory"
    )
    if not arguments.no_logic:
        shortest = next(each for each in layers if (each.name, each.operation) == SHORTEST_OPERATION)
        document["output_units"] = list(compare_output_units(cores, shortest, console))
        document["logic"] = next(
            each["logic"] for each in document["output_units"] if each["result_cycles"] == cores["core"].result_cycles
        )
    document |= _goal_figures(document)
    if arguments.page:
        _write_page(document | {"command": "python bench/core.py --page", **measured_at()})
    if arguments.json:
        print_json(document)
    else:
        print(render_tables(document))
    return 0


def _write_page(document: Mapping[str, Any]) -> None:
    """Write docs/core.json and docs/core-results.md."""
    store_figures(RESULTS, document)
    atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8"), document))


def render_tables(document: Mapping[str, Any]) -> str:
    """Return the figures as tables in Markdown."""
    missed = sum(each[name] < GOALS[name] for each in document["layers"] for name in ("busy", "speedup_ratio"))
    return render("core_figures", document=document, goals=GOALS, shortest=SHORTEST_OPERATION, missed=missed)


def fill_page(text: str, document: Mapping[str, Any]) -> str:
    """Return docs/core-results.md with its tables."""
    text = replace_between(text, "<!-- figures -->", "<!-- end of figures -->", render_tables(document))
    return replace_between(text, "<!-- nvfp4 -->", "<!-- end of nvfp4 -->", render("core_nvfp4", document=document))


def _goal_figures(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures that have goals, by layer if they belong to layers."""
    by_layer = {
        name: {f"{each['name']} {each['operation']}": each[name] for each in document["layers"]}
        for name in ("busy", "speedup_ratio")
    }
    half = next(each for each in document["compression"] if each["zeros"] == 0.5)
    logic_ratio = stored_logic_ratios()
    if "logic" in document:
        logic_ratio["core"] = document["logic"]["logic_ratio"]
    return {**by_layer, "traffic_ratio": half["traffic_ratio"], "logic_ratio": logic_ratio}


def stored_logic_ratios() -> dict[str, float]:
    """Return the logic around the tile over the tile's by preset, as `bench/cost.py` measured it."""
    stored = load_figures(COSTS)
    return {name: stored[name]["figures"]["logic_ratio"] for name in CORES if name in stored}


if __name__ == "__main__":
    sys.exit(main())
