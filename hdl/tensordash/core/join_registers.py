"""Join registers: which reads several cores share."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.registers import ADDRESS_BITS, PAGE_BITS
from ..configuration.registers import WORD_BITS as WORD
from ..movers.axi import AxiLiteSignature, bounds_layout
from ..movers.read_join import PATIENCE_BITS

__all__ = ["JOIN_REGISTERS", "JoinRegisters", "join_addresses"]

JOIN_REGISTERS = ("shared_base", "shared_base_high", "shared_limit", "shared_limit_high", "patience")
"""Registers by their place: the lowest and the highest address of shared tensors, low and high half; cycles."""


def join_addresses(cores: int) -> dict[str, int]:
    """Return the address of each register, in bytes. They follow the registers of all cores."""
    return {name: (cores << ADDRESS_BITS) + 4 * place for place, name in enumerate(JOIN_REGISTERS)}


class JoinRegisters(Block):
    """Registers of a join. All are 0 after reset. Other addresses read as 0, and writes there have no effect.

    Bits 11..0 of `shared_base` read as 0, those of `shared_limit` as 1: whole pages are shared. With a base above the
    limit nothing is shared. `expired` sets `patience` to 0, also in the cycle of a write: cores do not wait for each
    other from then on.

    Timing: as in `Registers`.

    Parameters
    ----------
    address_bits : int
        Width of an address in memory, 32 to 64.

    Members
    -------
    axi : In(AxiLiteSignature)
        The port.
    shared : Out(bounds_layout), patience : Out(16), expired : In(1)
        As in `ReadJoin`.

    Source: docs/integration.md, "Several cores"; AMBA AXI Protocol (IHI 0022), "AMBA AXI4-Lite".
    """

    def __init__(self, *, address_bits: int) -> None:
        self.address_bits = address_bits
        super().__init__(
            {
                "axi": In(AxiLiteSignature(address_bits=ADDRESS_BITS)),
                "shared": Out(bounds_layout(address_bits)),
                "patience": Out(PATIENCE_BITS),
                "expired": In(1),
            }
        )

    def elaborate(self, platform):
        """Build a register for each word, and a mux for reads."""
        m = Module()
        axi = self.axi
        taken = Signal()  # address and data of a write are taken in this cycle
        mask = Signal(WORD)
        words = {name: Signal(WORD, name=f"{name}_word") for name in JOIN_REGISTERS}
        m.d.sync += taken.eq(axi.awvalid & axi.wvalid & ~taken & (~axi.bvalid | axi.bready))
        m.d.comb += [axi.awready.eq(taken), axi.wready.eq(taken), mask.eq(Cat(bit.replicate(8) for bit in axi.wstrb))]
        with m.If(taken):
            m.d.sync += axi.bvalid.eq(1)
        with m.Elif(axi.bready):
            m.d.sync += axi.bvalid.eq(0)
        m.d.comb += axi.arready.eq(~axi.rvalid)
        with m.If(axi.arvalid & axi.arready):
            m.d.sync += axi.rvalid.eq(1)
        with m.Elif(axi.rready):
            m.d.sync += axi.rvalid.eq(0)
        page = (1 << PAGE_BITS) - 1
        bits = {"shared_base_high": self.address_bits - WORD, "shared_limit_high": self.address_bits - WORD}
        bits["patience"] = PATIENCE_BITS
        with m.If(axi.arvalid & axi.arready):
            m.d.sync += axi.rdata.eq(0)
            with m.Switch(axi.araddr[2:]):
                for k, (name, word) in enumerate(words.items()):
                    with m.Case(k):
                        m.d.sync += axi.rdata.eq(word | page if name == "shared_limit" else word)
        for k, (name, word) in enumerate(words.items()):
            writable = (1 << bits.get(name, WORD)) - 1
            writable &= ~page if name in ("shared_base", "shared_limit") else -1
            with m.If(taken & (axi.awaddr[2:] == k)):
                m.d.sync += word.eq((word & ~mask) | (axi.wdata & mask & writable))
        with m.If(self.expired):
            m.d.sync += words["patience"].eq(0)
        base, limit = (Cat(words[name], words[f"{name}_high"]) for name in ("shared_base", "shared_limit"))
        m.d.comb += [
            self.shared.base.eq(base[PAGE_BITS : self.address_bits]),
            self.shared.limit.eq(limit[PAGE_BITS : self.address_bits]),
            self.patience.eq(words["patience"]),
        ]
        return m
