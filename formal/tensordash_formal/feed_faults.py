"""Faults of both kinds of multiply units, and the broken variants for the claims that their proofs share."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.registers import ERRORS

from .harness import Fault
from .proof import BrokenVariant

__all__ = ["always_an_error", "done_at_once", "no_error", "shared_variants"]


def _no_streams_of_rows(m: Module, sound: Any, outer: Any) -> None:
    """Read the first stream of side B in every pass."""
    read = outer.b_read
    first = Signal.like(Value.cast(read.address[0]), name="first_word")
    active = Signal()
    with m.If(outer.command.done):
        m.d.sync += active.eq(0)
    with m.Elif(sound.b_read.enable[0] & ~active):
        m.d.sync += [active.eq(1), first.eq(sound.b_read.address[0])]
    m.d.comb += read.address[0].eq(Mux(active, first, sound.b_read.address[0]))


def _ignores_late_banks(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.a_read.ready.eq(-1)


def _offers_one_more(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.available.eq(sound.available + ((sound.available != 0) & (sound.available != outer.depth)))


def _always_offers(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.available.eq(Mux(sound.available == 0, 1, sound.available))


def _never_last(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.last.eq(0)


def _last_too_early(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.last.eq(sound.available == outer.depth)


def _offers_one_step(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.available.eq(Mux(sound.available > 1, 1, sound.available))


def done_at_once(m: Module, sound: Any, outer: Any) -> None:
    """Report the end with the first step."""
    m.d.comb += outer.command.done.eq(sound.command.done | (outer.taken != 0))


def no_error(m: Module, sound: Any, outer: Any) -> None:
    """Report no error."""
    m.d.comb += outer.command.error.eq(0)


def always_an_error(m: Module, sound: Any, outer: Any) -> None:
    """Report a range error for every descriptor."""
    m.d.comb += outer.command.error.eq(ERRORS["range"])


FAULTS: tuple[tuple[str, str, Fault], ...] = (
    ("only_steps_of_passes_are_offered", "a step is offered in every cycle", _always_offers),
    ("no_step_of_the_next_pass_is_offered", "one more step is offered", _offers_one_more),
    ("last_marks_the_end_of_a_pass", "`last` is dropped", _never_last),
    ("last_marks_the_end_of_a_pass", "`last` rises with every full offer", _last_too_early),
    ("every_step_is_offered_from_its_word", "reads delayed by a write are not repeated", _ignores_late_banks),
    ("every_step_is_offered_from_its_word", "bank 0 of side B shows its first word only", _no_streams_of_rows),
    ("all_that_can_be_read_is_offered", "at most one step is offered", _offers_one_step),
)
"""Claims of `FeedHarness`, titles and faults."""


def shared_variants(kind: type[Block], depth: int) -> tuple[BrokenVariant, ...]:
    """Return the broken variants of a multiply unit that fail a claim of both proofs within `depth` cycles."""
    return tuple(
        BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=depth) for claim, title, fault in FAULTS
    )
