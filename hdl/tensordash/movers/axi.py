"""AXI4 and AXI4-Lite as port types."""

from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out, Signature

from ..configuration.registers import PAGE_BITS

__all__ = [
    "PAGE",
    "PAGE_BITS",
    "Axi4Signature",
    "AxiLiteSignature",
    "AxiReadSignature",
    "AxiWriteSignature",
    "bounds_layout",
    "fixed",
    "request_layout",
]

INCREMENTING = 1
"""INCR, the only burst type used: each beat is at the next address."""
PAGE = 1 << PAGE_BITS
"""Bytes of a page. No burst crosses from one page into the next."""


def bounds_layout(address_bits: int) -> StructLayout:
    """Return the layout of the bounds of bursts: the first page, which may be above all addresses, and the last."""
    return StructLayout({"base": address_bits - PAGE_BITS + 1, "limit": address_bits - PAGE_BITS})


def request_layout(address_bits: int, count_bits: int) -> StructLayout:
    """Return the layout of a request: the address of the first beat, counted in beats, and the number of beats (>= 1).

    The address has one bit more than the bus. That bit is set above the highest address.
    """
    return StructLayout({"beat": address_bits + 1, "count": count_bits})


def _read(data_bits: int, address_bits: int, id_bits: int) -> dict:
    return {
        **({"arid": Out(id_bits)} if id_bits else {}),
        "araddr": Out(address_bits),
        "arlen": Out(8),
        "arvalid": Out(1),
        "arready": In(1),
        **({"rid": In(id_bits)} if id_bits else {}),
        "rdata": In(data_bits),
        "rresp": In(2),
        "rlast": In(1),
        "rvalid": In(1),
        "rready": Out(1),
    }


def _write(data_bits: int, address_bits: int, id_bits: int) -> dict:
    return {
        **({"awid": Out(id_bits)} if id_bits else {}),
        "awaddr": Out(address_bits),
        "awlen": Out(8),
        "awvalid": Out(1),
        "awready": In(1),
        "wdata": Out(data_bits),
        "wstrb": Out(data_bits // 8),
        "wlast": Out(1),
        "wvalid": Out(1),
        "wready": In(1),
        **({"bid": In(id_bits)} if id_bits else {}),
        "bresp": In(2),
        "bvalid": In(1),
        "bready": Out(1),
    }


class AxiReadSignature(Signature):
    """Variable signals of AXI4's channels AR and R, with the master's directions. Bursts are whole beats, INCR.

    Parameters
    ----------
    data_bits, address_bits : int
        Widths of the bus.
    id_bits : int
        Width of the IDs; 0 for a port without IDs.

    Members
    -------
    arid, araddr, arlen, arvalid : Out
    arready : In(1)
    rid, rdata, rresp, rlast, rvalid : In
    rready : Out(1)

    Source: AMBA AXI Protocol (IHI 0022), "Read address channel" and "Read data channel".
    """

    def __init__(self, *, data_bits: int, address_bits: int, id_bits: int = 0) -> None:
        super().__init__(_read(data_bits, address_bits, id_bits))


class AxiWriteSignature(Signature):
    """Variable signals of AXI4's channels AW, W and B, with the master's directions. Bursts are whole beats, INCR.

    Parameters
    ----------
    data_bits, address_bits, id_bits
        As in `AxiReadSignature`.

    Members
    -------
    awid, awaddr, awlen, awvalid, wdata, wstrb, wlast, wvalid : Out
    awready, wready : In(1)
    bid, bresp, bvalid : In
    bready : Out(1)

    Source: AMBA AXI Protocol (IHI 0022), "Write address channel", "Write data channel", "Write response channel".
    """

    def __init__(self, *, data_bits: int, address_bits: int, id_bits: int = 0) -> None:
        super().__init__(_write(data_bits, address_bits, id_bits))


class Axi4Signature(Signature):
    """A complete AXI4 port, with the master's directions: reads, writes, and the constant signals that `fixed` drives.

    Parameters
    ----------
    data_bits, address_bits, id_bits
        As in `AxiReadSignature`.

    Members
    -------
    The members of `AxiReadSignature` and `AxiWriteSignature`
    arsize, awsize : Out(3)
        The base-2 logarithm of the bus's bytes.
    arburst, awburst : Out(2)
        INCR.
    arlock, awlock : Out(1), arcache, awcache : Out(4), arprot, awprot : Out(3), arqos, awqos : Out(4)
        The configuration sets `cache` and `prot`. The others are 0: no locks, no priority.

    Source: AMBA AXI Protocol (IHI 0022), "Signal descriptions".
    """

    def __init__(self, *, data_bits: int, address_bits: int, id_bits: int) -> None:
        self.data_bits = data_bits
        members = _read(data_bits, address_bits, id_bits) | _write(data_bits, address_bits, id_bits)
        for channel in ("ar", "aw"):
            widths = {"size": 3, "burst": 2, "lock": 1, "cache": 4, "prot": 3, "qos": 4}
            members |= {f"{channel}{name}": Out(width) for name, width in widths.items()}
        super().__init__(members)


def fixed(axi, *, prot: int, cache: int) -> list:
    """Assign the constant signals of an AXI4 port. `prot` and `cache` come from the configuration."""
    size = (axi.signature.data_bits // 8).bit_length() - 1
    values = {"size": size, "burst": INCREMENTING, "lock": 0, "cache": cache, "prot": prot, "qos": 0}
    return [getattr(axi, f"{channel}{name}").eq(value) for channel in ("ar", "aw") for name, value in values.items()]


class AxiLiteSignature(Signature):
    """A 32-bit AXI4-Lite port, with the master's directions.

    Parameters
    ----------
    address_bits : int
        Width of a byte address.

    Members
    -------
    awaddr : Out(address_bits), awprot : Out(3), awvalid : Out(1), awready : In(1)
    wdata : Out(32), wstrb : Out(4), wvalid : Out(1), wready : In(1)
    bresp : In(2), bvalid : In(1), bready : Out(1)
    araddr : Out(address_bits), arprot : Out(3), arvalid : Out(1), arready : In(1)
    rdata : In(32), rresp : In(2), rvalid : In(1), rready : Out(1)

    Source: AMBA AXI Protocol (IHI 0022), "AMBA AXI4-Lite".
    """

    def __init__(self, *, address_bits: int) -> None:
        super().__init__(
            {
                "awaddr": Out(address_bits),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(address_bits),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(32),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )
