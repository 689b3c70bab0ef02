"""Reference model of the loops of a plain move (docs/core.md), as ghost registers."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import Operation
from tensordash.movers.unit import COMMAND_BITS

from .harness import Harness
from .reference_descriptor import WORD, ReferenceDescriptor

__all__ = ["MoveNest"]

LOOPS = (1, 2, 3)


class MoveNest(ReferenceDescriptor):
    """Tracks which run a load or a store requests next.

    Parameters
    ----------
    m : Module
        Module of the ghost registers.
    command : CommandSignature, the unit's side
        The command port.
    operation : Operation
        A load or a store.
    config : CoreConfig
        The core.

    Attributes
    ----------
    runs : Signal
        A run of a plain move is requested. The harness drives it.
    group_bits : int
        Bits of a group's number in memory. In a core with NVFP4 loads, the number counts halves of plain groups.
    over : Signal
        All runs have been requested.
    turns : list of Signal
        Remaining turns of each loop, including the current one.
    places : list of Signal
        Group in memory at which each loop's current turn began; for the innermost loop, the start of the run. The
        values are exact until a run outside the address range is requested.
    outside : Signal
        The next run starts outside the address range.
    outside_requested : Signal
        A run outside the address range was requested.
    """

    def __init__(self, m: Module, command: Any, operation: Operation, config: CoreConfig) -> None:
        super().__init__(m, command, operation)
        counts_halves = operation.name == "load" and config.nvfp4
        self.config, self.shift = config, config.group_bytes.bit_length() - 1 - counts_halves
        bits = self.group_bits = config.address_bits - self.shift
        self.runs, self.over = Signal(name="nest_runs"), Signal(name="over")
        self.turns = [Signal(16, name=f"turns_{k}") for k in LOOPS]
        # The width suffices for a legal place plus one stride.
        self.places = [Signal(signed(max(bits, WORD + counts_halves) + 2), name=f"place_{k}") for k in LOOPS]
        self.outside, self.outside_requested = Signal(name="nest_outside"), Signal(name="nest_outside_requested")
        m.d.comb += self.outside.eq(self.places[0][bits:].any())
        counts = [self[f"count_{k}"] for k in LOOPS]
        ends = [turn == 1 for turn in self.turns]
        # Loop k steps if all inner loops are in their last turn. The inner loops restart at the new place of loop k.
        for k in range(len(LOOPS)):
            steps = self.runs & Cat(ends[:k]).all() & (~ends[k] if k < len(LOOPS) - 1 else 1)
            with m.If(steps):
                m.d.sync += [turn.eq(count) for turn, count in zip(self.turns[:k], counts, strict=False)]
                m.d.sync += self.turns[k].eq(self.turns[k] - 1)
                stride: Value = self[f"stride_{k + 1}"]
                if counts_halves:
                    stride = Mux(self["nvfp4"], stride, stride * 2)
                m.d.sync += [each.eq(self.places[k] + stride) for each in self.places[: k + 1]]
        with m.If(self.runs):
            m.d.sync += self.outside_requested.eq(self.outside_requested | self.outside)
            m.d.sync += self.over.eq(Cat(ends).all())
        with m.If(self.starting):
            m.d.sync += [turn.eq(count) for turn, count in zip(self.turns, counts, strict=True)]
            m.d.sync += [*(place.eq(self.memory(self.shift)) for place in self.places), self.over.eq(0)]
            m.d.sync += self.outside_requested.eq(0)

    def memory(self, skipped: int) -> Value:
        """Return the descriptor's memory address without its `skipped` lowest bits."""
        return Cat(self["memory"], self["memory_high"])[skipped : self.config.address_bits]

    def add_turn_lemmas(self, harness: Harness, *, when: Any) -> None:
        """State the lemmas: the unit's walk has the same remaining turns.

        The outermost loop counts in its field of the descriptor.
        """
        for k, turn in zip(LOOPS, self.turns, strict=True):
            name = f"walk_turns_{k}" if k < len(LOOPS) else f"descriptor_count_{k}"
            harness.lemma(harness.probe(name, 16) == turn, when=when)

    def add_unchanged_lemmas(self, harness: Harness, names: tuple[str, ...], *, when: Any) -> None:
        """State the lemmas: the unit stores the fields in `names` unchanged, except that loop 3 counts in `count_3`.

        The stored fields of an active descriptor may change while `when` is false. A compressed descriptor uses the
        registers for other values.
        """
        for name in names:
            field = self[name]
            received = self.beat_count > self._fields[name].low // COMMAND_BITS
            unchanged = received & Mux(self.active, when, ~self["compressed"])
            if name == f"count_{LOOPS[-1]}":
                unchanged &= ~self.active
            harness.lemma(harness.probe(f"descriptor_{name}", len(field)) == field.as_unsigned(), when=unchanged)
