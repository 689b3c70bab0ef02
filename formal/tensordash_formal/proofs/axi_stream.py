"""The AXI4-Stream tile: a beat's steps reach the tile once, in order, with their end; the rest passes through."""

from dataclasses import replace
from typing import Any

from amaranth.hdl import Array, Cat, Const, Elaboratable, Instance, Module, Mux, Signal, Value

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.emission.verilog import members
from tensordash.streams.axi_stream import AxiStreamTile
from tensordash.streams.ring_feeder import RingFeeder
from tensordash.streams.step_feeder import StepFeeder
from tensordash.tile.flags import FLAGS
from tensordash.tile.status import counter_names
from tensordash.tile.tile import Tile

from ..harness import Fault, Harness, Stand
from ..proof import Broken, Proof

__all__ = ["PROOF"]


class AnyTile(Elaboratable):
    """Any tile at all: outputs that may be anything in every cycle."""

    def __init__(self, tile: Block) -> None:
        self.tile = tile

    def elaborate(self, platform: Any) -> Module:
        """Free outputs."""
        m = Module()
        for name, value, is_input in members(self.tile):
            if not is_input:
                m.submodules[f"any_{name}"] = Instance("$anyseq", p_WIDTH=len(value), o_Y=value)
        m.d.sync += Signal(name="clocked").eq(1)  # for the ports of clock and reset
        return m


