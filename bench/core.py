"""Measure a core: the busy share of its tile, its speedup, savings by compression, and costs of its logic.

    python bench/core.py              # everything: minutes, most of them for synthesis
    python bench/core.py --no-logic   # only the runs on the Verilog
    python bench/core.py --page       # also write docs/core.json and docs/core-results.md
    python bench/core.py --over-core  # only the speedup of `core-wide` over `core`: minutes
    python bench/core.py --over-core --layer conv2 --set core.layout_groups=1  # for some layers, with another key
    python bench/core.py --over-core --page  # also write this table alone into both files

All runs are on the emitted Verilog of the presets `core` and `core-dense`. Memory transfers 16 bytes per cycle after a
latency of 50 cycles. Results must equal PyTorch's in float64, rounded as docs/core.md defines. Both cores must leave
the same memory. Otherwise the bench exits with an error.

`--over-core` compares `core-wide` with `core`, with 16 and with 32 bytes of memory per cycle. On each core, the row
side has the operand that takes the tile fewer cycles, and each core has its own tiling.
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
from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_runtime.counting import counted_sides
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
PAGE = DOCS / "core-results.md"
MEMORY = 1 << 22
POLL_CYCLES = 32
"""Cycles between two checks whether the tile multiplies: the error of the first and the last multiply's cycle."""
SEGMENT = 256
"""Groups in a segment of a compressed tensor."""
GOALS = {"busy": 0.85, "speedup_ratio": 0.92, "traffic_ratio": 0.57, "logic_ratio": 0.6}
RESNET = {
    "ResNet-50 3x3, 128 to 128 channels": Layer(
        samples=1, channels=128, filters=128, size=(8, 8), kernel=(3, 3), padding=1
    ),
    "ResNet-50 1x1, 512 to 128 channels": Layer(samples=1, channels=512, filters=128, size=(8, 8)),
}
ZEROS = {"A": 0.5, "W": 0.0, "G": 0.5}
"""Share of zeros of ResNet-50's random tensors, as after a ReLU and its backward pass."""
RESULT_CYCLES = (1, 2, 4)
LARGER = ("core-wide",)
"""Presets that are compared with `core`."""
MEMORY_BYTES = (16, 32)
"""Bytes of memory a cycle in that comparison."""
LISTED_UNITS = ("load", "layout_a", "layout_b", "store")
"""Units whose busy share the comparison lists next to the tile's."""
SHORTEST = ("digits CNN.conv1", "AxW")
"""Layer and operation with the shortest passes, on which a slower output unit costs most."""


@dataclass(frozen=True)
class Work:
    """An operation with its operands."""

    name: str
    layer: Layer
    operation: str
    rows: str
    values: Mapping[str, NDArray]


def work(tile: TileConfig) -> Iterator[Work]:
    """Yield the trace's convolutions, with the runtime's row side, and ResNet-50's layers on smaller images."""
    for record in Trace.open(example_trace()).records:
        if isinstance(record.geometry, Convolution):
            operation = str(record.operation)
            values = {name: record.values(name).astype(np.float16) for name in OPERANDS[operation]}
            nonzero = {name: each != 0 for name, each in values.items()}
            found = counted_sides(record.geometry, operation, nonzero, list(nonzero), tile)
            rows = min(found, key=lambda name: found[name].cycles)
            yield Work(f"digits {record.layer}", Layer.of(record.geometry), operation, rows, values)
    rng = np.random.default_rng(0)
    for name, layer in RESNET.items():
        tensors = {}
        for each, zeros in ZEROS.items():
            drawn = rng.standard_normal(layer.shape(each)).astype(np.float16)
            tensors[each] = np.where(rng.random(drawn.shape) < zeros, np.float16(0), drawn)
        for operation, (first, second) in OPERANDS.items():
            yield Work(name, layer, operation, first, {each: tensors[each] for each in (first, second)})


