"""A LiteX system with a core, for simulation. A port for an AXI4-Lite master takes the place of a processor.

    python examples/litex/system.py VERILOG MEMORY OUTPUT.v

VERILOG is the folder that `tensordash generate --preset core --set core.address_bits=32` wrote. MEMORY is a key of
`BUS_WIDTHS`.
"""

import logging
import sys
from pathlib import Path

from litex.build.generic_platform import Pins
from litex.build.sim import SimPlatform
from litex.gen import ClockDomain
from litex.gen.fhdl.verilog import convert
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCMini
from litex.soc.interconnect import axi
from tensordash_litex import TensorDash, WideRam

__all__ = ["BUS_WIDTHS", "CORE_BASE", "RAM_BASE", "RAM_BYTES", "System", "write_verilog"]

CORE_BASE = 0x8000_0000
RAM_BASE = 0x4000_0000
RAM_BYTES = 1 << 14
BUS_WIDTHS = {"wide-ram": 32, "bus-128": 128, "bus-32": 32}
"""Width of the SoC's bus in bits, by memory: a `WideRam`, or the SoC's RAM, which the core accesses over the bus."""


class System(SoCMini):
    """A core, a RAM and a port for the master; the pins are `host_*`, `sys_clk`, `sys_rst` and `irq`.

    Parameters
    ----------
    verilog : Path
        Folder of the core's Verilog.
    memory : str
        A key of `BUS_WIDTHS`.
    """

    def __init__(self, verilog: Path, memory: str) -> None:
        host = axi.AXILiteInterface(data_width=32, address_width=32)
        pins = [("sys_clk", 0, Pins(1)), ("sys_rst", 0, Pins(1)), ("irq", 0, Pins(1)), *host.get_ios("host")]
        platform = SimPlatform("SIM", pins, name="litex")
        self.clock_domains.cd_sys = ClockDomain()
        SoCMini.__init__(self, platform, clk_freq=int(50e6), bus_data_width=BUS_WIDTHS[memory])
        self.comb += [
            self.cd_sys.clk.eq(platform.request("sys_clk")),
            self.cd_sys.rst.eq(platform.request("sys_rst")),
            *host.connect_to_pads(platform.request("host"), mode="slave"),
        ]
        self.bus.add_master("host", host)
        self.core = TensorDash(platform, verilog)
        self.bus.add_slave("core", self.core.registers, SoCRegion(origin=CORE_BASE, size=0x1000, cached=False))
        self.comb += platform.request("irq").eq(self.core.irq)
        if memory == "wide-ram":
            self.ram = WideRam(self.core.memory, RAM_BYTES)
            self.bus.add_slave("ram", self.ram.bus, SoCRegion(origin=RAM_BASE, size=RAM_BYTES))
        else:
            self.add_ram("main_ram", RAM_BASE, RAM_BYTES)
            self.bus.add_master("core", self.core.memory)


def write_verilog(verilog: Path, memory: str, output: Path) -> None:
    """Write the system's Verilog. Its module is `litex`."""
    logging.disable(logging.INFO)
    system = System(verilog, memory)
    system.finalize()
    convert(system, system.platform.constraint_manager.get_io_signals(), name="litex").write(str(output))


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in BUS_WIDTHS:
        sys.exit(f"usage: system.py VERILOG {{{','.join(BUS_WIDTHS)}}} OUTPUT.v")
    write_verilog(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
