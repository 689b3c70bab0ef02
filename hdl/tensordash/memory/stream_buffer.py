"""Stream buffer: the steps of a side's streams, in as many banks as the tile holds steps."""

from amaranth.hdl import Module
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out, Signature

from ..block import Block, placed
from ..configuration.parameters import require_int
from .memory import Memory

__all__ = ["StreamBuffer", "StreamReadSignature", "StreamWriteSignature"]


class StreamReadSignature(Signature):
    """A read of a word in each bank of a stream buffer, as whoever reads sees it.

    Parameters
    ----------
    depth, words : int
        Banks, and words of each.

    Members
    -------
    enable : Out(depth)
        Which banks read.
    address : Out(0..words - 1, depth)
        The word; of banks that do not read any.
    """

    def __init__(self, *, depth: int, words: int) -> None:
        bits = (words - 1).bit_length()
        super().__init__({"enable": Out(depth), "address": Out(ArrayLayout(bits, depth))})


class StreamWriteSignature(Signature):
    """A write of a group to a stream buffer, as whoever writes sees it.

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
        The banks that are written, none or one of them; several only with equal data.
    word : Out(0..words - 1)
        Which word of them.
    part : Out(parts)
        Which part of the word, one-hot.
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


class StreamBuffer(Block):
    """Steps of a side, each a word of all ports in one of `depth` banks; contents survive resets.

    Timing: a write can be read in the next cycle. A bank's word is on `data` from the cycle after its read on, and
    stays there until the bank's next read.

    Parameters
    ----------
    depth : int
        Banks: steps that the tile can take in a cycle.
    words : int
        Words of each, at least 2.
    parts : int
        Groups in a step, which are written apart from each other.
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

    def __init__(self, *, depth: int, words: int, parts: int, group_bits: int) -> None:
        self.depth = require_int("depth", depth, 1)
        self.words = require_int("words", words, 2)
        self.parts = require_int("parts", parts, 1)
        self.group_bits = require_int("group_bits", group_bits, 1)
        super().__init__(
            {
                "write": In(StreamWriteSignature(depth=depth, words=words, parts=parts, group_bits=group_bits)),
                "read": In(StreamReadSignature(depth=depth, words=words)),
                "data": Out(ArrayLayout(parts * group_bits, depth)),
            },
            variant=f"{words}x{parts * group_bits}",
        )
        self.banks = [Memory(words=words, bits=parts * group_bits, enables=parts) for _ in range(depth)]

    def elaborate(self, platform):
        """A memory for each bank."""
        m = Module()
        for k, bank in enumerate(self.banks):
            m.submodules[f"bank_{k}"] = placed(bank, platform)
            m.d.comb += [
                bank.write_enable.eq(self.write.part & self.write.bank[k].replicate(self.parts)),
                bank.write_address.eq(self.write.word),
                bank.write_data.eq(self.write.data.replicate(self.parts)),
                bank.read_enable.eq(self.read.enable[k]),
                bank.read_address.eq(self.read.address[k]),
                self.data[k].eq(bank.read_data),
            ]
        return m
