"""AXI4 and AXI4-Lite as types of ports."""

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
"""The only kind of burst: every beat at the next address. A.k.a. INCR."""
PAGE = 1 << PAGE_BITS
"""Bytes; no burst crosses from one into the next."""


def bounds_layout(address_bits: int) -> StructLayout:
    """The pages that bursts may be in: the first one, which may be above all addresses, and the last one."""
    return StructLayout({"base": address_bits - PAGE_BITS + 1, "limit": address_bits - PAGE_BITS})


def request_layout(address_bits: int, count_bits: int) -> StructLayout:
    """Consecutive beats of memory: the address of the first, counted in beats, and how many (at least 1).

    The address has one bit more than those of the bus: it is set above the highest address.
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
    """What changes of an AXI4 port's channels AR and R, as the master sees it. Bursts are whole beats, INCR.

    Parameters
    ----------
    data_bits, address_bits : int
        Of the bus.
    id_bits : int
        Of the IDs; without them if 0.

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
    """What changes of an AXI4 port's channels AW, W and B, as the master sees it. Bursts are whole beats, INCR.

    Parameters
    ----------
    data_bits, address_bits, id_bits
        As of `AxiReadSignature`.

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
    """A whole AXI4 port, as the master sees it: reads, writes, and what is always the same, which `fixed` drives.

    Parameters
    ----------
    data_bits, address_bits, id_bits
        As of `AxiReadSignature`.

    Members
    -------
    Those of `AxiReadSignature` and `AxiWriteSignature`
    arsize, awsize : Out(3)
        The logarithm to base 2 of the bus's bytes.
    arburst, awburst : Out(2)
        INCR.
    arlock, awlock : Out(1), arcache, awcache : Out(4), arprot, awprot : Out(3), arqos, awqos : Out(4)
        Configuration; no locks, no priority.

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
    """Assign the constant signals of an AXI4 port's bursts, `prot` and `cache` of the configuration among them."""
    size = (axi.signature.data_bits // 8).bit_length() - 1
    values = {"size": size, "burst": INCREMENTING, "lock": 0, "cache": cache, "prot": prot, "qos": 0}
    return [getattr(axi, f"{channel}{name}").eq(value) for channel in ("ar", "aw") for name, value in values.items()]


class AxiLiteSignature(Signature):
    """An AXI4-Lite port of 32 bits, as the master sees it.

    Parameters
    ----------
    address_bits : int
        Of an address in bytes.

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
