"""Expected outcome of a program with errors: golden's memory, buffer and error, and the regions left undefined."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig

from ...compiler.program import Program
from ...golden.core.effects import written_groups, written_memory
from ...golden.core.golden_core import GoldenCore, Memory, Outcome
from ...golden.core.legal import Sequencer

__all__ = ["BUFFER_IMAGE", "dump_program", "empty_buffer", "expected_outcome", "fill_program", "undefined_regions"]

BUFFER_IMAGE = 0x4000
"""Byte offset in memory of the buffer's image, which `fill_program` loads and `dump_program` stores."""
BY_UNITS = ("bounds", "range", "address", "compressed", "read", "write")


def fill_program(config: CoreConfig, at: int = 0) -> list[int]:
    """Return a program that fills all of the core's memories, undefined after power-up, from the buffer's image."""
    program = Program()
    image = at + BUFFER_IMAGE
    program.add("load", signal=["layout_a", "layout_b"], memory=image, address=0, count_0=config.groups)
    for side in "ab":
        streams = config.stream_words(side)
        program.add(f"layout_{side}", wait=["load"], signal=["multiply"], steps=1, streams=streams, x_size=1)
    wait, blocks, streams = ["layout_a", "layout_b"], config.partial_sums, config.stream_words("a")
    for first in range(0, blocks, streams):
        count = min(streams, blocks - first)
        program.add("multiply", wait=wait, steps=1, a_streams=count, b_streams=1, partial=first)
        wait = []
    program.add("end")
    return program.descriptors


def dump_program(config: CoreConfig, at: int = 0) -> list[int]:
    """Return a program that stores the full buffer to its image."""
    program = Program()
    program.add("store", memory=at + BUFFER_IMAGE, address=0, count_0=config.groups)
    program.add("end")
    return program.descriptors


def expected_outcome(
    config: CoreConfig,
    content: Memory,
    ring: int,
    descriptors: list[int],
    faults: set[int],
    buffer: NDArray,
    bounds: tuple[int, int] | None = None,
) -> tuple[GoldenCore, Outcome]:
    """Run a program on golden; return the core and its outcome.

    Parameters
    ----------
    config : CoreConfig
        The core.
    content : Memory
        Memory before the program; it is copied.
    ring : int
        Address of the program.
    descriptors : list of int
        The program.
    faults : set of int
        Lines of memory that respond with an error.
    buffer : array
        Content of the buffer before the program.
    bounds : (int, int), optional
        The lowest and the highest address that the core may access; all addresses if None.
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


def undefined_regions(
    config: CoreConfig, descriptors: Iterable[int], outcome: Outcome, bounds: tuple[int, int] | None = None
) -> tuple[list[tuple[int, int]], set[int]]:
    """Return undefined memory (address, bytes) and groups, which the failing descriptor and later ones may write.

    Memory outside the bounds is always defined.

    Source: docs/core.md, "Errors".
    """
    memory, groups = [], set[int]()
    if outcome.error in BY_UNITS:
        sequencer = Sequencer(config)
        for index, bits in enumerate(descriptors):
            if sequencer.refusal(bits):
                break  # The core drops all later descriptors.
            # After an address error, positions outside the buffer are not written, and all others are.
            if index > outcome.index or (index == outcome.index and outcome.error != "address"):
                memory += written_memory(bits, config)
                groups |= written_groups(bits, config)
    return (memory if bounds is None else _within(memory, bounds)), groups


def _within(runs: Iterable[tuple[int, int]], bounds: tuple[int, int]) -> list[tuple[int, int]]:
    """Clip runs of (address, bytes) to the bounds."""
    low, high = bounds
    cut = [(max(address, low), min(address + count, high + 1)) for address, count in runs]
    return [(begin, end - begin) for begin, end in cut if begin < end]


def empty_buffer(config: CoreConfig) -> NDArray:
    """Return a buffer of zeros."""
    return np.zeros_like(GoldenCore(config, Memory(0)).buffer)
