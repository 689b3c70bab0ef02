"""Output buffer: a queue of two beats whose `ready` is a register.

Both beats leave in order, each once. Ready, valid and payload come from registers.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.tile.output_buffer import OutputBuffer

from ..harness import Fault, Harness
from ..proof import Proof, make_variants

__all__ = ["PROOF"]


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a tile's output buffer, with free handshakes on both sides.

    Source: docs/tile.md, "One cycle", step 1; the docstring of `OutputBuffer`.
    """
    dut = OutputBuffer(out_rows=config.out_rows, columns=config.columns)
    harness = Harness(dut, fault=fault)
    m = harness.m
    beats, out = dut.beats, dut.out
    held, watched = Signal(range(3)), Signal()
    ahead = Signal(range(3))
    """Beats that leave before the watched one."""
    value = Signal(len(Value.cast(beats.payload)))
    enters, leaves = Signal(), Signal()
    m.d.comb += [enters.eq(beats.valid & (held < 2)), leaves.eq((held != 0) & out.ready)]
    m.d.sync += held.eq(held + enters - leaves)
    with m.If(enters & harness.free(1, "begin") & ~watched):
        m.d.sync += [watched.eq(1), ahead.eq(held - leaves), value.eq(Value.cast(beats.payload))]
    with m.Elif(watched & leaves):
        m.d.sync += [watched.eq(ahead != 0), ahead.eq(ahead - 1)]
    payload = Value.cast(out.payload)
    stalled = harness.past(out.valid & ~out.ready)
    harness.claim("ready_while_there_is_room", beats.ready, when=held < 2)
    harness.claim("not_ready_when_full", ~beats.ready, when=held == 2)
    harness.claim("a_beat_is_shown_while_there_is_one", out.valid, when=held != 0)
    harness.claim("nothing_is_shown_when_empty", ~out.valid & dut.empty, when=held == 0)
    harness.claim("not_empty_while_there_is_a_beat", ~dut.empty, when=held != 0)
    harness.claim("beats_leave_in_their_order", payload == value, when=watched & (ahead == 0))
    harness.claim("a_beat_stays_until_it_is_taken", payload == harness.past(payload), when=stalled)

    harness.lemma(held <= 2)
    harness.lemma(harness.probe("second_valid", 1) == (held == 2))
    harness.lemma(out.valid == (held != 0))
    harness.lemma(ahead < held, when=watched)
    second = harness.probe("second", len(payload))
    harness.lemma(Mux(ahead == 0, payload, second) == value, when=watched)
    return harness


def _waits(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.ready.eq(sound.beats.ready & ~sound.out.valid)


def _passes_by(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.out.payload.eq(Mux(outer.beats.valid, outer.beats.payload, sound.out.payload))


BROKEN_VARIANTS = make_variants(
    OutputBuffer,
    {
        "ready_while_there_is_room": {"the buffer holds only one beat": _waits},
        "not_ready_when_full": {"the buffer is always ready": lambda m, sound, outer: outer.beats.ready.eq(1)},
        "a_beat_is_shown_while_there_is_one": {
            "`valid` waits for `ready`": lambda m, sound, outer: outer.out.valid.eq(sound.out.valid & outer.out.ready)
        },
        "nothing_is_shown_when_empty": {
            "`valid` is always high": lambda m, sound, outer: outer.out.valid.eq(1),
            "`empty` is never high": lambda m, sound, outer: outer.empty.eq(0),
        },
        "not_empty_while_there_is_a_beat": {"`empty` is always high": lambda m, sound, outer: outer.empty.eq(1)},
        "beats_leave_in_their_order": {
            "the mark of the final beat is lost": lambda m, sound, outer: sound.beats.payload.last.eq(0)
        },
        "a_beat_stays_until_it_is_taken": {"a new beat replaces the waiting one": _passes_by},
    },
)

PROOF = Proof(
    name="output_buffer", build=build, applies=lambda config: config.registered_ready, broken_variants=BROKEN_VARIANTS
)
