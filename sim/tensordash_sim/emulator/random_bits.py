"""The random bits of a program's stochastic rounding, arranged like its result."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode

from ..compiler.images import grouped_shape, of_groups
from ..compiler.layer import RESULTS, Layer
from ..compiler.rounding import multiply_seeds

__all__ = ["ROUND_KEYS", "RandomBits", "draw_beats"]

OUTPUT_LOOPS = 4


class RandomBits:
    """Replays a program's multiplies and stores with random bits instead of results.

    A result's bits depend on its multiply's seed, its row in the multiply's blocks (the beat), and its column. They
    therefore depend on the operation's tiling.

    Parameters
    ----------
    config : CoreConfig
        The core.
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    descriptors : sequence of int
        The operation's program, with results in the operand format.
    result : int
        The address of the result.

    Source: docs/core.md, "Stochastic rounding", and docs/compiler.md, "Seeds".
    """

    def __init__(
        self, config: CoreConfig, layer: Layer, operation: str, descriptors: Sequence[int], result: int
    ) -> None:
        self._config, self._layer, self._made = config, layer, RESULTS[operation]
        self._moves: list[tuple[str, dict[str, Any]]] = []
        self._multiplies = 0
        for bits in descriptors:
            kind, values = decode(bits)
            assert kind is not None
            if kind.name == "multiply":
                if values["emit"]:
                    self._moves.append(("multiply", _walk(values, self._multiplies)))
                self._multiplies += 1
            elif kind.name == "store":
                self._moves.append(("store", self._store(values, result)))

    def of(self, seed: int, operation: int = 0) -> NDArray[np.uint16]:
        """Return the bits for a seed and an operation's number, shaped like the result."""
        config, layer = self._config, self._layer
        tile = config.tile
        buffer = np.zeros((config.groups, tile.lanes, tile.lanes), np.uint16)
        shape = grouped_shape(config, layer, self._made)
        memory = np.zeros((int(np.prod(shape)), tile.lanes, tile.lanes), np.uint16)
        seeds = multiply_seeds(seed, operation, self._multiplies)
        for name, values in self._moves:
            if name == "store":
                memory[values["to"]] = buffer[values["group"]]
            else:
                how = {key: each for key, each in values.items() if key != "number"}
                number = seeds[values["number"]]
                _draw(number, shape=(tile.rows, tile.columns, tile.lanes), buffer=buffer, **how)
        return of_groups(memory.reshape(*shape, -1), config, layer, self._made)

    def _store(self, values: dict[str, int], result: int) -> dict[str, Any]:
        """Return a store's groups in the buffer and in the result."""
        memory = (values["memory"] | values["memory_high"] << 32) - result
        first = memory // self._config.group_bytes
        counts = [values[f"count_{k}"] for k in (3, 2, 1, 0)]
        strides = [values[f"stride_{k}"] for k in (3, 2, 1)]
        turns = np.indices(counts).reshape(4, -1)
        to = first + turns[3] + sum(turns[k] * stride for k, stride in enumerate(strides))
        return {"to": to, "group": values["address"] + np.arange(len(to))}


def _walk(values: dict[str, int], number: int) -> dict[str, Any]:
    """Return the arguments of `_draw` for a multiply, and its number."""
    loops = range(OUTPUT_LOOPS)
    return {
        "number": number,
        "blocks": values["a_streams"] * values["b_streams"],
        "transposed": bool(values["transposed"]),
        "place": (values["address"], values["x"]),
        "size": (values["x_size"], values["stride"]),
        "counts": np.array([values[f"count_{k}"] for k in loops[:-1]], np.int64),
        "steps": np.array([[values[f"address_{k}"], values[f"x_{k}"]] for k in loops], np.int64),
    }


def _round_keys() -> NDArray[np.uint32]:
    """Return the round keys of the first 18 rounds of SIMON64/128."""
    keys = [0x03020100, 0x0B0A0908, 0x13121110, 0x1B1A1918]
    for constant in "11011011101011":
        mixed = (keys[-1] >> 3 | keys[-1] << 29) ^ keys[-3]
        mixed ^= (mixed & 0xFFFFFFFF) >> 1 ^ mixed << 31
        keys.append((keys[-4] ^ mixed ^ 0xFFFFFFFC ^ (constant == "1")) & 0xFFFFFFFF)
    return np.array(keys, np.uint32)


ROUND_KEYS = _round_keys()
"""Keys of the 18 rounds of SIMON64/128."""


@njit(cache=True, nogil=True)
def draw_beats(seed, first, out):
    """Write the random bits of consecutive beats, from number `first` on, to `out`: (beats, columns) of uint16."""
    beats, columns = out.shape
    for i in range(beats):
        beat = (first + i) & 0xFFFFFFF
        for j in range(0, columns, 4):
            bits = _cipher(np.uint32(j // 4 << 28 | beat), np.uint32(seed))
            for k in range(min(4, columns - j)):
                out[i, j + k] = bits >> np.uint64(16 * k) & np.uint64(0xFFFF)


@njit(cache=True, nogil=True)
def _cipher(left, right):
    """Encrypt two words with SIMON64/128; return one number of 64 bits."""
    for key in ROUND_KEYS:
        by_1, by_2, by_8 = left << np.uint32(1), left << np.uint32(2), left << np.uint32(8)
        by_1, by_2, by_8 = by_1 | left >> np.uint32(31), by_2 | left >> np.uint32(30), by_8 | left >> np.uint32(24)
        left, right = np.uint32(right ^ (by_1 & by_8) ^ by_2 ^ key), left
    return np.uint64(left) << np.uint64(32) | np.uint64(right)


@njit(cache=True, nogil=True)
def _draw(seed, blocks, transposed, place, size, counts, steps, shape, buffer):
    """Write the random bits of a multiply's results to the places of the results.

    `place` is (address, x). `size` is (x_size, stride). `steps` are each loop's increments of address and x. `shape` is
    (rows, columns, lanes). `buffer` is (groups, positions, channels).
    """
    rows, columns, lanes = shape
    address, x = place
    extent, stride = size
    turns = np.zeros(len(steps), np.int64)
    drawn = np.empty((rows, columns), np.uint16)
    for block in range(blocks):
        draw_beats(seed, block * rows, drawn)
        for first_row in range(0, rows, lanes):
            for first_column in range(0, columns, lanes):
                for i in range(lanes):
                    at = x + i * stride
                    group = (address + at // lanes) & 0xFFFF
                    if 0 <= at < extent and group < len(buffer):
                        for c in range(lanes):
                            row, column = (c, i) if transposed else (i, c)
                            buffer[group, at % lanes, c] = drawn[first_row + row, first_column + column]
                k = 0
                while k < len(counts) and turns[k] == counts[k] - 1:
                    turns[k] = 0
                    k += 1
                turns[k] += 1
                address = (address + steps[k, 0]) & 0xFFFF
                x = (x + steps[k, 1] + (1 << 15)) % (1 << 16) - (1 << 15)
