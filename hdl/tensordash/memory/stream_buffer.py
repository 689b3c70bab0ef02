"""Stream buffer: holds the steps of a side's streams, in one bank per step of the tile's window."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out, Signature

from ..block import Block, placed
from ..configuration.parameters import require_int
from .memory import Memory

__all__ = ["PairStreamBuffer", "PairWriteSignature", "StreamBuffer", "StreamReadSignature", "StreamWriteSignature"]

WAYS = 2
"""Memories of a single bank: one can be written while the other is read."""


class StreamReadSignature(Signature):
    """A read of a word in each bank of a stream buffer, with the reader's directions.

    Parameters
    ----------
    depth, words : int
        Banks, and words of each.

    Members
    -------
    enable : Out(depth)
        Banks to read.
    address : Out(0..words - 1, depth)
        The word. Undefined for banks that are not enabled.
    ready : In(depth)
        Banks that can read. The memory of any other bank is written in this cycle, and the bank reads nothing. With a
        single bank it depends on the address.
    """

    def __init__(self, *, depth: int, words: int) -> None:
        bits = (words - 1).bit_length()
        super().__init__({"enable": Out(depth), "address": Out(ArrayLayout(bits, depth)), "ready": In(depth)})


class StreamWriteSignature(Signature):
    """A write of a group to a stream buffer, with the writer's directions.

    Parameters
    ----------
    depth, words : int
        Banks, and words of each.
    parts : int
        Groups in a step.
    group_bits : int
        Bits of a group.

    Members
    -------
    bank : Out(depth)
        Banks to write: none, one, or several with equal data.
    word : Out(0..words - 1)
        The word in these banks.
    part : Out(parts)
        The part of the word, one-hot.
    data : Out(group_bits)
        The part's ports, the first one's lanes in the lowest bits.
    """

    def __init__(self, *, depth: int, words: int, parts: int, group_bits: int) -> None:
        super().__init__(
            {
                "bank": Out(depth),
                "word": Out((words - 1).bit_length()),
                "part": Out(parts),
                "data": Out(group_bits),
            }
        )


class PairWriteSignature(Signature):
    """A write of up to two groups to different banks of a stream buffer, with the writer's directions.

    Parameters
    ----------
    depth, words, parts, group_bits
        As in `StreamWriteSignature`.

    Members
    -------
    bank : Out(depth)
        Banks to write.
    word : Out(0..words - 1, depth)
        The word in each bank.
    part : Out(parts, depth)
        The part of the word, one-hot.
    data : Out(group_bits, depth)
        The part's ports, the first one's lanes in the lowest bits.
    """

    def __init__(self, *, depth: int, words: int, parts: int, group_bits: int) -> None:
        super().__init__(
            {
                "bank": Out(depth),
                "word": Out(ArrayLayout((words - 1).bit_length(), depth)),
                "part": Out(ArrayLayout(parts, depth)),
                "data": Out(ArrayLayout(group_bits, depth)),
            }
        )


class StreamBuffer(Block):
    """Holds steps of a side, each a word for all ports in one of `depth` banks. Contents survive resets.

    All memories have one port, and writes go first, so a layout never waits. The reader repeats a read that is not
    `ready`. It has `depth` - 1 other steps meanwhile. With a single bank it has none, so a single bank has two
    memories, for even and odd words. Writers and readers of consecutive words alternate between the two. If both
    continue in every cycle, they collide only once.

    Timing: a written word can be read in the next cycle. A bank's word is on `data` from the cycle after its read on,
    and stays there until the bank's next read.

    Parameters
    ----------
    depth : int
        Banks: steps that the tile can take in a cycle.
    words : int
        Words of each bank, at least 2.
    parts : int
        Groups in a step, each written separately.
    group_bits : int
        Bits of a group.

    Members
    -------
    write : In(StreamWriteSignature)
    read : In(StreamReadSignature)
    data : Out(parts * group_bits, depth)
        The word that each bank read last.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Memories".
    """

    in_pairs = False

    def __init__(self, *, depth: int, words: int, parts: int, group_bits: int) -> None:
        self.depth = require_int("depth", depth, 1)
        self.words = require_int("words", words, 2)
        self.parts = require_int("parts", parts, 1)
        self.group_bits = require_int("group_bits", group_bits, 1)
        writes = PairWriteSignature if self.in_pairs else StreamWriteSignature
        super().__init__(
            {
                "write": In(writes(depth=depth, words=words, parts=parts, group_bits=group_bits)),
                "read": In(StreamReadSignature(depth=depth, words=words)),
                "data": Out(ArrayLayout(parts * group_bits, depth)),
            },
            variant=f"{words}x{parts * group_bits}",
        )
        self.ways = WAYS if depth == 1 else 1
        self.banks = [
            [
                Memory(words=max(2, -(-words // self.ways)), bits=parts * group_bits, enables=parts, ports=1)
                for _ in range(self.ways)
            ]
            for _ in range(depth)
        ]

    def elaborate(self, platform):
        """Build a memory for each bank, or the two ways of a single bank."""
        m = Module()
        write, read = self.write, self.read
        for k, (memory, *others) in enumerate(self.banks):
            if not others:
                self._use(m, f"bank_{k}", placed(memory, platform), memory, (write.bank[k], read.enable[k]), k)
                m.d.comb += self.data[k].eq(memory.read_data)
        if self.ways == 1:
            m.d.comb += read.ready.eq(~write.bank)
            return m
        (even, odd), word, address = self.banks[0], write.word, read.address[0]
        for way, memory in enumerate((even, odd)):
            here = write.bank & (word[0] == way), read.enable & (address[0] == way)
            self._use(m, f"way_{way}", placed(memory, platform), memory, here, 0)
        way_read = Signal(name="way_read", reset_less=True)
        m.d.comb += [
            read.ready.eq(~(write.bank & (word[0] == address[0]))),
            self.data[0].eq(Mux(way_read, odd.read_data, even.read_data)),
        ]
        with m.If(read.enable & read.ready):
            m.d.sync += way_read.eq(address[0])
        return m

    def _use(self, m: Module, name: str, place: Any, memory: Memory, wanted: tuple[Any, Any], bank: int) -> None:
        """Connect a memory: write it, or read it if there is no write."""
        writes, reads = wanted
        skipped = self.ways.bit_length() - 1  # bits of a word's number that select the memory
        members = (self.write.word, self.write.part, self.write.data)
        word, part, data = members if not self.in_pairs else (each[bank] for each in members)
        m.submodules[name] = place
        m.d.comb += [
            memory.enable.eq(writes | reads),
            memory.write_enable.eq(part & writes.replicate(self.parts)),
            memory.address.eq(Mux(writes, word[skipped:], self.read.address[bank][skipped:])),
            memory.write_data.eq(data.replicate(self.parts)),
        ]


class PairStreamBuffer(StreamBuffer):
    """A stream buffer that takes two groups per cycle, in different banks: `write` is a PairWriteSignature.

    Timing, parameters, members and errors are as in `StreamBuffer`. It has at least two banks.

    Source: docs/core.md, "Memories".
    """

    in_pairs = True

    def __init__(self, *, depth: int, words: int, parts: int, group_bits: int) -> None:
        require_int("depth", depth, 2)
        super().__init__(depth=depth, words=words, parts=parts, group_bits=group_bits)
