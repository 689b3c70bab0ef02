"""Speedup of a core's tile over the dense tile for the row side's streams of a program."""

from collections.abc import Sequence

import numpy as np

from tensordash.configuration.core_config import CoreConfig

from ..golden.core.memory import Memory
from ..golden.core.tensors import value_type
from ..golden.quantization import non_zeros
from .row_streams import EvenPaces, Paces, RowStreams

__all__ = ["scheduled_paces", "scheduled_speedup"]


def scheduled_paces(config: CoreConfig, program: Sequence[int], memory: Memory) -> Paces:
    """Count the tile's cycles for all streams of a program, without multiplying.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors; moves are plain.
    memory : Memory
        The memory before the program. The program must not load data that it has stored.
    """
    if config.tile.sparsity == "none":
        return EvenPaces(config, 1.0)
    groups = len(memory.bytes) // config.group_bytes
    data = np.frombuffer(memory.bytes, np.uint8)[: groups * config.group_bytes].view(value_type(config.value_bits))
    found = non_zeros(data, config.tile.b_format).reshape(groups, -1)
    return RowStreams(config, program, memory.base).paces(found)


def scheduled_speedup(config: CoreConfig, program: Sequence[int], memory: Memory) -> float:
    """Return dense steps over the tile's cycles for all passes of a program; 1 for the dense tile.

    Padding of a stream's last word counts as dense steps. Parameters are those of `scheduled_paces`.
    """
    return scheduled_paces(config, program, memory).speedup
