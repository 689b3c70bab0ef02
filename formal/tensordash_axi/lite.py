"""Rules of AXI4-Lite."""

from amaranth.hdl import Module, Signal

from .monitor import Monitor, require
from .rules import lite_rules

__all__ = ["AxiLiteRules"]

EXOKAY = 1


class AxiLiteRules(Monitor):
    """Looks at an AXI4-Lite port.

    Parameters
    ----------
    data_bits : int
        32 or 64.
    address_bits : int
        1 to 64.
    limit : int
        Reads, write addresses and write data on their way that can be counted, 1 to 255.
    within : int
        Cycles within which a slave takes what is offered and answers; 0: any number.

    Members
    -------
    bus : In
        All signals of the port by their names in lower case (`araddr`, ...); `awprot` and `arprot` need not be
        connected.
    applies, holds : Out
        As of `Monitor`: a bit for each of `lite_rules`.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: ARM IHI 0022E, chapters A3 and B1.
    """

    def __init__(self, *, data_bits: int = 32, address_bits: int = 32, limit: int = 15, within: int = 0) -> None:
        if data_bits not in (32, 64):
            raise ValueError(f"data_bits must be 32 or 64, not {data_bits!r}")
        require("address_bits", address_bits, 1, 64)
        self.limit = require("limit", limit, 1, 255)
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
        super().__init__(bus, lite_rules(bounded=within > 0), require("within", within, 0, 1 << 16))
        self.counts = {channel: Signal(range(limit + 1), name=f"{channel}_count") for channel in ("ar", "aw", "w")}
        """Reads, write addresses, and write data that were taken and have no answer."""

    def elaborate(self, platform):
        """Three counts, and what they say of answers."""
        m = Module()
        bus, counts = self.bus, self.counts
        self.handshakes(
            m,
            {
                "ar": ("araddr", "arprot"),
                "aw": ("awaddr", "awprot"),
                "w": ("wdata", "wstrb"),
                "r": ("rdata", "rresp"),
                "b": ("bresp",),
            },
        )
        answered = {channel: Signal(name=f"{channel}_answered") for channel in ("r", "b")}
        for channel, signal in answered.items():
            m.d.comb += signal.eq(getattr(bus, f"{channel}valid") & getattr(bus, f"{channel}ready"))
        for channel, count in counts.items():
            taken = getattr(bus, f"{channel}valid") & getattr(bus, f"{channel}ready")
            m.d.sync += count.eq(count + taken - answered["r" if channel == "ar" else "b"])
            self.state(m, f"{channel}_limit", count != self.limit, when=taken)
        due = {"r": counts["ar"] != 0, "b": (counts["aw"] != 0) & (counts["w"] != 0)}
        for channel, there in due.items():
            valid = getattr(bus, f"{channel}valid")
            self.state(m, f"{channel}_requested", there, when=valid)
            self.state(m, f"{channel}_okay", getattr(bus, f"{channel}resp") != EXOKAY, when=valid)
        # A slave may wait for address and data both before it takes either.
        data = bus.wvalid | (counts["w"] > counts["aw"])
        address = bus.awvalid | (counts["aw"] > counts["w"])
        r_waits, b_waits = bus.rvalid & ~bus.rready, bus.bvalid & ~bus.bready
        self.patience(
            m,
            {
                "ar": (bus.arvalid & ~r_waits, bus.arready),
                "aw": (bus.awvalid & ~b_waits & data, bus.awready),
                "w": (bus.wvalid & ~b_waits & address, bus.wready),
                "r": (due["r"], bus.rvalid),
                "b": (due["b"], bus.bvalid),
            },
        )
        return m
