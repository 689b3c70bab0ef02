"""Functions of jobs: cycles and energy of random streams, layers with random zeros, and recorded steps."""

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
    "needed_passes",
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
"""Fields of an operation's result that figures read."""


def short(result: OperationResult) -> dict[str, Any]:
    """Return the fields that figures read: `FIELDS`, and bytes of DRAM traffic."""
    document = result.to_json()
    return {name: document[name] for name in FIELDS} | {"traffic": {"dram": result.traffic.dram}}


def _machine(tile: Mapping[str, Any], tiles: int, row_order: str, **how: Any) -> Machine:
    return Machine(TileConfig.from_mapping(tile), replace(ChipConfig(), tiles=tiles), row_order=row_order, **how)


def random_streams(
    tile: Mapping[str, Any], zeros: float, steps: int, length: int, seeds: Sequence[int], cluster: str, row_order: str
) -> dict[str, Any]:
    """Return speedups and cycles of one tile on random zeros, one sample per seed.

    Parameters
    ----------
    tile : dict
        The result of `TileConfig.to_mapping`.
    zeros, steps, length, cluster, row_order
        As in `random_counts`.
    seeds : sequence of int
        Seeds of the samples.
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
        The layer (a result of `Geometry.to_json`) and its operations to simulate.
    tile : dict
        The result of `TileConfig.to_mapping`.
    tiles : int
        Number of tiles on the chip.
    row_order : str
        As in `Machine`.
    zeros : dict of str to float
        Probability of a zero in A, W and G.
    seed : int
        Seed of the operands.
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
        Digest of the trace, which identifies its content.
    step : int
        Index of the step.
    tile, tiles, row_order
        As in `layer_with_random_zeros`.
    path : str
        Path of the trace.
    side, join_samples
        As in `Machine`.

    Raises
    ------
    ValueError
        If the trace at `path` has another digest.
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
    """Return a random mask of weights that are not zero. The weights of a square block have the same bit.

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
    """Return the result of an operation on one tile, with a random static mask of W and an optional causal operand.

    Parameters
    ----------
    geometry, operation, tile
        As in `layer_with_random_zeros`.
    zeros, block : float, int
        Share of zeros and block size of W, as in `static_mask`.
    causal : str or None
        The operand, "A" or "G", that is zero where its last index is above its second last.
    seed : int
        Seed of the mask.
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
    """Count the passes and outputs of a weight gradient that are needed, because the weight is not zero.

    A tile computes rows x columns outputs in a pass. It can skip a pass if none of its outputs is needed.

    Parameters
    ----------
    geometry : dict
        A linear layer.
    tile : dict
        The result of `TileConfig.to_mapping`.
    zeros, block, seed
        As in `static_mask`.
    """
    layer: Geometry = geometry_from_json(geometry)
    if not isinstance(layer, MatrixProduct) or layer.batch != 1:
        raise ValueError(f"geometry must be a linear layer, not {geometry}")
    config = TileConfig.from_mapping(tile)
    mask = static_mask((layer.out_features, layer.in_features), zeros, block, seed)
    needed = needed_passes(mask, config)
    outputs = {"outputs": mask.size, "kept_outputs": int(mask.sum())}
    return {"passes": needed.size, "kept_passes": int(needed.sum()), **outputs}


def needed_passes(outputs: NDArray[np.bool_], config: TileConfig) -> NDArray[np.bool_]:
    """Return a mask of the passes with an output that is needed, from a mask of the outputs."""
    sizes = (config.rows, config.columns)
    padded = np.pad(outputs, [(0, -extent % size) for extent, size in zip(outputs.shape, sizes, strict=True)])
    blocks: NDArray[np.bool_] = padded.reshape(padded.shape[0] // config.rows, config.rows, -1, config.columns)
    return np.logical_or.reduce(blocks, axis=(1, 3))
