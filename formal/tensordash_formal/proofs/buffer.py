"""Buffer: a read returns the value that was written last to its word, and requests wait only as priorities demand.

A write is never lost and changes no other word, whatever other ports do in the same cycle. Requests wait only for ports
of their kind that use the same bank of the same region (with pairs, the same half). No request starves. A reset loses
neither contents nor the answer to a read of the cycle before.

The proof watches an arbitrary group in an arbitrary bank. The model has all ports, banks, regions and bits. Each of its
memories stores one watched word and returns a free value for every other word.

Assumes: nothing about the ports. Values are unchecked of a word that is read in the cycle in which it is written, and
of a word that was not written since the first reset. `ready` of a port without a request is unchecked, too.
"""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetSignal, Signal, Value

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.core.core import Core
from tensordash.memory.bank import Bank
from tensordash.memory.buffer import Buffer, PairBuffer

from ..harness import Fault, Harness
from ..memory_abstraction import ONE_WORD_MEMORY
from ..proof import BrokenVariant, Proof

__all__ = ["PRESETS", "PROOF"]

PRESETS = ("core", "core-wide")
"""The presets with a proof. Buffers of other presets differ from the buffer of `core` only in sizes."""
CORE, WIDE = (load_any_preset(name) for name in PRESETS)


class BufferHarness(Harness):
    """A buffer whose ports request anything in every cycle.

    Source: docs/core.md, "Memories"; the docstrings of `Buffer`, `PairBuffer` and `Memory`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut = dut = Core(config).buffer
        super().__init__(dut, stubs=(ONE_WORD_MEMORY,), fault=fault, black_box=True)
        self.lane = self.constant(range(dut.lanes), "watched_lane")
        self.assume(self.lane < dut.lanes)
        self.address = self.constant(dut.address_bits, "watched_address")
        self.half = self.address.xor() if dut.halves == 2 else Const(0, 1)
        self.region_bits = (dut.regions - 1).bit_length()
        self.region = self.address[dut.address_bits - self.region_bits :]
        self._watch_memories()
        self._claim_contents()
        for kind, ports in (("read", dut.read_ports), ("write", list(dut.writes))):
            self._claim_priorities(kind, ports)

    def _watch_memories(self) -> None:
        """Make every memory watch the word of the watched group."""
        dut = self.dut
        within = self.address[dut.halves - 1 : dut.address_bits - self.region_bits]
        level = ".sound" if self._fault and self._fault[0] is Bank else ""
        self.paths = {
            (bank, region): f"bank_{bank}{level}.region_{region}"
            for bank in range(len(dut.banks))
            for region in range(dut.regions)
        }
        for path in self.paths.values():
            self.assume(self.port(f"{path}.watched", len(within)) == within)

    def _uses_watched(self, port: Any) -> Value:
        """Return whether a request includes the watched group's position in the watched bank."""
        lane, dut = self.lane, self.dut
        if len(port.enable) == dut.lanes:
            return port.enable.bit_select(lane, 1) & (Array(port.address)[lane] == self.address)
        place = Cat(self.half, lane)
        return port.enable.bit_select(place, 1) & (Array(port.address)[place] == self.address[1:])

    def _data(self, port: Any) -> Value:
        """Return a reader's data of the watched bank."""
        return Array(port.data)[self.lane if len(port.data) == self.dut.lanes else Cat(self.half, self.lane)]

    def _claim_contents(self) -> None:
        """Track the watched word, and claim that readers get its value."""
        dut, m = self.dut, self.m
        value = Signal(dut.lanes * dut.width, name="value", reset_less=True)
        is_written = Signal(reset_less=True)  # the word was written since the first reset
        writes = Signal(dut.writers, name="writes")
        for k, port in enumerate(dut.writes):
            m.d.comb += writes[k].eq(self.started & port.valid & port.ready & self._uses_watched(port))
            with m.If(writes[k]):
                m.d.sync += value.eq(self._data(port))
        m.d.sync += is_written.eq(self.started & (is_written | writes.any()))
        for k, port in enumerate(dut.read_ports):
            was_read = Signal(name=f"was_read_{k}", reset_less=True)
            m.d.sync += was_read.eq(
                self.started & is_written & (writes == 0) & port.valid & port.ready & self._uses_watched(port)
            )
            self.claim("a_read_returns_the_value_written_last", self._data(port) == value, when=was_read)
        for (bank, region), path in self.paths.items():
            lane, half = divmod(bank, dut.halves)
            is_here = (self.lane == lane) & (self.half == half) & (self.region == region)
            self.lemma(self.probe(f"{path}.word", len(value)) == value, when=is_written & is_here)

    def _needs(self, port: Any, bank: int) -> tuple[Value, Value]:
        """Return whether a request needs a bank, or half of a bank, and the region in it."""
        lane, half = divmod(bank, self.dut.halves)
        if len(port.enable) == len(self.dut.banks):
            return port.enable[bank], port.address[bank][-self.region_bits :]
        address = port.address[lane]
        is_half = (address.xor() == half) if self.dut.halves == 2 else Const(1)
        return port.enable[lane] & is_half, address[-self.region_bits :]

    def _clash(self, one: Any, other: Any) -> Value:
        """Return whether two requests need the same bank, or half of a bank, in the same region."""
        clashes = []
        for bank in range(len(self.dut.banks)):
            (needs, region), (other_needs, other_region) = (self._needs(port, bank) for port in (one, other))
            clashes.append(needs & other_needs & (region == other_region))
        return Cat(clashes).any()

    def _claim_priorities(self, kind: str, ports: list[Any]) -> None:
        """Claim which requests are taken."""
        m, count = self.m, len(ports)
        valid, ready = (Cat(getattr(port, name) for port in ports) for name in ("valid", "ready"))
        turn = Signal(range(count), name=f"turn_of_{kind}s")  # the port that goes first
        with m.If((valid & ~ready).any()):
            m.d.sync += turn.eq(Mux(turn == count - 1, 0, turn + 1))
        self.lemma(self.probe(f"{kind}_turn", count) == Const(1) << turn)
        self.lemma(turn < count)
        clash = {}
        for i in range(count):
            for j in range(i):
                clash[i, j] = clash[j, i] = Signal(name=f"{kind}s_clash_{j}_{i}")
                m.d.comb += clash[i, j].eq(self._clash(ports[j], ports[i]))
        for i, port in enumerate(ports):
            takes, waits = port.valid & port.ready, port.valid & ~port.ready
            has_turn = turn == i
            before = Cat(
                clash[i, j] & ports[j].valid & ports[j].ready & ((turn == j) | (~has_turn if j < i else 0))
                for j in range(count)
                if j != i
            )
            self.claim("the_port_with_the_turn_is_taken", takes, when=port.valid & has_turn)
            self.claim("a_request_waits_only_for_a_taken_one_before_it", before.any(), when=waits)
            for j in range(i):
                other = ports[j].valid & ports[j].ready
                self.claim("requests_taken_together_use_different_banks", ~clash[i, j], when=takes & other)
            waited = Signal(range(count + 1), name=f"{kind}_{i}_waited")  # cycles in which the request waited
            m.d.sync += waited.eq(Mux(waits, waited + 1, 0))
            self.claim("no_request_starves", waited < count - 1, when=waits)
            distance = Mux(turn <= i, i - turn, i + count - turn)[: count.bit_length()]
            self.lemma(waited + distance < count)


