"""Reference model of the pass filter: the passes of a multiply, their masks, and the queues (docs/core.md, "Multiply").

The model follows the timing of `PassFilter`. It consists of ghost registers and reads only the hardware's ports.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from tensordash.core.pass_filter import PassFilter

from .harness import Harness
from .loop_nest import LOOPS, LoopNest

__all__ = ["PLACE_BITS", "PassModel", "QueueModel"]

PLACE_BITS = 30
"""Bits of a word's place, including places beyond the stream buffer."""
FIRST_MASK: Mapping[str, str] = MappingProxyType({"address": "mask_address", "x": "x"})


class QueueModel:
    """A queue with a bounded number of entries.

    Parameters
    ----------
    m : Module
        Module of the ghost registers.
    name : str
        Prefix of the registers' names.
    shape : mapping of str to int
        Names and widths of an entry's values.
    places : int
        Maximum number of entries.

    Attributes
    ----------
    count : Signal
        Number of entries.
    entries : list of dict of str to Signal
        The entries, the first one first. Those from `count` on are undefined.
    """

    def __init__(self, m: Module, name: str, shape: Mapping[str, int], places: int) -> None:
        self._m, self.places = m, places
        self.count = Signal(range(places + 1), name=f"{name}_count")
        self.entries = [
            {each: Signal(bits, name=f"{name}_{each}_{k}", reset_less=True) for each, bits in shape.items()}
            for k in range(places)
        ]

    def connect(self, new: Mapping[str, Value], *, adds: Value, leaves: Value) -> None:
        """Add an entry, or let the first one leave, or both, in each cycle."""
        sync = self._m.d.sync
        sync += self.count.eq(self.count + adds - leaves)
        for k, entry in enumerate(self.entries):
            after = self.entries[k + 1] if k + 1 < self.places else entry
            for name, value in entry.items():
                added = adds & (self.count - leaves == k)
                sync += value.eq(Mux(added, new[name], Mux(leaves, after[name], value)))

    def add_lemmas(self, harness: Harness, queue: str, k: int, bits: Sequence[tuple[Any, Any]]) -> None:
        """State the lemmas: entry k of a `ShortQueue` has these bits, unless they are undefined. Free places are zeros.

        `bits` has each bit with the condition in which it is undefined.
        """
        here = self.count > k
        harness.lemma(harness.probe(f"{queue}.taken", self.places)[k] == here)
        for number, (bit, is_undefined) in enumerate(bits):
            stored = harness.probe(f"{queue}.bit_{number}", self.places)[k]
            harness.lemma((stored == bit) | is_undefined, when=here)
            harness.lemma(~stored, when=~here)


