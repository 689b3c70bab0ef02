"""Registers: the core's registers at an AXI4-Lite port."""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.core_config import CoreConfig
from ..configuration.register_map import constant_values, reset_value, writable_mask
from ..configuration.registers import ADDRESS_BITS, COUNTERS, PAGE_BITS, REGISTERS, Register, named
from ..configuration.registers import WORD_BITS as WORD
from ..movers.axi import AxiLiteSignature, bounds_layout

__all__ = ["ADDRESS_BITS", "Registers"]


class Registers(Block):
    """Serves reads and writes of `REGISTERS`, and runs a soft reset.

    A soft reset does not reset this block. `halt` is high from the write of `control.reset` until no transaction is
    outstanding (`idle`). Then `restart` is high for a cycle. It resets all other units, and the registers except for
    `queue_...` and `bounds_...`.

    Timing: a read is answered in the cycle after its address was taken. Address and data of a write are taken together,
    in the cycle after both have arrived, and answered in the next cycle. The port takes one read and one write in two
    cycles. Its outputs depend on registers only.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Members
    -------
    axi : In(AxiLiteSignature)
        The port.
    enable : Out(1), queue_base : Out(address_bits + 1), queue_size : Out(4), tail : Out(32)
        Values of the registers. The highest bit of `queue_base` is set if the address does not fit the bus.
    bounds : Out(bounds_layout)
        The pages that the core may use.
    busy, failed : In(1), head, done, error_index : In(32), error : In(4)
        Values for the registers.
    ended : In(1)
        An `end` is done in this cycle.
    counters : In(32, len(COUNTERS))
        Copied counters.
    take, clear : Out(1)
        Copy all counters; reset them to zero.
    halt : Out(1)
        A soft reset has begun: no AXI transaction may begin.
    idle : In(1)
        While `halt`: no AXI transaction is outstanding.
    restart : Out(1)
        All other units are reset in this cycle.
    irq : Out(1)
        The interrupt, high until its cause is cleared.

    Source: docs/core.md, "Registers"; AMBA AXI Protocol (IHI 0022), "AMBA AXI4-Lite".
    """

    def __init__(self, *, config: CoreConfig) -> None:
        self.config = config
        super().__init__(
            {
                "axi": In(AxiLiteSignature(address_bits=ADDRESS_BITS)),
                "enable": Out(1),
                "queue_base": Out(config.address_bits + 1),
                "bounds": Out(bounds_layout(config.address_bits)),
                "queue_size": Out(4),
                "tail": Out(WORD),
                "busy": In(1),
                "failed": In(1),
                "head": In(WORD),
                "done": In(WORD),
                "error": In(4),
                "error_index": In(WORD),
                "ended": In(1),
                "counters": In(ArrayLayout(WORD, len(COUNTERS))),
                "take": Out(1),
                "clear": Out(1),
                "halt": Out(1),
                "idle": In(1),
                "restart": Out(1),
                "irq": Out(1),
            }
        )

    def elaborate(self, platform):
        """Build a register for each writable word, and a mux for reads."""
        m = Module()
        written, data, mask = self._written(m)
        words = {
            each.name: Signal(WORD, name=each.name, init=reset_value(self.config, each.name))
            for each in REGISTERS
            if each.access in ("rw", "w1c")
        }
        words["cause"] = Signal(2, name="cause")
        for name, word in words.items():
            if name != "cause":
                with m.If(written[name]):
                    m.d.sync += word.eq(self._merged(named(name), word, data, mask))
        acts = data & mask
        resetting = Signal()
        was_failed = Signal()
        cause = words["cause"]
        with m.If(written["control"] & acts[1]):
            m.d.sync += resetting.eq(1)
        happens = Cat(self.ended, self.failed & ~was_failed)
        m.d.sync += [
            was_failed.eq(self.failed),
            cause.eq((cause & ~Mux(written["cause"], acts[:2], 0)) | happens),
        ]
        with m.If(self.restart):
            m.d.sync += [resetting.eq(0), was_failed.eq(0)]
            m.d.sync += [word.eq(0) for name, word in words.items() if not name.startswith(("queue_", "bounds_"))]
        bits = self.config.address_bits
        # Each address has one more bit than the bus: it is set if the address does not fit.
        base, low, high = (
            Cat(words[name], words[f"{name}_high"])[: bits + 1]
            for name in ("queue_base", "bounds_base", "bounds_limit")
        )
        m.d.comb += [
            self.enable.eq(words["control"][0]),
            self.queue_base.eq(base),
            self.bounds.base.eq(low[PAGE_BITS:]),
            self.bounds.limit.eq(Mux(high[bits:], -1, high[PAGE_BITS:bits])),
            self.queue_size.eq(words["queue_size"]),
            self.tail.eq(words["tail"]),
            self.take.eq(written["snapshot"] & acts[0]),
            self.clear.eq(written["snapshot"] & acts[1]),
            self.halt.eq(resetting),
            self.restart.eq(resetting & self.idle),
            self.irq.eq((cause & words["interrupt_enable"]).any()),
        ]
        readable: dict[str, Value] = {name: self.counters[i] for i, (name, _) in enumerate(COUNTERS)}
        readable |= {"status": Cat(self.busy, resetting, self.failed), "error": self.error}
        readable |= {name: getattr(self, name) for name in ("head", "done", "error_index")}
        self._read(
            m,
            {**{name: Const(value, WORD) for name, value in constant_values(self.config).items()}, **words, **readable},
        )
        return m

    def _merged(self, register: Register, word: Signal, data: Value, mask: Signal) -> Value:
        """Return a register's next value for a write.

        Address bits that do not fit the bus are merged into their lowest one. It stays set until all are written.
        """
        value = ((word & ~mask) | (data & mask)) & writable_mask(self.config, register)
        first = self.config.address_bits - WORD
        if register.name == "bounds_limit":
            return value | ((1 << PAGE_BITS) - 1)
        if not register.name.endswith("_high") or first == WORD:
            return value
        stays = word[first] & ~mask[first:].all()
        return value | (((data & mask)[first:].any() | stays) << first)

    def _written(self, m: Module) -> tuple[dict[str, Signal], Value, Signal]:
        """Decode a write: the register that is written in this cycle, the data, and the mask of written bits."""
        axi = self.axi
        taken = Signal()  # address and data are taken in this cycle
        mask = Signal(WORD)
        m.d.sync += taken.eq(axi.awvalid & axi.wvalid & ~taken & (~axi.bvalid | axi.bready))
        m.d.comb += [
            axi.awready.eq(taken),
            axi.wready.eq(taken),
            mask.eq(Cat(strobe.replicate(8) for strobe in axi.wstrb)),
        ]
        with m.If(taken):
            m.d.sync += axi.bvalid.eq(1)
        with m.Elif(axi.bready):
            m.d.sync += axi.bvalid.eq(0)
        written = {}
        for register in REGISTERS:
            if register.access != "ro":
                this = written[register.name] = Signal(name=f"writes_{register.name}")
                m.d.comb += this.eq(taken & (axi.awaddr[2:] == register.offset >> 2))
        return written, axi.wdata, mask

    def _read(self, m: Module, values: Mapping[str, Value]) -> None:
        axi = self.axi
        m.d.comb += axi.arready.eq(~axi.rvalid)
        with m.If(axi.arvalid & axi.arready):
            m.d.sync += [axi.rvalid.eq(1), axi.rdata.eq(0)]
            with m.Switch(axi.araddr[2:]):
                for register in REGISTERS:
                    if register.access != "wo":
                        with m.Case(register.offset >> 2):
                            m.d.sync += axi.rdata.eq(values[register.name])
        with m.Elif(axi.rready):
            m.d.sync += axi.rvalid.eq(0)