def run(config: CoreConfig, program: Program, image: bytes) -> tuple[CoreRun, bytes]:
    """Run a program on an image of memory; return the run and the memory after it."""
    with VerilatedCore(config, MEMORY + (1 << 18)) as core:
        core.memory[: len(image)] = np.frombuffer(image, np.uint8)
        done = core.run(program.descriptors, MEMORY, every=POLL_CYCLES)
        if done.outcome.error:
            raise SystemExit(f"error {done.outcome.error} in descriptor {done.outcome.index}:\n{program.listing()}")
        return done, core.memory[: len(image)].tobytes()


def run_layer(config: CoreConfig, each: Work, tiling: Tiling | None = None) -> tuple[CoreRun, bytes, Tiling]:
    """Run an operation with a tiling, or its own best one; return the run, the memory and the tiling."""
    problem = Problem(layer=each.layer, operation=each.operation, rows=each.rows, bias="bias" in each.values)
    image = TensorImage(config, Memory(MEMORY), each.layer, each.operation, each.values)
    space = IterationSpace(problem=problem, core=config)
    tiling = tiling or _tiling(space, image)
    program = emit(schedule_tiling(space, tiling), image.tensors)
    done, left = run(config, program, bytes(image.memory.bytes))
    image.memory.bytes[:] = left
    if not np.array_equal(image.result(), expected(each.layer, each.operation, each.values)):
        raise SystemExit(
            f"{each.name} {each.operation} is not PyTorch's result on {config.tile.rows}x{config.tile.columns}"
        )
    return done, left, tiling


def layer_figures(each: Work, cores: Mapping[str, CoreConfig]) -> dict[str, Any]:
    """Compare both cores on one operation, with one tiling. The programs differ only in the addresses of streams."""
    tiling: Tiling | None = None
    runs, left = {}, {}
    for name, config in cores.items():
        runs[name], left[name], tiling = run_layer(config, each, tiling)
    if left["core"] != left["core-dense"]:
        raise SystemExit(f"{each.name} {each.operation}: the cores leave different memories")
    core, dense = runs["core"], runs["core-dense"]
    own = dense.counters["scheduled"] / core.counters["scheduled"]
    figures = {"name": each.name, "operation": each.operation, "rows": each.rows, "cycles": core.cycles}
    for name, done in runs.items():
        busy = done.counters["scheduled"] / (done.span[1] - done.span[0])
        figures["busy" if name == "core" else "dense_busy"] = round(busy, 3)
    speedup = dense.cycles / core.cycles
    return {
        **figures,
        "dense_cycles": dense.cycles,
        "tile_speedup": round(own, 3),
        "speedup": round(speedup, 3),
        "speedup_ratio": round(speedup / own, 3),
        "stall_output": round(core.counters["stall_output"] / core.cycles, 3),
    }


def _tiling(space: IterationSpace, image: TensorImage) -> Tiling:
    """Return the best tiling for the tile's speedup on these values."""
    program = emit(best_schedule(space), image.tensors).descriptors
    speedup = scheduled_speedup(space.core, program, image.memory)
    return best_schedule(replace(space, problem=replace(space.problem, speedup=round(speedup, 1)))).tiling


def over_core(layer: str, assignments: Sequence[str], console: Console) -> dict[str, Any]:
    """Compare larger cores with `core` on layers whose names contain `layer`.

    Return the figures by preset, bytes per cycle, and layer.
    """
    found: dict[str, Any] = {name: {str(count): {} for count in MEMORY_BYTES} for name in LARGER}
    for count in MEMORY_BYTES:
        cycles = {}
        for name in ("core", *LARGER):
            config = load_any_preset(name, [*(assignments if name in LARGER else ()), f"core.axi_bits={8 * count}"])
            assert isinstance(config, CoreConfig)
            for each in work(config.tile):
                title = f"{each.name} {each.operation}"
                if layer not in title:
                    continue
                done, _, _ = run_layer(config, each)
                cycles[name, title] = done.cycles
                if name == "core":
                    continue
                ratio = cycles["core", title] / done.cycles
                console.print(f"{name}, {count} bytes a cycle, {title}: {ratio:.2f}", markup=False)
                found[name][str(count)][title] = {
                    "cycles": done.cycles,
                    "core_cycles": cycles["core", title],
                    "ratio": round(ratio, 3),
                    "scheduled": round(done.counters["scheduled"] / done.cycles, 3),
                    **{unit: round(done.counters[f"{unit}_busy"] / done.cycles, 3) for unit in LISTED_UNITS},
                }
    return found


