"""Sparse GPT: speedup by weight sparsity, effect of skipping masked outputs, and DRAM traffic saved by fusion.

The network is the 13B GPT, as shapes. The experiment simulates one block and one sequence, with random static masks.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tensordash import load_preset
from tensordash.extras import require

from ..lowering import MatrixProduct, Operation
from ..performance.chip import ChipConfig
from ..report.figure import Point
from .experiment import Answers, Experiment, Plan
from .job import SimulationJob
from .measure import masked_outputs, product_with_static_mask
from .settings import Settings
from .texts import notes

__all__ = ["GPT", "ElementWise", "element_wise"]

LEVELS = (0.0, 0.5, 0.75, 0.875, 0.9375)
BLOCKS = (1, 4)
"""Edge length of the square blocks of weights that are pruned together: 1, or 4 as for a tile's outputs."""
PRUNED = ("qkv", "out", "up", "down")
SCORES = "attention.scores"
VALUES = "attention.values"
CAUSAL = {SCORES: "G", VALUES: "A"}
"""Operands with zeros for later positions."""
MASKED = {SCORES: "AxW", VALUES: "WxG"}
"""Operations whose results for later positions are not needed."""
HALF = 2
"""Bytes of an fp16 value."""


class Shape(NamedTuple):
    """Shapes of a block: products, number of heads, hidden size, sequence length."""

    products: dict[str, MatrixProduct]
    heads: int
    hidden: int
    length: int


def _block(scale: str) -> Shape:
    """Return the shapes of one block. Attention products have one head, because all heads are equal."""
    require("gpt", "torch")
    from ..networks.gpt import SCALES, gpt_geometries

    key = "tiny" if scale == "tiny" else "full"
    shape = SCALES[key]
    products = {}
    for name, geometry in gpt_geometries(scale=key):
        block, _, product = name.removeprefix("blocks.").partition(".")
        if block == "0" and isinstance(geometry, MatrixProduct):
            products[product] = MatrixProduct(**(vars(geometry) | {"batch": 1}))
    return Shape(products, shape.heads, shape.hidden, shape.length)


def _plan(settings: Settings) -> Plan:
    tile = load_preset("paper").to_mapping()
    plan: Plan = {}
    for name, geometry in _block(settings.scale).products.items():
        causal = CAUSAL.get(name)
        for zeros in LEVELS if name in PRUNED else LEVELS[:1]:
            for operation in Operation:
                parameters: dict[str, Any] = {"geometry": geometry.to_json(), "operation": str(operation), "tile": tile}
                parameters |= {"zeros": zeros, "causal": causal, "seed": settings.seed}
                for block in BLOCKS if name in PRUNED else BLOCKS[:1]:
                    job = SimulationJob(product_with_static_mask, parameters | {"block": block})
                    plan[name, zeros, str(operation), block] = job
            if name in PRUNED:
                for block in BLOCKS:
                    parameters = {"geometry": geometry.to_json(), "tile": tile, "zeros": zeros, "block": block}
                    plan[name, zeros, "outputs", block] = SimulationJob(
                        masked_outputs, parameters | {"seed": settings.seed}
                    )
    return plan


class _Cycles(NamedTuple):
    dense: float
    sparse: float
    passes: float
    """Sparse cycles without the passes whose outputs are all masked."""
    bound: float
    """Sparse cycles in proportion to the outputs that are not masked."""


def _cycles(shape: Shape, answers: Answers, zeros: float, operation: str, block: int = 1) -> _Cycles:
    """Return cycles of a block of the network on one tile, with weights masked in blocks."""
    dense = sparse = passes = bound = 0.0
    for name in shape.products:
        count = 1 if name in PRUNED else shape.heads
        result = _answer(answers, name, zeros, operation, block)
        taken = result["compute"] * count
        pass_share = output_share = 1.0
        if MASKED.get(name) == operation:
            # Half of the positions are needed. Tiles on the diagonal compute all of their outputs.
            output_share = (1 + 1 / shape.length) / 2
            pass_share = (1 + load_preset("paper").rows / shape.length) / 2
        elif name in PRUNED and operation == "AxG":
            found = answers[name, zeros, "outputs", block]
            pass_share, output_share = found["kept_passes"] / found["passes"], found["kept_outputs"] / found["outputs"]
        dense, sparse = dense + result["dense_compute"] * count, sparse + taken
        passes, bound = passes + taken * pass_share, bound + taken * output_share
    return _Cycles(dense, sparse, passes, bound)


