"""The random bits that a program's results are rounded with, where they are in the result."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode

from ..core.layer import RESULTS, Layer
from ..core.stochastic import mixed
from .kernels import draw

__all__ = ["RandomBits"]

OUTPUT_LOOPS = 4


class RandomBits:
    """Follows a program's multiplies and stores, with random bits instead of results.

    Each multiply starts the columns' generators anew, and each row of a block is a beat: which bits a result gets
    depends on how the operation is cut.

    Parameters
    ----------
    config : CoreConfig
        The core.
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    descriptors : sequence of int
        Its program, with results of the operand format.
    result : int
        The address of the result.

    Source: docs/core.md, "Stochastic rounding" and "Programs of layers".
    """

    def __init__(
        self, config: CoreConfig, layer: Layer, operation: str, descriptors: Sequence[int], result: int
    ) -> None:
        self._config, self._layer, self._made = config, layer, RESULTS[operation]
        self._moves: list[tuple[str, dict[str, Any]]] = []
        multiplies = 0
        for bits in descriptors:
            kind, values = decode(bits)
            assert kind is not None
            if kind.name == "multiply":
                if values["emit"]:
                    self._moves.append(("multiply", _walk(values, multiplies)))
                multiplies += 1
            elif kind.name == "store":
                self._moves.append(("store", self._store(values, result)))

    def of(self, seed: int) -> NDArray[np.uint16]:
        """The bits for a seed, as `stochastic` spreads it: shaped like the result, in the order of PyTorch."""
        config, layer = self._config, self._layer
        tile = config.tile
        buffer = np.zeros((config.groups, tile.lanes, tile.lanes), np.uint16)
        order = (0, 3, 4, 2, 1) if self._made == "W" else (0, 1, 3, 2, 4)
        *outer, channels, positions = ((layer.products, *layer.shape(self._made))[axis] for axis in order)
        shape = (*outer, -(-channels // tile.lanes), -(-positions // tile.lanes))
        memory = np.zeros((int(np.prod(shape)), tile.lanes, tile.lanes), np.uint16)
        for name, values in self._moves:
            if name == "store":
                memory[values["to"]] = buffer[values["group"]]
            else:
                number = values["number"]
                how = {key: each for key, each in values.items() if key != "number"}
                draw(mixed(seed + number), shape=(tile.rows, tile.columns, tile.lanes), buffer=buffer, **how)
        k, lanes = len(outer), tile.lanes
        ordered = memory.reshape(*shape, lanes, lanes).transpose(*range(k), k, k + 3, k + 1, k + 2)
        filled = ordered.reshape(*outer, shape[k] * lanes, shape[k + 1] * lanes)
        whole = filled[..., :channels, :positions].transpose(np.argsort(order))
        return np.ascontiguousarray(whole).reshape(layer.whole_shape(self._made))

    def _store(self, values: dict[str, int], result: int) -> dict[str, Any]:
        """Groups in the buffer, and in the result."""
        memory = (values["memory"] | values["memory_high"] << 32) - result
        first = memory // self._config.group_bytes
        counts = [values[f"count_{k}"] for k in (3, 2, 1, 0)]
        strides = [values[f"stride_{k}"] for k in (3, 2, 1)]
        turns = np.indices(counts).reshape(4, -1)
        to = first + turns[3] + sum(turns[k] * stride for k, stride in enumerate(strides))
        return {"to": to, "group": values["address"] + np.arange(len(to))}


def _walk(values: dict[str, int], number: int) -> dict[str, Any]:
    """What `draw` takes of a multiply, and its number among them."""
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
