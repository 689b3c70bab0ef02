"""A core as a LiteX module, and a RAM as wide as the core's bus. Copy this file into your design.

    tensordash generate --preset core --set core.address_bits=32 -o verilog

`system.py` is a system that uses both.
"""

from pathlib import Path

from litex.gen import ClockSignal, If, Instance, LiteXModule, Memory, ResetSignal, Signal
from litex.soc.interconnect import axi, wishbone

__all__ = ["TensorDash", "WideRam"]

SOURCES = ("tensordash.v", "tensordash_memories.v")
REGISTER_ADDRESS_BITS = 12
ADDRESS_FIELDS = ("id", "addr", "len", "size", "burst", "lock", "cache", "prot", "qos")


class TensorDash(LiteXModule):
    """A core with its registers, its memory interface and its interrupt.

    Parameters
    ----------
    platform : litex.build.generic_platform.GenericPlatform
        Platform to add the Verilog to.
    folder : Path
        Folder that `tensordash generate` wrote, with `core.address_bits = 32`.
    data_width : int
        Bits of the core's bus, `core.axi_bits`.

    Attributes
    ----------
    registers : AXILiteInterface
        Slave interface. Pass it to `soc.bus.add_slave`.
    memory : AXIInterface
        Master interface. Pass it to a `WideRam`, or to `soc.bus.add_master`.
    irq : Signal
        Interrupt, high while an enabled cause is set.
    """

    def __init__(self, platform, folder: Path, data_width: int = 128) -> None:
        self.registers = registers = axi.AXILiteInterface(data_width=32, address_width=32)
        self.memory = memory = axi.AXIInterface(data_width=data_width, address_width=32, id_width=1)
        self.irq = Signal()
        ports = {
            "i_clk": ClockSignal("sys"),
            "i_rst": ResetSignal("sys"),
            "o_irq": self.irq,
            "i_s_axi_awaddr": registers.aw.addr[:REGISTER_ADDRESS_BITS],
            "i_s_axi_araddr": registers.ar.addr[:REGISTER_ADDRESS_BITS],
            **_inputs("s_axi_aw", registers.aw, ("prot",)),
            **_inputs("s_axi_w", registers.w, ("data", "strb")),
            **_outputs("s_axi_b", registers.b, ("resp",)),
            **_inputs("s_axi_ar", registers.ar, ("prot",)),
            **_outputs("s_axi_r", registers.r, ("data", "resp")),
            **_outputs("m_axi_aw", memory.aw, ADDRESS_FIELDS),
            **_outputs("m_axi_w", memory.w, ("data", "strb", "last")),
            **_inputs("m_axi_b", memory.b, ("id", "resp")),
            **_outputs("m_axi_ar", memory.ar, ADDRESS_FIELDS),
            **_inputs("m_axi_r", memory.r, ("id", "data", "resp", "last")),
        }
        self.specials += Instance("tensordash_core", **ports)
        for name in SOURCES:
            platform.add_source(str(folder / name))


def _inputs(prefix: str, channel, fields: tuple[str, ...]) -> dict[str, Signal]:
    """Return the ports of a channel whose data the core receives."""
    ports = {f"i_{prefix}{field}": getattr(channel, field) for field in ("valid", *fields)}
    return {**ports, f"o_{prefix}ready": channel.ready}


def _outputs(prefix: str, channel, fields: tuple[str, ...]) -> dict[str, Signal]:
    """Return the ports of a channel whose data the core sends."""
    ports = {f"o_{prefix}{field}": getattr(channel, field) for field in ("valid", *fields)}
    return {**ports, f"i_{prefix}ready": channel.ready}


class WideRam(LiteXModule):
    """A RAM that transfers one beat per cycle to or from a core, and has a second port for the SoC's bus.

    It accepts one read burst and one write burst at a time. Read data follow the address by two cycles.

    Parameters
    ----------
    memory : AXIInterface
        Interface of the core. All its bursts are aligned INCR bursts of complete beats.
    size : int
        Size in bytes.

    Attributes
    ----------
    bus : wishbone.Interface
        Slave interface of 32 bits. Pass it to `soc.bus.add_slave`.
    """

    def __init__(self, memory, size: int) -> None:
        bytes_of_beat = memory.data_width // 8
        storage = Memory(memory.data_width, size // bytes_of_beat)
        wide = wishbone.Interface(data_width=memory.data_width, address_width=32, addressing="word")
        self.bus = wishbone.Interface(data_width=32, address_width=32, addressing="word")
        self.sram = wishbone.SRAM(storage, bus=wide)
        self.converter = wishbone.Converter(self.bus, wide)
        address_low = bytes_of_beat.bit_length() - 1
        self._add_reads(memory, storage, address_low)
        self._add_writes(memory, storage, address_low)

    def _add_reads(self, memory, storage, address_low: int) -> None:
        port = storage.get_port(has_re=True)
        self.specials += port
        ar, r = memory.ar, memory.r
        busy, read = Signal(), Signal()
        word, beats_left, burst_id = Signal(len(port.adr)), Signal(8), Signal()
        self.comb += [
            ar.ready.eq(~busy),
            read.eq(busy & (~r.valid | r.ready)),
            port.adr.eq(word),
            port.re.eq(read),
            r.data.eq(port.dat_r),
        ]
        self.sync += [
            If(
                ar.valid & ar.ready,
                busy.eq(1),
                word.eq(ar.addr[address_low:]),
                beats_left.eq(ar.len),
                burst_id.eq(ar.id),
            ),
            If(r.ready, r.valid.eq(0)),
            If(
                read,
                r.valid.eq(1),
                r.last.eq(beats_left == 0),
                r.id.eq(burst_id),
                word.eq(word + 1),
                beats_left.eq(beats_left - 1),
                If(beats_left == 0, busy.eq(0)),
            ),
        ]

    def _add_writes(self, memory, storage, address_low: int) -> None:
        port = storage.get_port(write_capable=True, we_granularity=8)
        self.specials += port
        aw, w, b = memory.aw, memory.w, memory.b
        busy, word = Signal(), Signal(len(port.adr))
        self.comb += [
            aw.ready.eq(~busy & ~b.valid),
            w.ready.eq(busy),
            port.adr.eq(word),
            port.dat_w.eq(w.data),
            If(w.valid & w.ready, port.we.eq(w.strb)),
        ]
        self.sync += [
            If(aw.valid & aw.ready, busy.eq(1), word.eq(aw.addr[address_low:]), b.id.eq(aw.id)),
            If(w.valid & w.ready, word.eq(word + 1), If(w.last, busy.eq(0), b.valid.eq(1))),
            If(b.valid & b.ready, b.valid.eq(0)),
        ]
