"""Join: each core reads and writes what it would at a memory port of its own, and a shared burst is read once.

AR, AW and W at memory follow AXI's rules of handshakes. Each beat answers the oldest burst of the cores that get it, by
ID. A burst that all cores offer is taken for all of them, and another shared burst waits for `patience` cycles. Write
data follow the order of addresses. No core starves.

The model has three cores, of which the proof watches an arbitrary one, and a queue of three bursts of tensors.

Assumes: cores hold a beat of write data until it is taken. Memory sends beats only of bursts that it accepted, and
accepts at most three descriptors of a core before it answers them. `patience` is constant.
"""

from collections.abc import Callable, Mapping
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.axi import PAGE_BITS
from tensordash.movers.join import Join
from tensordash.movers.read_join import PATIENCE_BITS, ReadJoin
from tensordash.movers.write_join import QUEUED, WriteJoin
from tensordash.short_queue import ShortQueue
from tensordash_axi import Axi4Rules
from tensordash_axi.queue import Queue

from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof, make_variants

__all__ = ["PROOF"]

CORES = 3
OUTSTANDING = 3
DESCRIPTORS = 3
"""Descriptors of a core that memory accepts before it answers them."""
HANDSHAKE_RULES = tuple(f"{channel}_{rule}" for channel in ("ar", "aw", "w") for rule in ("reset", "stays", "stable"))
CORE = load_any_preset("core")


class SmallJoin(Join):
    """A join with a short queue of reads."""

    def __init__(self, config: CoreConfig) -> None:
        super().__init__(config, CORES)
        bus = {"data_bits": config.axi_bits, "address_bits": config.address_bits}
        self.reads = ReadJoin(cores=CORES, **bus, outstanding=OUTSTANDING)


