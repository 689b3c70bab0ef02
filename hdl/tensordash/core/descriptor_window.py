"""Descriptor window: the memory of the descriptors that the sequencer holds."""

from amaranth.hdl import Module
from amaranth.lib import memory
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..movers.unit import COMMAND_BEATS, COMMAND_BITS

__all__ = ["DescriptorWindow"]


class DescriptorWindow(Block):
    """Beats of descriptors: one write port, one read port.

    Timing: what is read in a cycle is there in the next, and stays until another read. Nobody reads what is written in
    the same cycle.

    Parameters
    ----------
    window : int
        Descriptors.

    Members
    -------
    write_enable : In(1), write_address : In, write_data : In(128)
        A beat is written.
    read_enable : In(1), read_address : In
        A beat is read.
    read_data : Out(128)
        The beat that was read last.
    """

    def __init__(self, *, window: int) -> None:
        self.words = require_int("window", window, 2) * COMMAND_BEATS
        super().__init__(
            {
                "write_enable": In(1),
                "write_address": In(range(self.words)),
                "write_data": In(COMMAND_BITS),
                "read_enable": In(1),
                "read_address": In(range(self.words)),
                "read_data": Out(COMMAND_BITS),
            }
        )

    def elaborate(self, platform):
        """What synthesis makes a memory of, or flip-flops."""
        m = Module()
        m.submodules.memory = array = memory.Memory(shape=COMMAND_BITS, depth=self.words, init=[])
        write, read = array.write_port(), array.read_port()
        m.d.comb += [
            write.en.eq(self.write_enable),
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
            read.en.eq(self.read_enable),
            read.addr.eq(self.read_address),
            self.read_data.eq(read.data),
        ]
        return m
