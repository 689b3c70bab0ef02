"""Speedup of a core's tile over the dense tile for the row side's streams of a program."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode

from ..golden.core.memory import Memory
from ..golden.core.tensors import NVFP4_ELEMENT, value_type
from ..golden.quantization import non_zeros
from .masked_passes import MaskedPasses, SkippingPaces
from .row_streams import EvenPaces, Paces, RowStreams

__all__ = ["scheduled_paces", "scheduled_speedup"]

NVFP4 = frozenset(("nvfp4",))


def scheduled_paces(config: CoreConfig, program: Sequence[int], memory: Memory) -> Paces:
    """Count the tile's cycles for all streams of a program, without multiplying, and find the passes that it skips.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors; moves are not compressed. If a load is NVFP4, the row side's tensor is, and its scales are
        not zero.
    memory : Memory
        The memory before the program. The program must not load data that it has stored.
    """
    paces = EvenPaces(config, 1.0) if config.tile.sparsity == "none" else _counted_paces(config, program, memory)
    if not config.skip_masked:
        return paces
    groups = non_zeros(_groups(memory, config.group_bytes).view(value_type(config.value_bits)), config.tile.a_format)
    return SkippingPaces(paces, MaskedPasses(config, program, memory.base).skipped(np.any(groups, axis=1)))


def _groups(memory: Memory, size: int) -> NDArray[np.uint8]:
    """Return memory in groups of `size` bytes."""
    return np.frombuffer(memory.bytes, np.uint8)[: len(memory.bytes) // size * size].reshape(-1, size)


def _counted_paces(config: CoreConfig, program: Sequence[int], memory: Memory) -> Paces:
    """Count the cycles of a sparse tile."""
    is_nvfp4 = any(decode(bits, NVFP4)[1].get("nvfp4") for bits in program)
    data = _groups(memory, config.group_bytes >> is_nvfp4)
    if is_nvfp4:
        pairs = data[:, : config.tile.lanes**2 // 2]
        found = non_zeros(np.stack([pairs & 15, pairs >> 4], axis=-1), NVFP4_ELEMENT).reshape(len(data), -1)
    else:
        found = non_zeros(data.view(value_type(config.value_bits)), config.tile.b_format)
    return RowStreams(config, program, memory.base).paces(found)


def scheduled_speedup(config: CoreConfig, program: Sequence[int], memory: Memory) -> float:
    """Return dense steps over the tile's cycles for all passes of a program; 1 for the dense tile.

    Padding of a stream's last word counts as dense steps. Parameters are those of `scheduled_paces`.
    """
    return scheduled_paces(config, program, memory).speedup
