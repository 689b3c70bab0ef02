"""Compare the planner's block of a GPT, whose masked outputs are not computed, with the Verilog of a core.

    python bench/masked_block.py           # write the page
    python bench/masked_block.py --core    # first run the block's products on Verilog: five minutes
    python bench/masked_block.py --json    # print the stored figures

The block is the one of `gpt-masked`, with width, length and heads divided by 20. The planner plans it on one tile with
a core's memory and bandwidth, each node alone. The element-wise nodes have no hardware, so only products are compared.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import DOCS, argument_parser, load_figures, measured_at, print_json, render, replace_between, store_figures
from past_four_core import CORES, Workload, run_workloads
from tensordash_sim.compiler.images import layer_values
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.layer import RESULTS as RESULT_OF
from tensordash_sim.evaluation.measure_published import PublishedProducts
from tensordash_sim.lowering import Geometry, MatrixProduct, Operation
from tensordash_sim.performance.chip import ChipConfig, Memory
from tensordash_sim.performance.planner import Budget, Graph, Node, gpt_block, plan_step
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "masked_block.json"
PAGE = DOCS / "planner.md"
CORE = CORES["skipped"]
CHIP = ChipConfig(tiles=1, memory=Memory(banks=32, bank_kib=1))
"""One tile; three memories that have the size of the core's buffer and stream buffers together."""
ZEROS = 0.875
BLOCK = 4
"""Rows and columns of the blocks in which weights are masked, and of a pass's results."""
THIN = 20
Product = tuple[Node, Geometry, Operation, str]
"""A node of the graph, its layer, its operation, and the kind by which its masks are drawn."""


def gbps() -> float:
    """Return the bandwidth of the core's port in one direction, in GB/s at the chip's clock."""
    return CORE.axi_bits / 8 * CHIP.clock_mhz / 1e3


def build_graph(drawn: PublishedProducts, which: str) -> tuple[Graph, list[Product]]:
    """Return the block's graph with the cycles of "dense" or "sparse" tiles, and its products."""
    calls: list[tuple[Geometry, Operation, str]] = []
    cycles = drawn.cycles(which, order=False)

    def recorded(geometry: Geometry, operation: Operation, kind: str) -> tuple[int, int]:
        calls.append((geometry, operation, kind))
        return cycles(geometry, operation, kind)

    graph = gpt_block(ZEROS, recorded, thin=THIN)
    nodes = [node for node in graph.nodes.values() if node.kind == "product"]
    return graph, [(node, *call) for node, call in zip(nodes, calls, strict=True)]


def predict(drawn: PublishedProducts, which: str) -> dict[str, dict[str, int]]:
    """Return each product's cycles on tiles alone ("tiles"), and with memory of the core's bandwidth ("step")."""
    graph, products = build_graph(drawn, which)
    plan = plan_step(graph, Budget.of(CHIP, gbps=gbps(), columns=CORE.tile.columns), ())
    stages = {stage.nodes: stage for stage in plan.stages}
    found = {}
    for node, *_ in products:
        stage = stages[node.name,]
        tiles = plan.budget.on_chip(stage)
        found[node.name] = {"tiles": tiles, "step": max(tiles, plan.budget.dram(stage))}
    return found


def workload(drawn: PublishedProducts, product: Product) -> Workload:
    """Return a product's values, and the mask of its results if some of them are not needed."""
    node, geometry, operation, kind = product
    assert isinstance(geometry, MatrixProduct)
    rng = np.random.default_rng(0)
    masks, outputs = drawn.masks(geometry, operation, kind), drawn.needed_outputs(geometry, operation, kind)
    values: dict[str, NDArray] = {}
    for name in OPERANDS[operation]:
        shape = geometry.shapes[name]
        values[name] = layer_values(geometry, name, (rng.standard_normal(shape) * masks[name]).astype(np.float16))
    if outputs is not None:
        result = RESULT_OF[operation]
        mask = np.broadcast_to(outputs, geometry.shapes[result]).astype(np.float16)
        values["mask"] = layer_values(geometry, result, mask)
    return node.name, Layer.of(geometry), str(operation), values


def measure() -> dict[str, Any]:
    """Return the planner's and the Verilog's cycles of each product. "masked" has the products with a mask."""
    drawn = PublishedProducts(CORE.tile, CHIP, "gpt-masked", ZEROS, images=1, simulated=1, block=BLOCK, seed=0)
    predicted = {which: predict(drawn, which) for which in ("dense", "sparse")}
    _, products = build_graph(drawn, "dense")
    workloads = [workload(drawn, each) for each in products]
    cycles = {name: dict(run_workloads(config, workloads, name)) for name, config in CORES.items()}
    masked = [name for name, _, _, values in workloads if "mask" in values]
    return {"thin": THIN, "gbps": gbps(), "predicted": predicted, "cycles": cycles, "masked": masked}


def group(name: str) -> str:
    """Return the row of the table in which a product is."""
    layer, _, operation = name.rpartition(".")
    return "attention" if layer.startswith("attention") else operation


def speedups(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the planner's and the Verilog's speedups by group of products, and of all."""
    rows = []
    predicted, cycles = figures["predicted"], figures["cycles"]
    for label, title in (
        ("AxW", "linear layers, AxW"),
        ("WxG", "linear layers, WxG"),
        ("AxG", "linear layers, AxG"),
        ("attention", "attention"),
        ("", "all products"),
    ):
        names = [name for name in cycles["dense"] if label in ("", group(name))]
        dense, sparse = (
            {key: sum(predicted[which][name][key] for name in names) for key in ("tiles", "step")}
            for which in ("dense", "sparse")
        )
        total = {core: sum(found[name] for name in names) for core, found in cycles.items()}
        rows.append(
            {
                "title": title,
                "predicted": {key: dense[key] / sparse[key] for key in dense},
                "measured": {core: total["dense"] / count for core, count in total.items()},
                "error": {"dense": dense["step"] / total["dense"], "skipped": sparse["step"] / total["skipped"]},
            }
        )
    return rows


def fill_page(text: str, figures: Mapping[str, Any]) -> str:
    """Return the page with its table."""
    filled = render("masked_block", figures=figures, rows=speedups(figures))
    return replace_between(text, "<!-- masked block -->", "<!-- /masked block -->", filled)


def main() -> None:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("--core", action="store_true", help="run the products on Verilog first")
    parser.add_argument("--json", action="store_true", help="print one JSON document; write nothing")
    arguments = parser.parse_args()
    figures = load_figures(RESULTS)
    if arguments.core:
        figures = {"command": "python bench/masked_block.py --core", **measured_at(), **measure()}
        store_figures(RESULTS, figures)
    if arguments.json:
        print_json({**figures, "speedups": speedups(figures)})
        return
    atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8"), figures))


if __name__ == "__main__":
    main()
