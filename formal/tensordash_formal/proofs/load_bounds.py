"""Load: whatever memory returns, writes stay within the descriptor's range.

Nothing is written without a descriptor. Group n of a move goes n places after the first, in every bank. Each turn of a
plain move's loops requests one run. Only tests cover the addresses that a run reads. `move_nest.py` is an independent
model of the loops.

Assumes: memory sends only requested beats. Inflate sends only groups that have arrived (`inflate_units`).
No descriptor has both `compressed` and `nvfp4`.
"""

from dataclasses import replace
from typing import Any

from amaranth.hdl import Const, Elaboratable, Instance, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.axi_reader import AxiReader
from tensordash.movers.inflate import Inflate
from tensordash.movers.load import Load
from tensordash.movers.nvfp4_expander import Nvfp4Expander

from ..harness import Fault, Harness, Stub
from ..move_nest import MoveNest
from ..proof import BrokenVariant, Proof
from ..reference_descriptor import corrupt_word

__all__ = ["PROOF"]

WAIT, FIRST, RUNS, TABLE, DRAIN, STOP, UNITS = range(7)
"""States of the load unit."""
COUNT_BITS = 24
"""Bits of the ghost counters of groups and beats."""


class InflateAbstraction(Elaboratable):
    """An abstraction of inflate: free outputs, except that it sends no more groups than it received.

    It sends no more plain groups than its beats contain, and at most `groups` compressed groups. The proof
    `inflate_units` shows that inflate has these properties.
    """

    def __init__(self, block: Block) -> None:
        assert isinstance(block, Inflate)
        self.block = block

    def elaborate(self, platform: Any) -> Module:
        """Drive free outputs, limited by the number of received groups."""
        m, block = Module(), self.block
        shapes = {"valid": 1, "payload": len(block.out.payload), "parts": block.number, "ready": 1, "more": 1}
        free = {name: Signal(width, name=f"free_{name}") for name, width in shapes.items()}
        for name, signal in free.items():
            m.submodules[f"free_{name}_cell"] = Instance("$anyseq", p_WIDTH=len(signal), o_Y=signal)
        beats_received, groups_sent = Signal(COUNT_BITS, name="beats_received"), Signal(COUNT_BITS, name="groups_sent")
        running, left = Signal(name="running"), Signal(16, name="left")
        has_group = Signal(name="has_group")
        m.d.comb += [
            has_group.eq(
                Mux(
                    block.plain, groups_sent * _beats(block) < beats_received + block.beats.valid, running & (left != 0)
                )
            ),
            block.out.valid.eq(free["valid"] & has_group),
            block.out.payload.eq(free["payload"]),
            block.parts.eq(free["parts"]),
            block.last.eq(free["parts"][-1]),
            block.beats.ready.eq(free["ready"]),
            block.active.eq(running | (block.plain & free["more"])),
        ]
        with m.If(block.beats.valid & block.beats.ready):
            m.d.sync += beats_received.eq(beats_received + 1)
        with m.If(block.out.valid & block.out.ready & block.last):
            m.d.sync += [groups_sent.eq(groups_sent + 1), left.eq(left - 1)]
        with m.If(~free["more"]):  # models wrong or complete units
            m.d.sync += running.eq(0)
        with m.If(block.start | ~(running | block.plain)):
            m.d.sync += [beats_received.eq(0), groups_sent.eq(0)]
        with m.If(block.start):
            m.d.sync += [running.eq(~block.plain), left.eq(block.groups)]
        m.submodules.free_wrong = Instance("$anyseq", p_WIDTH=1, o_Y=block.wrong)
        return m


def _beats(block: Inflate) -> int:
    """Return the number of beats of a plain group."""
    return block.size // block.beat


