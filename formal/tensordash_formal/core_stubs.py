"""What takes the place of units in proofs about a core: anything at all, so that a proof does not depend on them."""

from typing import Any

from amaranth.hdl import Cat, Elaboratable, Instance, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.descriptors import UNITS
from tensordash.core.command_queue import CommandQueue
from tensordash.core.multiply import Multiply
from tensordash.core.output import Output
from tensordash.core.sequencer import Sequencer
from tensordash.core.unit_counters import UnitCounters
from tensordash.emission.verilog import members
from tensordash.memory.buffer import Buffer
from tensordash.memory.stream_buffer import StreamBuffer
from tensordash.movers.deflate import Deflate
from tensordash.movers.inflate import Inflate
from tensordash.movers.layout import Layout
from tensordash.movers.load import Load
from tensordash.movers.read_arbiter import ReadArbiter
from tensordash.movers.store import Store
from tensordash.tile.tile import Tile

from .harness import FreeOutputs, Stub

__all__ = ["ALL_BUT_REGISTERS", "FREE_DATAPATH", "FREE_UNITS", "INSTANCES", "DeflateAbstraction"]

INSTANCES = {unit: "output_unit" if unit == "output" else unit for unit in UNITS}
"""What each unit is called in the Verilog: `output` is a word of it."""


class DeflateAbstraction(Elaboratable):
    """Any deflate at all of which a beat stays until it is taken or all begins anew, and is zero where it is mute.

    The proof `deflate` shows that it is like that.
    """

    def __init__(self, block: Block) -> None:
        assert isinstance(block, Deflate)
        self.block = block

    def elaborate(self, platform: Any) -> Module:
        """Free outputs, but for a beat that waits."""
        m = Module()
        block, beats = self.block, self.block.beats
        payload = Value.cast(beats.payload)
        waits = Signal()
        seen = Signal()  # and was not mute
        before = Signal(len(payload), reset_less=True)
        free = {
            name: Signal(len(value), name=f"free_{name}") for name, value, is_input in members(block) if not is_input
        }
        for name, signal in free.items():
            m.submodules[f"any_{name}"] = Instance("$anyseq", p_WIDTH=len(signal), o_Y=signal)
        width = len(beats.payload.data)
        data = Mux(seen, before[:width], free["beats_payload"][:width])
        strobes = Mux(waits, before[width:], free["beats_payload"][width:])
        m.d.comb += [
            block.units.eq(free["units"]),
            block.groups.ready.eq(free["groups_ready"]),
            block.whole.eq(Mux(waits & (free["whole"] == 0), 1, free["whole"])),
            beats.valid.eq(block.whole != 0),
            payload.eq(Cat(data & (~block.mute).replicate(width), strobes)),
        ]
        waiting = beats.valid & ~beats.ready & ~block.start
        m.d.sync += [waits.eq(waiting), seen.eq(waiting & ~block.mute), before.eq(payload)]
        return m


FREE_DATAPATH = tuple(
    Stub(kind, FreeOutputs) for kind in (Tile, Layout, Multiply, Output, Buffer, StreamBuffer, UnitCounters)
)
"""What is inside of a core and not at its ports."""
FREE_UNITS = (
    *FREE_DATAPATH,
    Stub(Sequencer, FreeOutputs),
    Stub(Inflate, FreeOutputs),
    Stub(Deflate, DeflateAbstraction),
)
"""All but registers, command queue, loads and stores, and what brings them to the bus."""
ALL_BUT_REGISTERS = (*FREE_UNITS, *(Stub(kind, FreeOutputs) for kind in (CommandQueue, Load, Store, ReadArbiter)))
"""All that registers are connected to."""