class JoinHarness(Harness):
    """A join between cores that offer anything and a memory that answers in any order of IDs.

    Source: the docstrings of `ReadJoin`, `WriteJoin` and `ShortQueue`; ARM IHI 0022E.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut = dut = SmallJoin(config)
        super().__init__(dut, fault=fault)
        self.axi = dut.m_axi
        self.watched = self.constant(range(CORES), "watched")
        self.assume(self.watched < CORES)
        self.is_watched = [self.watched == k for k in range(CORES)]
        self._claim_rules(config)
        self._define_reads()
        self._claim_shared_bursts()
        self._claim_beats()
        self._claim_writes()

    def _core(self, name: str) -> Value:
        """Return a signal of the watched core."""
        return Array(getattr(port, name) for port in self.dut.s_axi)[self.watched]

    def _all(self, name: str) -> Value:
        """Return a bit of all cores."""
        return Cat(getattr(port, name) for port in self.dut.s_axi)

    def _claim_rules(self, config: CoreConfig) -> None:
        rules = Axi4Rules(
            data_bits=config.axi_bits, address_bits=config.address_bits, id_bits=3, reads=1, writes=1, addresses=1
        )
        self.m.submodules.rules = rules
        for name in rules.bus.signature.members:
            self.m.d.comb += getattr(rules.bus, name).eq(Value.cast(getattr(self.axi, name)))
        for name in HANDSHAKE_RULES:
            self.claim(name, getattr(rules.holds, name), when=getattr(rules.applies, name))
        values = {"burst": 1, "size": (config.axi_bits // 8).bit_length() - 1, "lock": 0, "qos": 0}
        values |= {"cache": config.axi_cache, "prot": config.axi_prot}
        for channel in ("ar", "aw"):
            fixed = Cat(getattr(self.axi, f"{channel}{name}") == value for name, value in values.items())
            self.claim("bursts_are_incr_with_the_cores_attributes", fixed.all())

    def _queue(self, shape: Any, depth: int, name: str, push: Value, entry: Value, pop: Value) -> Queue:
        """Create a ghost queue."""
        queue = Queue(shape, depth, name)
        queue.update(self.m, push=push, entry=entry, pop=pop)
        self.lemma(queue.count <= depth)
        return queue

    def _define_reads(self) -> None:
        """Create ghost queues of bursts: at memory's port, at the watched core's, and the cores of each."""
        axi, core, m = self.axi, self._core, self.m
        burst = len(axi.araddr) + 8
        self.takes = self._all("arvalid") & self._all("arready")  # cores whose burst is taken
        self.watched_takes = core("arvalid") & core("arready")
        offer = Cat(core("araddr"), core("arlen"))
        sent = Cat(axi.araddr, axi.arlen)
        accepts = axi.arvalid & axi.arready
        self.ends = axi.rvalid & axi.rready & axi.rlast
        core_ends = core("rvalid") & core("rready") & core("rlast")
        is_tensor = (self.takes & self._all("arid")).any()
        own_id = self.watched << 1
        self.sets = self._queue(CORES, OUTSTANDING, "sets", is_tensor, self.takes, self.ends & axi.rid[0])
        self.at_memory = [
            self._queue(
                burst, DESCRIPTORS, "descriptors", accepts & (axi.arid == own_id), sent, self.ends & (axi.rid == own_id)
            ),
            self._queue(burst, OUTSTANDING, "tensors", accepts & (axi.arid == 1), sent, self.ends & (axi.rid == 1)),
        ]
        self.at_core = [
            self._queue(
                burst,
                depth,
                f"core_{number}",
                self.watched_takes & (core("arid") == number),
                offer,
                core_ends & (core("rid") == number),
            )
            for number, depth in enumerate((DESCRIPTORS + 1, OUTSTANDING))
        ]
        descriptors, tensors = self.at_memory
        self.assume(~accepts | axi.arid[0] | (axi.arid != own_id) | (descriptors.count < DESCRIPTORS))
        self.assume(~axi.rvalid | (axi.rid[1:] < CORES))
        self.assume(~axi.rvalid | ~axi.rid[0] | ((axi.rid == 1) & (tensors.count != 0)))
        self.assume(~axi.rvalid | (axi.rid != own_id) | (descriptors.count != 0))
        waits = Signal()  # a burst of tensors waits at memory's port
        m.d.comb += waits.eq(axi.arvalid & axi.arid[0])
        self.claim("none_is_lost_and_none_repeated", self.sets.count == tensors.count + waits)
        self._add_order_lemmas(waits, sent, own_id)

    def _add_order_lemmas(self, waits: Signal, sent: Value, own_id: Value) -> None:
        """State the lemmas: the watched core's bursts are those of its sets, and those of its descriptors, in order."""
        axi = self.axi
        self.lemma((axi.arid == 1) | (~axi.arid[0] & (axi.arid[1:] < CORES)))
        rank: Value = Const(0)
        for k, entry in enumerate(self.sets.entries):
            burst = Mux(self.at_memory[1].count == k, sent, self.at_memory[1].entries[min(k, OUTSTANDING - 1)])
            is_own = (self.sets.count > k) & entry.bit_select(self.watched, 1)
            self.lemma(Array(self.at_core[1].entries)[rank] == burst, when=is_own)
            rank = rank + is_own
        self.lemma(self.at_core[1].count == rank)
        descriptors, own = self.at_memory[0], self.at_core[0]
        waits = axi.arvalid & (axi.arid == own_id)
        self.lemma(own.count == descriptors.count + waits)
        for k, entry in enumerate(descriptors.entries):
            self.lemma(own.entries[k] == entry, when=descriptors.count > k)
        self.lemma(Array(own.entries)[descriptors.count] == sent, when=waits)
        self._claim_fifo("reads", self.sets)

    def _claim_fifo(self, part: str, queue: Queue) -> None:
        """Claim that a `ShortQueue` is a queue of sets."""
        # A faulty join has other names inside.
        if self._fault is None or self._fault[0] not in (ReadJoin, WriteJoin):
            first, full = self.port(f"{part}.queue.first", CORES), self.port(f"{part}.queue.full", 1)
            self.claim("turn_queues_are_fifos", first == Mux(queue.count != 0, queue.first, 0))
            self.claim("turn_queues_are_fifos", full == (queue.count == queue.depth))
        self.lemma(self.probe(f"{part}.queue.taken", queue.depth) == (1 << queue.count) - 1)
        for k in range(CORES):
            bits = Cat((queue.count > place) & entry[k] for place, entry in enumerate(queue.entries))
            self.lemma(self.probe(f"{part}.queue.bit_{k}", queue.depth) == bits)

    def _claim_shared_bursts(self) -> None:
        dut, axi, core, m = self.dut, self.axi, self._core, self.m
        offered = self._all("arvalid")
        same, shared = Signal(CORES), Signal(CORES)  # as the watched core's burst; of tensors that all cores read
        for k, port in enumerate(dut.s_axi):
            page = port.araddr[PAGE_BITS:]
            m.d.comb += [
                same[k].eq((port.araddr == core("araddr")) & (port.arlen == core("arlen"))),
                shared[k].eq(port.arvalid & port.arid & (page >= dut.shared.base) & (page <= dut.shared.limit)),
            ]
        is_shared = shared.bit_select(self.watched, 1)
        is_complete = (shared & same).all()
        patience = self.constant(PATIENCE_BITS, "patience_value")
        self.drive(dut.patience, patience)
        quiet = Signal(PATIENCE_BITS + 1)  # cycles in which a shared burst waited and none was taken
        quiet_next = Mux(~shared.any() | (shared & self.takes).any(), 0, Mux(quiet.all(), quiet, quiet + 1))
        m.d.sync += quiet.eq(quiet_next)
        self.lemma(self.probe("reads.waited", PATIENCE_BITS) == Mux(quiet < patience, quiet, patience))
        self.claim("only_offers_are_taken", (self._all("arready") & ~offered) == 0)
        self.claim("shared_bursts_are_read_once", self.takes.all(), when=self.watched_takes & is_complete)
        others = self.takes & ~Cat(self.is_watched)
        self.claim(
            "cores_that_share_offer_the_same", (others & ~(same & shared)) == 0, when=self.watched_takes & others.any()
        )
        self.claim("cores_that_share_offer_the_same", is_shared, when=self.watched_takes & others.any())
        self.claim("shared_bursts_wait", quiet >= patience, when=self.watched_takes & is_shared & ~is_complete)
        self.claim(
            "the_end_of_patience_is_reported", dut.expired == (is_shared & ~is_complete), when=self.watched_takes
        )
        self.claim("the_end_of_patience_is_reported", ~dut.expired, when=~self.takes.any())
        readable = core("arvalid") & (~is_shared | is_complete | (quiet >= patience))
        readable &= ~core("arid") | (self.sets.count < OUTSTANDING)
        self._claim_turns("reads", readable, ~axi.arvalid | axi.arready, self.takes, self.watched_takes)

    def _claim_turns(self, part: str, can_be_taken: Value, is_free: Value, takes: Value, watched_takes: Value) -> None:
        """Claim that bursts are taken without delay, and that at most two are taken before the watched core's."""
        self.claim(f"{part}_are_taken_without_delay", takes.any(), when=can_be_taken & is_free)
        passed_over = Signal(3, name=f"{part}_passed_over")
        is_passed_over = can_be_taken & takes.any()
        self.m.d.sync += passed_over.eq(Mux(watched_takes, 0, passed_over + is_passed_over))
        self.claim(f"no_core_starves_in_{part}", passed_over < CORES - 1, when=is_passed_over & ~watched_takes)
        later = {(j, k): self.probe(f"{part}.later_{j}_{k}", 1) for k in range(CORES) for j in range(k)}
        ahead: Value = Const(0)  # cores that have priority over the watched core
        for (j, k), bit in later.items():
            ahead = ahead + (self.is_watched[k] & ~bit) + (self.is_watched[j] & bit)
        self.lemma(passed_over + ahead < CORES)
        first, second, third = later[0, 1], later[1, 2], ~later[0, 2]
        self.lemma((first | second | third) & ~(first & second & third))  # priorities have no cycle

    def _claim_beats(self) -> None:
        axi, core = self.axi, self._core
        gets, is_tensor = core("rvalid"), axi.rid[0]
        self.claim("beats_wait_at_no_core", core("rready"), when=gets)
        self.claim("beats_wait_at_no_core", axi.rready == self._all("rready").all())
        is_own = Mux(is_tensor, self.sets.first.bit_select(self.watched, 1), axi.rid[1:] == self.watched)
        self.claim("beats_reach_exactly_their_cores", gets == (axi.rready & is_own), when=axi.rvalid)
        self.claim("beats_reach_exactly_their_cores", ~gets, when=~axi.rvalid)
        for name in ("rdata", "rresp", "rlast"):
            self.claim("beats_are_unchanged", core(name) == getattr(axi, name), when=gets)
        self.claim("beats_are_unchanged", core("rid") == is_tensor, when=gets)
        for number, (own, shared) in enumerate(zip(self.at_core, self.at_memory, strict=True)):
            oldest = (own.count != 0) & (own.first == shared.first)
            self.claim("beats_answer_the_oldest_burst", oldest, when=gets & (core("rid") == number))

    def _claim_writes(self) -> None:
        axi, core, m = self.axi, self._core, self.m
        for port in self.dut.s_axi:
            beat = Cat(port.wdata, port.wstrb, port.wlast)
            past_beat, waited = self.past(beat), self.past(port.wvalid & ~port.wready)
            self.assume(~waited | (port.wvalid & (beat == past_beat)))
        takes = self._all("awvalid") & self._all("awready")
        watched_takes = core("awvalid") & core("awready")
        senders = self._queue(CORES, QUEUED, "senders", takes.any(), takes, axi.wvalid & axi.wready & axi.wlast)
        self._claim_fifo("writes", senders)
        # A taken address waits at memory's port.
        shape = StructLayout({"addr": len(axi.awaddr), "len": 8, "id": len(axi.awid)})
        waits, pending = Signal(), Signal(shape)
        m.d.sync += waits.eq(takes.any() | (waits & ~axi.awready))
        for k, port in enumerate(self.dut.s_axi):
            with m.If(takes[k]):
                m.d.sync += [pending.addr.eq(port.awaddr), pending.len.eq(port.awlen), pending.id.eq(k << 1)]
        self.claim("write_addresses_reach_memory", axi.awvalid == waits)
        self.claim("write_addresses_reach_memory", takes.any() == 0, when=waits & ~axi.awready)
        self.claim("write_addresses_reach_memory", (takes & (takes - 1)) == 0)
        self.claim(
            "write_addresses_reach_memory", Cat(axi.awaddr, axi.awlen, axi.awid) == pending.as_value(), when=waits
        )
        is_sender = (senders.count != 0) & senders.first.bit_select(self.watched, 1)
        valid = (senders.count != 0) & (senders.first & self._all("wvalid")).any()
        self.claim("write_data_follow_addresses", axi.wvalid == valid)
        self.claim("write_data_follow_addresses", core("wready") == (axi.wready & is_sender))
        for name in ("wdata", "wstrb", "wlast"):
            self.claim("write_data_follow_addresses", getattr(axi, name) == core(name), when=axi.wvalid & is_sender)
        self.lemma((senders.first & (senders.first - 1)) == 0, when=senders.count != 0)
        for place, entry in enumerate(senders.entries):
            self.lemma((entry & (entry - 1)) == 0, when=senders.count > place)
        self.claim(
            "answers_reach_exactly_their_core",
            core("bvalid") == (axi.bvalid & axi.bready & (axi.bid[1:] == self.watched)),
        )
        self.claim("answers_reach_exactly_their_core", axi.bready == self._all("bready").all())
        self.claim("answers_reach_exactly_their_core", core("bresp") == axi.bresp, when=core("bvalid"))
        self._claim_turns(
            "writes", core("awvalid") & (senders.count < QUEUED), ~axi.awvalid | axi.awready, takes, watched_takes
        )


