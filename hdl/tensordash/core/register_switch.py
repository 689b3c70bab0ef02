"""Register switch: one AXI4-Lite port for the registers of several blocks."""

from functools import reduce
from operator import and_

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..configuration.registers import ADDRESS_BITS
from ..movers.axi import AxiLiteSignature
from ..one_hot import one_hot_mux

__all__ = ["RegisterSwitch"]


class RegisterSwitch(Block):
    """Passes accesses to one of several ports, which the address bits above a port's own choose.

    Addresses above the last port go to the last port. Reads and writes do not wait for each other.

    Timing: an access passes through from the cycle after its arrival on, if the previous one is answered. An answer
    passes through in the cycle in which it arrives.

    Parameters
    ----------
    ports : int
        Number of ports, 2 to 32.

    Members
    -------
    s_axi : In(AxiLiteSignature)
        Accesses.
    ports : Out(AxiLiteSignature), array
        Ports that take address and data of a write together.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: AMBA AXI Protocol (IHI 0022), "AMBA AXI4-Lite".
    """

    def __init__(self, *, ports: int) -> None:
        self.number = require_int("ports", ports, 2, 32)
        bits = ADDRESS_BITS + (ports - 1).bit_length()
        super().__init__(
            {
                "s_axi": In(AxiLiteSignature(address_bits=bits)),
                "ports": Out(AxiLiteSignature(address_bits=ADDRESS_BITS)).array(ports),
            }
        )

    def elaborate(self, platform):
        """Connect the ports. Reads and writes each store the port of the access that is not answered yet."""
        m = Module()
        axi, ports = self.s_axi, self.ports
        for port in ports:
            m.d.comb += [
                port.awaddr.eq(axi.awaddr),
                port.awprot.eq(axi.awprot),
                port.wdata.eq(axi.wdata),
                port.wstrb.eq(axi.wstrb),
                port.araddr.eq(axi.araddr),
                port.arprot.eq(axi.arprot),
            ]
        self._route(m, "write", ("aw", "w"), "b", ("bresp",))
        self._route(m, "read", ("ar",), "r", ("rdata", "rresp"))
        return m

    def _route(self, m: Module, kind: str, requests: tuple[str, ...], answer: str, payload: tuple[str, ...]) -> None:
        """Connect the channels of reads or of writes. No output depends on an input of the same cycle."""
        axi, ports, last = self.s_axi, self.ports, self.number - 1
        number = getattr(axi, f"{requests[0]}addr")[ADDRESS_BITS:]
        chosen = Signal(self.number, name=f"{kind}_port")
        asking = Signal(self.number, name=f"{kind}_to")  # the port that is offered the access; 0 if none is
        answering = Signal(self.number, name=f"{kind}_of")  # the port that answers; 0 if all accesses are answered
        offered, taken, answered = (Signal(name=f"{kind}_{name}") for name in ("offered", "taken", "answered"))
        m.d.comb += [
            *(bit.eq(number >= last if k == last else number == k) for k, bit in enumerate(chosen)),
            offered.eq(reduce(and_, (getattr(axi, f"{each}valid") for each in requests))),
            taken.eq(getattr(axi, f"{requests[0]}ready")),
            answered.eq(getattr(axi, f"{answer}valid") & getattr(axi, f"{answer}ready")),
        ]
        for name in (*(f"{each}ready" for each in requests), f"{answer}valid", *payload):
            choices = asking if name.endswith("ready") else answering
            m.d.comb += getattr(axi, name).eq(one_hot_mux(choices, [getattr(port, name) for port in ports]))
        for k, port in enumerate(ports):
            m.d.comb += [
                *(getattr(port, f"{each}valid").eq(asking[k]) for each in requests),
                getattr(port, f"{answer}ready").eq(getattr(axi, f"{answer}ready") & answering[k]),
            ]
        with m.If(taken):
            m.d.sync += [asking.eq(0), answering.eq(asking)]
        with m.Elif(answered):
            m.d.sync += answering.eq(0)
        with m.Elif(offered & ~asking.any() & ~answering.any()):
            m.d.sync += asking.eq(chosen)