def _answer(answers: Answers, name: str, zeros: float, operation: str, block: int = 1) -> Mapping[str, Any]:
    """Return a job's answer. Products of attention have no weights, so they have one answer for all sparsities."""
    return answers[(name, zeros, operation, block) if name in PRUNED else (name, LEVELS[0], operation, 1)]


class ElementWise(NamedTuple):
    """An element-wise operation of a block's step, and the DRAM accesses it needs.

    On its own, the operation reads and writes `alone` tensors of `values` values each. Fused with the product before or
    after it, which has the other tensors on chip, it reads and writes `fused` tensors. Fusing normalization and softmax
    needs a complete row on chip. The backward pass recomputes their values from their inputs.
    """

    name: str
    values: int
    alone: int
    fused: int


def element_wise(shape: Shape) -> list[ElementWise]:
    """Return all element-wise operations of a block, forward and backward."""
    hidden, wide = shape.length * shape.hidden, 4 * shape.length * shape.hidden
    scores = shape.heads * shape.length**2
    return [
        ElementWise("normalizations", hidden, 2 * 2, 0),
        ElementWise("softmax", scores, 2, 0),
        ElementWise("residual additions", hidden, 2 * 3, 2 * 1),
        ElementWise("GELU", wide, 2, 0),
        ElementWise("residual additions, backward", hidden, 2 * 3, 2 * 1),
        ElementWise("GELU, backward", wide, 3, 1),
        ElementWise("softmax, backward", scores, 3, 1),
        ElementWise("normalizations, backward", hidden, 2 * 3, 2 * 1),
    ]


def _traffic(shape: Shape, answers: Answers, zeros: float) -> float:
    """Return the DRAM traffic of a block's products in bytes, with compressed operands."""
    return float(
        sum(
            _answer(answers, name, zeros, str(operation))["traffic"]["dram"] * (1 if name in PRUNED else shape.heads)
            for name in shape.products
            for operation in Operation
        )
    )


def _points(settings: Settings, answers: Answers) -> tuple[list[Point], list[str]]:
    shape = _block(settings.scale)
    points, values = [], dict[str, Any]()
    for zeros in LEVELS:
        cycles = {str(each): _cycles(shape, answers, zeros, str(each)) for each in Operation}
        dense = sum(each.dense for each in cycles.values())
        for operation, found in cycles.items():
            points.append(Point(metric="speedup", series=operation, x=zeros, ours=found.dense / found.sparse))
        blocked = [_cycles(shape, answers, zeros, str(each), BLOCKS[1]) for each in Operation]
        totals = {
            "TensorDash": sum(each.sparse for each in cycles.values()),
            "with skipped passes": sum(each.passes for each in cycles.values()),
            "without masked outputs": sum(each.bound for each in cycles.values()),
            "masks of 4 x 4 blocks": sum(each.sparse for each in blocked),
            "blocks with skipped passes": sum(each.passes for each in blocked),
        }
        for series, taken in totals.items():
            points.append(Point(metric="speedup of a step", series=series, x=zeros, ours=dense / taken))
        if zeros == 0.875:
            values["speedups"] = {name: dense / taken for name, taken in totals.items()}
    fusing = element_wise(shape)
    alone = sum(each.values * each.alone for each in fusing) * HALF
    fused = sum(each.values * each.fused for each in fusing) * HALF
    chip = ChipConfig()
    for zeros in LEVELS:
        products = _traffic(shape, answers, zeros)
        for series, bytes_moved in (("element-wise work on its own", alone), ("fused", fused)):
            points.append(
                Point(
                    metric="GB of DRAM traffic, a block's step",
                    series=series,
                    x=zeros,
                    ours=(products + bytes_moved) / 1e9,
                )
            )
        if zeros == 0.875:
            compute = sum(_cycles(shape, answers, zeros, str(each)).sparse for each in Operation) / chip.tiles
            values |= {"products": products, "alone": alone, "fused": fused, "compute": compute}
    return points, notes("gpt", bytes_per_cycle=chip.dram_bytes_per_cycle, **values)


GPT = Experiment.of("gpt", _plan, _points)
