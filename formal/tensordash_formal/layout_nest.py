"""Reference model of a layout's loop nest and of its positions (docs/core.md), as ghost registers.

The model reads only the hardware's ports: descriptors and writes.
"""

from math import gcd
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.data import StructLayout

from tensordash.configuration.descriptors import MAX_STRIDE, OPERATIONS
from tensordash.movers.layout_unit import LayoutUnit

from .loop_nest import advanced
from .reference_descriptor import ReferenceDescriptor

__all__ = ["LOOPS", "DroppingNest", "LayoutNest", "PairNest"]

LOOPS = 6
WORD_BITS = 18
"""Bits of a word's place. A place may lie beyond the stream buffer, by less than one stream."""


class LayoutNest(ReferenceDescriptor):
    """Tracks the next iteration of the nest of "Loops" and "Layout": a group, or the zeros after a run.

    Parameters
    ----------
    m : Module
        Module of the ghost registers.
    dut : LayoutUnit
        The unit whose descriptors and writes it follows.

    Attributes
    ----------
    complete : Signal
        The unit has the complete descriptor.
    active : Signal
        `at` is valid.
    at : Signal
        The next write: loop counters, address, x, y, step, the step's bank and word, part, stream, and the stream's
        first word.
    """

    def __init__(self, m: Module, dut: LayoutUnit) -> None:
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
        self._signal_count = 0
        super().__init__(m, dut.command, OPERATIONS[f"layout_{dut.side}"])
        self.at = self.state("nest")
        self.writes = Signal(name="nest_writes")
        m.d.comb += self.writes.eq(self.has_one())
        self.begin = self.first()
        self.next_at = self.after(self.at)
        after_write = self.after_write()
        with m.If(self.starting):
            m.d.sync += self.at.eq(self.begin)
        with m.Elif(self.writes):
            m.d.sync += self.at.eq(after_write)

    def has_one(self) -> Value:
        """Return whether the hardware executes the next iteration in this cycle."""
        return self.dut.write.bank.any()

    def after_write(self) -> Any:
        """Return the iteration after the write of this cycle."""
        return self.next_at

    def state(self, name: str) -> Any:
        """Create a register that holds one iteration of the nest."""
        return Signal(self.layout, name=name, reset_less=True)

    def first(self) -> Any:
        """Return the first iteration."""
        begins = {"address": self["address"], "x": self["x"], "y": self["y"], "begin": self["base"]}
        return self._iteration("first", begins)

    def after(self, at: Any) -> Any:
        """Return the iteration that follows `at`."""
        group = self.is_group(at)
        last_bank = at.bank == self.depth - 1
        ends = self.ends(at)
        ends_step = ends & (at.part == self.parts - 1)  # the last part of the run's last word
        turns, places = advanced(
            self, [at[f"count_{k}"] for k in range(LOOPS - 1)], {name: at[name] for name in ("address", "x", "y")}
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
        return self._iteration("after", moved)

    def _iteration(self, name: str, values: dict[str, Any]) -> Any:
        made = Signal(self.layout, name=f"nest_{name}_{self._signal_count}")
        self._signal_count += 1
        self.m.d.comb += [made[each].eq(value) for each, value in values.items()]
        return made

    def stream_words(self) -> Value:
        """Return W, the words of a stream in each bank."""
        shift = (self.depth - 1).bit_length()
        assert self.depth == 1 << shift
        return (self["steps"] + self.depth - 1) >> shift

    def is_group(self, at: Any) -> Value:
        """Return whether the iteration writes a group, and not the zeros after a run."""
        return at.step < self["steps"]

    def ends(self, at: Any) -> Value:
        """Return whether the iteration completes a run."""
        return ~self.is_group(at) | ((at.step + 1 == self["steps"]) & (at.bank == self.depth - 1))

    def is_left(self, at: Any) -> Value:
        """Return whether the iteration belongs to the nest, so the last stream is not complete."""
        return at.stream != self["streams"]

    def place(self, at: Any) -> Value:
        """Return the word to write."""
        return at.begin + at.word

    def is_beyond(self, at: Any) -> Value:
        """Return whether the word is beyond the stream buffer."""
        return self.place(at) >= self.words

    def banks(self, at: Any) -> Value:
        """Return the banks to write: the step's bank; for zeros after a run, this bank and all later ones."""
        group = self.is_group(at)
        return Cat((at.bank == bank) | (~group & (at.bank <= bank)) for bank in range(self.depth))

    def distance(self, port: Any) -> Value:
        """Return the distance from port 0 to a port, in positions."""
        return (self["stride"] * port)[:5]

    def position(self, at: Any, port: Any) -> Value:
        """Return a port's position."""
        return at.x.as_signed() + self.distance(port)

    def is_valid(self, at: Any, port: Any) -> Value:
        """Return whether a port's position lies in the tensor."""
        position = self.position(at, port)
        y = at.y.as_signed()
        row = ~self["checked"] | ((y >= 0) & (y < self["y_size"]))
        return self.is_group(at) & (position >= 0) & (position < self["x_size"]) & row

    def group(self, at: Any, port: Any) -> Value:
        """Return the group that contains a port's position."""
        return (at.address + (self.position(at, port) >> self._shift))[:16]

    def bank_of(self, at: Any, port: Any) -> Value:
        """Return the bank of the buffer that contains a port's position."""
        return self.position(at, port).as_unsigned()[: self._shift]

    @property
    def _shift(self) -> int:
        return (self.lanes - 1).bit_length()

    def reads(self, at: Any, port: Any) -> Value:
        """Return whether a port gets a value from the buffer instead of zero."""
        return self.is_valid(at, port) & (self.group(at, port) < self.groups)

    def lies_outside(self, at: Any, port: Any) -> Value:
        """Return whether a valid position lies outside the buffer."""
        return self.is_valid(at, port) & (self.group(at, port) >= self.groups)

    def turns(self) -> Value:
        """Return the cycles (turns) that read one group: the greatest common divisor of `stride` and L."""
        number: Value = Const(1, 3)
        for stride in range(2, MAX_STRIDE + 1):
            number = Mux(self["stride"] == stride, gcd(stride, self.lanes), number)
        return number

    def turn_of(self, port: Any) -> Value:
        """Return the turn in which a port's position is read. Ports with positions in different banks share a turn."""
        turn: Value = Const(0, 2)
        for stride in range(2, MAX_STRIDE + 1):
            ports_per_turn = self.lanes // gcd(stride, self.lanes)
            turn = Mux(self["stride"] == stride, Value.cast(port) >> (ports_per_turn.bit_length() - 1), turn)
        return turn


class PairNest(LayoutNest):
    """A nest whose iterations are all groups: the zeros after a run are written with its last group.

    Attributes
    ----------
    writes_two : Signal
        The hardware also writes the next iteration: it writes a bank that does not belong to `at`.
    """

    def after_write(self) -> Any:
        """Return the iteration after the write of this cycle, which has one or two groups."""
        self.writes_two = Signal(name="nest_writes_two")
        self.m.d.comb += self.writes_two.eq(self.has_two())
        return Mux(self.writes_two, Value.cast(self.after(self.next_at)), Value.cast(self.next_at))

    def has_two(self) -> Value:
        """Return whether the hardware executes the next two iterations in this cycle."""
        return (self.dut.write.bank & ~self.banks(self.at)).any()

    def is_group(self, at: Any) -> Value:
        """Return true: every iteration writes a group."""
        return Const(1)

    def ends(self, at: Any) -> Value:
        """Return whether the iteration completes a run."""
        return at.step + 1 == self["steps"]

    def banks(self, at: Any) -> Value:
        """Return the banks to write: the step's bank; for the last step of a run, this bank and all later ones."""
        return Cat((at.bank == bank) | (self.ends(at) & (at.bank <= bank)) for bank in range(self.depth))


class DroppingNest(PairNest):
    """A nest whose iterations are steps, written or dropped. Only a step's own bank is written.

    Attributes
    ----------
    reached : Signal
        The hardware decides about the next iteration, and about the one after it. The harness drives it.
    """

    def has_one(self) -> Value:
        """Return whether the hardware decides about the next iteration in this cycle."""
        self.reached = Signal(2, name="nest_reached")
        return self.reached[0]

    def has_two(self) -> Value:
        """Return whether the hardware decides about the next two iterations in this cycle."""
        return self.reached[1]

    def banks(self, at: Any) -> Value:
        """Return the step's bank, one-hot."""
        return Cat(at.bank == bank for bank in range(self.depth))
