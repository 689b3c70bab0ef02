"""Function of a job: simulates the products of a training step in published shapes, and plans the step."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig

from ..lowering import Convolution, Geometry, MatrixProduct, Operation
from ..performance.chip import ChipConfig, Machine, masked_rounds, simulate_operation
from ..performance.planner import MEASURES, Budget, Cycles, Graph, Plan, gpt_block, plan_step, replay, resnet50, vgg16
from .measure import needed_passes, static_mask

__all__ = ["ORDER", "PublishedProducts", "published_step"]

ORDER = "order"
"""The last measure: rows grouped by density, the faster side scheduled, and samples joined if that is faster."""
CAUSAL = {"attention.scores": "G", "attention.values": "A"}
"""Operands with zeros for later positions."""
UNNEEDED = {("attention.scores", Operation.FORWARD), ("attention.values", Operation.INPUT_GRADIENT)}
"""Products whose results for later positions are not needed."""


def published_step(
    workload: str,
    tile: Mapping[str, Any],
    zeros: float,
    images: int,
    simulated: int,
    block: int,
    size: int,
    thin: int,
    gbps: Sequence[float],
    seed: int,
    every: bool = True,
) -> dict[str, Any]:
    """Return a step's cycles on TensorDash and on the baseline, by bandwidth and number of measures.

    Each row has its own two plans. `planner.replay` checks each plan.

    Parameters
    ----------
    workload : str
        "vgg16", "resnet50", "resnet50-ghost", "gpt" or "gpt-masked". "gpt-masked" does not compute masked outputs.
    tile : dict
        The result of `TileConfig.to_mapping`.
    zeros : float
        Share of zeros in activations and gradients; for "gpt", in the weights of linear layers.
    images, simulated : int
        Images of a batch, and of those the simulated ones. Cycles of convolutions are scaled from `simulated` to
        `images`.
    block : int
        Block size of the weights' mask, as in `static_mask`.
    size, thin : int
        Extent of images, and divisor of all widths. 224 and 1 are published.
    gbps : sequence of float
        DRAM bandwidths in GB/s.
    seed : int
        Seed of the zeros.
    every : bool
        Whether each measure has a row. If false, rows have none or all of them: a plan of hundreds of nodes takes a
        minute.

    Returns
    -------
    dict
        "rows": a list of "gbps", "measures" (names), and for "dense" and "sparse" each "cycles", "on_chip",
        "dram_cycles", "dram_bytes", "stages". "macs": multiplications of all products.
    """
    config, chip = TileConfig.from_mapping(tile), ChipConfig()
    products = PublishedProducts(config, chip, workload, zeros, images, simulated, block, seed)

    def graph(cycles: Cycles) -> Graph:
        if workload.startswith("gpt"):
            return gpt_block(zeros, cycles, thin=thin)
        if workload == "vgg16":
            return vgg16(images, zeros, cycles, size=size, thin=thin)
        return resnet50(images, zeros, cycles, ghost=workload.endswith("ghost"), size=size, thin=thin)

    graphs = {
        (which, order): graph(products.cycles(which, order)) for which in ("dense", "sparse") for order in (False, True)
    }
    rows = []
    names = list(MEASURES)
    for rate in gbps:
        budget = Budget.of(chip, gbps=rate, columns=config.columns)
        for count in range(len(names) + 2) if every else (0, len(names) + 1):
            measures, order = names[:count], count > len(names)
            row: dict[str, Any] = {"gbps": rate, "measures": [*measures, *([ORDER] if order else [])]}
            for which in ("dense", "sparse"):
                plan = plan_step(graphs[which, order], budget, measures)
                replay(plan)
                row[which] = _short(plan)
            rows.append(row)
    return {"rows": rows, "macs": products.macs}


def _short(plan: Plan) -> dict[str, Any]:
    return {
        "cycles": plan.cycles,
        "on_chip": plan.on_chip,
        "dram_cycles": plan.dram_cycles,
        "dram_bytes": plan.dram,
        "stages": len(plan.stages),
    }


class PublishedProducts:
    """Cycles of products. Each product is simulated once.

    Parameters
    ----------
    config, chip : TileConfig, ChipConfig
        Tiles.
    workload, zeros, images, simulated, block, seed
        As for `published_step`.
    """

    def __init__(
        self,
        config: TileConfig,
        chip: ChipConfig,
        workload: str,
        zeros: float,
        images: int,
        simulated: int,
        block: int,
        seed: int,
    ) -> None:
        self.config, self.chip, self.workload, self.zeros = config, chip, workload, zeros
        self.images, self.simulated, self.block, self.seed = images, simulated, block, seed
        self.macs = 0
        self._known: dict[tuple[Any, ...], dict[str, tuple[int, int]]] = {}

    def cycles(self, which: str, order: bool) -> Cycles:
        """Return a function that computes the cycles of a product on "dense" or "sparse" tiles."""

        def of(geometry: Geometry, operation: Operation, kind: str) -> tuple[int, int]:
            key = (repr(geometry), operation, kind if kind in CAUSAL else "", order)
            if key not in self._known:
                self._known[key] = self._simulated(geometry, operation, kind, order)
            if which == "dense" and not order:
                self.macs += geometry.macs
            return self._known[key][which]

        return of

    def _simulated(
        self, geometry: Geometry, operation: Operation, kind: str, order: bool
    ) -> dict[str, tuple[int, int]]:
        smaller, times = self._smaller(geometry)
        masks = self.masks(smaller, operation, kind)
        how: dict[str, Any] = {"row_order": "density", "side": "faster"} if order else {}
        machine = Machine(self.config, self.chip, **how)
        apart = simulate_operation(smaller, operation, masks, machine)
        found = {"dense": apart.dense_on_chip, "sparse": apart.on_chip}
        whole = dict(found)
        is_sum = operation is Operation.WEIGHT_GRADIENT and isinstance(geometry, Convolution)
        if is_sum and order:
            joined = simulate_operation(smaller, operation, masks, replace(machine, join_samples="always"))
            whole = {
                "dense": min(apart.dense_on_chip, joined.dense_on_chip),
                "sparse": min(apart.on_chip, joined.on_chip),
            }
        if (outputs := self.needed_outputs(smaller, operation, kind)) is not None:
            steps = ceil(
                smaller.shapes["W" if operation is not Operation.WEIGHT_GRADIENT else "A"][_REDUCED[operation]]
                / self.config.lanes
            )
            masked = masked_rounds(needed_passes(outputs, self.config), self.config, self.chip) * steps
            found["sparse"] = whole["sparse"] = min(masked, found["sparse"])
        return {
            which: (whole[which] * times, found[which] * times if found[which] != whole[which] else 0)
            for which in found
        }

    def _smaller(self, geometry: Geometry) -> tuple[Geometry, int]:
        """Return the part of a product to simulate, and the factor from its cycles to the product's."""
        if isinstance(geometry, Convolution):
            return replace(geometry, batch=self.simulated), self.images // self.simulated
        if isinstance(geometry, MatrixProduct) and geometry.batch > 1:
            return replace(geometry, batch=1), geometry.batch
        return geometry, 1

    def masks(self, geometry: Geometry, operation: Operation, kind: str) -> dict[str, NDArray[np.bool_]]:
        """Return the nonzero positions of a product's operands, drawn by the seed."""
        rng = np.random.default_rng(self.seed)
        masks: dict[str, NDArray[np.bool_]] = {}
        for name in (operation.left, operation.right):
            shape = geometry.shapes[name]
            masks[name] = np.ones(shape, np.bool_)
            if not self.workload.startswith("gpt"):
                if name != "W":
                    masks[name] = np.asarray(rng.random(shape, np.float32) >= self.zeros)
            elif kind in CAUSAL:
                if name == CAUSAL[kind]:
                    masks[name] = np.tril(np.ones(shape, np.bool_))
            elif name == "W":
                masks[name] = static_mask(shape[1:], self.zeros, self.block, self.seed)[None]
        return masks

    def needed_outputs(self, geometry: Geometry, operation: Operation, kind: str) -> NDArray[np.bool_] | None:
        """Return a mask of the outputs that are needed, without the batch; None if all of them are computed."""
        if self.workload != "gpt-masked":
            return None
        if kind in CAUSAL:
            is_causal = (kind, operation) in UNNEEDED
            return np.tril(np.ones(geometry.shapes[operation.output][1:], np.bool_)) if is_causal else None
        if operation is not Operation.WEIGHT_GRADIENT:
            return None
        return static_mask(geometry.shapes["W"][1:], self.zeros, self.block, self.seed)


_REDUCED = {Operation.FORWARD: 2, Operation.INPUT_GRADIENT: 1, Operation.WEIGHT_GRADIENT: 1}
"""Reduced axis of a matrix product, by operation: an axis of W or, for the weight gradient, of A."""
