"""Harness and broken variants that the proofs of multiply units with a pass filter share (docs/core.md, "Multiply")."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.data import StructLayout

from tensordash.block import Block
from tensordash.configuration.registers import ERRORS
from tensordash.core.multiply import Multiply
from tensordash.core.pass_filter import LOOPS
from tensordash.emission.verilog import members

from .feed_faults import always_an_error, done_at_once, no_error, shared_variants
from .feed_model import FeedHarness
from .harness import Fault, Stub
from .proof import BrokenVariant
from .reference_descriptor import corrupt_word, next_beat

__all__ = ["FILTER_LINKS", "FilteredFeedHarness", "filtered_variants"]

FIELDS = ("skip_masked", "a_base", "b_base", "a_streams", "b_streams", "fp32", "x", "x_size", "mask_address")
"""Fields that the filter gets under their own names."""
LOOP_FIELDS = {
    **{f"{name}_steps": tuple(f"{name}_{k}" for k in range(LOOPS)) for name in ("address", "x")},
    "counts": tuple(f"count_{k}" for k in range(LOOPS - 1)),
}
"""Inputs of the filter that collect fields of the loops."""
FILTER_LINKS: Mapping[str, str] = MappingProxyType({"mask_read": "filter.read", "marks": "filter.marks"})
"""Interfaces of the unit, and the interfaces of the filter to which they belong."""


class FilteredFeedHarness(FeedHarness):
    """A multiply unit with a pass filter and a free sequence of entries. Subclasses create the model, `passes`.

    Parameters
    ----------
    dut : Multiply
        The unit.
    entries : str
        Stream of the entries, by its name in the flattened Verilog.
    layout : StructLayout
        Layout of an entry. It has `runs` and `last`.
    stubs, fault
        As in `Harness`.
    """

    passes: Any

    def __init__(
        self,
        dut: Multiply,
        *,
        entries: str,
        layout: StructLayout,
        stubs: tuple[Stub, ...],
        fault: tuple[type[Block], Fault] | None,
    ) -> None:
        super().__init__(dut, stubs=stubs, fault=fault)
        self.bits = self.port(f"{entries}_payload", layout.size)
        self.valid, self.ready = (self.port(f"{entries}_{name}", 1) for name in ("valid", "ready"))
        self.entry: Any = layout(self.bits)

    def assume_entries(self) -> None:
        """Assume legal descriptors, and entries that stay until they are taken. None follows the last one."""
        payload = self.dut.command.descriptor.payload
        self.assume(self.passes.is_legal(payload) | ~self.dut.command.descriptor.valid)
        start, self.open = self.port("filter.start", 1), Signal(name="filter_is_open")
        with self.m.If(start):
            self.m.d.sync += self.open.eq(1)
        with self.m.Elif(self.passes.taken & self.entry.last):
            self.m.d.sync += self.open.eq(0)
        self.assume(self.open | ~self.valid)
        self.assume(self.entry.runs | self.entry.last | ~self.valid)
        waits = self.past(self.valid & ~self.ready)
        self.assume(~waits | (self.valid & (self.bits == self.past(self.bits))))

    def claim_filter(self, links: Mapping[str, str] = FILTER_LINKS) -> None:
        """Claim that the filter gets the descriptor, and that some of the unit's interfaces are those of its blocks."""
        dut, passes = self.dut, self.passes
        self.claim("the_filter_begins_with_the_descriptor", self.port("filter.start", 1) == passes.starting)
        values = {name: passes[name] for name in FIELDS} | {"pass_words": passes.words}
        values |= {name: Cat(passes[each] for each in fields) for name, fields in LOOP_FIELDS.items()}
        for name, value in values.items():
            port = self.port(f"filter.{name}", len(value))
            self.claim("the_filter_has_the_descriptors_fields", port == value.as_unsigned(), when=passes.complete)
        for name, value, _ in members(dut):
            for interface, inner in links.items():
                if name.startswith(f"{interface}_"):
                    port = self.port(inner + name.removeprefix(interface), len(value))
                    self.claim("reads_and_marks_pass", port == value, when=1)

    def claim_end(self) -> None:
        """Claim the cycle of `done`, and its error."""
        command, passes = self.dut.command, self.passes
        self.claim("done_after_the_last_step_or_entry", command.done == passes.finished)
        error = Mux(self.port("filter.beyond", 1), ERRORS["range"], 0)
        self.claim("the_error_is_the_filters", command.error == error, when=command.done)

    def add_filter_lemmas(self) -> None:
        """State the lemmas about the descriptor's fields, and about the filter's descriptor."""
        fields = (*FIELDS, "steps", *(name for names in LOOP_FIELDS.values() for name in names))
        self.add_feed_lemmas(self.passes, fields)
        self.lemma(self.probe("filter_runs", 1) == self.passes.active)
        self.lemma(self.open == (self.passes.active & ~self.passes.end_known))
        self.lemma(self.passes.active, when=self.passes.in_passes)


def _loses_a_beat(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.command.descriptor.valid.eq(outer.command.descriptor.valid & (next_beat(m, outer) != 1))


def _marks_all_passes(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.marks.payload.eq(1)


def _reads_never_wait(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.mask_read.ready.eq(1)


def _takes_all(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.taken.eq(sound.available)


def _takes_nothing(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.taken.eq(0)


def _done_after_a_step(m: Module, sound: Any, outer: Any) -> None:
    begun = Signal()
    with m.If(sound.command.done):
        m.d.sync += begun.eq(0)
    with m.Elif(outer.taken != 0):
        m.d.sync += begun.eq(1)
    m.d.comb += outer.command.done.eq(sound.command.done & begun)


DONE, FIELD_CLAIM = "done_after_the_last_step_or_entry", "the_filter_has_the_descriptors_fields"
FAULTS: tuple[tuple[str, str, Fault], ...] = (
    ("the_filter_begins_with_the_descriptor", "a beat of the descriptor is lost", _loses_a_beat),
    (FIELD_CLAIM, "the sides' base addresses are swapped", corrupt_word(11, lambda word: word.rotate_left(16))),
    (FIELD_CLAIM, "the highest bit of the mask's address is inverted", corrupt_word(14, lambda word: word ^ 1 << 31)),
    ("reads_and_marks_pass", "every pass is marked as skipped", _marks_all_passes),
    ("reads_and_marks_pass", "reads of masks never wait", _reads_never_wait),
    ("no_entry_is_taken_too_early", "the unit advances by all offered steps", _takes_all),
    ("entries_are_taken_in_time", "the unit never advances", _takes_nothing),
    (DONE, "`done` rises with the first step", done_at_once),
    (DONE, "`done` is low if all passes are skipped", _done_after_a_step),
    ("the_error_is_the_filters", "no error is reported", no_error),
    ("the_error_is_the_filters", "an error is always reported", always_an_error),
)
"""Claims of multiply units with a pass filter, titles and faults."""


def filtered_variants(kind: type[Block], depth: int) -> tuple[BrokenVariant, ...]:
    """Return the broken variants of a multiply unit with a pass filter that fail a claim within `depth` cycles."""
    return (
        *shared_variants(kind, depth),
        *(
            BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=depth)
            for claim, title, fault in FAULTS
        ),
    )