def _port(name: str, value: int) -> Fault:
    return lambda m, sound, outer: getattr(outer.m_axi, name).eq(value)


def _in_reset(channel: str) -> Fault:
    name = f"{channel}valid"
    return lambda m, sound, outer: getattr(outer.axi, name).eq(getattr(sound.axi, name) | ResetSignal())


def _changes(channel: str, name: str) -> Fault:
    """Invert a signal's lowest bit in the cycle after the channel's transfer was not accepted."""

    def fault(m: Module, sound: Any, outer: Any) -> None:
        waited = Signal()
        m.d.sync += waited.eq(getattr(outer.axi, f"{channel}valid") & ~getattr(outer.axi, f"{channel}ready"))
        m.d.comb += getattr(outer.axi, name).eq(getattr(sound.axi, name) ^ waited)

    return fault


def _replaces(name: str, function: Callable[[Value, Any], Any]) -> Fault:
    """Replace what a join sees or drives at the last core's port by a function of the sound signal and of all ports."""

    def fault(m: Module, sound: Any, outer: Any) -> None:
        is_output = outer.signature.members["cores"].signature.flip().members[name].flow == In
        source, target = (sound, outer) if is_output else (outer, sound)
        m.d.comb += getattr(target.cores[LAST], name).eq(function(getattr(source.cores[LAST], name), outer))

    return fault


