"""AXI4-Stream tile: the steps of beats reach the tile once, in order and with their end; other signals pass unchanged.

Null beats end streams. Beats that violate the rules are reported. Nothing waits without a cause.

Assumes: the tile takes no more steps than are offered (`tile_control`).
"""

from dataclasses import dataclass, replace
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetSignal, Signal, Value

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.emission.verilog import members
from tensordash.streams.axi_stream import AxiStreamTile
from tensordash.streams.ring_feeder import RingFeeder
from tensordash.streams.step_feeder import StepFeeder
from tensordash.tile.flags import FLAGS
from tensordash.tile.status import counter_names
from tensordash.tile.tile import Tile

from ..harness import Fault, FreeOutputs, Harness, Stub
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF"]


@dataclass(frozen=True)
class _Feeder:
    """Reference model of a feeder: the held steps, the entering beat, and the ends of streams."""

    name: str
    steps: Value
    scales: Value
    available: Value
    last: Value
    taken: Value
    held: Signal
    left: Signal
    ends: Signal
    enters: Signal
    is_open: Signal
    steps_here: Signal
    wrong: Signal
    oldest: Signal


class WrapperHarness(Harness):
    """An AXI4-Stream wrapper with a stub for its tile.

    Source: docs/tile.md, "Ports"; the docstrings of `Feeder` and `AxiStreamTile`.
    """

    def __init__(self, config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut = AxiStreamTile(config)
        super().__init__(self.dut, stubs=(Stub(Tile, FreeOutputs),), fault=fault)
        self.config = config
        self.tile = {name: len(value) for name, value, _ in members(self.dut.tile)}
        # Feeders of one width share a module. The claims cover its behaviour once, and its connections for every port.
        proven = {width: (f"{side}{index}", f"{side}_{index}") for side, index, width in reversed(self.dut.sides)}
        for width, (name, port) in proven.items():
            self._input(name, port, width)
        for side, index, _ in self.dut.sides:
            self._wires(f"{side}{index}", f"{side}_{index}")
        self._claim_wrapper()

    def at_tile(self, port: str) -> Signal:
        """Read a port of the tile."""
        return self.port(f"tile.{port}", self.tile[port])

    def _input(self, name: str, port: str, width: int) -> None:
        """Claim that a feeder passes every step of its stream to a port of the tile."""
        m, depth = self.m, self.config.window_depth
        value_bits, scale_bits = width * self.config.lanes, self.config.numerics.scale_bits
        step_bytes = -(-value_bits // 8) + scale_bits // 8
        beat = getattr(self.dut, f"s_axis_{name}")
        steps, available, last, taken = (
            self.at_tile(f"{port}_{signal}") for signal in ("steps", "available", "last", "taken")
        )
        scales = self.at_tile(f"{port}_scales") if scale_bits else Const(0, 0)
        self.assume(taken <= available)
        # A beat's steps are the lowest ones whose first byte is marked in tkeep. Beats are free.
        steps_here = Signal(range(depth + 1), name=f"{name}_steps_here")
        for step in range(depth):
            with m.If(beat.tkeep[: (step + 1) * step_bytes : step_bytes].all()):
                m.d.comb += steps_here.eq(step + 1)
        marks = Cat((steps_here > step).replicate(step_bytes) for step in range(depth))

        room = 2 * depth
        # In a ring, `oldest` is the slot of the next step to leave. Its line is the slot modulo the depth.
        oldest = Signal(range(room), name=f"{name}_oldest")
        if self.config.ring:
            m.d.sync += oldest.eq(_modulo(oldest + taken, room))
        held = Signal(range(room + 1), name=f"{name}_held")
        left = Signal(range(room + 1), name=f"{name}_left")
        ends = Signal(room, name=f"{name}_ends")
        enters = Signal(name=f"{name}_enters")
        is_open = Signal(name=f"{name}_open")  # the youngest step may still end its stream
        settles = Signal(name=f"{name}_settles")
        wrong = Signal(name=f"{name}_wrong")
        m.d.comb += [
            left.eq(held - taken),
            enters.eq(beat.tvalid & beat.tready),
            settles.eq(enters & ((steps_here != 0) | beat.tlast)),
            wrong.eq(
                (beat.tkeep != marks)
                | ((steps_here == 0) & beat.tlast & ~is_open)
                | ((steps_here != 0) & (steps_here != depth) & ~beat.tlast)
            ),
        ]
        m.d.sync += [
            held.eq(left + Mux(enters, steps_here, 0)),
            ends.eq((ends >> taken) | Mux(enters & beat.tlast, (1 << left + steps_here) >> 1, 0)),
            is_open.eq(Mux(settles, ~beat.tlast, is_open)),
        ]
        feeder = _Feeder(
            name,
            *(steps, scales, available, last, taken),
            *(held, left, ends, enters, is_open, steps_here, wrong, oldest),
        )
        self._claim_handshake(feeder)
        self._claim_order(feeder, value_bits, scale_bits)

    def _claim_handshake(self, model: "_Feeder") -> None:
        """Claim when a feeder takes beats, how many steps it offers, and its status signals."""
        m, depth = self.m, self.config.window_depth
        name, held, left, ends, is_open = model.name, model.held, model.left, model.ends, model.is_open
        enters, steps_here, wrong = model.enters, model.steps_here, model.wrong
        beat = getattr(self.dut, f"s_axis_{name}")
        available, last = model.available, model.last
        offered = Signal(range(depth + 1), name=f"{name}_offered")
        m.d.comb += offered.eq(Mux(held - is_open < depth, held - is_open, depth))
        for step in reversed(range(depth)):
            with m.If(ends[step]):
                m.d.comb += offered.eq(step + 1)
        final = (ends & ((1 << offered) >> 1)).any()
        fits = left + depth <= 2 * depth
        self.claim("takes_a_beat_that_fits", beat.tready, when=fits & ~ResetSignal())
        self.claim("takes_a_beat_that_fits", ~beat.tready, when=~fits)
        self.claim("takes_no_beat_in_reset", ~beat.tready, when=ResetSignal())
        self.claim("offers_the_steps_of_a_stream", available == offered, when=held != 0)
        self.claim("offers_the_steps_of_a_stream", available == 0, when=held == 0)
        self.claim("holds_a_step_until_it_is_known_to_end_nothing", available < held, when=is_open)
        self.claim("last_marks_the_end_of_a_stream", last, when=final)
        self.claim("last_marks_the_end_of_a_stream", ~last, when=(offered != 0) & ~final)
        arrives = beat.tvalid & (steps_here != 0) & ~wrong
        self.claim("never_waits_while_beats_arrive", (available == depth) | last, when=self.past(arrives & (left != 0)))
        self.claim("never_waits_while_beats_arrive", (available >= depth - 1) | last, when=self.past(arrives))
        self.claim("wrong_marks_violations", self.port(f"feeder_{name}.wrong", 1), when=enters & wrong)
        self.claim("wrong_marks_violations", ~self.port(f"feeder_{name}.wrong", 1), when=~(enters & wrong))
        self.claim("empty_marks_an_empty_feeder", self.port(f"feeder_{name}.empty", 1) == (held == 0))

    def _claim_order(self, model: "_Feeder", value_bits: int, scale_bits: int) -> None:
        """Claim that steps arrive once and in order, and state the lemmas about a feeder's registers."""
        m, depth, room = self.m, self.config.window_depth, 2 * self.config.window_depth
        name, held, left, ends, is_open = model.name, model.held, model.left, model.ends, model.is_open
        steps, scales, available, taken = model.steps, model.scales, model.available, model.taken
        oldest = model.oldest
        step_bits = value_bits + scale_bits  # a step's scale is above its values
        value_bytes = -(-value_bits // 8)
        step_bytes = value_bytes + scale_bits // 8
        beat = getattr(self.dut, f"s_axis_{name}")
        # The harness watches an arbitrary step from its entry until it is taken. Watching all lanes is cheaper for the
        # solver than selecting one.
        watched = Signal(name=f"{name}_watched")
        ahead = Signal(range(room + 1), name=f"{name}_ahead")
        values = Signal(step_bits, name=f"{name}_values")
        step = self.free(range(depth + 1), f"{name}_step")
        begins = model.enters & ~watched & (step < model.steps_here) & self.free(1, f"{name}_begin")
        with m.If(begins):
            chosen = Array(beat.tdata.word_select(number, 8 * step_bytes) for number in range(depth))[step]
            step_bits_in_beat = Cat(chosen[:value_bits], chosen[8 * value_bytes :])
            m.d.sync += [watched.eq(1), ahead.eq(left + step), values.eq(step_bits_in_beat)]
        with m.Elif(watched):
            m.d.sync += [watched.eq(ahead >= taken), ahead.eq(ahead - taken)]
        for place in range(depth):
            lines = [
                Cat(steps.word_select(line, value_bits), scales.word_select(line, scale_bits)) for line in range(depth)
            ]
            turned = _modulo(_modulo(oldest, depth) + place, depth)
            offered_step = Array(lines)[turned] if self.config.ring else lines[place]
            pending = watched & (ahead == place) & (available > place)
            self.claim("steps_arrive_once_and_in_order", offered_step == values, when=pending)

        feeder = f"feeder_{name}"
        self.lemma(held <= room)
        self.lemma((ends >> held) == 0)
        self.lemma(((ends << 1) >> held)[0] == ~is_open, when=held != 0)
        self.lemma(~is_open, when=held == 0)
        self.lemma(ahead < held, when=watched)
        self.lemma(self.probe(f"{feeder}.open", 1) == is_open)
        self.lemma(self.probe(f"{feeder}.count", len(held)) == held)
        self.lemma(self.probe(f"{feeder}.known", len(held)) == held - is_open)
        ending = self.probe(f"{feeder}.ending", room)
        if self.config.ring:
            self._ring_lemmas(feeder, oldest, held, ends, ending)
        else:
            self.lemma(ending == ends)
        slots = self.probe(f"{feeder}.held", room * step_bits)
        for slot in range(room):
            stored_step = slots[slot * step_bits :][:step_bits]
            place = _modulo(oldest + ahead, room) if self.config.ring else ahead
            self.lemma(stored_step == values, when=watched & (place == slot))

    def _ring_lemmas(self, feeder: str, oldest: Signal, held: Signal, ends: Signal, ending: Signal) -> None:
        """State the lemmas about a ring's pointers and the ends of streams."""
        room = len(ends)
        newest = _modulo(oldest + held, room)
        self.lemma(oldest < room)
        self.lemma(self.probe(f"{feeder}.reading", room) == Const(1) << oldest)
        self.lemma(self.probe(f"{feeder}.writing", room) == Const(1) << newest)
        for age in range(room):
            slot = _modulo(oldest + age, room)
            self.lemma(ending.bit_select(slot, 1) == ends[age], when=held > age)

    def _wires(self, name: str, port: str) -> None:
        scales = ("scales",) if self.config.numerics.scale_bits else ()
        for signal in ("steps", "available", "last", "taken", *scales):
            at_tile = self.at_tile(f"{port}_{signal}")
            at_feeder = self.port(f"feeder_{name}.port_{signal}", len(at_tile))
            self.claim("every_port_has_a_feeder", at_tile == at_feeder)
        for signal in ("tdata", "tkeep", "tlast", "tvalid", "tready"):
            outside = getattr(getattr(self.dut, f"s_axis_{name}"), signal)
            at_feeder = self.port(f"feeder_{name}.s_axis_{signal}", len(outside))
            self.claim("every_port_has_a_feeder", outside == at_feeder)

    def _claim_wrapper(self) -> None:
        """Claim the signals that pass through and those that the wrapper adds."""
        dut, out = self.dut, self.dut.m_axis
        valid, payload = self.at_tile("out_valid"), self.at_tile("out_payload")
        self.claim("results_pass", out.tvalid, when=valid)
        self.claim("results_pass", ~out.tvalid, when=~valid)
        self.claim("results_pass", Cat(out.tdata, out.tlast) == payload, when=valid)
        self.claim("results_pass", self.at_tile("out_ready") == out.tready)
        for name in (*counter_names(self.config), *FLAGS):
            if name != "protocol_error":
                self.claim("counters_and_flags_pass", Value.cast(getattr(dut, name)) == self.at_tile(name))
        self.claim("counters_and_flags_pass", self.at_tile("clear") == dut.clear)
        if self.config.snapshot:
            self.claim("counters_and_flags_pass", self.at_tile("snapshot") == dut.snapshot)
        empty = Cat(self.port(f"feeder_{side}{index}.empty", 1) for side, index, _ in dut.sides).all()
        idle = self.at_tile("idle") & empty
        self.claim("idle_when_nothing_waits", dut.idle, when=idle)
        self.claim("idle_when_nothing_waits", ~dut.idle, when=~idle)
        wrong = Signal(name="wrong_beat")
        any_wrong = Cat(self.port(f"feeder_{side}{index}.wrong", 1) for side, index, _ in dut.sides).any()
        self.m.d.sync += wrong.eq((wrong | any_wrong) & ~dut.clear)
        at_tile = self.at_tile("protocol_error")
        self.claim("wrong_beats_set_protocol_error", dut.protocol_error, when=wrong | at_tile)
        self.claim("wrong_beats_set_protocol_error", ~dut.protocol_error, when=~wrong & ~at_tile)
        self.lemma(self.probe("wrong_beat", 1) == wrong)
        if self.config.initial:
            c = dut.s_axis_c
            at_tile = Cat(self.at_tile("c_payload"), self.at_tile("c_valid"))
            self.claim("c_passes", at_tile == Cat(c.tdata, c.tlast, c.tvalid))
            self.claim("c_passes", c.tready == self.at_tile("c_ready"))


def _modulo(number: Any, modulus: int) -> Any:
    """Reduce a number below twice the modulus by the modulus."""
    return Mux(number >= modulus, number - modulus, number)[: (modulus - 1).bit_length()]


def _takes_in_reset(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.s_axis.tready.eq(sound.s_axis.tready | ResetSignal())


def _takes_when_empty(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [
        outer.s_axis.tready.eq(sound.s_axis.tready & (sound.port.available == 0)),
        sound.s_axis.tvalid.eq(outer.s_axis.tvalid & (sound.port.available == 0)),
    ]


def _offers_one(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.port.available.eq(sound.port.available != 0)


def _offers_an_open_step(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.port.available.eq(sound.port.available | (~sound.empty & (sound.port.available == 0)))


def _null_beats_end_nothing(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.s_axis.tlast.eq(outer.s_axis.tlast & outer.s_axis.tkeep[0])


def _newest_first(m: Module, sound: Any, outer: Any) -> None:
    steps = reversed([sound.port.steps[step] for step in range(outer.depth)])
    m.d.comb += [here.eq(step) for here, step in zip(outer.port.steps, steps, strict=True)]


def _on_the_line_of_its_age(m: Module, sound: Any, outer: Any) -> None:
    oldest = Signal(range(outer.depth))
    m.d.sync += oldest.eq((oldest + outer.port.taken) % outer.depth)
    for number in range(outer.depth):
        lines = [sound.port.steps[(number + first) % outer.depth] for first in range(outer.depth)]
        m.d.comb += outer.port.steps[number].eq(Array(lines)[oldest])


def _ignores_the_highest_byte(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.s_axis.tkeep[-1].eq(outer.s_axis.tkeep[-2])


def _is_empty_when_nothing_is_offered(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.empty.eq(sound.port.available == 0)


def _valid_waits(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.m_axis.tvalid.eq(sound.m_axis.tvalid & outer.m_axis.tready)


def _one_port_is_idle(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.s_axis_a0.tvalid.eq(0)


def _flag_forgets(m: Module, sound: Any, outer: Any) -> None:
    was = Signal()
    m.d.sync += was.eq(sound.protocol_error)
    m.d.comb += outer.protocol_error.eq(sound.protocol_error & ~was)


def _feeders_do_not_count(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.idle.eq(1)


def _c_always_ready(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.s_axis_c.tready.eq(1)


def _variant(
    claim: str, title: str, fault: Fault, kind: type[Block] = StepFeeder, config: TileConfig | None = None
) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=6, config=config)


SMALL = TileConfig(rows=1, columns=1)
RING = TileConfig(rows=1, columns=1, depth=3, connectivity=((0, 0), (1, 0), (2, 0)), staging="ring")

BROKEN_VARIANTS = (
    _variant("takes_a_beat_that_fits", "a full feeder is ready", lambda m, sound, outer: outer.s_axis.tready.eq(1)),
    _variant("takes_no_beat_in_reset", "a feeder takes a beat in reset", _takes_in_reset),
    _variant("offers_the_steps_of_a_stream", "one step is offered at a time", _offers_one),
    _variant("offers_the_steps_of_a_stream", "a null beat ends no stream", _null_beats_end_nothing),
    _variant(
        "offers_the_steps_of_a_stream",
        "a null beat ends no stream in a ring",
        _null_beats_end_nothing,
        RingFeeder,
        RING,
    ),
    _variant("holds_a_step_until_it_is_known_to_end_nothing", "an open step is offered", _offers_an_open_step),
    _variant("last_marks_the_end_of_a_stream", "no stream ends", lambda m, sound, outer: outer.port.last.eq(0)),
    _variant("never_waits_while_beats_arrive", "a beat enters only when no step is left", _takes_when_empty),
    _variant("steps_arrive_once_and_in_order", "the newest step comes first", _newest_first),
    _variant(
        "steps_arrive_once_and_in_order",
        "a ring puts steps on the lines of their ages",
        _on_the_line_of_its_age,
        RingFeeder,
        RING,
    ),
    _variant("wrong_marks_violations", "no violation is reported", lambda m, sound, outer: outer.wrong.eq(0)),
    _variant("wrong_marks_violations", "the highest bit of `tkeep` is ignored", _ignores_the_highest_byte),
    _variant("empty_marks_an_empty_feeder", "an open step is forgotten", _is_empty_when_nothing_is_offered),
    _variant("every_port_has_a_feeder", "a port's beats never arrive", _one_port_is_idle, AxiStreamTile),
    _variant("results_pass", "`tvalid` waits for `tready`", _valid_waits, AxiStreamTile),
    _variant("counters_and_flags_pass", "`clear` is ignored", lambda m, sound, outer: sound.clear.eq(0), AxiStreamTile),
    _variant("wrong_beats_set_protocol_error", "`protocol_error` is not sticky", _flag_forgets, AxiStreamTile),
    _variant("idle_when_nothing_waits", "steps in feeders are forgotten", _feeders_do_not_count, AxiStreamTile),
    _variant("c_passes", "`tready` of C is always high", _c_always_ready, AxiStreamTile, replace(SMALL, initial=True)),
)

PROOF = Proof(
    name="axi_stream",
    build=WrapperHarness,
    applies=lambda config: True,
    broken_variants=BROKEN_VARIANTS,
    broken_config=SMALL,
)