def output_units(cores: Mapping[str, CoreConfig], shortest: Work, console: Console) -> Iterator[dict[str, Any]]:
    """Yield the logic and the speed of cores whose output unit adds to a row in 1, 2 and 4 cycles.

    The speed is measured on the layer with the shortest passes. Biases give the unit sums to add.
    """
    from tensordash_synth.core_cost import synthesize_core

    # Biases are FP16 values, so that the core, like PyTorch, drops none of their bits.
    biases = np.random.default_rng(2).standard_normal(shortest.layer.filters).astype(np.float16).astype(np.float32)
    biased = replace(shortest, values={**shortest.values, "bias": biases})
    for cycles in RESULT_CYCLES:
        variants = {name: replace(config, result_cycles=cycles) for name, config in cores.items()}
        console.print(f"output unit of {cycles} cycles a row", markup=False)
        logic = synthesize_core(variants["core"], progress=lambda line: console.print(line, markup=False)).to_json()
        figures = layer_figures(biased, variants)
        yield {
            "result_cycles": cycles,
            "logic": logic,
            **{name: figures[name] for name in ("busy", "speedup", "speedup_ratio")},
        }


def compression(config: CoreConfig, zeros: float, groups: int = 1024) -> dict[str, Any]:
    """Load and store a tensor, plain and compressed; return the traffic ratio, and the cycles for a group."""
    rng = np.random.default_rng(1)
    size = config.tile.lanes**2
    values = rng.integers(1, 1 << 15, (groups, size))
    flat = np.where(rng.random(values.shape) < zeros, 0, values).reshape(-1, config.tile.lanes, config.tile.lanes)
    cut = to_groups(flat, config).reshape(groups, size)
    data, table = deflate(cut, config, segment=SEGMENT)
    plain, packed, index, written, written_index = 0x1000, 0x20000, 0x40000, 0x50000, 0x70000
    found: dict[str, Any] = {"zeros": zeros}
    moved = {}
    for kind in ("plain", "compressed"):
        image = Memory(1 << 20)
        for at, each in ((plain, cut.tobytes()), (packed, data), (index, table.astype("<u4").tobytes())):
            image.write(at, each)
        program = Program()
        fields: dict[str, Any] = {"address": 0, "count_0": groups}
        if kind == "plain":
            program.add("load", memory=plain, signal=["store"], **fields)
            program.add("store", memory=written, wait=["load"], **fields)
        else:
            fields |= {"compressed": 1, "segment": SEGMENT}
            program.add("load", memory=packed, table=index, signal=["store"], **fields)
            program.add("store", memory=written, table=written_index, wait=["load"], **fields)
        program.add("end")
        done, left = run(config, program, bytes(image.bytes))
        golden = GoldenCore(config, image)
        if golden.run(program.descriptors).error or bytes(image.bytes) != left:
            raise SystemExit(f"{kind} moves of {zeros:.0%} zeros are not golden's")
        moved[kind] = done.counters["read_beats"] + done.counters["write_beats"]
        found[f"{kind}_cycles_per_group"] = {
            unit: round(done.counters[f"{unit}_busy"] / groups, 3) for unit in ("load", "store")
        }
    return {**found, "traffic_ratio": round(moved["compressed"] / moved["plain"], 3)}


