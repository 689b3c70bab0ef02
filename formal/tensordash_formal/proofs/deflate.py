"""Deflate: a beat that is offered stays until it is taken, whatever groups come."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.deflate import Deflate

from ..harness import Fault, Harness
from ..proof import Broken, Proof

__all__ = ["PROOF"]


def build(config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """What the proof `core_axi` counts on (`AnyBeats`); that proof shows what is assumed here.

    Source: the docstring of `Deflate`.
    """
    dut = Deflate(lanes=config.tile.lanes, width=config.value_bits, data_bits=config.axi_bits)
    harness = Harness(dut, fault=fault)
    beats, payload = dut.beats, Value.cast(dut.beats.payload)
    harness.assume(~(dut.flush & dut.groups.valid))
    harness.assume(dut.flush | ~harness.past(dut.flush & ~dut.start))
    waits = harness.past(beats.valid & ~beats.ready & ~dut.start)
    harness.claim("offers_a_beat_while_there_is_one", beats.valid, when=dut.whole != 0)
    harness.claim("offers_nothing_else", ~beats.valid, when=dut.whole == 0)
    harness.claim("a_beat_stays_until_it_is_taken", beats.valid, when=waits)
    harness.claim("a_beat_stays_until_it_is_taken", payload == harness.past(payload), when=waits & beats.valid)

    places = dut.slots * dut.beat
    filled = harness.probe("filled", places.bit_length())
    tail = harness.probe("tail", (places - 1).bit_length())
    read = harness.probe("read", (dut.slots - 1).bit_length())
    end = Signal(range(places))
    harness.m.d.comb += end.eq(Cat(Const(0, dut.shift), read) + filled)
    harness.lemma(filled <= places)
    harness.lemma((tail == end) | (harness.past(dut.flush & ~dut.start) & (filled == 0)))
    return harness


def _waits_for_ready(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.valid.eq(sound.beats.valid & outer.beats.ready)


def _always_offers(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.valid.eq(1)


def _new_values_show(m: Module, sound: Any, outer: Any) -> None:
    lowest = outer.beats.payload.data[0]
    m.d.comb += lowest.eq(sound.beats.payload.data[0] | outer.groups.valid)


def _broken(claim: str, title: str, fault: Fault) -> Broken:
    return Broken(claim=claim, title=title, kind=Deflate, fault=fault, depth=8)


BROKEN = (
    _broken("offers_a_beat_while_there_is_one", "valid waits for ready", _waits_for_ready),
    _broken("offers_nothing_else", "it always offers a beat", _always_offers),
    _broken("a_beat_stays_until_it_is_taken", "a new group shows through", _new_values_show),
)

PROOF = Proof(
    name="deflate",
    build=build,
    applies=lambda config: isinstance(config, CoreConfig) and config.compression,
    broken=BROKEN,
    breaks=load_any_preset("core"),
)
