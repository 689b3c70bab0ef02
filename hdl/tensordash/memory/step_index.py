"""Step index: stores the place of each remaining step in its complete stream."""

from amaranth.hdl import Cat, Module
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In, Out, Signature

from ..block import Block, placed
from ..configuration.parameters import require_int
from .memory import Memory

__all__ = ["StepIndex", "StepIndexReadSignature", "StepIndexWriteSignature", "lengths_layout"]


def lengths_layout(*, depth: int, words: int) -> StructLayout:
    """Return the layout of a stream's lengths.

    `counts` are the steps of each bank. `last_word` is the number of the stream's last word: the largest of `counts`
    less one, at least 0.
    """
    return StructLayout({"counts": ArrayLayout(words.bit_length(), depth), "last_word": (words - 1).bit_length()})


class StepIndexWriteSignature(Signature):
    """A write of an index in each bank, and of a stream's lengths, with the writer's directions.

    Parameters
    ----------
    depth, words : int
        Banks, and words of each, as in the stream buffer.

    Members
    -------
    bank : Out(depth)
        Banks whose index is written.
    word : Out(0..words - 1, depth)
        The word in each bank.
    index : Out(0..words - 1, depth)
        For each bank, the word of the stream that the step would have if no step were dropped.
    ends : Out(1)
        A stream's lengths are written.
    begin : Out(0..words - 1)
        Its first word.
    lengths : Out(lengths_layout)
        Its lengths.
    """

    def __init__(self, *, depth: int, words: int) -> None:
        bits = (words - 1).bit_length()
        super().__init__(
            {
                "bank": Out(depth),
                "word": Out(ArrayLayout(bits, depth)),
                "index": Out(ArrayLayout(bits, depth)),
                "ends": Out(1),
                "begin": Out(bits),
                "lengths": Out(lengths_layout(depth=depth, words=words)),
            }
        )


class StepIndexReadSignature(Signature):
    """A read of a word's indices, with the reader's directions.

    Parameters
    ----------
    depth, words : int
        As in `StepIndexWriteSignature`.

    Members
    -------
    enable : Out(1)
        Read the indices of a word.
    begins : Out(1)
        Read the lengths of the stream that begins there, too.
    word : Out(0..words - 1)
        The word.
    index : In(0..words - 1, depth)
        Indices of the word that was read last, from the next cycle on.
    lengths : In(lengths_layout)
        Lengths of the stream that was read last, from the next cycle on.
    """

    def __init__(self, *, depth: int, words: int) -> None:
        bits = (words - 1).bit_length()
        super().__init__(
            {
                "enable": Out(1),
                "begins": Out(1),
                "word": Out(bits),
                "index": In(ArrayLayout(bits, depth)),
                "lengths": In(lengths_layout(depth=depth, words=words)),
            }
        )


class StepIndex(Block):
    """Holds an index for each step of a stream buffer, and the lengths of each stream. Contents survive resets.

    Timing: what is written can be read in the next cycle. It can be read and written in every cycle, but not the same
    word.

    Parameters
    ----------
    depth : int
        Banks of the stream buffer.
    words : int
        Words of each bank, at least 2.

    Members
    -------
    write : In(StepIndexWriteSignature)
    read : In(StepIndexReadSignature)

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Memories".
    """

    def __init__(self, *, depth: int, words: int) -> None:
        self.depth = require_int("depth", depth, 1)
        self.words = require_int("words", words, 2)
        size = {"depth": depth, "words": words}
        super().__init__({"write": In(StepIndexWriteSignature(**size)), "read": In(StepIndexReadSignature(**size))})
        self.banks = [Memory(words=words, bits=(words - 1).bit_length()) for _ in range(depth)]
        self.lengths = Memory(words=words, bits=lengths_layout(**size).size)

    def elaborate(self, platform):
        """Build a memory for each bank, and one for the lengths."""
        m = Module()
        write, read = self.write, self.read
        for k, memory in enumerate(self.banks):
            m.submodules[f"bank_{k}"] = placed(memory, platform)
            m.d.comb += [
                memory.write_enable.eq(write.bank[k]),
                memory.write_address.eq(write.word[k]),
                memory.write_data.eq(write.index[k]),
                memory.read_enable.eq(read.enable),
                memory.read_address.eq(read.word),
            ]
        lengths = self.lengths
        m.submodules.lengths = placed(lengths, platform)
        m.d.comb += [
            lengths.write_enable.eq(write.ends),
            lengths.write_address.eq(write.begin),
            lengths.write_data.eq(write.lengths.as_value()),
            lengths.read_enable.eq(read.enable & read.begins),
            lengths.read_address.eq(read.word),
            read.index.as_value().eq(Cat(memory.read_data for memory in self.banks)),
            read.lengths.as_value().eq(lengths.read_data),
        ]
        return m
