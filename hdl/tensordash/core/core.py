"""Core: a tile with its memories and movers, which executes programs of descriptors."""

from typing import Any

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import UNITS
from ..configuration.registers import COUNTERS
from ..memory.buffer import Buffer, PairBuffer
from ..memory.step_index import StepIndex
from ..memory.stream_buffer import PairStreamBuffer, StreamBuffer
from ..movers.axi import Axi4Signature, AxiLiteSignature, fixed
from ..movers.dropping_layout import DroppingLayout
from ..movers.layout import Layout
from ..movers.load import Load
from ..movers.pair_layout import PairLayout
from ..movers.read_arbiter import ReadArbiter
from ..movers.store import Store
from ..tile.tile import Tile
from .command_queue import CommandQueue
from .indexed_multiply import IndexedMultiply
from .multiply import Multiply
from .output import COUNTS, Output
from .registers import ADDRESS_BITS, Registers
from .sequencer import Sequencer
from .skipping_multiply import SkippingMultiply
from .unit_counters import TILE_COUNTERS, UnitCounters

__all__ = ["Core"]

LAYOUTS = ("layout_a", "layout_b")
READERS = (*LAYOUTS, "output", "store")
WRITERS = ("output", "load")


class Core(Block):
    """Executes programs of descriptors, as docs/core.md defines.

    Timing: units overlap as tokens allow. In each cycle the tile takes as many steps as it can from the stream buffers,
    and each layout writes up to a group into them (up to two with `layout_groups` 2).

    Parameters
    ----------
    config : CoreConfig
        The core.

    Members
    -------
    s_axi : In(AxiLiteSignature)
        Registers.
    m_axi : Out(Axi4Signature)
        Memory. Reads with ID 0 fetch descriptors, those with ID 1 load tensors.
    irq : Out(1)
        The interrupt.

    Raises
    ------
    TypeError
        If `config` is not a CoreConfig.

    Source: docs/core.md; paper, section III-A.
    """

    def __init__(self, config: CoreConfig) -> None:
        if not isinstance(config, CoreConfig):
            raise TypeError(f"config must be a CoreConfig, not {config!r}")
        self.config = config
        tile = config.tile
        super().__init__(
            {
                "s_axi": In(AxiLiteSignature(address_bits=ADDRESS_BITS)),
                "m_axi": Out(Axi4Signature(data_bits=config.axi_bits, address_bits=config.address_bits, id_bits=1)),
                "irq": Out(1),
            }
        )
        self.registers = Registers(config=config)
        self.unit_counters = UnitCounters()
        self.command_queue = CommandQueue(config=config)
        self.sequencer = Sequencer(config=config)
        self.read_arbiter = ReadArbiter(data_bits=config.axi_bits, address_bits=config.address_bits)
        pairs = config.layout_groups == 2
        layouts = PairLayout if pairs else Layout
        multiplies = SkippingMultiply if config.skip_masked else Multiply
        self.units: dict[str, Any] = {
            "load": Load(config=config),
            "layout_a": layouts(config, "a"),
            "layout_b": DroppingLayout(config) if config.drop_steps else layouts(config, "b"),
            "multiply": (IndexedMultiply if config.drop_steps else multiplies)(config),
            "output": Output(config),
            "store": Store(config=config),
        }
        size = {"groups": config.groups, "regions": config.regions, "readers": len(READERS), "writers": len(WRITERS)}
        size |= {"lanes": tile.lanes, "width": config.value_bits}
        self.buffer = PairBuffer(**size, pair_readers=len(LAYOUTS)) if pairs else Buffer(**size)
        streams = PairStreamBuffer if pairs else StreamBuffer
        self.streams = {
            side: streams(
                depth=tile.window_depth,
                words=config.stream_words(side),
                parts=config.parts(side),
                group_bits=config.group_bits,
            )
            for side in "ab"
        }
        if config.drop_steps:
            self.step_index = StepIndex(depth=tile.window_depth, words=config.stream_words("b"))
        self.tile = Tile(tile, rounded=False, empty_steps=config.drop_steps)

    def elaborate(self, platform):
        """Build the core. A soft reset resets everything except the registers, which control it."""
        m = Module()
        m.submodules.registers = placed(self.registers, platform)
        restart = self.registers.restart
        parts = {
            "command_queue": self.command_queue,
            "sequencer": self.sequencer,
            "read_arbiter": self.read_arbiter,
            "unit_counters": self.unit_counters,
            # `output` is a Verilog keyword.
            **{name if name != "output" else "output_unit": unit for name, unit in self.units.items()},
            "buffer": self.buffer,
            "stream_buffer_a": self.streams["a"],
            "stream_buffer_b": self.streams["b"],
            **({"step_index": self.step_index} if self.config.drop_steps else {}),
            "tile": self.tile,
        }
        for name, block in parts.items():
            m.submodules[name] = placed(block, platform, restart)
        self._control(m)
        self._bus(m)
        self._memories(m)
        self._multiply(m)
        self._count(m)
        return m

    def _control(self, m: Module) -> None:
        """Connect the registers, the command queue, the sequencer and the units."""
        registers, queue, sequencer = self.registers, self.command_queue, self.sequencer
        wiring.connect(m, wiring.flipped(self.s_axi), registers.axi)
        wiring.connect(m, queue.descriptors, sequencer.descriptors)
        for unit in UNITS:
            wiring.connect(m, getattr(sequencer, unit), self.units[unit].command)
        halted = [queue, self.units["load"], self.units["store"]]
        m.d.comb += [
            self.irq.eq(registers.irq),
            *(
                getattr(queue, name).eq(getattr(registers, name))
                for name in ("enable", "queue_base", "queue_size", "tail")
            ),
            queue.done.eq(sequencer.done),
            registers.busy.eq(queue.busy & ~sequencer.failed),
            registers.failed.eq(sequencer.failed),
            registers.head.eq(queue.head),
            registers.done.eq(sequencer.done),
            registers.error.eq(sequencer.error),
            registers.error_index.eq(sequencer.done),
            registers.ended.eq(sequencer.ended),
            registers.idle.eq(Cat(each.idle for each in halted).all()),
            *(each.bounds.eq(registers.bounds) for each in halted),
            # After an error the command queue fetches nothing, even if the ring has descriptors.
            *(each.halt.eq(registers.halt | (sequencer.failed if each is queue else 0)) for each in halted),
        ]

    def _bus(self, m: Module) -> None:
        """Connect the command queue, the load unit and the store unit to one AXI4 port."""
        load, store, arbiter = self.units["load"], self.units["store"], self.read_arbiter
        wiring.connect(m, self.command_queue.axi, arbiter.first)
        wiring.connect(m, load.axi, arbiter.second)
        m.d.comb += fixed(self.m_axi, prot=self.config.axi_prot, cache=self.config.axi_cache)
        m.d.comb += self.m_axi.awid.eq(0)
        for port in (arbiter.axi, store.axi):
            for name, member in port.signature.members.items():
                inner, outer = getattr(port, name), getattr(self.m_axi, name)
                m.d.comb += outer.eq(inner) if member.flow == Out else inner.eq(outer)

    def _memories(self, m: Module) -> None:
        """Connect the buffer to its readers and writers, and the stream buffers to the layouts that fill them."""
        ports = {"store": "buffer", "load": "buffer"}
        for place, unit in enumerate(READERS):
            wiring.connect(m, getattr(self.units[unit], ports.get(unit, "read")), self.buffer.read_ports[place])
        for place, unit in enumerate(WRITERS):
            wiring.connect(m, getattr(self.units[unit], ports.get(unit, "write")), self.buffer.writes[place])
        for side, streams in self.streams.items():
            wiring.connect(m, self.units[f"layout_{side}"].write, streams.write)
            wiring.connect(m, getattr(self.units["multiply"], f"{side}_read"), streams.read)

    def _multiply(self, m: Module) -> None:
        """Connect the stream buffers to the tile, and the tile to the output unit.

        Bank k of a stream buffer is line k of all ports of its side. All ports of both sides advance together.
        """
        multiply, tile, output = self.units["multiply"], self.tile, self.units["output"]
        bits = self.config.tile.lanes * self.config.value_bits
        if self.config.drop_steps:
            wiring.connect(m, self.units["layout_b"].index, self.step_index.write)
            wiring.connect(m, multiply.index, self.step_index.read)
            m.d.comb += tile.b_empty.eq(multiply.empty)
        for side, ports in (("a", tile.a), ("b", tile.b)):
            data = self.streams[side].data
            for index, port in enumerate(ports):
                m.d.comb += [
                    port.available.eq(multiply.available),
                    port.last.eq(multiply.last),
                    *(
                        port.steps[line].as_value().eq(data[line][index * bits : (index + 1) * bits])
                        for line in range(self.config.tile.window_depth)
                    ),
                ]
        m.d.comb += multiply.taken.eq(tile.a[0].taken)
        wiring.connect(m, tile.out, output.sums)
        if self.config.skip_masked:
            wiring.connect(m, multiply.marks, output.marks)
            wiring.connect(m, multiply.mask_read, output.skip_read)
        store = self.units["store"]
        m.d.comb += [*(getattr(store, name).eq(getattr(output, name)) for name in COUNTS), output.clear.eq(store.clear)]

    def _count(self, m: Module) -> None:
        """Connect the counters. The tile has its own; one snapshot copies all."""
        counters, registers, tile, axi = self.unit_counters, self.registers, self.tile, self.m_axi
        busy = {unit: self.sequencer.running[place] for place, unit in enumerate(UNITS)}
        events = {
            "cycles": Const(1),
            "multiplying": busy.pop("multiply"),
            **{f"{unit}_busy": value for unit, value in busy.items()},
            "read_beats": axi.rvalid & axi.rready & axi.rid[0],
            "write_beats": axi.wvalid & axi.wready,
        }
        m.d.comb += [counters.events[name].eq(event) for name, event in events.items()]
        for each in (counters, tile):
            m.d.comb += each.clear.eq(registers.clear)
        m.d.comb += [counters.take.eq(registers.take), tile.snapshot.eq(registers.take)]
        for place, (name, _) in enumerate(COUNTERS):
            counted = getattr(tile, TILE_COUNTERS[name]) if name in TILE_COUNTERS else counters.counters[name]
            m.d.comb += registers.counters[place].eq(counted)
