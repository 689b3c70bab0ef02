"""Memory port of the core: all rules of an AXI4 master, with any memory that follows the rules of a slave.

The rules are in docs/axi.md: VALID, stability, 4 KiB pages, size, length, WLAST, strobes and reset, with soft resets in
any cycle. No more transactions are outstanding than the configuration allows. No address outside the bounds registers
is offered, whatever software writes to them and when. AxPROT and AxCACHE have the configured values.

Registers, command queue, load and store are the emitted ones. Every other unit is a stub with free outputs.

Assumes: memory follows every rule of a slave, with any delay and order that the rules allow. A beat that deflate offers
stays until it is taken (`deflate`).
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.core.command_queue import CommandQueue
from tensordash.core.core import Core
from tensordash.core.registers import Registers
from tensordash.movers.axi import PAGE_BITS
from tensordash.movers.axi_reader import AxiReader
from tensordash.movers.axi_writer import MAX_OUTSTANDING, AxiWriter
from tensordash.movers.load import Load
from tensordash.movers.read_arbiter import ReadArbiter
from tensordash_axi import Axi4Rules

from ..core_stubs import FREE_UNITS
from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF", "PortHarness"]

WAIT, FIRST, RECORD, UNITS = 0, 1, 2, 3
COUNTS = 6
"""States of a store. Without compression, UNITS does not exist and COUNTS is one less."""
UNUSED_RULES = ("wrap_length", "wrap_aligned", "fixed_length", "exclusive_size", "exclusive_aligned", "cache")
"""Rules of features that a core does not use, as `bursts_are_whole_and_incr` claims."""


class PortHarness(Harness):
    """A core's memory port, with stubs for components that do not drive it.

    Parameters
    ----------
    claimed : bool
        State the rules as claims instead of lemmas.

    Source: docs/core.md, "Registers" (soft reset); ARM IHI 0022E.
    """

    def __init__(
        self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None, *, claimed: bool = True
    ) -> None:
        self.dut = Core(config)
        super().__init__(self.dut, stubs=FREE_UNITS, fault=fault, black_box=True)
        self.config = config
        axi = self.dut.m_axi
        self.rules = rules = Axi4Rules(
            data_bits=config.axi_bits,
            address_bits=config.address_bits,
            id_bits=1,
            reads=max(config.prefetch, config.outstanding),
            writes=MAX_OUTSTANDING,
            addresses=2,
            leading=1,
        )
        self.m.submodules.rules = rules
        for name in rules.bus.signature.members:
            self.m.d.comb += getattr(rules.bus, name).eq(Value.cast(getattr(axi, name)))
        for rule in rules.rules:
            holds, applies = getattr(rules.holds, rule.name), getattr(rules.applies, rule.name)
            if rule.side == "slave":
                self.assume(holds)
            elif not claimed:
                self.lemma(holds)
            elif rule.name.partition("_")[2] not in UNUSED_RULES:
                self.claim(rule.name, holds, when=applies)
        size = (config.axi_bits // 8).bit_length() - 1
        for channel in ("ar", "aw") if claimed else ():
            burst, width, lock, cache, prot = (
                getattr(axi, f"{channel}{name}") for name in ("burst", "size", "lock", "cache", "prot")
            )
            self.claim(
                "bursts_are_whole_and_incr",
                (burst == 1) & (width == size) & ~lock & (cache == config.axi_cache) & (prot == config.axi_prot),
                when=getattr(axi, f"{channel}valid"),
            )
        self._readers()
        self._writer()
        self._store()
        self._bounds(claimed)

    def _bounds(self, claimed: bool) -> None:
        """Claim that every address is within the bounds in the cycle in which its burst is first offered.

        An address that waits stays even if the bounds change. After a change, it is unchecked.
        """
        config, axi = self.config, self.dut.m_axi
        bits = config.address_bits - PAGE_BITS
        bounds = self.port("registers.bounds", 2 * bits + 1)
        base, limit = bounds[: bits + 1], bounds[bits + 1 :]
        past_bounds = Signal(len(bounds))
        self.m.d.sync += past_bounds.eq(bounds)
        fresh = []
        for name in ("command_queue.reader", "load.reader", "store.writer"):
            skipped = (config.axi_bits // 8).bit_length() - 1
            offered = self.probe(f"{name}.offered", 1)
            beat = self.probe(f"{name}.beat", config.address_bits - skipped + 1)
            changed = Signal(name=f"{name.partition('.')[0]}_bounds_changed")  # since the address was first offered
            waits = Signal(name=f"{name.partition('.')[0]}_waits")
            self.m.d.comb += waits.eq(offered & (changed | (bounds != past_bounds)))
            self.m.d.sync += changed.eq(waits)
            page = beat[PAGE_BITS - skipped :]
            self.lemma((base <= page) & (page <= limit), when=offered & ~waits)
            fresh.append(~waits)
        first, second, writer = fresh
        for channel, applies in {"ar": Mux(axi.arid, second, first), "aw": writer}.items() if claimed else ():
            page = getattr(axi, f"{channel}addr")[PAGE_BITS:]
            valid = getattr(axi, f"{channel}valid")
            self.claim(f"{channel}_is_not_below_the_base", base <= page, when=valid & applies & (base != 0))
            self.claim(f"{channel}_is_not_above_the_limit", page <= limit, when=valid & applies & ~limit.all())

    def _readers(self) -> None:
        """State the lemmas about both readers, and about the arbiter between the readers and the port."""
        rules = self.rules
        offered = []
        for number, unit in enumerate(("command_queue", "load")):
            reader = f"{unit}.reader"
            max_reads = self.config.prefetch if number == 0 else self.config.outstanding
            in_flight = self.probe(f"{reader}.in_flight", max_reads.bit_length())
            is_offered = self.probe(f"{reader}.offered", 1)
            left = self._left(reader, number)
            offered.append(is_offered)
            self.lemma(in_flight == rules.reads[number].count)
            self.lemma(in_flight <= max_reads)
            self.lemma((left != 0) & (in_flight < max_reads), when=is_offered)
        queue = self.dut.command_queue
        beat = self.probe("command_queue.reader.beat", self.config.address_bits - queue._reader.skipped + 1)
        # A descriptor is requested in one burst.
        left = self._left("command_queue.reader", 0)
        self.lemma((left == 0) | ((left == queue.beats) & ((beat & (queue.beats - 1)) == 0)))
        waits = self.probe("read_arbiter.waits", 1)
        earlier = self.probe("read_arbiter.earlier", 1)
        self.lemma(Mux(earlier, offered[1], offered[0]), when=waits)

    def _left(self, reader: str, number: int) -> Signal:
        dut = self.dut.command_queue if number == 0 else self.dut.units["load"]
        return self.probe(f"{reader}.left", dut._reader.count_bits)

    def _writer(self) -> None:
        """State the lemmas about bursts: one sends data, one waits, and others have no response yet."""
        rules, axi = self.rules, self.dut.m_axi
        probe = {
            name: self.probe(f"store.writer.{name}", width)
            for name, width in {
                "in_flight": 5,
                "offered": 1,
                "waits": 1,
                "waiting_length": 8,
                "sends": 1,
                "after": 8,
            }.items()
        }
        incomplete = probe["sends"] + probe["waits"]
        offered = probe["offered"]  # the youngest burst
        left = self.probe("store.writer.left", self.dut.units["store"]._writer.count_bits)
        self.lemma(left != 0, when=offered)
        writes, leading = rules.writes, rules.leading
        responses: Any = Const(0)
        for queue in rules.responses:
            responses += queue.count
        self.lemma(rules.responses[1].count == 0)
        self.lemma(writes.count + offered == incomplete + leading.count)
        self.lemma(leading.count == (offered & (incomplete == 0)))
        self.lemma(probe["in_flight"] == responses + incomplete + leading.count)
        self.lemma(leading.first == axi.awlen, when=leading.count != 0)
        first = Signal(8)  # length of the burst that sends data next
        youngest = Signal(8)
        self.m.d.comb += [
            first.eq(Mux(writes.count != 0, writes.first.len, axi.awlen)),
            youngest.eq(Mux(offered, axi.awlen, Mux(writes.count == 2, writes.entries[1].len, writes.first.len))),
        ]
        self.lemma(rules.sent + probe["after"] == first, when=probe["sends"])
        self.lemma(rules.sent == 0, when=~probe["sends"])
        self.lemma(probe["waiting_length"] == youngest, when=probe["waits"])
        ids = Cat(entry.id for entry in writes.entries)
        self.lemma((writes.count == 0) | ~ids[0])
        self.lemma((writes.count != 2) | ~ids[1])
        for entry in writes.entries:
            low = (entry.low == 0) & (entry.size == (self.config.axi_bits // 8).bit_length() - 1) & (entry.burst == 1)
            self.lemma(low, when=writes.count != 0 if entry is writes.entries[0] else writes.count == 2)

    def _store(self) -> None:
        """State the lemmas that an offered beat of the store does not change."""
        store, config = self.dut.units["store"], self.config
        state = self.probe("store.store_state", 3)
        asks, arrives, held = (self.probe(f"store.{name}", 1) for name in ("asks", "arrives", "group_held"))
        to_send = self.probe("store.to_send", len(store._to_send))
        counts = COUNTS if config.compression else COUNTS - 1
        records = (state == RECORD) | (state == counts)
        self.lemma(~asks & ~arrives & ~held, when=(state == FIRST) | records)
        present = self.probe("store.present", 1)
        self.lemma(present, when=state != WAIT)
        self.lemma(~arrives, when=(state == WAIT) & present)
        self.lemma(to_send == 0, when=~records & ((state != UNITS) | (not config.compression)))
        if config.compression:
            ends = self.probe("store.entries_end", 1)
            self.lemma(~(asks | arrives | held), when=ends)
            self.lemma(state == UNITS, when=ends)
            self.lemma(self.probe("store.entry_waits", 1), when=self.probe("store.entry_requested", 1))
            # The assumptions of the proof `deflate`.
            valid, ready = (self.probe(f"store.deflate__groups_{name}", 1) for name in ("valid", "ready"))
            starts, whole = (
                self.port("store.deflate.start", 1),
                self.port("store.deflate.whole_beats", len(store._left)),
            )
            restarts = self.port("registers.restart", 1)
            self.lemma(starts & ~valid & ~ends, when=~self.past(~restarts))
            goes_on = ~starts & ~restarts
            self.lemma(ends, when=self.past(ends & (whole != 0) & goes_on))
            self.lemma(~valid, when=ends)
            stays = self.past(valid & ~ready & goes_on)
            group = self.port("store.deflate.groups_payload", config.group_bits)
            self.lemma(valid & (group == self.past(group)), when=stays)
            plain = self.port("store.deflate.plain", 1)
            self.lemma(plain == self.past(plain), when=self.past(goes_on))


def _port(name: str, value: Any) -> Fault:
    """Build a fault that drives an output of the core's port with a constant."""
    return lambda m, sound, outer: getattr(outer.m_axi, name).eq(value)


