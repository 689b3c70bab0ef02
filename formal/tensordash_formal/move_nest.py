"""The loops of a plain move, written from docs/core.md, as registers beside the hardware."""

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
    """Which run of a load or a store is asked for next.

    Parameters
    ----------
    m : Module
        Where it is built.
    command : CommandSignature, as the unit has it
        Where descriptors come from.
    operation : Operation
        A load or a store.
    config : CoreConfig
        The core.

    Attributes
    ----------
    runs : Signal
        To be driven: a run of a plain move is asked for.
    places_bits : int
        Bits of the number of a group in memory.
    over : Signal
        All have been.
    turns : list of Signal
        Of each loop, this one and those to come.
    places : list of Signal
        Groups in memory: where the turn of each loop began, of the innermost where the run does. As integers, as long
        as no run outside of all addresses was asked for.
    outside : Signal
        The run does not begin within the addresses that there are.
    gone : Signal
        Such a run was asked for.
    """

    def __init__(self, m: Module, command: Any, operation: Operation, config: CoreConfig) -> None:
        super().__init__(m, command, operation)
        self.config, self.shift = config, config.group_bytes.bit_length() - 1
        bits = self.places_bits = config.address_bits - self.shift
        self.runs, self.over = Signal(name="nest_runs"), Signal(name="over")
        self.turns = [Signal(16, name=f"turns_{k}") for k in LOOPS]
        # One stride from any legal place of a run stays within this range.
        self.places = [Signal(signed(max(bits, WORD) + 2), name=f"place_{k}") for k in LOOPS]
        self.outside, self.gone = Signal(name="nest_outside"), Signal(name="nest_gone")
        m.d.comb += self.outside.eq(self.places[0][bits:].any())
        counts = [self[f"count_{k}"] for k in LOOPS]
        ends = [turn == 1 for turn in self.turns]
        # Loop k steps if all inside of it are at their ends; those begin anew where it stands then.
        for k in range(len(LOOPS)):
            steps = self.runs & Cat(ends[:k]).all() & (~ends[k] if k < len(LOOPS) - 1 else 1)
            with m.If(steps):
                m.d.sync += [turn.eq(count) for turn, count in zip(self.turns[:k], counts, strict=False)]
                m.d.sync += self.turns[k].eq(self.turns[k] - 1)
                m.d.sync += [each.eq(self.places[k] + self[f"stride_{k + 1}"]) for each in self.places[: k + 1]]
        with m.If(self.runs):
            m.d.sync += self.gone.eq(self.gone | self.outside)
            m.d.sync += self.over.eq(Cat(ends).all())
        with m.If(self.loads):
            m.d.sync += [turn.eq(count) for turn, count in zip(self.turns, counts, strict=True)]
            m.d.sync += [*(place.eq(self.memory(self.shift)) for place in self.places), self.over.eq(0)]
            m.d.sync += self.gone.eq(0)

    def memory(self, skipped: int) -> Value:
        """The descriptor's address in memory, without its lowest bits."""
        return Cat(self["memory"], self["memory_high"])[skipped : self.config.address_bits]

    def follow_turns(self, harness: Harness, *, when: Any) -> None:
        """The unit's walk has as many turns left. The outermost loop's are counted in the descriptor."""
        for k, turn in zip(LOOPS, self.turns, strict=True):
            inside = (
                harness.probe(f"walk_turns_{k}", 16) if k < len(LOOPS) else harness.probe("descriptor_5", WORD)[16:]
            )
            harness.lemma(inside == turn, when=when)

    def follow_words(self, harness: Harness, numbers: tuple[int, ...], *, when: Any) -> None:
        """Words of the descriptor that the unit keeps while it has it; loop 3's count in word 5 until it begins.

        A compressed one has others in some of them: then they are kept at no time.
        """
        for number in numbers:
            word, same = harness.probe(f"descriptor_{number}", WORD), self.bits[WORD * number : WORD * (number + 1)]
            come = self.beat > WORD * number // COMMAND_BITS
            kept = come & Mux(self.begun, when, ~self["compressed"])
            harness.lemma(word[:16] == same[:16], when=kept)
            harness.lemma(word[16:] == same[16:], when=kept & ((number != 5) | ~self.begun))
