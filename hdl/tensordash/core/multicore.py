"""Multicore: several cores that share one memory port, and read once what all of them read."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..movers.join import Join
from .core import Core
from .join_registers import JoinRegisters
from .register_switch import RegisterSwitch

__all__ = ["Multicore"]


class Multicore(Block):
    """Several cores of one configuration. Each executes its own program.

    Registers of core k begin at byte 4096 * k, and those of `JoinRegisters` at 4096 times the number of cores.

    Parameters
    ----------
    config : CoreConfig
        The cores.
    cores : int
        Number of cores, 2 to 16.

    Members
    -------
    s_axi : In(AxiLiteSignature)
        Registers.
    m_axi : Out(Axi4Signature)
        Memory, as in `Join`.
    irq : Out(cores)
        The interrupt of each core.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/integration.md, "Several cores".
    """

    def __init__(self, config: CoreConfig, cores: int) -> None:
        self.join = Join(config, cores)
        self.switch = RegisterSwitch(ports=cores + 1)
        self.registers = JoinRegisters(address_bits=config.address_bits)
        self.cores = [Core(config) for _ in range(cores)]
        super().__init__(
            {
                "s_axi": In(self.switch.s_axi.signature.flip()),
                "m_axi": Out(self.join.m_axi.signature),
                "irq": Out(cores),
            }
        )

    def elaborate(self, platform):
        """Connect the cores to the join and to the switch."""
        m = Module()
        join, switch = self.join, self.switch
        parts = {"memory_join": join, "switch": switch, "registers": self.registers}
        for name, block in (parts | {f"core_{k}": core for k, core in enumerate(self.cores)}).items():
            m.submodules[name] = placed(block, platform)
        wiring.connect(m, wiring.flipped(self.s_axi), switch.s_axi)
        wiring.connect(m, join.m_axi, wiring.flipped(self.m_axi))
        *ports, last = switch.ports
        wiring.connect(m, last, self.registers.axi)
        m.d.comb += [
            join.shared.eq(self.registers.shared),
            join.patience.eq(self.registers.patience),
            self.registers.expired.eq(join.expired),
        ]
        for core, port, memory in zip(self.cores, ports, join.s_axi, strict=True):
            wiring.connect(m, port, core.s_axi)
            wiring.connect(m, core.m_axi, memory)
        m.d.comb += self.irq.eq(Cat(core.irq for core in self.cores))
        return m