def _in_reset(channel: str) -> Fault:
    name = f"{channel}valid"
    return lambda m, sound, outer: getattr(outer.axi, name).eq(getattr(sound.axi, name) | ResetSignal())


def _waited(m: Module, outer: Any, channel: str) -> Signal:
    """Return whether a transfer was offered and not accepted in the previous cycle."""
    waited = Signal(name=f"{channel}_waited")
    m.d.sync += waited.eq(getattr(outer.axi, f"{channel}valid") & ~getattr(outer.axi, f"{channel}ready"))
    return waited


def _withdraws_valid(channel: str) -> Fault:
    name = f"{channel}valid"
    return lambda m, sound, outer: getattr(outer.axi, name).eq(getattr(sound.axi, name) & ~_waited(m, outer, channel))


def _changes_address(channel: str) -> Fault:
    name = f"{channel}addr"
    return lambda m, sound, outer: getattr(outer.axi, name).eq(
        getattr(sound.axi, name) ^ (_waited(m, outer, channel) << 12)
    )


def _longer(name: str) -> Fault:
    return lambda m, sound, outer: getattr(outer.axi, name).eq(getattr(sound.axi, name) | 0x80)


def _requests_always(channel: str) -> Fault:
    return lambda m, sound, outer: getattr(outer.axi, f"{channel}valid").eq(1)