def _first_goes_first(name: str) -> Fault:
    """Hide the offers of other cores while the first core has one."""

    def fault(m: Module, sound: Any, outer: Any) -> None:
        for port, hidden in zip(outer.cores[1:], sound.cores[1:], strict=True):
            m.d.comb += getattr(hidden, name).eq(getattr(port, name) & ~getattr(outer.cores[0], name))

    return fault


LAST = CORES - 1
FAULTS: Mapping[type[Block], Mapping[str, Mapping[str, Fault]]] = {
    SmallJoin: {
        "bursts_are_incr_with_the_cores_attributes": {
            "ARBURST is FIXED": _port("arburst", 0),
            "AWPROT is another": _port("awprot", 1),
        },
    },
    ReadJoin: {
        "none_is_lost_and_none_repeated": {
            "a burst is read although its core still offers it": _replaces(
                "arready", lambda ready, ports: ready & ~ports.axi.arready
            )
        },
        "only_offers_are_taken": {
            "an idle core is ready": _replaces("arready", lambda ready, ports: ready | ~ports.cores[LAST].arvalid)
        },
        "shared_bursts_are_read_once": {
            "the last core does not share with the first": _replaces(
                "arready", lambda ready, ports: ready & ~ports.cores[0].arready
            )
        },
        "cores_that_share_offer_the_same": {
            "lengths are not compared": _replaces("arlen", lambda _, ports: ports.cores[0].arlen),
            "the top bit of addresses is not compared": _replaces(
                "araddr", lambda address, ports: Cat(address[:-1], ports.cores[0].araddr[-1])
            ),
            "a descriptor is shared": _replaces("arid", lambda *_: 1),
        },
        "shared_bursts_wait": {
            "they wait one cycle less": lambda m, sound, outer: sound.patience.eq(
                outer.patience - outer.patience.any()
            ),
            "none is shared": lambda m, sound, outer: sound.shared.base.eq(-1),
        },
        "the_end_of_patience_is_reported": {
            "it is not": lambda m, sound, outer: outer.expired.eq(0),
            "a burst of all cores ends it": lambda m, sound, outer: outer.expired.eq(
                sound.expired | Cat(port.arready for port in sound.cores).all()
            ),
        },
        "reads_are_taken_without_delay": {
            "shared bursts wait one cycle more": lambda m, sound, outer: sound.patience.eq(
                outer.patience + ~outer.patience.all()
            )
        },
        "no_core_starves_in_reads": {"the first core has priority": _first_goes_first("arvalid")},
        "beats_wait_at_no_core": {
            "a core's stall is ignored": _replaces("rready", lambda *_: 1),
            "a beat is offered before all cores are ready": _replaces(
                "rvalid", lambda valid, ports: valid | (ports.axi.rvalid & (ports.axi.rid == LAST << 1))
            ),
        },
        "beats_reach_exactly_their_cores": {
            "the last beat is lost": _replaces("rvalid", lambda valid, ports: valid & ~ports.axi.rlast),
            "the first core gets descriptors of the last": lambda m, sound, outer: sound.axi.rid.eq(
                outer.axi.rid[:LAST]
            ),
        },
        "beats_are_unchanged": {
            "errors are lost": _replaces("rresp", lambda *_: 0),
            "the ID is constant": _replaces("rid", lambda *_: 1),
        },
        "beats_answer_the_oldest_burst": {
            "the top bit of addresses is lost": lambda m, sound, outer: outer.axi.araddr.eq(sound.axi.araddr[:-1]),
            "the last core's lengths are the first one's": _replaces("arlen", lambda _, ports: ports.cores[0].arlen),
        },
    },
    ShortQueue: {
        "turn_queues_are_fifos": {
            "a set is lost that enters while another leaves": lambda m, sound, outer: sound.adds.eq(
                outer.adds & ~outer.leaves
            ),
            "the last core is lost": lambda m, sound, outer: outer.first.eq(sound.first[:LAST]),
            "it never fills": lambda m, sound, outer: outer.full.eq(0),
        },
        "reads_are_taken_without_delay": {
            "the last place of the queue is not used": lambda m, sound, outer: outer.full.eq(
                sound.full | (sound.first != 0)
            )
        },
    },
    WriteJoin: {
        "write_addresses_reach_memory": {"all IDs are 0": lambda m, sound, outer: outer.axi.awid.eq(0)},
        "write_data_follow_addresses": {
            "the last core's data are the first one's": _replaces("wdata", lambda _, ports: ports.cores[0].wdata),
            "a burst ends before memory takes its last beat": lambda m, sound, outer: sound.axi.wready.eq(1),
        },
        "answers_reach_exactly_their_core": {
            "the first core gets answers of the last": lambda m, sound, outer: sound.axi.bid.eq(outer.axi.bid[:LAST]),
            "errors are lost": _replaces("bresp", lambda *_: 0),
        },
        "writes_are_taken_without_delay": {
            "memory's ready is ignored": lambda m, sound, outer: sound.axi.awready.eq(0)
        },
        "no_core_starves_in_writes": {"the first core has priority": _first_goes_first("awvalid")},
    },
}
"""By component, the faults that break each claim, by title."""

BROKEN_VARIANTS = (
    *(
        BrokenVariant(claim=f"{channel}_{rule}", title=title, kind=kind, fault=fault, depth=10)
        for channel, kind, payload in (
            ("ar", ReadJoin, "arlen"),
            ("aw", WriteJoin, "awid"),
            ("w", WriteJoin, "wstrb"),
        )
        for rule, title, fault in (
            ("reset", "VALID is high in reset", _in_reset(channel)),
            ("stays", "VALID falls before READY", _changes(channel, f"{channel}valid")),
            ("stable", "the payload changes while it waits", _changes(channel, payload)),
        )
    ),
    *(variant for kind, faults in FAULTS.items() for variant in make_variants(kind, faults, depth=10)),
)

PROOF = Proof(
    name="join",
    build=JoinHarness,
    applies=lambda config: config == CORE,
    broken_variants=BROKEN_VARIANTS,
    broken_config=CORE,
    cover_depth=12,
)
