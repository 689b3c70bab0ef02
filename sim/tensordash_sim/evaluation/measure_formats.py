"""Functions of jobs that quantise recorded values or prune weights, and simulate the resulting zeros."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.parameters import require_choice

from ..lowering import Geometry, Operation, geometry_from_json, reduction
from ..performance.chip import ChipConfig, Machine, simulate_operation
from ..trace import Record, Trace
from ..trace.layer_operands import recorded_values
from .block_formats import BLOCK_FORMATS, hadamard, quantise
from .measure import short

__all__ = [
    "PATTERNS",
    "TRANSFORMED",
    "pruned_product",
    "pruned_step",
    "pruned_weights",
    "quantised_mask",
    "quantised_step",
    "two_of_four",
]

TRANSFORMED = 16
"""Values of a Hadamard transform if the format has no blocks: NVFP4's block size."""
BLOCK = 4
"""Block size of 2:4, which keeps two values of each block."""
PATTERNS = ("2:4", "half")
"""Pruning patterns."""


def _records(path: str, digest: str, step: int) -> tuple[Record, ...]:
    trace = Trace.open(Path(path))
    if trace.digest != digest:
        raise ValueError(f"{path} must be the trace {digest}, not {trace.digest}: it changed during the run")
    return next(each for each in trace.steps if each.index == step).records


def quantised_mask(
    values: NDArray, geometry: Geometry, operation: Operation, name: str, fmt: str | None, seed: int | None
) -> NDArray[np.bool_]:
    """Return the mask of an operand after quantisation to a format with blocks along the operation's reduction.

    Parameters
    ----------
    values : array of float
        In the shape that the geometry gives the operand.
    geometry, operation, name : Geometry, Operation, str
        The layer, its operation, and the operand.
    fmt : str or None
        A name of `BLOCK_FORMATS`. None leaves values unchanged.
    seed : int or None
        Seed of a Hadamard transform of each block before quantisation. None for no transform.

    Examples
    --------
    In AxW, blocks run along a row of W, so the second row has a scale of its own.

    >>> from ..lowering import MatrixProduct
    >>> linear = MatrixProduct(batch=1, samples=1, in_features=2, out_features=2)
    >>> w = np.array([[[6.0, 6.0], [0.2, 0.2]]])
    >>> quantised_mask(w, linear, Operation("AxW"), "W", "mxfp4", None).tolist()
    [[[True, True], [True, True]]]
    >>> quantised_mask(w, linear, Operation("WxG"), "W", "mxfp4", None).tolist()
    [[[True, True], [False, False]]]
    """
    shape, axis = reduction(geometry, operation, name)
    seen = values.reshape(shape)
    chosen = None if fmt is None else BLOCK_FORMATS[fmt]
    if seed is not None:
        seen = hadamard(seen, (chosen.block if chosen else None) or TRANSFORMED, axis, seed)
    if chosen is not None:
        seen = quantise(seen, chosen, axis)
    mask: NDArray[np.bool_] = (seen != 0).reshape(values.shape)
    return mask


def quantised_step(
    digest: str, step: int, tile: Mapping[str, Any], fmt: str | None, seed: int | None, *, path: str
) -> dict[str, Any]:
    """Quantise all operations of a recorded step to a format, count zeros, and simulate one tile.

    Parameters
    ----------
    digest, step, path
        As in `recorded_step`. The trace must have values.
    tile : dict
        The result of `TileConfig.to_mapping`.
    fmt, seed
        As in `quantised_mask`.

    Returns
    -------
    dict
        For each operation: number of values and zeros by operand, and the results of a tile that skips the zeros of the
        sparser side (`rows`) and of a tile that skips the zeros of both sides (`both`).

    Raises
    ------
    TraceError
        If the trace has no values.
    """
    config, chip = TileConfig.from_mapping(tile), replace(ChipConfig(), tiles=1)
    machines = {sparsity: Machine(replace(config, sparsity=sparsity), chip) for sparsity in ("rows", "both")}
    found = []
    for record in _records(path, digest, step):
        operation = record.operation
        masks = {
            name: quantised_mask(recorded_values(record, name), record.geometry, operation, name, fmt, seed)
            for name in (operation.left, operation.right)
        }
        results = {
            sparsity: short(simulate_operation(record.geometry, operation, masks, machine))
            for sparsity, machine in machines.items()
        }
        counts = {name: {"values": mask.size, "zeros": int((~mask).sum())} for name, mask in masks.items()}
        found.append({"layer": record.layer, "operation": str(operation), "operands": counts, **results})
    return {"operations": found}


