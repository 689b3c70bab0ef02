"""The command queue: every descriptor of the ring reaches the sequencer once, whole and in order."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, ResetSignal, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BYTES
from tensordash.configuration.preset import load_any_preset
from tensordash.core.command_queue import AHEAD, CommandQueue
from tensordash.movers.axi import PAGE_BITS
from tensordash.movers.unit import COMMAND_BEATS, COMMAND_BITS
from tensordash_axi import Axi4Rules

from ..harness import Fault, Harness
from ..proof import Broken, Proof

__all__ = ["PROOF"]

RING = 15
"""The largest ring's places, as a logarithm to base 2."""


def build(config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """A command queue between a ring in memory and a sequencer that takes what it likes.

    The ring stays where it is, `tail` grows and is never more than the largest ring ahead of what was fetched. Memory
    keeps the rules of AXI4, but that a beat stays until it is taken, and a beat of it is what it was asked for:
    `descriptors_come_from_their_places` says what was asked for, and `beats_pass_once_and_in_order` that the beats,
    which come in the order of the reads, pass.

    Source: docs/core.md, "Registers" (a program's life); the docstring of `CommandQueue`.
    """
    dut = CommandQueue(config=config)
    harness = Harness(dut, fault=fault)
    m, axi, out, past = harness.m, dut.axi, dut.descriptors, harness.past
    rules = Axi4Rules(data_bits=config.axi_bits, address_bits=config.address_bits, reads=AHEAD)
    m.submodules.rules = rules
    for name in axi.signature.members:
        m.d.comb += getattr(rules.bus, name).eq(Value.cast(getattr(axi, name)))
    for rule in rules.rules:
        # The arbiter takes beats back while the other reader is not ready.
        if rule.name.startswith(("ar_", "r_")) and rule.name not in ("r_stays", "r_stable"):
            (harness.assume if rule.side == "slave" else harness.lemma)(getattr(rules.holds, rule.name))
    base, size = (harness.constant(len(value), f"ring_{name}") for name, value in _ring(dut).items())
    harness.drive(dut.queue_base, base)
    harness.drive(dut.queue_size, size)
    harness.assume(base[: BYTES.bit_length() - 1] == 0)
    # Bounds are of the proof `core_axi`; here no descriptor is refused.
    harness.drive(
        dut.bounds, Const(-1, 2 * (config.address_bits - PAGE_BITS) + 1) << config.address_bits - PAGE_BITS + 1
    )
    harness.assume(base + (Const(BYTES) << size) <= 1 << config.address_bits)
    harness.assume(_less(dut.tail, past(dut.tail)) <= 1 << RING)
    passed = Signal(32)  # descriptors whose last beat has passed
    harness.assume(_less(dut.tail, passed) <= 1 << RING)
    harness.assume(_less(dut.done, past(dut.done)) <= config.window)
    harness.assume(_less(passed, dut.done) <= config.window)

    asked = Signal(32)  # descriptors whose address was taken
    beats = Signal(range(COMMAND_BEATS))  # of the descriptor that passes
    halted = Signal()  # since the last reset
    asks, passes, comes = axi.arvalid & axi.arready, out.valid & out.ready, axi.rvalid & axi.rready
    m.d.sync += halted.eq(halted | dut.halt)
    with m.If(asks):
        m.d.sync += asked.eq(asked + 1)
    with m.If(passes):
        m.d.sync += beats.eq(beats + 1)
        with m.If(beats == COMMAND_BEATS - 1):
            m.d.sync += passed.eq(passed + 1)
    offered = axi.arvalid & ~halted
    place = Signal(RING)
    address = Signal(len(base))
    m.d.comb += [place.eq(asked & ~(Const(-1, RING) << size)), address.eq(base + (place << BYTES.bit_length() - 1))]
    on_way = rules.reads[0].count
    harness.claim("descriptors_come_from_their_places", axi.araddr == address, when=offered)
    harness.claim("each_is_asked_for_whole", axi.arlen == dut.beats - 1, when=offered)
    harness.claim("none_is_asked_for_before_it_is_there", asked != dut.tail, when=offered)
    harness.claim("no_more_are_asked_for_than_the_window_holds", _less(asked, dut.done) < config.window, when=offered)
    harness.claim("beats_pass_once_and_in_order", comes, when=passes)
    harness.claim("beats_pass_once_and_in_order", passes, when=comes & ~dut.halt & ~ResetSignal())
    payload = Cat(axi.rdata, axi.rresp[1], Const(0, 1))
    harness.claim("beats_pass_unchanged", Value.cast(out.payload) == payload, when=passes)
    harness.claim("none_is_lost_and_none_repeated", _less(asked, passed) == on_way, when=~halted)
    harness.claim("head_counts_those_that_have_passed", dut.head == passed)

    left = harness.probe("reader.left", dut.beats.bit_length())
    chosen = harness.probe("asked", 32)  # those that the reader was asked for
    beat = harness.probe("reader.beat", len(axi.araddr) - dut._reader.skipped + 1)
    waits = left != 0
    harness.lemma(harness.probe("beat", 2) == beats)
    harness.lemma(harness.probe("reader.on_way", AHEAD.bit_length()) == on_way)
    harness.lemma(on_way <= AHEAD)
    harness.lemma(waits & (on_way < AHEAD), when=harness.probe("reader.offered", 1))
    harness.lemma(rules.came[0] == beats, when=~halted)
    for index, read in enumerate(rules.reads[0].entries):
        harness.lemma(read.len == dut.beats - 1, when=~halted & (on_way > index))
    harness.lemma(_less(chosen, asked) == waits, when=~halted)
    harness.lemma(~waits | ~beat[-1])
    harness.lemma(~harness.port("reader.outside", 1) & ~harness.probe("refuses", 1))
    harness.lemma(~waits | ((left == dut.beats) & ((beat & (dut.beats - 1)) == 0)))
    harness.lemma(beat == address[dut._reader.skipped :], when=waits & ~halted)
    harness.lemma(_less(dut.tail, chosen) <= 1 << RING, when=~halted)
    harness.lemma(_less(chosen, dut.done) <= config.window, when=~halted)
    return harness


def _less(more: Value, few: Any) -> Value:
    """How far one count is ahead of another; both wrap."""
    return (more - few)[:32]


def _ring(dut: CommandQueue) -> dict[str, Value]:
    return {"base": Value.cast(dut.queue_base), "size": Value.cast(dut.queue_size)}


def _one_place_on(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.araddr.eq(sound.axi.araddr + BYTES)


def _ring_does_not_close(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.queue_size.eq(15)


def _half_of_it(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.arlen.eq(1)


def _one_ahead(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.tail.eq(outer.tail + 1)


def _looks_away_from_done(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.done.eq(outer.head)


def _says_it_again(m: Module, sound: Any, outer: Any) -> None:
    again = Signal()
    m.d.sync += again.eq(outer.descriptors.valid & outer.descriptors.ready & ~again)
    m.d.comb += outer.descriptors.valid.eq(sound.descriptors.valid | again)


def _drops_a_beat(m: Module, sound: Any, outer: Any) -> None:
    first = Signal(init=1)
    with m.If(outer.axi.rvalid):
        m.d.sync += first.eq(0)
    m.d.comb += [
        outer.descriptors.valid.eq(sound.descriptors.valid & ~first),
        sound.descriptors.ready.eq(outer.descriptors.ready | first),
    ]


def _loses_errors(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.descriptors.payload.error.eq(0)


def _counts_beats(m: Module, sound: Any, outer: Any) -> None:
    beats = Signal(32)
    m.d.sync += beats.eq(beats + (outer.descriptors.valid & outer.descriptors.ready))
    m.d.comb += outer.head.eq(beats)


def _asks_twice(m: Module, sound: Any, outer: Any) -> None:
    twice = Signal()
    with m.If(outer.axi.arvalid & outer.axi.arready):
        m.d.sync += twice.eq(~twice)
    m.d.comb += sound.axi.arready.eq(outer.axi.arready & twice)


def _broken(claim: str, title: str, fault: Fault, depth: int = 10) -> Broken:
    return Broken(claim=claim, title=title, kind=CommandQueue, fault=fault, depth=depth, config=SMALL)


SMALL = load_any_preset("core", ["core.window=4"])
BROKEN = (
    _broken("descriptors_come_from_their_places", "the first place is left out", _one_place_on),
    _broken("descriptors_come_from_their_places", "the ring does not close", _ring_does_not_close),
    _broken("each_is_asked_for_whole", "half of a descriptor is read", _half_of_it),
    _broken("none_is_asked_for_before_it_is_there", "it reads one ahead of the tail", _one_ahead),
    _broken("no_more_are_asked_for_than_the_window_holds", "it does not wait for `done`", _looks_away_from_done, 26),
    _broken("beats_pass_once_and_in_order", "every beat is passed twice", _says_it_again),
    _broken("beats_pass_once_and_in_order", "the first beat is dropped", _drops_a_beat),
    _broken("beats_pass_unchanged", "errors are not told", _loses_errors),
    _broken("none_is_lost_and_none_repeated", "each is read twice", _asks_twice),
    _broken("head_counts_those_that_have_passed", "it counts beats", _counts_beats),
)

PROOF = Proof(
    name="command_queue",
    build=build,
    applies=lambda config: isinstance(config, CoreConfig) and config.axi_bits == COMMAND_BITS,
    broken=BROKEN,
    breaks=SMALL,
)
