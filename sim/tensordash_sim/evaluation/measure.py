"""What jobs do: cycles and energy of random streams, of layers with random zeros, of recorded steps."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig

from ..cycles import random_counts
from ..lowering import Geometry, MatrixProduct, Operation, geometry_from_json
from ..performance.chip import ChipConfig, Machine, OperationResult, simulate_operation
from ..trace import Trace

__all__ = [
    "FIELDS",
    "layer_with_random_zeros",
    "masked_outputs",
    "product_with_static_mask",
    "random_streams",
    "recorded_step",
    "short",
    "static_mask",
]

FIELDS = (
    "scheduled",
    "macs",
    "zeros",
    "padding_share",
    "ideal_speedup",
    "dense_compute",
    "compute",
    "dense_shared",
    "shared",
    "dense_unpadded",
    "dense_cycles",
    "cycles",
    "limit",
    "dense_energy",
    "energy",
    "dense_busy",
    "busy",
    "dense_on_chip",
    "on_chip",
)
"""Of an operation's result, what figures are made of."""


def short(result: OperationResult) -> dict[str, Any]:
    """Return the fields that figures read: `FIELDS`, and bytes of DRAM traffic."""
    document = result.to_json()
    return {name: document[name] for name in FIELDS} | {"traffic": {"dram": result.traffic.dram}}


def _machine(tile: Mapping[str, Any], tiles: int, row_order: str, **how: Any) -> Machine:
    return Machine(TileConfig.from_mapping(tile), replace(ChipConfig(), tiles=tiles), row_order=row_order, **how)


def random_streams(
    tile: Mapping[str, Any], zeros: float, steps: int, length: int, seeds: Sequence[int], cluster: str, row_order: str
) -> dict[str, Any]:
    """Speedups of one tile on random zeros, a sample for each seed.

    Parameters
    ----------
    tile : dict
        `TileConfig.to_mapping`.
    zeros, steps, length, cluster, row_order
        As in `random_counts`.
    seeds : sequence of int
        Of the samples.
    """
    config = TileConfig.from_mapping(tile)
    options: dict[str, Any] = {"zeros": zeros, "steps": steps, "length": length}
    options |= {"cluster": cluster, "row_order": row_order}
    counts = [random_counts(config, seed=seed, **options) for seed in seeds]
    speedups = [count.speedup for count in counts]
    return {"speedups": speedups, "cycles": [count.cycles for count in counts]}


def layer_with_random_zeros(
    geometry: Mapping[str, Any],
    operations: Sequence[str],
    tile: Mapping[str, Any],
    tiles: int,
    zeros: Mapping[str, float],
    seed: int,
    row_order: str,
) -> dict[str, Any]:
    """Return the results of a layer with random operands.

    Parameters
    ----------
    geometry, operations
        The layer (`Geometry.to_json`) and what is done.
    tile, tiles, row_order
        `TileConfig.to_mapping`, how many tiles the chip has, and which vectors share the rows of one.
    zeros : dict of str to float
        Chance of a zero in A, W and G.
    seed : int
        Of the operands.
    """
    layer, machine = geometry_from_json(geometry), _machine(tile, tiles, row_order)
    rng = np.random.default_rng(seed)
    masks = {name: rng.random(shape, np.float32) >= zeros[name] for name, shape in layer.shapes.items()}
    return {
        name: short(simulate_operation(layer, operation := Operation(name), _sides(masks, operation), machine))
        for name in operations
    }


def _sides(masks: Mapping[str, NDArray[np.bool_]], operation: Operation) -> dict[str, NDArray[np.bool_]]:
    return {name: masks[name] for name in (operation.left, operation.right)}