def random_programs(config: CoreConfig, count: int) -> int:
    """Run random programs and compare memory and outcome with the golden core's; return their number."""
    with VerilatedCore(config, 1 << 17, latency=(0, 100), pause=0.2, seed=1) as core:
        for seed in range(count):
            case = random_program(Random(seed), config)
            golden = GoldenCore(config, case.memory)
            core.memory[:] = np.frombuffer(case.memory.bytes, np.uint8)
            wanted = golden.run(case.program.descriptors)
            found = core.run(case.program.descriptors, PROGRAM).outcome
            ring = slice(PROGRAM, PROGRAM + 4096)
            core.memory[ring] = np.frombuffer(golden.memory.bytes, np.uint8)[ring]
            if found != wanted or core.memory.tobytes() != bytes(golden.memory.bytes):
                raise SystemExit(f"random program {seed} ({case.title}): {found}, golden has {wanted}")
    return count


def main() -> int:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("--json", action="store_true", help="print only one JSON document on stdout")
    parser.add_argument("--programs", type=int, default=1000, metavar="N", help="random programs (default: 1000)")
    parser.add_argument("--no-logic", action="store_true", help="no synthesis")
    parser.add_argument("--over-core", action="store_true", help="only compare `core-wide` with `core`")
    parser.add_argument("--layer", default="", metavar="TEXT", help="with --over-core: layers whose name contains this")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="with --over-core: a key to change"
    )
    parser.add_argument("--page", action="store_true", help="write docs/core.json and docs/core-results.md")
    arguments = parser.parse_args()
    console = Console(stderr=True, highlight=False)
    if arguments.over_core:
        if arguments.page and (arguments.layer or arguments.set):
            parser.error("--page is for all layers and the preset's keys: it goes with neither --layer nor --set")
        figures = {"over_core": over_core(arguments.layer, arguments.set, console), "over_core_at": measured_at()}
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
    layers = list(work(cores["core"].tile))
    for each in layers:
        document["layers"].append(layer_figures(each, cores))
        console.print(f"{each.name} {each.operation}: {document['layers'][-1]['busy']:.3f} busy", markup=False)
    document |= {"over_core": over_core("", [], console), "over_core_at": measured_at()}
    document["compression"] = [compression(cores["core"], zeros) for zeros in (0.0, 0.5, 0.9)]
    console.print(f"{random_programs(cores['core'], arguments.programs)} random programs leave golden's bits")
    if not arguments.no_logic:
        shortest = next(each for each in layers if (each.name, each.operation) == SHORTEST)
        document["output_units"] = list(output_units(cores, shortest, console))
        document["logic"] = next(
            each["logic"] for each in document["output_units"] if each["result_cycles"] == cores["core"].result_cycles
        )
    document |= _goals(document)
    if arguments.page:
        _write_page(document | {"command": "python bench/core.py --page", **measured_at()})
    if arguments.json:
        print_json(document)
    else:
        print(tables(document))
    return 0


def _write_page(document: Mapping[str, Any]) -> None:
    """Write docs/core.json and docs/core-results.md."""
    store_figures(RESULTS, document)
    atomic_write(PAGE, written(PAGE.read_text(encoding="utf-8"), document))


def tables(document: Mapping[str, Any]) -> str:
    """Return the figures as tables in Markdown."""
    missed = sum(each[name] < GOALS[name] for each in document["layers"] for name in ("busy", "speedup_ratio"))
    return render("core_figures", document=document, goals=GOALS, shortest=SHORTEST, missed=missed)


def written(text: str, document: Mapping[str, Any]) -> str:
    """Return docs/core-results.md with its tables."""
    return replace_between(text, "<!-- figures -->", "<!-- end of figures -->", tables(document))


def _goals(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures that have goals, by layer if they belong to layers."""
    by_layer = {
        name: {f"{each['name']} {each['operation']}": each[name] for each in document["layers"]}
        for name in ("busy", "speedup_ratio")
    }
    half = next(each for each in document["compression"] if each["zeros"] == 0.5)
    found = {**by_layer, "traffic_ratio": half["traffic_ratio"]}
    if "logic" in document:
        found["logic_ratio"] = document["logic"]["logic_ratio"]
    return found


if __name__ == "__main__":
    sys.exit(main())