class LoadBoundsHarness(Harness):
    """A load between free descriptors, a memory that answers requests, and the buffer.

    Ghost counters count the requested groups and the written groups.

    Source: docs/core.md, "Loops" and "Errors"; the docstring of `Load`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.config = config
        self.dut = dut = Load(config=config)
        super().__init__(dut, stubs=(Stub(Inflate, InflateAbstraction),), fault=fault, black_box=True)
        self.descriptor = MoveNest(self.m, dut.command, OPERATIONS["load"], config)
        payload = dut.command.descriptor.payload
        self.assume(self.descriptor.is_legal(payload))
        if config.nvfp4:  # the sequencer refuses a compressed NVFP4 load
            flags = {each.name: payload[each.low] for each in OPERATIONS["load"].fields if each.width == 1}
            self.assume((self.descriptor.beat_count != 0) | ~(flags["compressed"] & flags["nvfp4"]))
        self.assume(dut.halt | ~self.past(dut.halt))
        self._assume_memory()
        self._count()
        self._claims()
        self._add_lemmas()

    def _assume_memory(self) -> None:
        """Assume that memory returns each requested beat once, with RLAST in the last beat of a burst."""
        m, axi = self.m, self.dut.axi
        self.owed, self.bursts = Signal(COUNT_BITS, name="owed"), Signal(8, name="bursts")
        requests, receives = axi.arvalid & axi.arready, axi.rvalid & axi.rready
        m.d.sync += [
            self.owed.eq(self.owed + Mux(requests, axi.arlen + 1, 0) - receives),
            self.bursts.eq(self.bursts + requests - (receives & axi.rlast)),
        ]
        self.assume(self.owed <= self.bursts * self.dut._reader.burst)
        self.assume(~axi.rvalid | (self.owed != 0))
        self.assume(
            ~axi.rvalid | Mux(self.bursts == 1, axi.rlast == (self.owed == 1), axi.rlast | (self.owed > self.bursts))
        )

    def _count(self) -> None:
        """Count the requested groups and the written groups."""
        m, descriptor = self.m, self.descriptor
        shift = self.dut.beats.bit_length() - 1
        valid, ready = (self.port(f"reader.request_{name}", 1) for name in ("valid", "ready"))
        bits = self.config.address_bits - self.dut.skipped + 1
        payload = self.port("reader.request_payload", bits + self.dut._reader.count_bits)
        self.count = payload[bits:]
        m.d.comb += descriptor.runs.eq(valid & ready & ~self.compressed)
        self.requested, self.written = Signal(COUNT_BITS, name="requested"), Signal(COUNT_BITS, name="written")
        with m.If(descriptor.runs):
            groups = Mux(self.nvfp4, self.count >> (shift - 1), self.count >> shift) if shift else self.count
            m.d.sync += self.requested.eq(self.requested + groups)
        write = self.dut.buffer
        last = self.port("inflate.last", 1) | self.nvfp4
        with m.If(write.valid & write.ready & last):
            m.d.sync += self.written.eq(self.written + 1)
        with m.If(descriptor.starting):
            m.d.sync += [self.requested.eq(Mux(self.compressed, descriptor["count_0"], 0)), self.written.eq(0)]

    @property
    def compressed(self) -> Value:
        """The descriptor's bit `compressed`."""
        return self.descriptor["compressed"]

    @property
    def nvfp4(self) -> Value:
        """The descriptor's bit `nvfp4`, in a core with NVFP4 loads."""
        return self.descriptor["nvfp4"] if self.config.nvfp4 else Const(0)

    def _claims(self) -> None:
        dut, descriptor, written = self.dut, self.descriptor, self.written
        write, first = dut.buffer, descriptor["address"]
        self.claim("nothing_is_written_without_a_descriptor", descriptor.active, when=write.valid)
        for bank in range(len(write.enable)):
            place = write.address[bank]
            self.claim("group_n_goes_n_places_on", place == (first + written)[: len(place)], when=write.valid)
        self.claim("nothing_is_written_beyond_the_buffer", first + written < self.config.groups, when=write.valid)
        self.claim("no_unrequested_group_is_written", written < self.requested, when=write.valid)
        self.claim("runs_follow_the_loops", ~descriptor.over & descriptor.active, when=descriptor.runs)
        shift = self.dut.beats.bit_length() - 1
        beats = descriptor["count_0"] << shift
        self.claim(
            "a_run_has_the_adjacent_groups",
            self.count == Mux(self.nvfp4, beats >> 1, beats),
            when=descriptor.runs,
        )

    def _add_lemmas(self) -> None:
        """State the lemmas: the unit's registers equal the ghost registers."""
        dut, descriptor, config = self.dut, self.descriptor, self.config
        active, first = descriptor.active, descriptor["address"]
        state = self.probe("load_state", 3)
        reader = {name: self.probe(f"reader.{name}", width) for name, width in self._registers().items()}
        left, in_flight = reader["left"], reader["in_flight"]
        self.lemma(state <= UNITS)
        descriptor.add_lemmas(self)
        self.lemma(active == (state != WAIT))
        self._add_descriptor_lemmas()
        # The reader and memory.
        self.lemma(in_flight == self.bursts)
        self.lemma((in_flight <= config.outstanding) & (self.owed >= self.bursts))
        self.lemma((self.bursts != 0) | (self.owed == 0))
        self.lemma((left != 0) & (in_flight != config.outstanding), when=reader["offered"])
        self.lemma((left == 0) & (self.owed == 0), when=(state == WAIT) | (state == FIRST))
        # Plain moves.
        uncompressed, beats = active & ~self.compressed, dut.beats
        plain = uncompressed & ~self.nvfp4
        beats_received, groups_sent = (
            self.probe("inflate.beats_received", COUNT_BITS),
            self.probe("inflate.groups_sent", COUNT_BITS),
        )
        address = self.probe("walk_address", 17)
        self.lemma((state != TABLE) & (state != UNITS), when=uncompressed)
        self.lemma((left == 0) & (self.owed == 0), when=state == STOP)
        self.lemma((beats_received == 0) & (groups_sent == 0) & (self.written == 0), when=state == FIRST)
        self.lemma(groups_sent == self.written, when=plain)
        self.lemma(beats_received + self.owed + left <= self.requested * beats, when=plain)
        self.lemma((self.requested == 0) | (first + self.requested <= config.groups), when=uncompressed)
        self.lemma(self.requested <= config.groups, when=uncompressed)
        self.lemma(address == first + self.requested, when=uncompressed)
        self.lemma((self.requested == 0) & ~descriptor.over, when=uncompressed & (state == FIRST))
        self.lemma(~descriptor.over, when=uncompressed & (state == RUNS))
        descriptor.add_turn_lemmas(self, when=uncompressed & ~descriptor.over)
        if config.nvfp4:
            self._add_nvfp4_lemmas(beats_received, groups_sent, left)
        # Compressed moves.
        compressed = active & self.compressed
        inflating, inflate_left = self.probe("inflate.running", 1), self.probe("inflate.left", 16)
        self.lemma((state == DRAIN) | (state == STOP), when=inflating)
        self.lemma(compressed & (groups_sent == self.written), when=inflating)
        self.lemma(inflate_left + self.written == descriptor["count_0"], when=inflating)
        self.lemma(self.written == 0, when=compressed & (state != DRAIN) & (state != STOP))
        self.lemma(self.requested == descriptor["count_0"], when=compressed)
        self.lemma(address == first, when=compressed)
        table_read = (state == TABLE) | (state == UNITS) | inflating
        fits = first + descriptor["count_0"] <= config.groups
        self.lemma(fits, when=compressed & table_read)
        self.lemma(~fits, when=compressed & (state == RUNS))

    def _add_nvfp4_lemmas(self, beats_received: Value, groups_sent: Value, left: Value) -> None:
        """State the lemmas about NVFP4 loads: inflate receives nothing, and each beat is a group."""
        self.lemma(~(self.compressed & self.nvfp4), when=self.descriptor.beat_count > 0)
        is_nvfp4 = self.descriptor.active & self.nvfp4 & ~self.compressed
        self.lemma((beats_received == 0) & (groups_sent == 0), when=is_nvfp4)
        self.lemma(self.written + self.owed + left <= self.requested, when=is_nvfp4)

    def _registers(self) -> dict[str, int]:
        return {
            "left": self.dut._reader.count_bits,
            "in_flight": self.config.outstanding.bit_length(),
            "offered": 1,
        }

    def _add_descriptor_lemmas(self) -> None:
        """State the lemmas about the unit's copy of the descriptor."""
        descriptor = self.descriptor
        stored_address = self.probe("descriptor_address", 16)
        flags = ("compressed", "nvfp4") if self.config.nvfp4 else ("compressed",)
        for name in flags:
            stored = self.probe(f"descriptor_{name}", 1)
            self.lemma(stored == descriptor[name], when=descriptor.beat_count > 0)
        address = descriptor["address"] + Mux(descriptor.active, self.written, 0)
        self.lemma(stored_address == address[:16], when=descriptor.beat_count > 0)
        for name in ("count_0", "count_1"):
            stored = self.probe(f"descriptor_{name}", 16)
            self.lemma(stored == descriptor[name], when=descriptor.beat_count > 1)
        descriptor.add_unchanged_lemmas(self, ("count_2", "count_3"), when=~self.compressed)