def _strobes_fall(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.wstrb.eq(sound.axi.wstrb & (~outer.halt).replicate(len(outer.axi.wstrb)))


def _one_too_few(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.awlen.eq(sound.axi.awlen - 1)


def _length_changes(m: Module, sound: Any, outer: Any) -> None:
    sent = Signal()
    m.d.sync += sent.eq(outer.axi.awvalid & ~outer.axi.awready & (sent | (outer.axi.wvalid & outer.axi.wready)))
    m.d.comb += outer.axi.awlen.eq(Mux(sent, 0xFF, sound.axi.awlen))


def _data_without_address(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [outer.axi.wvalid.eq(1), outer.axi.wlast.eq(1)]


def _first_overtakes(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.araddr.eq(Mux(outer.first.arvalid, outer.first.araddr, outer.second.araddr))


def _ignores_base(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.bounds.base.eq(0)


def _ignores_limit(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.bounds.limit.eq(-1)


def _base_is_lower(m: Module, sound: Any, outer: Any) -> None:
    base = outer.bounds.base
    m.d.comb += sound.bounds.base.eq(Mux(base == 0, 0, base - 1))


def _resets_at_once(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.restart.eq(outer.halt)


def _variant(claim: str, title: str, fault: Fault, kind: type[Block], depth: int = 14, **how: Any) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=depth, **how)


FEW_READS = load_any_preset("core", ["core.outstanding=4", "core.prefetch=2"])
"""A core with few outstanding reads, so that a counterexample needs few cycles."""


BROKEN_VARIANTS = (
    _variant("ar_reset", "ARVALID is high in reset", _in_reset("ar"), AxiReader),
    _variant("ar_stays", "ARVALID falls before ARREADY", _withdraws_valid("ar"), AxiReader),
    _variant("ar_stays", "a soft reset does not wait for the bus", _resets_at_once, Registers),
    _variant("ar_stable", "ARADDR changes while it waits", _changes_address("ar"), AxiReader),
    _variant("ar_stable", "a descriptor's address replaces a load's waiting address", _first_overtakes, ReadArbiter),
    _variant("ar_burst_type", "ARBURST is reserved", _port("arburst", 3), Core),
    _variant("ar_size", "ARSIZE is wider than the bus", _port("arsize", 7), Core),
    _variant("ar_page", "reads cross 4 KiB", _longer("arlen"), AxiReader),
    _variant("ar_limit", "outstanding reads are not limited", _requests_always("ar"), AxiReader, config=FEW_READS),
    _variant("bursts_are_whole_and_incr", "ARBURST is FIXED", _port("arburst", 0), Core),
    _variant("bursts_are_whole_and_incr", "AWPROT marks accesses as privileged", _port("awprot", 1), Core),
    _variant("ar_is_not_below_the_base", "descriptors are read below the base", _ignores_base, CommandQueue, 18),
    _variant("ar_is_not_above_the_limit", "loads have no limit", _ignores_limit, Load),
    _variant("ar_is_not_below_the_base", "a reader's base is a page too low", _base_is_lower, AxiReader),
    _variant("aw_is_not_below_the_base", "a writer has no base", _ignores_base, AxiWriter),
    _variant("aw_is_not_above_the_limit", "a writer has no limit", _ignores_limit, AxiWriter),
    _variant("aw_reset", "AWVALID is high in reset", _in_reset("aw"), AxiWriter),
    _variant("aw_stays", "AWVALID falls before AWREADY", _withdraws_valid("aw"), AxiWriter),
    _variant("aw_stable", "AWADDR changes while it waits", _changes_address("aw"), AxiWriter),
    _variant("aw_burst_type", "AWBURST is reserved", _port("awburst", 3), Core),
    _variant("aw_size", "AWSIZE is wider than the bus", _port("awsize", 7), Core),
    _variant("aw_page", "writes cross 4 KiB", _longer("awlen"), AxiWriter),
    _variant("aw_length", "AWLEN changes after data were sent", _length_changes, AxiWriter),
    _variant("aw_limit", "outstanding bursts are not limited", _requests_always("aw"), AxiWriter),
    _variant("w_reset", "WVALID is high in reset", _in_reset("w"), AxiWriter),
    _variant("w_stays", "WVALID falls before WREADY", _withdraws_valid("w"), AxiWriter),
    _variant("w_stable", "a soft reset clears the strobes of a waiting beat", _strobes_fall, AxiWriter),
    _variant("w_last", "WLAST is dropped", lambda m, sound, outer: outer.axi.wlast.eq(0), AxiWriter),
    _variant("w_last", "there are more beats than AWLEN", _one_too_few, AxiWriter),
    _variant("w_strobes", "AWSIZE is narrower than the strobes", _port("awsize", 1), Core),
    _variant("w_limit", "data are sent without an address", _data_without_address, AxiWriter),
)

PROOF = Proof(
    name="core_axi",
    build=PortHarness,
    applies=lambda config: isinstance(config, CoreConfig),
    broken_variants=BROKEN_VARIANTS,
    cover_depth=14,
    broken_config=load_any_preset("core"),
)
