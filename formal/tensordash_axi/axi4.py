"""Rules of AXI4."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib.data import StructLayout

from .bursts import burst_layout, burst_rules, lanes
from .monitor import Monitor, require
from .queue import Queue
from .rules import axi4_rules

__all__ = ["Axi4Rules"]

EXOKAY = 1
CONTROL = ("addr", "len", "size", "burst", "lock", "cache", "prot", "qos")


class Axi4Rules(Monitor):
    """Looks at an AXI4 port.

    Reads are kept in a queue for each ID until their last beat, writes until their response: data may come before their
    address, as the specification allows.

    Parameters
    ----------
    data_bits : int
        A power of two, 8 to 1024.
    address_bits : int
        12 to 64.
    id_bits : int
        0 to 4; there is a queue for each ID.
    reads, writes : int
        Reads of an ID, and write bursts, on their way that can be counted, 1 to 255.
    addresses : int
        Of those, write addresses that were taken before all their data, that can be counted.
    leading : int
        Bursts of write data that were taken before their address, that can be counted.
    within : int
        Cycles within which a slave takes what is offered and answers; 0: any number.

    Members
    -------
    bus : In
        All signals of the port by their names in lower case (`araddr`, ...), IDs only if `id_bits` is not 0. What is
        not connected has the specification's default: beats as wide as the bus, INCR, normal accesses, OKAY.
    applies, holds : Out
        As of `Monitor`: a bit for each of `axi4_rules`.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: ARM IHI 0022E, chapters A3, A4, A5, A7, and A10.3 for defaults.
    """

    def __init__(
        self,
        *,
        data_bits: int,
        address_bits: int = 32,
        id_bits: int = 0,
        reads: int = 16,
        writes: int = 16,
        addresses: int = 4,
        leading: int = 2,
        within: int = 0,
    ) -> None:
        require("data_bits", data_bits, 8, 1024)
        if data_bits & (data_bits - 1):
            raise ValueError(f"data_bits must be a power of two, not {data_bits}")
        require("address_bits", address_bits, 12, 64)
        require("id_bits", id_bits, 0, 4)
        for name, value in {"reads": reads, "writes": writes, "addresses": addresses, "leading": leading}.items():
            require(name, value, 1, 255)
        self.bus_bytes = data_bits // 8
        widths = {"len": (8, 0), "size": (3, self.bus_bytes.bit_length() - 1), "burst": (2, 1), "lock": (1, 0)}
        widths |= {"id": (id_bits, 0), "addr": (address_bits, 0), "cache": (4, 0), "prot": (3, 0), "qos": (4, 0)}
        bus = {
            **{f"{c}{name}": width for c in ("ar", "aw") for name, width in widths.items()},
            "wdata": (data_bits, 0),
            "wstrb": (self.bus_bytes, (1 << self.bus_bytes) - 1),
            "wlast": (1, 0),
            "rid": (id_bits, 0),
            "rdata": (data_bits, 0),
            "rresp": (2, 0),
            "rlast": (1, 0),
            "bid": (id_bits, 0),
            "bresp": (2, 0),
            **{f"{c}{name}": (1, 0) for c in ("ar", "r", "aw", "w", "b") for name in ("valid", "ready")},
        }
        super().__init__(bus, axi4_rules(bounded=within > 0), require("within", within, 0, 1 << 16))
        self.ids = range(1 << id_bits)
        self.burst = burst_layout(self.bus_bytes, id_bits)
        read = StructLayout({"len": 8, "lock": 1})
        self.reads = [Queue(read, reads, f"reads_{number}") for number in self.ids]
        """By ID: reads that were taken, until their last beat."""
        self.came = [Signal(8, name=f"came_{number}") for number in self.ids]
        """By ID: beats of the oldest read that have come."""
        self.writes = Queue(self.burst, addresses, "writes")
        """Write addresses that were taken, until their last data."""
        self.leading = Queue(8, leading, "leading")
        """Bursts of data that were taken before their address: how many beats, less one."""
        self.sent = Signal(8)
        """Beats that were taken of the burst whose data come."""
        self.answers = [Queue(1, writes, f"answers_{number}") for number in self.ids]
        """By ID: writes that were taken whole, until their response: whether they are exclusive."""

    def elaborate(self, platform):
        """Handshakes, addresses, reads, writes."""
        m = Module()
        self.handshakes(
            m,
            {
                **{c: [f"{c}{name}" for name in ("id", *CONTROL)] for c in ("ar", "aw")},
                "w": ("wdata", "wstrb", "wlast"),
                "r": ("rid", "rdata", "rresp", "rlast"),
                "b": ("bid", "bresp"),
            },
        )
        for channel in ("ar", "aw"):
            for name, (when, then) in burst_rules(self.bus, channel, self.bus_bytes).items():
                self.state(m, f"{channel}_{name}", then, when=getattr(self.bus, f"{channel}valid") & when)
        self._look_at_reads(m)
        self._look_at_writes(m)
        bus = self.bus
        r_waits, b_waits = bus.rvalid & ~bus.rready, bus.bvalid & ~bus.bready
        data = bus.wvalid | (self.leading.count != 0)
        address = bus.awvalid | (self.writes.count != 0)
        self.patience(
            m,
            {
                "ar": (bus.arvalid & ~r_waits, bus.arready),
                "aw": (bus.awvalid & ~b_waits & data, bus.awready),
                "w": (bus.wvalid & ~b_waits & address, bus.wready),
                "r": (self._any(queue.count != 0 for queue in self.reads), bus.rvalid),
                "b": (self._any(queue.count != 0 for queue in self.answers), bus.bvalid),
            },
        )
        return m

    @staticmethod
    def _any(values) -> Value:
        found: Value = Const(0)
        for value in values:
            found |= value
        return found

    def _is(self, channel: str, number: int) -> Value:
        """A channel's ID is this one."""
        return getattr(self.bus, f"{channel}id") == number if len(self.ids) > 1 else Const(1)

    def _look_at_reads(self, m: Module) -> None:
        bus = self.bus
        asked, comes = bus.arvalid & bus.arready, bus.rvalid & bus.rready
        there, last, exclusive, fits = (Signal(name=f"read_{name}") for name in ("there", "last", "exclusive", "fits"))
        for number, queue, came in zip(self.ids, self.reads, self.came, strict=True):
            here = comes & self._is("r", number)
            queue.move(
                m,
                push=asked & self._is("ar", number),
                entry=Const(0, 9) | bus.arlen | bus.arlock << 8,
                pop=here & bus.rlast,
            )
            with m.If(here):
                m.d.sync += came.eq(Mux(bus.rlast, 0, came + 1))
            with m.If(self._is("r", number)):
                m.d.comb += [there.eq(queue.count != 0), last.eq(came == queue.first.len)]
                m.d.comb += exclusive.eq(queue.first.lock)
            with m.If(self._is("ar", number)):
                m.d.comb += fits.eq(queue.fits(here & bus.rlast))
        self.state(m, "r_requested", there, when=bus.rvalid)
        self.state(m, "r_last", bus.rlast == last, when=bus.rvalid & there)
        self.state(m, "r_exokay", exclusive, when=bus.rvalid & there & (bus.rresp == EXOKAY))
        self.state(m, "ar_limit", fits, when=asked)

    def _look_at_writes(self, m: Module) -> None:
        bus, writes, leading, sent = self.bus, self.writes, self.leading, self.sent
        addressed, moved = bus.awvalid & bus.awready, bus.wvalid & bus.wready
        ended = Signal(name="data_ended")
        m.d.comb += ended.eq(moved & bus.wlast)
        with m.If(moved):
            m.d.sync += sent.eq(Mux(bus.wlast, 0, sent + 1))
        offered, this = Signal(self.burst, name="offered"), Signal(self.burst, name="this_burst")
        m.d.comb += [getattr(offered, name).eq(getattr(bus, f"aw{name}")) for name in ("len", "size", "burst", "lock")]
        if len(self.ids) > 1:
            m.d.comb += offered.id.eq(bus.awid)
        m.d.comb += offered.low.eq(bus.awaddr[: len(offered.low)])
        # The address of data that come now: one that was taken, or the one that is offered.
        known, next_is_offered = Signal(name="address_known"), Signal(name="address_offered")
        m.d.comb += [
            next_is_offered.eq((writes.count == 0) & (leading.count == 0)),
            known.eq((writes.count != 0) | (next_is_offered & bus.awvalid)),
            this.eq(Mux(writes.count != 0, writes.first, offered)),
        ]
        catches_up = addressed & (leading.count != 0)  # the address of data that have all come
        meets = addressed & next_is_offered & ended  # both end in this cycle
        ends_oldest = ended & (writes.count != 0)
        writes.move(m, push=addressed & (leading.count == 0) & ~meets, entry=offered, pop=ends_oldest)
        leading.move(m, push=ended & (writes.count == 0) & ~meets, entry=sent, pop=catches_up)
        complete = Signal(name="write_complete")
        whole = Signal(self.burst, name="complete_burst")
        m.d.comb += [complete.eq(catches_up | meets | ends_oldest), whole.eq(Mux(ends_oldest, this, offered))]
        valid = bus.wvalid & known
        self.state(m, "w_last", bus.wlast == (sent == this.len), when=valid)
        self.state(m, "w_strobes", (bus.wstrb & ~lanes(m, this, sent, self.bus_bytes)) == 0, when=valid)
        ahead = bus.awvalid & (writes.count == 0)
        self.state(
            m,
            "aw_length",
            Mux(leading.count != 0, bus.awlen == leading.first, sent <= bus.awlen),
            when=ahead & ((leading.count != 0) | (sent != 0)),
        )
        self._look_at_answers(m, complete, whole)
        answers_fit = Signal(name="answers_fit")
        for number, queue in zip(self.ids, self.answers, strict=True):
            with m.If(whole.id == number if len(self.ids) > 1 else 1):
                m.d.comb += answers_fit.eq(queue.fits(0))
        self.state(m, "aw_limit", writes.fits(ends_oldest) & (answers_fit | ~complete), when=addressed | complete)
        self.state(m, "w_limit", leading.fits(catches_up), when=ended & (writes.count == 0) & ~meets)

    def _look_at_answers(self, m: Module, complete: Signal, whole) -> None:
        bus = self.bus
        there, exclusive = Signal(name="answer_there"), Signal(name="answer_exclusive")
        for number, queue in zip(self.ids, self.answers, strict=True):
            mine = complete & (whole.id == number if len(self.ids) > 1 else 1)
            queue.move(m, push=mine, entry=whole.lock, pop=bus.bvalid & bus.bready & self._is("b", number))
            with m.If(self._is("b", number)):
                m.d.comb += [there.eq(queue.count != 0), exclusive.eq(queue.first)]
        self.state(m, "b_requested", there, when=bus.bvalid)
        self.state(m, "b_exokay", exclusive, when=bus.bvalid & there & (bus.bresp == EXOKAY))
