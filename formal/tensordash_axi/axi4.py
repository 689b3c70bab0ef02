"""Rules of AXI4 as properties of one clock cycle."""

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib.data import StructLayout

from .bursts import burst_layout, burst_rules, lanes
from .monitor import Monitor, check_integer
from .queue import Queue
from .rules import axi4_rules

__all__ = ["Axi4Rules"]

EXOKAY = 1
CONTROL = ("addr", "len", "size", "burst", "lock", "cache", "prot", "qos")


class Axi4Rules(Monitor):
    """Checks an AXI4 port.

    Each ID has queues that hold reads until their last beat and writes until their response. Write data may precede
    their address, as the specification allows.

    Parameters
    ----------
    data_bits : int
        A power of two, 8 to 1024.
    address_bits : int
        12 to 64.
    id_bits : int
        0 to 4.
    reads, writes : int
        Maximum number of outstanding reads and of outstanding writes per ID, 1 to 255.
    addresses : int
        Maximum number of accepted write addresses whose last data are pending, 1 to 255.
    leading : int
        Maximum number of write data bursts that precede their address, 1 to 255.
    within : int
        Maximum time in which a slave accepts a transfer or responds, in cycles; 0: unbounded.

    Members
    -------
    bus : In
        All signals of the port, by their names in lower case (`araddr`, ...). IDs exist only if `id_bits` is not 0.
        Unconnected signals have the specification's defaults: full-width beats, INCR, normal accesses, OKAY.
    applies, holds : Out
        As in `Monitor`, with one bit for each of `axi4_rules`.

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
        check_integer("data_bits", data_bits, 8, 1024)
        if data_bits & (data_bits - 1):
            raise ValueError(f"data_bits must be a power of two, not {data_bits}")
        check_integer("address_bits", address_bits, 12, 64)
        check_integer("id_bits", id_bits, 0, 4)
        for name, value in {"reads": reads, "writes": writes, "addresses": addresses, "leading": leading}.items():
            check_integer(name, value, 1, 255)
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
        super().__init__(bus, axi4_rules(bounded=within > 0), check_integer("within", within, 0, 1 << 16))
        self.ids = range(1 << id_bits)
        self.burst = burst_layout(self.bus_bytes, id_bits)
        read = StructLayout({"len": 8, "lock": 1})
        self.reads = [Queue(read, reads, f"reads_{number}") for number in self.ids]
        """Outstanding reads, by ID."""
        self.read_beats = [Signal(8, name=f"read_beats_{number}") for number in self.ids]
        """Received beats of the oldest read, by ID."""
        self.writes = Queue(self.burst, addresses, "writes")
        """Accepted write addresses whose last data are pending."""
        self.leading = Queue(8, leading, "leading")
        """Complete bursts of write data whose address is pending. An entry is the number of beats minus one."""
        self.sent = Signal(8)
        """Accepted beats of the current burst of write data."""
        self.responses = [Queue(1, writes, f"responses_{number}") for number in self.ids]
        """Complete writes whose response is pending, by ID. An entry is 1 if the write is exclusive."""

    def elaborate(self, platform):
        """Add the rules of handshakes, addresses, reads and writes."""
        m = Module()
        self.add_handshake_rules(
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
                self.define_rule(m, f"{channel}_{name}", then, when=getattr(self.bus, f"{channel}valid") & when)
        self._add_read_rules(m)
        self._add_write_rules(m)
        bus = self.bus
        r_waits, b_waits = bus.rvalid & ~bus.rready, bus.bvalid & ~bus.bready
        data = bus.wvalid | (self.leading.count != 0)
        address = bus.awvalid | (self.writes.count != 0)
        self.add_response_rules(
            m,
            {
                "ar": (bus.arvalid & ~r_waits, bus.arready),
                "aw": (bus.awvalid & ~b_waits & data, bus.awready),
                "w": (bus.wvalid & ~b_waits & address, bus.wready),
                "r": (self._any(queue.count != 0 for queue in self.reads), bus.rvalid),
                "b": (self._any(queue.count != 0 for queue in self.responses), bus.bvalid),
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
        """Return whether a channel's ID equals a number."""
        return getattr(self.bus, f"{channel}id") == number if len(self.ids) > 1 else Const(1)

    def _add_read_rules(self, m: Module) -> None:
        bus = self.bus
        accepts, receives = bus.arvalid & bus.arready, bus.rvalid & bus.rready
        pending, last, exclusive, fits = (
            Signal(name=f"read_{name}") for name in ("pending", "last", "exclusive", "fits")
        )
        for number, queue, beats in zip(self.ids, self.reads, self.read_beats, strict=True):
            here = receives & self._is("r", number)
            queue.update(
                m,
                push=accepts & self._is("ar", number),
                entry=Const(0, 9) | bus.arlen | bus.arlock << 8,
                pop=here & bus.rlast,
            )
            with m.If(here):
                m.d.sync += beats.eq(Mux(bus.rlast, 0, beats + 1))
            with m.If(self._is("r", number)):
                m.d.comb += [pending.eq(queue.count != 0), last.eq(beats == queue.first.len)]
                m.d.comb += exclusive.eq(queue.first.lock)
            with m.If(self._is("ar", number)):
                m.d.comb += fits.eq(queue.fits(here & bus.rlast))
        self.define_rule(m, "r_requested", pending, when=bus.rvalid)
        self.define_rule(m, "r_last", bus.rlast == last, when=bus.rvalid & pending)
        self.define_rule(m, "r_exokay", exclusive, when=bus.rvalid & pending & (bus.rresp == EXOKAY))
        self.define_rule(m, "ar_limit", fits, when=accepts)

    def _add_write_rules(self, m: Module) -> None:
        bus, writes, leading, sent = self.bus, self.writes, self.leading, self.sent
        address_accepted, data_accepted = bus.awvalid & bus.awready, bus.wvalid & bus.wready
        ended = Signal(name="data_ended")
        m.d.comb += ended.eq(data_accepted & bus.wlast)
        with m.If(data_accepted):
            m.d.sync += sent.eq(Mux(bus.wlast, 0, sent + 1))
        offered, current = Signal(self.burst, name="offered"), Signal(self.burst, name="current_burst")
        m.d.comb += [getattr(offered, name).eq(getattr(bus, f"aw{name}")) for name in ("len", "size", "burst", "lock")]
        if len(self.ids) > 1:
            m.d.comb += offered.id.eq(bus.awid)
        m.d.comb += offered.low.eq(bus.awaddr[: len(offered.low)])
        # The current data belong to the oldest accepted address or, without one, to the offered address.
        known, next_is_offered = Signal(name="address_known"), Signal(name="address_offered")
        m.d.comb += [
            next_is_offered.eq((writes.count == 0) & (leading.count == 0)),
            known.eq((writes.count != 0) | (next_is_offered & bus.awvalid)),
            current.eq(Mux(writes.count != 0, writes.first, offered)),
        ]
        catches_up = address_accepted & (leading.count != 0)  # the address of complete data
        meets = address_accepted & next_is_offered & ended  # address and last data are accepted in the same cycle
        ends_oldest = ended & (writes.count != 0)
        writes.update(m, push=address_accepted & (leading.count == 0) & ~meets, entry=offered, pop=ends_oldest)
        leading.update(m, push=ended & (writes.count == 0) & ~meets, entry=sent, pop=catches_up)
        complete = Signal(name="write_complete")
        complete_burst = Signal(self.burst, name="complete_burst")
        m.d.comb += [
            complete.eq(catches_up | meets | ends_oldest),
            complete_burst.eq(Mux(ends_oldest, current, offered)),
        ]
        valid = bus.wvalid & known
        self.define_rule(m, "w_last", bus.wlast == (sent == current.len), when=valid)
        self.define_rule(m, "w_strobes", (bus.wstrb & ~lanes(m, current, sent, self.bus_bytes)) == 0, when=valid)
        ahead = bus.awvalid & (writes.count == 0)
        self.define_rule(
            m,
            "aw_length",
            Mux(leading.count != 0, bus.awlen == leading.first, sent <= bus.awlen),
            when=ahead & ((leading.count != 0) | (sent != 0)),
        )
        self._add_response_order_rules(m, complete, complete_burst)
        responses_fit = Signal(name="responses_fit")
        for number, queue in zip(self.ids, self.responses, strict=True):
            with m.If(complete_burst.id == number if len(self.ids) > 1 else 1):
                m.d.comb += responses_fit.eq(queue.fits(0))
        self.define_rule(
            m, "aw_limit", writes.fits(ends_oldest) & (responses_fit | ~complete), when=address_accepted | complete
        )
        self.define_rule(m, "w_limit", leading.fits(catches_up), when=ended & (writes.count == 0) & ~meets)

    def _add_response_order_rules(self, m: Module, complete: Signal, burst) -> None:
        bus = self.bus
        pending, exclusive = Signal(name="response_pending"), Signal(name="response_exclusive")
        for number, queue in zip(self.ids, self.responses, strict=True):
            own = complete & (burst.id == number if len(self.ids) > 1 else 1)
            queue.update(m, push=own, entry=burst.lock, pop=bus.bvalid & bus.bready & self._is("b", number))
            with m.If(self._is("b", number)):
                m.d.comb += [pending.eq(queue.count != 0), exclusive.eq(queue.first)]
        self.define_rule(m, "b_requested", pending, when=bus.bvalid)
        self.define_rule(m, "b_exokay", exclusive, when=bus.bvalid & pending & (bus.bresp == EXOKAY))