def _variant(
    claim: str,
    title: str,
    fault: Fault,
    kind: type[Block] = Buffer,
    config: TileConfig | CoreConfig = CORE,
    depth: int = 8,
) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=depth, config=config)


def _last_word_is_not_written(m: Module, sound: Any, outer: Any) -> None:
    for k, address in enumerate(outer.write_address):
        m.d.comb += sound.write[k].eq(outer.write[k] & ~address.all())


def _writes_alias(m: Module, sound: Any, outer: Any) -> None:
    for k, address in enumerate(outer.write_address):
        m.d.comb += sound.write_address[k].eq(address & ~(1 << len(address) - 3))


def _last_region_is_the_first(m: Module, sound: Any, outer: Any) -> None:
    """Read the first region instead of the last one."""
    for k, address in enumerate(outer.read_address):
        m.d.comb += sound.read_address[k].eq(Mux(address[-2:].all(), address[:-2], address))


def _second_writer_follows_the_first(m: Module, sound: Any, outer: Any) -> None:
    """Write the second writer's data to the first writer's address, and not the first one's, when both write."""
    both = outer.write.all()
    m.d.comb += sound.write_address[1].eq(Mux(both, outer.write_address[0], outer.write_address[1]))
    m.d.comb += sound.write[0].eq(outer.write[0] & ~both)