def recorded_step(
    digest: str,
    step: int,
    tile: Mapping[str, Any],
    tiles: int,
    row_order: str,
    *,
    path: str,
    side: str = "sparser",
    join_samples: str = "never",
) -> dict[str, Any]:
    """Return the results of every operation of a recorded step.

    Parameters
    ----------
    digest : str
        Of the trace: what is simulated is its content, wherever it lies.
    step : int
        Index of the step.
    tile, tiles, row_order
        As in `layer_with_random_zeros`.
    path : str
        Of the trace.
    side, join_samples
        As in `Machine`.

    Raises
    ------
    ValueError
        Another trace has come to lie there.
    """
    trace = Trace.open(Path(path))
    machine = _machine(tile, tiles, row_order, side=side, join_samples=join_samples)
    if trace.digest != digest:
        raise ValueError(f"{path} must be the trace {digest}, not {trace.digest}: it changed during the run")
    results = []
    for record in next(each for each in trace.steps if each.index == step).records:
        operation = record.operation
        masks = {name: record.mask(name) for name in (operation.left, operation.right)}
        result = simulate_operation(record.geometry, operation, masks, machine)
        results.append({"layer": record.layer, "operation": str(operation)} | short(result))
    return {"operations": results}


def static_mask(shape: tuple[int, ...], zeros: float, block: int, seed: int) -> NDArray[np.bool_]:
    """Weights that are not zero, those of a square block together.

    >>> static_mask((2, 4), zeros=0.5, block=2, seed=2)
    array([[ True,  True, False, False],
           [ True,  True, False, False]])
    """
    outputs, inputs = shape
    rng = np.random.default_rng(seed)
    coarse = rng.random((-(-outputs // block), -(-inputs // block)), np.float32) >= zeros
    return np.kron(coarse, np.ones((block, block), bool))[:outputs, :inputs].astype(bool)


def product_with_static_mask(
    geometry: Mapping[str, Any],
    operation: str,
    tile: Mapping[str, Any],
    zeros: float,
    block: int,
    causal: str | None,
    seed: int,
) -> dict[str, Any]:
    """Result of an operation with weights that are zero at random, and one operand that may be causal; on one tile.

    Parameters
    ----------
    geometry, operation, tile
        As in `layer_with_random_zeros`.
    zeros, block : float, int
        Of W, as in `static_mask`.
    causal : str or None
        The operand, "A" or "G", that is zero where its last index is above the one before.
    seed : int
        Of the mask.
    """
    layer = geometry_from_json(geometry)
    masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
    masks["W"] = static_mask(masks["W"].shape[1:], zeros, block, seed)[None]
    if causal is not None:
        masks[causal] = np.tril(masks[causal])
    wanted = Operation(operation)
    return short(simulate_operation(layer, wanted, _sides(masks, wanted), _machine(tile, 1, "natural")))


def masked_outputs(
    geometry: Mapping[str, Any], tile: Mapping[str, Any], zeros: float, block: int, seed: int
) -> dict[str, Any]:
    """Passes of a weight gradient that have an output which is kept: where the weight is not zero.

    A tile gives rows x columns outputs in a pass; it can leave out a pass none of whose outputs is kept.

    Parameters
    ----------
    geometry : dict
        A linear layer.
    tile : dict
        `TileConfig.to_mapping`.
    zeros, block, seed
        As in `static_mask`.
    """
    layer: Geometry = geometry_from_json(geometry)
    if not isinstance(layer, MatrixProduct) or layer.batch != 1:
        raise ValueError(f"geometry must be a linear layer, not {geometry}")
    config = TileConfig.from_mapping(tile)
    mask = static_mask((layer.out_features, layer.in_features), zeros, block, seed)
    padded = np.pad(
        mask, [(0, -extent % size) for extent, size in zip(mask.shape, (config.rows, config.columns), strict=True)]
    )
    blocks = padded.reshape(padded.shape[0] // config.rows, config.rows, -1, config.columns)
    nonzero_passes = int(blocks.any(axis=(1, 3)).sum())
    passes = blocks.shape[0] * blocks.shape[2]
    return {"passes": passes, "kept_passes": nonzero_passes, "outputs": mask.size, "kept_outputs": int(mask.sum())}
