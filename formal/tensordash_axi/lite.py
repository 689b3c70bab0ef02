"""Rules of AXI4-Lite as properties of one clock cycle."""

from amaranth.hdl import Module, Signal

from .monitor import Monitor, check_integer
from .rules import lite_rules

__all__ = ["AxiLiteRules"]

EXOKAY = 1


class AxiLiteRules(Monitor):
    """Checks an AXI4-Lite port.

    Parameters
    ----------
    data_bits : int
        32 or 64.
    address_bits : int
        1 to 64.
    limit : int
        Maximum number of outstanding reads, write addresses and write data, 1 to 255.
    within : int
        Maximum time in which a slave accepts a transfer or responds, in cycles; 0: unbounded.

    Members
    -------
    bus : In
        All signals of the port, by their names in lower case (`araddr`, ...). `awprot` and `arprot` may stay
        unconnected.
    applies, holds : Out
        As in `Monitor`, with one bit for each of `lite_rules`.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: ARM IHI 0022E, chapters A3 and B1.
    """

    def __init__(self, *, data_bits: int = 32, address_bits: int = 32, limit: int = 15, within: int = 0) -> None:
        if data_bits not in (32, 64):
            raise ValueError(f"data_bits must be 32 or 64, not {data_bits!r}")
        check_integer("address_bits", address_bits, 1, 64)
        self.limit = check_integer("limit", limit, 1, 255)
        bus = {
            **{f"{c}addr": (address_bits, 0) for c in ("ar", "aw")},
            **{f"{c}prot": (3, 0) for c in ("ar", "aw")},
            "wdata": (data_bits, 0),
            "wstrb": (data_bits // 8, (1 << data_bits // 8) - 1),
            "rdata": (data_bits, 0),
            "rresp": (2, 0),
            "bresp": (2, 0),
            **{f"{c}{name}": (1, 0) for c in ("ar", "r", "aw", "w", "b") for name in ("valid", "ready")},
        }
        super().__init__(bus, lite_rules(bounded=within > 0), check_integer("within", within, 0, 1 << 16))
        self.counts = {channel: Signal(range(limit + 1), name=f"{channel}_count") for channel in ("ar", "aw", "w")}
        """Accepted reads, write addresses and write data without a response."""

    def elaborate(self, platform):
        """Add the rules, with counters of outstanding transfers."""
        m = Module()
        bus, counts = self.bus, self.counts
        self.add_handshake_rules(
            m,
            {
                "ar": ("araddr", "arprot"),
                "aw": ("awaddr", "awprot"),
                "w": ("wdata", "wstrb"),
                "r": ("rdata", "rresp"),
                "b": ("bresp",),
            },
        )
        responded = {channel: Signal(name=f"{channel}_responded") for channel in ("r", "b")}
        for channel, signal in responded.items():
            m.d.comb += signal.eq(getattr(bus, f"{channel}valid") & getattr(bus, f"{channel}ready"))
        for channel, count in counts.items():
            taken = getattr(bus, f"{channel}valid") & getattr(bus, f"{channel}ready")
            m.d.sync += count.eq(count + taken - responded["r" if channel == "ar" else "b"])
            self.define_rule(m, f"{channel}_limit", count != self.limit, when=taken)
        pending = {"r": counts["ar"] != 0, "b": (counts["aw"] != 0) & (counts["w"] != 0)}
        for channel, is_pending in pending.items():
            valid = getattr(bus, f"{channel}valid")
            self.define_rule(m, f"{channel}_requested", is_pending, when=valid)
            self.define_rule(m, f"{channel}_okay", getattr(bus, f"{channel}resp") != EXOKAY, when=valid)
        # A slave may wait until both address and data are valid before it accepts one of them.
        data = bus.wvalid | (counts["w"] > counts["aw"])
        address = bus.awvalid | (counts["aw"] > counts["w"])
        r_waits, b_waits = bus.rvalid & ~bus.rready, bus.bvalid & ~bus.bready
        self.add_response_rules(
            m,
            {
                "ar": (bus.arvalid & ~r_waits, bus.arready),
                "aw": (bus.awvalid & ~b_waits & data, bus.awready),
                "w": (bus.wvalid & ~b_waits & address, bus.wready),
                "r": (pending["r"], bus.rvalid),
                "b": (pending["b"], bus.bvalid),
            },
        )
        return m
