"""Memory: a separate module that a macro can replace."""

from amaranth.hdl import Module
from amaranth.lib import memory
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int

__all__ = ["Memory"]


class Memory(Block):
    """A synchronous memory with two ports or one. A macro with these ports can replace it.

    Timing: a word written in a cycle can be read from the next cycle on. A word read in a cycle is on `read_data` from
    the next cycle on, and stays there until the next read, whatever is written. A read of a word in the cycle in which
    it is written returns an undefined value; no user does that. With one port a cycle either writes or reads. Contents
    are undefined at power-up. A reset does not change them.

    Parameters
    ----------
    words : int
        Words, at least 2.
    bits : int
        Bits of a word.
    enables : int
        Parts of a word with separate write enables, of equal width.
    ports : int
        2: one to write and one to read. 1: one for both.

    Members
    -------
    write_enable : In(enables)
        Parts of a word that are written, the lowest bits first.
    write_address : In(0..words - 1)
        Only with two ports.
    write_data : In(bits)
    read_enable : In(1)
        Only with two ports: a word is read.
    read_address : In(0..words - 1)
        Only with two ports.
    enable : In(1)
        Only with one port: a word is written if any bit of `write_enable` is set, and read otherwise.
    address : In(0..words - 1)
        Only with one port.
    read_data : Out(bits)

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Memories".
    """

    def __init__(self, *, words: int, bits: int, enables: int = 1, ports: int = 2) -> None:
        self.words = require_int("words", words, 2)
        self.bits = require_int("bits", bits, 1)
        self.enables = require_int("enables", enables, 1)
        if bits % enables:
            raise ValueError(f"bits must be a multiple of enables = {enables}, not {bits}")
        self.ports = require_int("ports", ports, 1, 2)
        at = In(range(words))
        super().__init__(
            {
                **({"enable": In(1), "address": at} if ports == 1 else {}),
                "write_enable": In(enables),
                **({"write_address": at} if ports == 2 else {}),
                "write_data": In(bits),
                **({"read_enable": In(1), "read_address": at} if ports == 2 else {}),
                "read_data": Out(bits),
            },
            variant=f"{words}x{bits}" + f"_in_{enables}_parts" * (enables > 1) + "_1_port" * (ports == 1),
        )

    def elaborate(self, platform):
        """Build a memory from which synthesis infers a block RAM, or flip-flops."""
        m = Module()
        # The Verilog omits the contents at power-up, which Amaranth requires here.
        m.submodules.memory = array = memory.Memory(shape=self.bits, depth=self.words, init=[])
        write = array.write_port(granularity=self.bits // self.enables if self.enables > 1 else None)
        read = array.read_port()
        one = self.ports == 1
        m.d.comb += [
            write.en.eq(self.write_enable & self.enable.replicate(self.enables) if one else self.write_enable),
            write.addr.eq(self.address if one else self.write_address),
            write.data.eq(self.write_data),
            read.en.eq(self.enable & ~self.write_enable.any() if one else self.read_enable),
            read.addr.eq(self.address if one else self.read_address),
            self.read_data.eq(read.data),
        ]
        return m
