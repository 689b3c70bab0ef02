"""Compiled loops that pack masks into words, gather the words of vectors, and count the places that windows read."""

import numpy as np
from numpy.typing import NDArray

from ..jit import njit, prange

__all__ = ["ROW_BITS", "count_places", "gather_planes", "gather_windows", "pack_words"]

ROW_BITS = 32
"""Bits in each word of the rows that `gather_planes` reads."""


@njit(parallel=True, cache=True, nogil=True)
def pack_words(mask: NDArray[np.uint8], lanes: int, packed: NDArray[np.uint32]) -> None:
    """Pack the middle axis of a mask, `lanes` entries to a word. The first entry is bit 0.

    Parameters
    ----------
    mask : array of uint8, (M, R, P)
        Mask of zeros and ones.
    lanes : int
        Entries per word, at most 32.
    packed : array of uint32, (M, P, ceil(R / lanes))
        Receives the words.
    """
    outer, reduction, inner = mask.shape
    for one in prange(outer):
        for block in range(packed.shape[2]):
            first = block * lanes
            count = min(lanes, reduction - first)
            for place in range(inner):
                word = np.uint32(0)
                for lane in range(count):
                    word |= np.uint32(mask[one, first + lane, place]) << np.uint32(lane)
                packed[one, place, block] = word


@njit(parallel=True, cache=True, nogil=True)
def gather_windows(
    packed: NDArray[np.uint32],
    y_offsets: NDArray[np.int64],
    x_offsets: NDArray[np.int64],
    grid: tuple[int, int, int],
    strides: tuple[int, int],
    vectors: NDArray[np.int64],
    out: NDArray[np.uint32],
) -> None:
    """Gather the words of windows.

    Parameters
    ----------
    packed : array of uint32, (N, groups, Y, X, blocks)
        The tensor, packed along its channels.
    y_offsets, x_offsets : array of int64
        The taps: window (y, x) reads at ``y * strides[0] + y_offsets[i]`` and ``x * strides[1] + x_offsets[j]``.
    grid : tuple of int
        Number of samples, and of windows along y and x.
    strides : tuple of int
        Distance between neighbouring windows along y and x.
    vectors : array of int64, (V,)
        Flat indices into (groups, *grid), or -1 for no vector.
    out : array of uint32, (V, len(y_offsets) * len(x_offsets) * blocks)
        Receives the words. A word is 0 if the window reads outside the tensor.
    """
    _, _, height, width, blocks = packed.shape
    samples, rows, columns = grid
    for index in prange(len(vectors)):
        vector = vectors[index]
        if vector < 0:
            out[index] = np.uint32(0)
            continue
        rest, column = vector // columns, vector % columns
        rest, row = rest // rows, rest % rows
        tensor = packed[rest % samples, rest // samples]
        step = 0
        for y_offset in y_offsets:
            y = row * strides[0] + y_offset
            for x_offset in x_offsets:
                x = column * strides[1] + x_offset
                if 0 <= y < height and 0 <= x < width:
                    for block in range(blocks):
                        out[index, step + block] = tensor[y, x, block]
                else:
                    for block in range(blocks):
                        out[index, step + block] = np.uint32(0)
                step += blocks


@njit(parallel=True, cache=True, nogil=True)
def count_places(
    windows: NDArray[np.int64],
    y_offsets: NDArray[np.int64],
    x_offsets: NDArray[np.int64],
    y_reads: NDArray[np.bool_],
    x_reads: NDArray[np.bool_],
    size: tuple[int, int],
    counts: NDArray[np.int64],
) -> None:
    """Count the distinct places inside a tensor that each group of windows reads.

    Parameters
    ----------
    windows : array of int64, (groups, R, 3)
        Plane and origin (y, x) of each window. Plane -1 means no window.
    y_offsets, x_offsets : array of int64
        The taps, relative to the origin, in ascending order.
    y_reads, x_reads : array of bool
        Entry i is true if a tap is `i` places after the first tap.
    size : tuple of int
        The tensor's extent along y and x.
    counts : array of int64, (groups,)
        Receives the counts.
    """
    for group in prange(len(windows)):
        group_windows = windows[group]
        total = 0
        for index in range(len(group_windows)):
            plane, y_origin, x_origin = group_windows[index]
            if plane < 0:
                continue
            for y_offset in y_offsets:
                y = y_origin + y_offset
                if not 0 <= y < size[0]:
                    continue
                for x_offset in x_offsets:
                    x = x_origin + x_offset
                    if not 0 <= x < size[1]:
                        continue
                    total += 1
                    # Uncount the place if an earlier window has counted it. Near windows share most, so they are first.
                    for earlier in range(index - 1, -1, -1):
                        if group_windows[earlier, 0] != plane:
                            continue
                        y_tap = y - group_windows[earlier, 1] - y_offsets[0]
                        x_tap = x - group_windows[earlier, 2] - x_offsets[0]
                        if (
                            0 <= y_tap < len(y_reads)
                            and 0 <= x_tap < len(x_reads)
                            and y_reads[y_tap]
                            and x_reads[x_tap]
                        ):
                            total -= 1
                            break
        counts[group] = total


@njit(parallel=True, cache=True, nogil=True)
def gather_planes(
    bits: NDArray[np.uint32],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    padding: int,
    outputs: tuple[int, int],
    lanes: int,
    vectors: NDArray[np.int64],
    out: NDArray[np.uint32],
) -> None:
    """Gather the words of shifted, flattened planes. Rows are packed bits, so a row is shifted instead of read by bit.

    Parameters
    ----------
    bits : array of uint32, (planes, Y, strides[1], words)
        Rows of the planes, padded along x. Positions of a row are separated by x modulo the stride. The last word of
        each run is unused.
    kernel, strides, dilations, outputs : tuple of int
        Parameters of the convolution, along y and x.
    padding : int
        Padding of the convolution along y.
    lanes : int
        Positions per step.
    vectors : array of int64, (V,)
        Flat indices into (planes, *kernel), or -1 for no vector.
    out : array of uint32, (V, ceil(outputs[0] * outputs[1] / lanes))
        Receives the words.
    """
    lanes_wide, one = np.uint64(lanes), np.uint64(1)
    full = (one << lanes_wide) - one
    for index in prange(len(vectors)):
        vector = vectors[index]
        if vector < 0:
            out[index] = np.uint32(0)
            continue
        x_tap, rest = vector % kernel[1], vector // kernel[1]
        y_tap, plane = rest % kernel[0], rest // kernel[0]
        shift = x_tap * dilations[1]
        first, phase = shift // strides[1], shift % strides[1]
        # When up to 32 more bits arrive, fewer than `lanes` bits wait for the rest of their step.
        waiting, held, step = np.uint64(0), 0, 0
        for y_out in range(outputs[0]):
            y = y_out * strides[0] + y_tap * dilations[0] - padding
            inside = 0 <= y < bits.shape[1]
            for x_out in range(0, outputs[1], ROW_BITS):
                count = min(ROW_BITS, outputs[1] - x_out)
                if inside:
                    at = first + x_out
                    word = at // ROW_BITS
                    low = np.uint64(bits[plane, y, phase, word])
                    high = np.uint64(bits[plane, y, phase, word + 1])
                    run = (low | high << np.uint64(ROW_BITS)) >> np.uint64(at % ROW_BITS)
                    waiting |= (run & ((one << np.uint64(count)) - one)) << np.uint64(held)
                held += count
                while held >= lanes:
                    out[index, step] = np.uint32(waiting & full)
                    waiting >>= lanes_wide
                    held -= lanes
                    step += 1
        if held:
            out[index, step] = np.uint32(waiting)