def _second_reader_gets_the_firsts(m: Module, sound: Any, outer: Any) -> None:
    """Return the first reader's data to the second reader when both read."""
    both = Signal()
    m.d.sync += both.eq(outer.read[:2].all())
    m.d.comb += outer.read_data[1].eq(Mux(both, sound.read_data[0], sound.read_data[1]))


def _write_is_lost_in_a_read(m: Module, sound: Any, outer: Any) -> None:
    """Lose the first writer's write of a word that the last reader reads in the same cycle."""
    same = outer.read[-1] & (outer.read_address[-1] == outer.write_address[0])
    m.d.comb += sound.write[0].eq(outer.write[0] & ~same)


def _late_data(m: Module, sound: Any, outer: Any) -> None:
    """Write the data of the cycle before."""
    for k, data in enumerate(outer.write_data):
        late = Signal.like(Value.cast(data), name=f"late_{k}")
        m.d.sync += late.eq(data)
        m.d.comb += sound.write_data[k].eq(late)


def _reset_clears_the_answer(m: Module, sound: Any, outer: Any) -> None:
    for k, data in enumerate(sound.read_data):
        m.d.comb += outer.read_data[k].eq(Mux(ResetSignal(), 0, data))


def _last_reader_is_always_ready(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += _readers(outer)[-1].ready.eq(1)


def _last_bank_is_not_written(m: Module, sound: Any, outer: Any) -> None:
    """Ignore the last bank's enable of the last writer."""
    m.d.comb += sound.writes[-1].enable.eq(outer.writes[-1].enable[:-1])


def _readers(buffer: Any) -> list[Any]:
    """Return the reader ports of a buffer's interface."""
    return [getattr(buffer, f"reads_{k}") for k in range(4)] if hasattr(buffer, "reads_0") else list(buffer.reads)


def _ports(kind: str, buffer: Any) -> list[Any]:
    return _readers(buffer) if kind == "read" else list(buffer.writes)


def _hides(kind: str, port: int, condition: Callable[[list[Any]], Value]) -> Fault:
    """Hide a port's request while a condition about the ports holds."""

    def fault(m: Module, sound: Any, outer: Any) -> None:
        shown, hidden = _ports(kind, outer)[port], _ports(kind, sound)[port]
        hides = condition(_ports(kind, outer))
        m.d.comb += [hidden.valid.eq(shown.valid & ~hides), shown.ready.eq(hidden.ready & ~hides)]

    return fault


def _overlap_is_ignored(kind: str, first: int, second: int) -> Fault:
    """Hide the last bank of a port's request from the buffer while another port has a request."""

    def fault(m: Module, sound: Any, outer: Any) -> None:
        one, other = (_ports(kind, outer)[k] for k in (first, second))
        m.d.comb += _ports(kind, sound)[second].enable[-1].eq(other.enable[-1] & ~one.valid)

    return fault


def _halves_are_swapped(m: Module, sound: Any, outer: Any) -> None:
    """Swap the data of the last bank's halves in a reader that reads both."""
    both = Signal()
    m.d.sync += both.eq(outer.reads_1.enable[-2:].all())
    data = sound.reads_1.data
    last = len(data) - 1
    m.d.comb += outer.reads_1.data[last].eq(Mux(both, data[last - 1], data[last]))
    m.d.comb += outer.reads_1.data[last - 1].eq(Mux(both, data[last], data[last - 1]))


def _parity_lacks_the_top(m: Module, sound: Any, outer: Any) -> None:
    """Compute the half of the store unit's read without the highest bit of the address.

    The lowest bit selects only the half, so inverting it has this effect.
    """
    for k, address in enumerate(outer.reads_3.address):
        m.d.comb += sound.reads_3.address[k].eq(Cat(address[0] ^ address[-1], address[1:]))


def _half_of_the_next_read(m: Module, sound: Any, outer: Any) -> None:
    """Invert the first bank's data if the next address of the store unit is of the other half."""
    half = Signal()
    address = outer.reads_3.address[0]
    m.d.sync += half.eq(address.xor())
    m.d.comb += outer.reads_3.data[0].eq(Mux(half ^ address.xor(), ~sound.reads_3.data[0], sound.reads_3.data[0]))


CONTENTS = "a_read_returns_the_value_written_last"
DIFFERENT = "requests_taken_together_use_different_banks"
TURN = "the_port_with_the_turn_is_taken"
WAITS = "a_request_waits_only_for_a_taken_one_before_it"
STARVES = "no_request_starves"

BROKEN_VARIANTS = (
    *(
        _variant(CONTENTS, title, fault, Bank)
        for title, fault in (
            ("the last group is not written", _last_word_is_not_written),
            ("writes ignore the top bit within a region", _writes_alias),
            ("the last region is read as the first", _last_region_is_the_first),
            ("the second of two writes goes to the first one's address", _second_writer_follows_the_first),
            ("the second of two readers gets the first one's data", _second_reader_gets_the_firsts),
            ("a write is lost in the cycle in which its word is read", _write_is_lost_in_a_read),
            ("the data of the cycle before are written", _late_data),
            ("a reset clears the answer of a read", _reset_clears_the_answer),
        )
    ),
    _variant(CONTENTS, "the last writer does not write the last bank", _last_bank_is_not_written),
    _variant(CONTENTS, "the last reader is taken while it waits", _last_reader_is_always_ready),
    *(
        _variant(CONTENTS, f"{title}, with pairs", fault, kind, WIDE)
        for title, fault, kind in (
            ("the last group is not written", _last_word_is_not_written, Bank),
            ("the last bank's halves are swapped when both are read", _halves_are_swapped, PairBuffer),
            ("a reader ignores the top bit for the half", _parity_lacks_the_top, PairBuffer),
            ("the answer is from the half of the next read", _half_of_the_next_read, PairBuffer),
            ("the last reader is taken while it waits", _last_reader_is_always_ready, PairBuffer),
        )
    ),
    *(
        _variant(
            DIFFERENT,
            f"the last bank is not compared for {kind}s{suffix}",
            _overlap_is_ignored(kind, 0, 1),
            buffer,
            config,
        )
        for kind in ("read", "write")
        for buffer, config, suffix in ((Buffer, CORE, ""), (PairBuffer, WIDE, ", with pairs"))
    ),
    _variant(
        TURN,
        "the last reader waits for the first in any case",
        _hides("read", 3, lambda ports: ports[0].valid),
    ),
    _variant(TURN, "the last writer waits for the first", _hides("write", 1, lambda ports: ports[0].valid)),
    _variant(
        WAITS,
        "reads of one bank in different regions wait for each other",
        _hides("read", 1, lambda ports: ports[0].valid & ports[0].enable[0] & ports[1].enable[0]),
    ),
    _variant(
        WAITS,
        "reads of both halves of a bank wait for each other",
        _hides("read", 1, lambda ports: ports[0].valid & ports[0].enable[0] & ports[1].enable[1]),
        PairBuffer,
        WIDE,
    ),
    _variant(WAITS, "a write waits for another of other banks", _hides("write", 1, lambda ports: ports[0].valid)),
    _variant(STARVES, "the first reader goes before the last", _hides("read", 3, lambda ports: ports[0].valid)),
    _variant(STARVES, "the first writer goes before the last", _hides("write", 1, lambda ports: ports[0].valid)),
)

PROOF = Proof(
    name="buffer",
    build=BufferHarness,
    applies=lambda config: config in (CORE, WIDE),
    broken_variants=BROKEN_VARIANTS,
    broken_config=CORE,
)