def _writes_always(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.buffer.valid.eq(1)


def _bank_is_one_further(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.buffer.address[1].eq(sound.buffer.address[1] + 1)


def _beats_come_unasked(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.valid.eq(1)


def _group_comes_unasked(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.out.valid.eq(1)


def _variant(claim: str, title: str, fault: Fault, kind: type[Block] = Load) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=12)


BROKEN_VARIANTS = (
    _variant("nothing_is_written_without_a_descriptor", "the unit writes in every cycle", _writes_always),
    _variant("group_n_goes_n_places_on", "a bank's address is one too high", _bank_is_one_further),
    _variant("nothing_is_written_beyond_the_buffer", "addresses wrap at 16", corrupt_word(3, lambda word: word & 0xF)),
    _variant("no_unrequested_group_is_written", "beats arrive without a request", _beats_come_unasked, AxiReader),
    _variant("runs_follow_the_loops", "loop 1 runs once more", corrupt_word(4, lambda word: word + (1 << 16))),
    _variant("a_run_has_the_adjacent_groups", "a run has one more group", corrupt_word(4, lambda word: word + 1)),
    replace(
        _variant(
            "no_unrequested_group_is_written", "NVFP4 groups come without beats", _group_comes_unasked, Nvfp4Expander
        ),
        config=load_any_preset("core-nvfp4"),
    ),
)


def _is_covered(config: Any) -> bool:
    """Return whether the proof covers a core: moves can be compressed, and a beat has an NVFP4 group, if any."""
    if not isinstance(config, CoreConfig) or not config.compression:
        return False
    return not config.nvfp4 or 2 * config.axi_bits == config.group_bits


PROOF = Proof(
    name="load_bounds",
    build=LoadBoundsHarness,
    applies=_is_covered,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=14,
    broken_config=load_any_preset("core"),
)
