"""An abstraction of a memory, for proofs about the memories' users."""

from typing import Any

from amaranth.hdl import Cat, Elaboratable, Instance, Module, Mux, Signal

from tensordash.block import Block
from tensordash.memory.memory import Memory

from .harness import Stub

__all__ = ["ONE_WORD_MEMORY", "MemoryAbstraction"]


class MemoryAbstraction(Elaboratable):
    """An abstraction of a memory: it stores one watched word, at an arbitrary address.

    A read of another word, or of the watched word in the cycle in which it is written, returns a free value. The output
    is stable until the next read.
    """

    def __init__(self, block: Block) -> None:
        assert isinstance(block, Memory)
        self.block = block

    def elaborate(self, platform: Any) -> Module:
        """Create the registers `word` and `read`, and the constant `watched`, which harnesses refer to."""
        m, block = Module(), self.block
        m.d.sync += Signal(name="clocked").eq(1)  # without a register, the module would have no reset port
        watched = Signal(range(block.words), name="watched")
        m.submodules.any_watched = Instance("$anyconst", p_WIDTH=len(watched), o_Y=watched)
        free = Signal(block.bits, name="free")
        m.submodules.any_free = Instance("$anyseq", p_WIDTH=block.bits, o_Y=free)
        word, read = (Signal(block.bits, name=name, reset_less=True) for name in ("word", "read"))
        if block.ports == 1:
            parts, reads = block.write_enable & block.enable.replicate(block.enables), block.enable
            read_at = write_at = block.address
        else:
            parts, reads = block.write_enable, block.read_enable
            read_at, write_at = block.read_address, block.write_address
        mask = Cat(part.replicate(block.bits // block.enables) for part in parts)
        written = Signal(block.bits, name="written")
        m.d.comb += [written.eq((block.write_data & mask) | (word & ~mask)), block.read_data.eq(read)]
        writes_watched = parts.any() & (write_at == watched)
        with m.If(writes_watched):
            m.d.sync += word.eq(written)
        with m.If(reads & (~parts.any() if block.ports == 1 else 1)):
            m.d.sync += read.eq(Mux((read_at == watched) & ~writes_watched, word, free))
        return m


ONE_WORD_MEMORY = Stub(Memory, MemoryAbstraction)
"""Stub of every memory by a `MemoryAbstraction`."""
