"""What becomes of a program with errors: golden's memory, buffer and error, and what docs/core.md leaves open."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig

from .described import written_groups, written_memory
from .golden import GoldenCore, Memory, Outcome
from .legal import Sequencer
from .program import Program

__all__ = ["BUFFER_IMAGE", "dumping", "empty_buffer", "filling", "golden_after", "left_open"]

BUFFER_IMAGE = 0x4000
"""Where the buffer is in memory, counted from its first address, to be filled or looked at."""
BY_UNITS = ("bounds", "range", "address", "compressed", "read", "write")


def filling(config: CoreConfig, at: int = 0) -> list[int]:
    """A program that puts something into all memories, which may be anything after power-up: the buffer's image."""
    program = Program()
    image = at + BUFFER_IMAGE
    program.add("load", signal=["layout_a", "layout_b"], memory=image, address=0, count_0=config.groups)
    for side in "ab":
        streams = config.stream_words(side)
        program.add(f"layout_{side}", wait=["load"], signal=["multiply"], steps=1, streams=streams, x_size=1)
    blocks = config.partial_sums
    program.add("multiply", wait=["layout_a", "layout_b"], steps=1, a_streams=1, b_streams=1, partial=blocks - 1)
    for place in range(blocks - 1):
        program.add("multiply", steps=1, a_streams=1, b_streams=1, partial=place)
    program.add("end")
    return program.descriptors


def dumping(config: CoreConfig, at: int = 0) -> list[int]:
    """A program that puts all of the buffer into its image."""
    program = Program()
    program.add("store", memory=at + BUFFER_IMAGE, address=0, count_0=config.groups)
    program.add("end")
    return program.descriptors


def golden_after(
    config: CoreConfig,
    content: Memory,
    ring: int,
    descriptors: list[int],
    faults: set[int],
    buffer: NDArray,
    bounds: tuple[int, int] | None = None,
) -> tuple[GoldenCore, Outcome]:
    """Golden after a program.

    Parameters
    ----------
    config : CoreConfig
        The core.
    content : Memory
        What it finds; it stays as it is.
    ring : int
        Where the program is.
    descriptors : list of int
        The program.
    faults : set of int
        Lines of memory that answer with an error.
    buffer : array
        What is in the buffer before.
    bounds : (int, int), optional
        The lowest and the highest address that it may use; every one if left out.
    """
    memory = Memory(len(content.bytes), content.base, line=config.axi_bits // 8)
    memory.bytes[:] = content.bytes
    for place, bits in enumerate(descriptors):
        memory.write(ring + 64 * place, bits.to_bytes(64, "little"))
    memory.faults = faults
    golden = GoldenCore(config, memory)
    golden.buffer[:] = buffer
    golden.bounds = bounds or golden.bounds
    return golden, golden.run_queue(ring, len(descriptors))


def left_open(
    config: CoreConfig, descriptors: Iterable[int], outcome: Outcome, bounds: tuple[int, int] | None = None
) -> tuple[list[tuple[int, int]], set[int]]:
    """Memory (address, bytes) and groups that are undefined: of the descriptor with the error, and of those after it.

    Memory outside the bounds is always defined.

    Source: docs/core.md, "Errors".
    """
    memory, groups = [], set[int]()
    if outcome.error in BY_UNITS:
        sequencer = Sequencer(config)
        for index, bits in enumerate(descriptors):
            if sequencer.refusal(bits):
                break  # all behind are dropped
            # Wrong positions are not written; all else is.
            if index > outcome.index or (index == outcome.index and outcome.error != "address"):
                memory += written_memory(bits, config)
                groups |= written_groups(bits, config)
    return (memory if bounds is None else _within(memory, bounds)), groups


def _within(runs: Iterable[tuple[int, int]], bounds: tuple[int, int]) -> list[tuple[int, int]]:
    """The parts of runs of (address, bytes) that are within the bounds."""
    low, high = bounds
    cut = [(max(address, low), min(address + count, high + 1)) for address, count in runs]
    return [(begin, end - begin) for begin, end in cut if begin < end]


def empty_buffer(config: CoreConfig) -> NDArray:
    """A buffer of zeros."""
    return np.zeros_like(GoldenCore(config, Memory(0)).buffer)