class PassModel:
    """Tracks the passes of a multiply, one group of masks after the other.

    Parameters
    ----------
    m : Module
        Module of the ghost registers.
    dut : PassFilter
        The filter.
    places, marks : int
        Passes, and marks, that the filter may be ahead.

    Attributes
    ----------
    busy : Signal
        A descriptor has begun, and its last entry was not taken.
    begun : Signal
        A descriptor has begun since reset.
    left : Signal
        Not all groups of all passes were requested.
    group, column, row : Signal
        The next group: its number in the block, and its pass: column q and row p.
    offset : dict of str to Signal
        Words before the pass's streams: q * W and p * W.
    place : dict of str to Signal
        The first words of the pass's streams.
    over : dict of str to Signal
        A word of the pass is beyond the stream buffer.
    requests, inside, reads : Signal
        The next group can be requested; it has results; its mask is requested.
    decides : Signal
        The masks of a pass are known in this cycle.
    passes, marks : QueueModel
        Entries and marks that wait.
    """

    def __init__(self, m: Module, dut: PassFilter, *, places: int, marks: int) -> None:
        self.m, self.dut, config = m, dut, dut.config
        self.groups = config.parts("a") * config.parts("b")
        self.busy, self.begun, self.left = (Signal(name=f"model_{name}") for name in ("busy", "begun", "left"))
        self.group = Signal(range(max(self.groups, 2)), name="model_group")
        self.column, self.row = (Signal(12, name=f"model_{name}", reset_less=True) for name in ("column", "row"))
        self.offset = {side: Signal(PLACE_BITS, name=f"{side}_offset", reset_less=True) for side in "ab"}
        self.place = {side: Signal(PLACE_BITS, name=f"{side}_place") for side in "ab"}
        self.over = {side: Signal(name=f"{side}_is_over") for side in "ab"}
        self.beyond = Signal(name="model_beyond", reset_less=True)
        self.requests, self.inside, self.reads = (Signal(name=f"model_{name}") for name in ("requests", "in", "reads"))
        self.passed, self.pass_done = Signal(name="group_passed"), Signal(name="pass_done")
        self.final = Signal(name="is_last_pass")
        self.arrives, self.decides = Signal(name="mask_arrives"), Signal(name="model_decides")
        self.found, self.runs = Signal(name="model_found"), Signal(name="pass_runs")
        entry = {"runs": 1, "last": 1, **{f"{side}_word": PLACE_BITS for side in "ab"}, "a_over": 1, "b_over": 1}
        self.held = {
            name: Signal(bits, name=f"held_{name}", reset_less=True) for name, bits in entry.items() if name != "runs"
        }
        self.passes, self.marks = QueueModel(m, "passes", entry, places), QueueModel(m, "marks", {"skipped": 1}, marks)
        step = self.passed & dut.skip_masked
        self.nest = LoopNest(m, self, "nest", starts=dut.start, step=step, first=FIRST_MASK)
        self._request()
        self._advance()
        self._decide()

    def __getitem__(self, name: str) -> Value:
        """Return a field of the descriptor, from the filter's inputs."""
        loop, _, number = name.rpartition("_")
        if not number.isdigit():
            return getattr(self.dut, name)
        return self.dut.counts[int(number)] if loop == "count" else getattr(self.dut, f"{loop}_steps")[int(number)]

    def is_legal(self) -> Value:
        """Return whether all fields have legal values."""
        dut = self.dut
        counted = [dut.a_streams, dut.b_streams, dut.pass_words, *(dut.counts[k] for k in range(LOOPS - 1))]
        return Cat(each != 0 for each in counted).all()

    def address(self) -> Value:
        """Return the group whose mask is requested next. FP32 results take several groups for each position's."""
        dut, x = self.dut, self.nest.place["x"].as_signed()
        away = x // dut.lanes
        factor = Mux(dut.fp32, dut.config.fp32_groups, 1)
        return (self.nest.place["address"] + away * factor)[: len(dut.read.address[0])]

    def is_found(self) -> Value:
        """Return whether a value that was read is no zero of either sign."""
        width = self.dut.config.value_bits
        is_signed = self.dut.config.tile.numerics.result != "int32"
        zeros = (0, 1 << (width - 1)) if is_signed else (0,)
        values = [data.word_select(k, width) for data in self.dut.read.data for k in range(self.dut.lanes)]
        return Cat(~Cat(value == zero for zero in zeros).any() for value in values).any()

    def _request(self) -> None:
        """Request the next group. The last group of a pass needs a place in both queues."""
        dut, x = self.dut, self.nest.place["x"].as_signed()
        whole = ~dut.skip_masked | (self.group == self.groups - 1)
        has_place = self.passes.count + self.decides < self.passes.places
        has_mark = ~dut.skip_masked | (self.marks.count + self.decides < self.marks.places)
        self.m.d.comb += [
            self.requests.eq(self.left & (~whole | (has_place & has_mark))),
            self.inside.eq((x >= 0) & (x < dut.x_size)),
            self.reads.eq(self.requests & dut.skip_masked & self.inside),
            self.passed.eq(self.requests & (~self.reads | dut.read.ready)),
            self.pass_done.eq(self.passed & whole),
        ]

    def _advance(self) -> None:
        """Advance to the next group, pass, and row of passes."""
        dut, m = self.dut, self.m
        last_column = self.column == dut.a_streams - 1
        m.d.comb += self.final.eq(last_column & (self.row == dut.b_streams - 1))
        for side in "ab":
            m.d.comb += [
                self.place[side].eq(self[f"{side}_base"] + self.offset[side]),
                self.over[side].eq(self.place[side] + dut.pass_words > dut.words[side]),
            ]
        with m.If(dut.start):
            m.d.sync += [self.busy.eq(1), self.begun.eq(1), self.left.eq(1), self.beyond.eq(0)]
            m.d.sync += [self.column.eq(0), self.row.eq(0), *(each.eq(0) for each in self.offset.values())]
        with m.Elif(self.pass_done):
            m.d.sync += [self.left.eq(~self.final), self.beyond.eq(self.beyond | self.over["a"] | self.over["b"])]
            m.d.sync += [self.column.eq(Mux(last_column, 0, self.column + 1)), self.row.eq(self.row + last_column)]
            m.d.sync += self.offset["a"].eq(Mux(last_column, 0, self.offset["a"] + dut.pass_words))
            with m.If(last_column):
                m.d.sync += self.offset["b"].eq(self.offset["b"] + dut.pass_words)
        with m.If(self.passed & dut.skip_masked):
            m.d.sync += self.group.eq(Mux(self.pass_done, 0, self.group + 1))

    def _decide(self) -> None:
        """Decide in the cycle in which the last group's mask arrives, and queue the pass and its mark."""
        dut, m = self.dut, self.m
        m.d.comb += self.runs.eq(~dut.skip_masked | self.found | (self.arrives & self.is_found()))
        m.d.sync += [
            self.arrives.eq(self.reads & dut.read.ready),
            self.decides.eq(self.pass_done),
            self.found.eq(self.runs & dut.skip_masked & ~self.decides),
        ]
        with m.If(self.pass_done):
            m.d.sync += self.held["last"].eq(self.final)
            for side in "ab":
                m.d.sync += self.held[f"{side}_word"].eq(self.place[side])
                m.d.sync += self.held[f"{side}_over"].eq(self.over[side])
        taken = (self.passes.count != 0) & dut.passes.ready
        with m.If(taken & self.passes.entries[0]["last"]):
            m.d.sync += self.busy.eq(0)
        self.passes.connect(
            {"runs": self.runs, **self.held}, adds=self.decides & (self.runs | self.held["last"]), leaves=taken
        )
        self.marks.connect(
            {"skipped": ~self.runs},
            adds=self.decides & dut.skip_masked,
            leaves=(self.marks.count != 0) & dut.marks.ready,
        )