class WrapperHarness(Harness):
    """An AXI4-Stream tile around any tile.

    Source: docs/tile.md, "Ports"; the docstrings of `Feeder` and `AxiStreamTile`.
    """

    def __init__(self, config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut = AxiStreamTile(config)
        super().__init__(self.dut, stands=(Stand(Tile, AnyTile),), fault=fault)
        self.config = config
        self.tile = {name: len(value) for name, value, _ in members(self.dut.tile)}
        # Feeders of a width are one module: what it does is shown once, and that every port has one.
        proven = {width: (f"{side}{index}", f"{side}_{index}") for side, index, width in reversed(self.dut.sides)}
        for width, (name, port) in proven.items():
            self._input(name, port, width)
        for side, index, _ in self.dut.sides:
            self._wires(f"{side}{index}", f"{side}_{index}")
        self._rest()

    def at_tile(self, port: str) -> Signal:
        """A port of the tile."""
        return self.port(f"tile.{port}", self.tile[port])

    def _input(self, name: str, port: str, width: int) -> None:
        m, depth = self.m, self.config.window_depth
        step_bits = width * self.config.lanes
        tdata, tkeep, tlast, tvalid, tready = (
            getattr(self.dut, f"s_axis_{name}_{signal}") for signal in ("tdata", "tkeep", "tlast", "tvalid", "tready")
        )
        steps, available, last, taken = (
            self.at_tile(f"{port}_{signal}") for signal in ("steps", "available", "last", "taken")
        )
        # A beat has at least one step, from the lowest on, and fewer than all only at its stream's end.
        steps_here = self.free(range(depth + 1), f"{name}_steps_here")
        bytes_kept = Cat((steps_here > step).replicate(step_bits // 8) for step in range(depth))
        self.assume(~tvalid | ((tkeep == bytes_kept) & (steps_here != 0) & (steps_here <= depth)))
        self.assume(~tvalid | (steps_here == depth) | tlast)
        self.assume(taken <= available)

        ring = self.config.ring
        room = 2 * depth if ring else 2 * depth - 1
        # Of a ring: the slot of the next step to leave; its line is that modulo the depth.
        oldest = Signal(range(room), name=f"{name}_oldest")
        if ring:
            m.d.sync += oldest.eq(_modulo(oldest + taken, room))
        held = Signal(range(room + 1), name=f"{name}_held")
        left = Signal(range(room + 1), name=f"{name}_left")
        ends = Signal(room, name=f"{name}_ends")
        enters = Signal(name=f"{name}_enters")
        m.d.comb += [left.eq(held - taken), enters.eq(tvalid & tready)]
        m.d.sync += [
            held.eq(left + Mux(enters, steps_here, 0)),
            ends.eq((ends >> taken) | Mux(enters & tlast, (1 << left + steps_here) >> 1, 0)),
        ]
        offered = Signal(range(depth + 1), name=f"{name}_offered")
        m.d.comb += offered.eq(Mux(held < depth, held, depth))
        for step in reversed(range(depth)):
            with m.If(ends[step]):
                m.d.comb += offered.eq(step + 1)
        final = (ends & ((1 << offered) >> 1)).any()
        fits = left + depth <= room
        self.claim("takes_a_beat_that_fits", tready, when=fits)
        self.claim("takes_a_beat_that_fits", ~tready, when=~fits)
        self.claim("offers_what_is_there_of_a_stream", available == offered, when=held != 0)
        self.claim("offers_what_is_there_of_a_stream", available == 0, when=held == 0)
        self.claim("last_marks_the_end_of_a_stream", last, when=final)
        self.claim("last_marks_the_end_of_a_stream", ~last, when=(offered != 0) & ~final)
        self.claim("never_waits_while_beats_come", (available == depth) | last, when=self.past(tvalid))

        # Any value of any step is watched from its entry until it is taken.
        watched = Signal(name=f"{name}_watched")
        ahead = Signal(range(room + 1), name=f"{name}_ahead")
        value = Signal(width, name=f"{name}_value")
        step = self.free(range(depth + 1), f"{name}_step")
        lane = self.constant(range(self.config.lanes), f"{name}_lane")
        self.assume(lane < self.config.lanes)
        begins = enters & ~watched & (step < steps_here) & self.free(1, f"{name}_begin")
        with m.If(begins):
            chosen = tdata.word_select(step, step_bits).word_select(lane, width)
            m.d.sync += [watched.eq(1), ahead.eq(left + step), value.eq(chosen)]
        with m.Elif(watched):
            m.d.sync += [watched.eq(ahead >= taken), ahead.eq(ahead - taken)]
        for place in range(depth):
            lines = [steps[line * step_bits :][:step_bits].word_select(lane, width) for line in range(depth)]
            there = Array(lines)[_modulo(_modulo(oldest, depth) + place, depth)] if ring else lines[place]
            due = watched & (ahead == place) & (available > place)
            self.claim("steps_arrive_once_and_in_order", there == value, when=due)

        feeder = f"feeder_{name}"
        self.lemma(held <= room)
        self.lemma((ends >> held) == 0)
        self.lemma(ahead < held, when=watched)
        ending = self.probe(f"{feeder}.ending", room)
        if ring:
            self._ring_lemmas(feeder, oldest, held, ends, ending)
        else:
            self.lemma(ending == ends)
        if room > 1:  # Yosys names the registers of a single step after the ports.
            self.lemma(self.probe(f"{feeder}.count", len(held)) == held)
            slots = self.probe(f"{feeder}.held", room * step_bits)
            for slot in range(room):
                there = slots[slot * step_bits :][:step_bits].word_select(lane, width)
                place = _modulo(oldest + ahead, room) if ring else ahead
                self.lemma(there == value, when=watched & (place == slot))

    def _ring_lemmas(self, feeder: str, oldest: Signal, held: Signal, ends: Signal, ending: Signal) -> None:
        """Where steps enter and leave, and where their ends are."""
        room = len(ends)
        newest = _modulo(oldest + held, room)
        self.lemma(oldest < room)
        self.lemma(self.probe(f"{feeder}.reading", room) == Const(1) << oldest)
        self.lemma(self.probe(f"{feeder}.writing", room) == Const(1) << newest)
        for age in range(room):
            slot = _modulo(oldest + age, room)
            self.lemma(ending.bit_select(slot, 1) == ends[age], when=held > age)

    def _wires(self, name: str, port: str) -> None:
        for signal in ("steps", "available", "last", "taken"):
            at_tile = self.at_tile(f"{port}_{signal}")
            at_feeder = self.port(f"feeder_{name}.{signal}", len(at_tile))
            self.claim("every_port_has_a_feeder", at_tile == at_feeder)
        for signal in ("tdata", "tkeep", "tlast", "tvalid", "tready"):
            outside = getattr(self.dut, f"s_axis_{name}_{signal}")
            at_feeder = self.port(f"feeder_{name}.{signal}", len(outside))
            self.claim("every_port_has_a_feeder", outside == at_feeder)

    def _rest(self) -> None:
        """What goes through as it is."""
        dut = self.dut
        valid, payload = self.at_tile("out_valid"), self.at_tile("out_payload")
        self.claim("results_pass", dut.m_axis_tvalid, when=valid)
        self.claim("results_pass", ~dut.m_axis_tvalid, when=~valid)
        self.claim("results_pass", Cat(dut.m_axis_tdata, dut.m_axis_tlast) == payload, when=valid)
        self.claim("results_pass", self.at_tile("out_ready") == dut.m_axis_tready)
        for name in (*counter_names(self.config), *FLAGS):
            self.claim("counters_and_flags_pass", Value.cast(getattr(dut, name)) == self.at_tile(name))
        self.claim("counters_and_flags_pass", self.at_tile("clear") == dut.clear)
        if self.config.snapshot:
            self.claim("counters_and_flags_pass", self.at_tile("snapshot") == dut.snapshot)
        waiting = Cat(self.at_tile(f"{side}_{index}_available") for side, index, _ in dut.sides).any()
        idle = self.at_tile("idle") & ~waiting
        self.claim("idle_when_nothing_waits", dut.idle, when=idle)
        self.claim("idle_when_nothing_waits", ~dut.idle, when=~idle)
        if self.config.initial:
            c = Cat(dut.s_axis_c_tdata, dut.s_axis_c_tlast, dut.s_axis_c_tvalid)
            self.claim("c_passes", Cat(self.at_tile("c_payload"), self.at_tile("c_valid")) == c)
            self.claim("c_passes", dut.s_axis_c_tready == self.at_tile("c_ready"))


def _modulo(number: Any, modulus: int) -> Any:
    """A number below twice the modulus, modulo it."""
    return Mux(number >= modulus, number - modulus, number)[: (modulus - 1).bit_length()]


def _takes_always(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.tready.eq(1)


def _takes_when_empty(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [
        outer.tready.eq(sound.tready & (sound.available == 0)),
        sound.tvalid.eq(outer.tvalid & (sound.available == 0)),
    ]


def _offers_one(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.available.eq(sound.available != 0)


def _ends_nothing(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.last.eq(0)


def _newest_first(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [outer.steps[step].eq(sound.steps[outer.depth - 1 - step]) for step in range(outer.depth)]


def _on_the_line_of_its_age(m: Module, sound: Any, outer: Any) -> None:
    oldest = Signal(range(outer.depth))
    m.d.sync += oldest.eq((oldest + outer.taken) % outer.depth)
    for number in range(outer.depth):
        lines = [sound.steps[(number + first) % outer.depth] for first in range(outer.depth)]
        m.d.comb += outer.steps[number].eq(Array(lines)[oldest])


def _valid_waits(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.m_axis_tvalid.eq(sound.m_axis_tvalid & outer.m_axis_tready)


def _one_port_is_idle(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.s_axis_a0_tvalid.eq(0)


def _clears_nothing(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.clear.eq(0)


def _feeders_do_not_count(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.idle.eq(1)


def _c_always_ready(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.s_axis_c_tready.eq(1)


def _broken(
    claim: str, title: str, fault: Fault, kind: type[Block] = StepFeeder, config: TileConfig | None = None
) -> Broken:
    return Broken(claim=claim, title=title, kind=kind, fault=fault, depth=6, config=config)


SMALL = TileConfig(rows=1, columns=1)
RING = TileConfig(rows=1, columns=1, depth=3, connectivity=((0, 0), (1, 0), (2, 0)), staging="ring")

BROKEN = (
    _broken("takes_a_beat_that_fits", "a full feeder is ready", _takes_always),
    _broken("offers_what_is_there_of_a_stream", "one step is offered at a time", _offers_one),
    _broken("last_marks_the_end_of_a_stream", "no stream ends", _ends_nothing),
    _broken("never_waits_while_beats_come", "a beat enters only when no step is left", _takes_when_empty),
    _broken("steps_arrive_once_and_in_order", "the newest step comes first", _newest_first),
    _broken(
        "steps_arrive_once_and_in_order",
        "a ring's steps stand on the lines of their ages",
        _on_the_line_of_its_age,
        RingFeeder,
        RING,
    ),
    _broken("every_port_has_a_feeder", "a port's beats never arrive", _one_port_is_idle, AxiStreamTile),
    _broken("results_pass", "tvalid waits for tready", _valid_waits, AxiStreamTile),
    _broken("counters_and_flags_pass", "nothing is cleared", _clears_nothing, AxiStreamTile),
    _broken("idle_when_nothing_waits", "steps in feeders are forgotten", _feeders_do_not_count, AxiStreamTile),
    _broken("c_passes", "tready is always high", _c_always_ready, AxiStreamTile, replace(SMALL, initial=True)),
)

PROOF = Proof(
    name="axi_stream",
    build=WrapperHarness,
    applies=lambda config: True,
    broken=BROKEN,
    engine="smtbmc --stbv z3",  # a tenth of the time on wide steps
    breaks=SMALL,
)
