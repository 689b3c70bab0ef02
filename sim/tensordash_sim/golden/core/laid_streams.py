"""Streams of side B as layouts wrote them, which a core that drops steps requires of a multiply."""

from collections.abc import Iterable, Mapping

import numpy as np

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode

__all__ = ["LaidStreams", "misreads_streams"]


class LaidStreams:
    """The stream that each word of stream buffer B belongs to.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, config: CoreConfig) -> None:
        self._depth = config.tile.window_depth
        self._layouts = 0
        self._streams = np.zeros((config.stream_words("b"), 3), np.int64)
        """Number of the layout that wrote each word, the first word of its stream, and the stream's steps."""

    def lay_out(self, values: Mapping[str, int]) -> None:
        """Record the streams of a `layout_b` with these fields. With a range error, words from `base` on hold none."""
        self._layouts += 1
        words = -(-values["steps"] // self._depth)
        if values["base"] + values["streams"] * words > len(self._streams):
            self._streams[values["base"] :] = 0
            return
        for first in range(values["base"], values["base"] + values["streams"] * words, words):
            self._streams[first : first + words] = self._layouts, first, values["steps"]

    def has(self, values: Mapping[str, int]) -> bool:
        """Return whether each stream that a `multiply` with these fields reads is a stream of one layout."""
        words, first = -(-values["steps"] // self._depth), values["b_base"]
        for begin in range(first, first + values["b_streams"] * words, words):
            stream = self._streams[begin : begin + words]
            layout = stream[0, 0]
            if not layout or (stream != (layout, begin, values["steps"])).any():
                return False
        return True


def misreads_streams(descriptors: Iterable[int], config: CoreConfig) -> bool:
    """Return whether a multiply of a program reads streams of side B otherwise than a layout of the program wrote them.

    In a core that drops steps, its sums are undefined. Descriptors from the first one on that is out of range are not
    executed.

    Parameters
    ----------
    descriptors : iterable of int
        Descriptors that the sequencer accepts.
    config : CoreConfig
        The core.
    """
    streams, depth, room = LaidStreams(config), config.tile.window_depth, config.stream_words("b")
    for operation, values in map(decode, descriptors):
        if operation is None or operation.name not in ("layout_b", "multiply"):
            continue
        base, count = ("base", "streams") if operation.name == "layout_b" else ("b_base", "b_streams")
        if values[base] + values[count] * -(-values["steps"] // depth) > room:
            return False  # An error ends the program.
        if operation.name == "layout_b":
            streams.lay_out(values)
        elif not streams.has(values):
            return True
    return False