def two_of_four(values: NDArray, axis: int) -> NDArray[np.bool_]:
    """Return a mask of the two largest magnitudes of each four consecutive values. In ties, the first value wins.

    Parameters
    ----------
    values : array of float, any shape
        Weights.
    axis : int
        Axis along which blocks of four run. The last block may be shorter, and also keeps up to two values.

    Examples
    --------
    >>> two_of_four(np.array([[1.0, -4.0, 3.0, 2.0, 5.0, 5.0, 5.0]]), axis=1).tolist()
    [[False, True, True, False, True, True, False]]
    """
    last = np.moveaxis(np.abs(values), axis, -1)
    extent = last.shape[-1]
    filled = np.pad(last, [(0, 0)] * (last.ndim - 1) + [(0, -extent % BLOCK)], constant_values=-1.0)
    blocks = filled.reshape(*last.shape[:-1], -1, BLOCK)
    ranks = np.argsort(np.argsort(-blocks, axis=-1, kind="stable"), axis=-1, kind="stable")
    is_kept = (ranks < BLOCK // 2).reshape(filled.shape)[..., :extent]
    return np.moveaxis(is_kept, -1, axis)


def pruned_weights(values: NDArray, geometry: Geometry, pattern: str) -> NDArray[np.bool_]:
    """Return a mask of half of a layer's weights, those of larger magnitude.

    Parameters
    ----------
    values : array of float
        W.
    geometry : Geometry
        The layer.
    pattern : str
        "2:4": two of four along the reduction of AxW. "half": the larger half of the tensor.

    Raises
    ------
    ValueError
        If the pattern is unknown.
    """
    require_choice("pattern", pattern, PATTERNS)
    if pattern == "2:4":
        shape, axis = reduction(geometry, Operation.FORWARD, "W")
        return two_of_four(values.reshape(shape), axis).reshape(values.shape)
    order = np.argsort(-np.abs(values).ravel(), kind="stable")
    mask = np.zeros(values.size, np.bool_)
    mask[order[: values.size // 2]] = True
    return mask.reshape(values.shape)


def _with_weights(
    geometry: Geometry, mask: NDArray[np.bool_], operation: Operation, tile: Mapping[str, Any]
) -> dict[str, Any]:
    """Simulate an operation on a tile that schedules W. The other operand has no zeros."""
    side = "left" if operation.left == "W" else "right"
    machine = Machine(TileConfig.from_mapping(tile), replace(ChipConfig(), tiles=1), side=side)
    other = operation.right if side == "left" else operation.left
    masks = {"W": mask, other: np.ones(geometry.shapes[other], np.bool_)}
    return {"operation": str(operation)} | short(simulate_operation(geometry, operation, masks, machine))


def pruned_product(geometry: Mapping[str, Any], tile: Mapping[str, Any], pattern: str, seed: int) -> dict[str, Any]:
    """Simulate AxW and WxG of a layer with pruned random weights on one tile that schedules W.

    Parameters
    ----------
    geometry : dict
        The result of `Geometry.to_json`.
    tile : dict
        The result of `TileConfig.to_mapping`.
    pattern : str
        As in `pruned_weights`.
    seed : int
        Seed of the weights.
    """
    layer = geometry_from_json(geometry)
    values = np.random.default_rng(seed).standard_normal(layer.shapes["W"])
    mask = pruned_weights(values, layer, pattern)
    operations = (Operation.FORWARD, Operation.INPUT_GRADIENT)
    return {"operations": [_with_weights(layer, mask, operation, tile) for operation in operations]}


def pruned_step(digest: str, step: int, tile: Mapping[str, Any], pattern: str, *, path: str) -> dict[str, Any]:
    """Simulate AxW and WxG of every layer of a recorded step with its pruned weights, as `pruned_product` does.

    Parameters
    ----------
    digest, step, path
        As in `quantised_step`.
    tile, pattern
        As in `pruned_product`.

    Raises
    ------
    TraceError
        If the trace has no values.
    """
    found = []
    for record in _records(path, digest, step):
        if "W" in record.operands:
            mask = pruned_weights(recorded_values(record, "W"), record.geometry, pattern)
            found.append({"layer": record.layer} | _with_weights(record.geometry, mask, record.operation, tile))
    return {"operations": found}
