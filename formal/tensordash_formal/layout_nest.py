"""A layout's loop nest and where its positions are, written from docs/core.md, as registers beside the hardware.

Of the hardware it reads the ports: the descriptor that was given, and what is written.
"""

from math import gcd
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.data import StructLayout

from tensordash.configuration.descriptors import OPERATIONS
from tensordash.movers.layout import Layout

from .reference_descriptor import MOST_STRIDE, ReferenceDescriptor

__all__ = ["LOOPS", "LayoutNest"]

LOOPS = 6
WORD_BITS = 18
"""Of a word's place: it goes on for less than a stream beyond the end of the stream buffer."""


class LayoutNest(ReferenceDescriptor):
    """The nest of "Loops" and "Layout": which group, or which zeros behind a run, are written next.

    Parameters
    ----------
    m : Module
        Where it is built.
    dut : Layout
        Whose descriptors and writes it follows.

    Attributes
    ----------
    whole, begun : Signal
        There is a descriptor; the nest stands at `at`.
    at : Signal
        What is written next: counters of the loops, address, x, y, step, bank and word of the step, part, stream and
        where the stream begins.
    """

    def __init__(self, m: Module, dut: Layout) -> None:
        self.dut = dut
        self.lanes, self.depth, self.parts = dut.lanes, dut.depth, dut.parts
        self.words, self.groups = dut.words, dut.config.groups
        self.layout = StructLayout(
            {
                **{f"count_{k}": 12 for k in range(LOOPS - 1)},
                **dict.fromkeys(("address", "x", "y", "step", "word"), 16),
                "bank": range(self.depth),
                "part": range(self.parts),
                "stream": 12,
                "begin": WORD_BITS,
            }
        )
        self._made_so_far = 0
        super().__init__(m, dut.command, OPERATIONS[f"layout_{dut.side}"])
        self.at = self.state("nest")
        self.writes = Signal(name="nest_writes")
        m.d.comb += self.writes.eq(dut.write.bank.any())
        self.begin = self.first()
        self.following = self.after(self.at)
        with m.If(self.loads):
            m.d.sync += self.at.eq(self.begin)
        with m.Elif(self.writes):
            m.d.sync += self.at.eq(self.following)

    def state(self, name: str) -> Any:
        """A register for a place in the nest."""
        return Signal(self.layout, name=name, reset_less=True)

    def first(self) -> Any:
        """Where the nest begins."""
        begins = {"address": self["address"], "x": self["x"], "y": self["y"], "begin": self["base"]}
        return self._made("first", begins)

    def after(self, at: Any) -> Any:
        """What follows a group, or the zeros behind a run."""
        group = self.is_group(at)
        last_bank = at.bank == self.depth - 1
        ends = self.ends(at)
        ends_step = ends & (at.part == self.parts - 1)  # ... with the word's last part
        turns, places = self.stepped(
            [at[f"count_{k}"] for k in range(LOOPS - 1)], {name: at[name] for name in ("address", "x", "y")}
        )
        stepped = {**{f"count_{k}": turn for k, turn in enumerate(turns)}, **places}
        moved: dict[str, Any] = {name: Mux(group, value, at[name]) for name, value in stepped.items()}
        moved |= {
            "step": Mux(ends, 0, at.step + 1),
            "bank": Mux(ends | last_bank, 0, at.bank + 1),
            "word": Mux(ends, 0, at.word + last_bank),
            "part": Mux(ends, Mux(at.part == self.parts - 1, 0, at.part + 1), at.part),
            "stream": at.stream + ends_step,
            "begin": at.begin + Mux(ends_step, self.stream_words(), 0),
        }
        return self._made("after", moved)

    def _made(self, name: str, values: dict[str, Any]) -> Any:
        made = Signal(self.layout, name=f"nest_{name}_{self._made_so_far}")
        self._made_so_far += 1
        self.m.d.comb += [made[each].eq(value) for each, value in values.items()]
        return made

    def stream_words(self) -> Value:
        """W: words that a stream takes in each bank."""
        shift = (self.depth - 1).bit_length()
        assert self.depth == 1 << shift
        return (self["steps"] + self.depth - 1) >> shift

    def is_group(self, at: Any) -> Value:
        """A group is written, and not the zeros behind a run's last one."""
        return at.step < self["steps"]

    def ends(self, at: Any) -> Value:
        """With this a run is complete."""
        return ~self.is_group(at) | ((at.step + 1 == self["steps"]) & (at.bank == self.depth - 1))

    def is_left(self, at: Any) -> Value:
        """There is something to be written."""
        return at.stream != self["streams"]

    def place(self, at: Any) -> Value:
        """The word."""
        return at.begin + at.word

    def is_beyond(self, at: Any) -> Value:
        """The word is beyond the end of the stream buffer."""
        return self.place(at) >= self.words

    def banks(self, at: Any) -> Value:
        """The step's bank; the zeros behind a run go to all banks from theirs on."""
        group = self.is_group(at)
        return Cat((at.bank == bank) | (~group & (at.bank <= bank)) for bank in range(self.depth))

    def distance(self, port: Any) -> Value:
        """Positions from port 0 to a port."""
        return (self["stride"] * port)[:5]

    def position(self, at: Any, port: Any) -> Value:
        """A port's position in a group."""
        return at.x.as_signed() + self.distance(port)

    def counts(self, at: Any, port: Any) -> Value:
        """A port's position is one that there is."""
        position = self.position(at, port)
        y = at.y.as_signed()
        row = ~self["checked"] | ((y >= 0) & (y < self["y_size"]))
        return self.is_group(at) & (position >= 0) & (position < self["x_size"]) & row

    def group(self, at: Any, port: Any) -> Value:
        """The group that a port's position is in."""
        return (at.address + (self.position(at, port) >> self._shift))[:16]

    def bank_of(self, at: Any, port: Any) -> Value:
        """The bank of the buffer that a port's position is in."""
        return self.position(at, port).as_unsigned()[: self._shift]

    @property
    def _shift(self) -> int:
        return (self.lanes - 1).bit_length()

    def reads(self, at: Any, port: Any) -> Value:
        """A port has a value of the buffer, and not zero."""
        return self.counts(at, port) & (self.group(at, port) < self.groups)

    def lies_outside(self, at: Any, port: Any) -> Value:
        """A position that counts is in no group of the buffer."""
        return self.counts(at, port) & (self.group(at, port) >= self.groups)

    def turns(self) -> Value:
        """Cycles that a group takes: the greatest common divisor of `stride` and L."""
        number: Value = Const(1, 3)
        for stride in range(2, MOST_STRIDE + 1):
            number = Mux(self["stride"] == stride, gcd(stride, self.lanes), number)
        return number

    def turn_of(self, port: Any) -> Value:
        """The turn in which a port has its position: ports whose positions are in different banks share one."""
        turn: Value = Const(0, 2)
        for stride in range(2, MOST_STRIDE + 1):
            together = self.lanes // gcd(stride, self.lanes)
            turn = Mux(self["stride"] == stride, Value.cast(port) >> (together.bit_length() - 1), turn)
        return turn
