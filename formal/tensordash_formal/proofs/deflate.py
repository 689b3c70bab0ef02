"""Deflate: an offered beat stays until it is taken.

The beat's strobes and the sources of its data stay too. Data are zero while deflate is mute.

Assumes: a group stays until it is taken, and no group follows the last one.
"""

from typing import Any

from amaranth.hdl import Cat, Module, ResetSignal, Signal

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.deflate import Deflate

from ..harness import Fault, Harness
from ..proof import Proof, make_variants

__all__ = ["PROOF", "assume_store_behaviour"]


def assume_store_behaviour(harness: Harness, dut: Deflate) -> Signal:
    """Assume the guarantees of a store, and return a signal that is high after the first start.

    A group stays until it is taken. No group follows the end. The kind of move changes only at a start. After a reset,
    the first event is `start`.
    """
    groups, past = dut.groups, harness.past
    started = Signal(name="started")
    with harness.m.If(dut.start):
        harness.m.d.sync += started.eq(1)
    harness.assume(started | ~(groups.valid | dut.flush))
    harness.assume(~(dut.flush & groups.valid))
    harness.assume(dut.flush | ~past(dut.flush & ~dut.start & (dut.whole_beats != 0)))
    waited = past(groups.valid & ~groups.ready & ~dut.start)
    harness.assume(~waited | (groups.valid & (groups.payload == past(groups.payload))))
    for steady in (dut.plain, *([dut.offset] if dut.offset_bits else [])):
        harness.assume(~past(~dut.start) | (steady == past(steady)))
    return started


def build(config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims that `DeflateAbstraction` relies on. The proof `core_axi` proves the assumptions made here.

    Source: the docstring of `Deflate`.
    """
    dut = Deflate(lanes=config.tile.lanes, width=config.value_bits, data_bits=config.axi_bits)
    harness = Harness(dut, fault=fault)
    beats = dut.beats
    groups = dut.groups
    started = assume_store_behaviour(harness, dut)
    waits = harness.past(beats.valid & ~beats.ready & ~dut.start)
    harness.claim("offers_a_beat_while_there_is_one", beats.valid, when=dut.whole_beats != 0)
    harness.claim("offers_nothing_else", ~beats.valid, when=dut.whole_beats == 0)
    harness.claim("a_beat_stays_until_it_is_taken", beats.valid, when=waits)
    strobes = dut.beats.payload.strobe
    harness.claim("a_beat_stays_until_it_is_taken", strobes == harness.past(strobes), when=waits & beats.valid)
    harness.claim("data_are_zero_where_it_is_mute", beats.payload.data == 0, when=dut.mute)

    sent = harness.probe("sent", (dut.max_beats - 1).bit_length())
    made = harness.probe("completed", dut.max_beats.bit_length())
    harness.lemma(groups.valid & (sent < made), when=(sent != 0) & started & ~ResetSignal())
    # These signals and the group determine the data. Comparing the data themselves is hard for the solver.
    rest = (harness.probe(f"rest_{k}", dut.width) for k in range(dut.beat - 1))
    made_of = Cat(groups.valid, harness.probe("filled", dut.shift), sent, *rest)
    harness.claim("what_a_beat_is_made_of_stays", made_of == harness.past(made_of), when=waits)
    return harness


def _waits_for_ready(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.valid.eq(sound.beats.valid & outer.beats.ready)


def _strobes_follow_the_bus(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.payload.strobe.eq(
        sound.beats.payload.strobe & outer.beats.ready.replicate(len(outer.beats.payload.strobe))
    )


BROKEN_VARIANTS = make_variants(
    Deflate,
    {
        "offers_a_beat_while_there_is_one": {"`valid` waits for `ready`": _waits_for_ready},
        "offers_nothing_else": {"`valid` is always high": lambda m, sound, outer: outer.beats.valid.eq(1)},
        "a_beat_stays_until_it_is_taken": {"strobes are high only while the bus is ready": _strobes_follow_the_bus},
        "what_a_beat_is_made_of_stays": {
            "`ready` of the bus is ignored": lambda m, sound, outer: sound.beats.ready.eq(1)
        },
        "data_are_zero_where_it_is_mute": {"`mute` is ignored": lambda m, sound, outer: sound.mute.eq(0)},
    },
)

PROOF = Proof(
    name="deflate",
    build=build,
    applies=lambda config: isinstance(config, CoreConfig) and config.compression,
    broken_variants=BROKEN_VARIANTS,
    broken_config=load_any_preset("core"),
)
