"""Lowering of a layer's operands to vectors, with reductions in the order of a core's streams."""

from dataclasses import dataclass

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from ..compiler.layer import Layer, Phase

__all__ = ["Fill", "activations", "filled", "gradient", "weights", "windows"]


@dataclass(frozen=True, kw_only=True)
class Fill:
    """Units to whose multiples a core pads operands with zeros.

    Parameters
    ----------
    channels : int
        Unit of reduced channels.
    ports : int
        Unit of positions along X. Results of padded positions are dropped, but other rows of the tile may wait for
        them.
    lanes : int
        Unit of reduced positions.
    """

    channels: int
    ports: int
    lanes: int


def filled(size: int, unit: int) -> int:
    """Round `size` up to a multiple of `unit`."""
    return -(-size // unit) * unit


@njit(parallel=True, cache=True, nogil=True)
def _gather(tensor, ys, xs, out):
    """Gather windows of a tensor (N, Y, X, C): (N, windows in Y, in X, taps in Y, in X, C), with zeros for padding."""
    samples, height, width, channels = tensor.shape
    _, down, across, y_taps, x_taps, filled = out.shape
    for item in prange(samples * down):
        n, row = item // down, item % down
        for column in range(across):
            for i in range(y_taps):
                for j in range(x_taps):
                    y, x = ys[row, i], xs[column, j]
                    present = channels if 0 <= y < height and 0 <= x < width else 0
                    for c in range(present):
                        out[n, row, column, i, j, c] = tensor[n, y, x, c]
                    for c in range(present, filled):
                        out[n, row, column, i, j, c] = 0


def windows(tensor: NDArray, phase: Phase, counts: tuple[int, int], unit: int) -> NDArray:
    """Return all windows of a phase on a tensor.

    Parameters
    ----------
    tensor : array, (products, N, C, Y, X)
        Bit patterns.
    phase : Phase
        The places of the windows, and their taps.
    counts : (int, int)
        Numbers of windows down and across.
    unit : int
        Channels are padded to a multiple of this.

    Returns
    -------
    array, (products * N, down, across, taps down, taps across, channels)
        Zero outside the tensor.
    """
    places = [
        walk.start + np.arange(count)[:, None] * walk.stride + np.arange(walk.taps) * walk.step
        for walk, count in zip((phase.y, phase.x), counts, strict=True)
    ]
    last = np.ascontiguousarray(tensor.transpose(0, 1, 3, 4, 2)).reshape(-1, *tensor.shape[3:], tensor.shape[2])
    shape = len(last), *counts, phase.y.taps, phase.x.taps, filled(last.shape[3], unit)
    out = np.empty(shape, tensor.dtype)
    _gather(last, places[0], places[1], out)
    return out


def weights(tensor: NDArray, phase: Phase, operation: str, fill: Fill) -> NDArray:
    """Return W for one phase of AxW or WxG.

    Parameters
    ----------
    tensor : array, (products, F, C, KY, KX)
        Bit patterns.
    phase : Phase
        Its taps: at least one.
    operation : str
        "AxW", reduced over channels, or "WxG", over filters.
    fill : Fill
        Padding of the reduction.

    Returns
    -------
    array, (products, filters or channels, K)
        K is taps down, taps across, then channels or filters; the last runs fastest.
    """
    down, across = (
        slice(walk.tap, walk.tap + (walk.taps - 1) * walk.tap_step + 1, walk.tap_step) for walk in (phase.y, phase.x)
    )
    order = (0, 1, 3, 4, 2) if operation == "AxW" else (0, 2, 3, 4, 1)
    cut = tensor[..., down, across].transpose(order)
    return _filled_last(cut, fill.channels).reshape(*cut.shape[:2], -1)


def gradient(tensor: NDArray, fill: Fill) -> NDArray:
    """Return G of AxG, (products, filters, K). K is samples, rows and columns, padded to full groups of columns."""
    ordered = tensor.transpose(0, 2, 1, 3, 4)
    return _filled_last(ordered, fill.lanes).reshape(*ordered.shape[:2], -1)


def activations(tensor: NDArray, layer: Layer, fill: Fill) -> NDArray:
    """Return A of AxG.

    Parameters
    ----------
    tensor : array, (products, N, C, Y, X)
        Bit patterns.
    layer : Layer
        Shapes.
    fill : Fill
        Padding of channels and of G's columns. A has values opposite G's padding, too.

    Returns
    -------
    array, (products, channel groups * KY * KX * channels of a group, K)
        Vectors in the order of a core's streams and their ports; K as in `gradient`.
    """
    (phase,) = layer.phases("AxW")
    rows, columns = layer.output_size
    unit = fill.channels
    cut = windows(tensor, phase, (rows, filled(columns, fill.lanes)), unit)
    grouped = cut.reshape(len(tensor), -1, *layer.kernel, cut.shape[-1] // unit, unit)
    return grouped.transpose(0, 4, 2, 3, 5, 1).reshape(len(tensor), -1, grouped.shape[1])


def _filled_last(array: NDArray, unit: int) -> NDArray:
    """Pad the last axis with zeros to a multiple of `unit`."""
    more = filled(array.shape[-1], unit) - array.shape[-1]
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, more)]) if more else array
