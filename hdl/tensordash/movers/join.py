"""Join: several cores at one AXI4 port of memory."""

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from .axi import Axi4Signature, bounds_layout, fixed
from .read_join import PATIENCE_BITS, ReadJoin, number_bits
from .write_join import WriteJoin

__all__ = ["Join"]


class Join(Block):
    """Joins the memory ports of several cores of one configuration. What all cores read is read once.

    `ReadJoin` and `WriteJoin` say how bursts share the port, and their timing. Registers of the cores have ports of
    their own.

    Parameters
    ----------
    config : CoreConfig
        The cores.
    cores : int
        Number of cores, 2 to 16.

    Members
    -------
    s_axi : In(Axi4Signature), array
        The cores' memory ports.
    m_axi : Out(Axi4Signature)
        To memory. Its IDs have one bit more than a core's number.
    shared, patience, expired
        As in `ReadJoin`.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/integration.md, "Several cores".
    """

    def __init__(self, config: CoreConfig, cores: int) -> None:
        if not isinstance(config, CoreConfig):
            raise TypeError(f"config must be a CoreConfig, not {config!r}")
        id_bits = 1 + number_bits(cores)
        self.config = config
        bus = {"data_bits": config.axi_bits, "address_bits": config.address_bits}
        super().__init__(
            {
                "s_axi": In(Axi4Signature(**bus, id_bits=1)).array(cores),
                "m_axi": Out(Axi4Signature(**bus, id_bits=id_bits)),
                "shared": In(bounds_layout(config.address_bits)),
                "patience": In(PATIENCE_BITS),
                "expired": Out(1),
            }
        )
        self.reads = ReadJoin(cores=cores, **bus)
        self.writes = WriteJoin(cores=cores, **bus)

    def elaborate(self, platform):
        """Connect the reads and the writes of all ports."""
        m = Module()
        m.submodules.reads = placed(self.reads, platform)
        m.submodules.writes = placed(self.writes, platform)
        m.d.comb += fixed(self.m_axi, prot=self.config.axi_prot, cache=self.config.axi_cache)
        m.d.comb += [
            self.reads.shared.eq(self.shared),
            self.reads.patience.eq(self.patience),
            self.expired.eq(self.reads.expired),
        ]
        for part in (self.reads, self.writes):
            self._connect(m, part.axi, self.m_axi)
            for inner, outer in zip(part.cores, self.s_axi, strict=True):
                self._connect(m, inner, outer)
        return m

    def _connect(self, m: Module, inner, outer) -> None:
        """Connect a part's port to the port of the same direction."""
        for name, member in inner.signature.members.items():
            inside, outside = getattr(inner, name), getattr(outer, name)
            m.d.comb += outside.eq(inside) if member.flow == Out else inside.eq(outside)
