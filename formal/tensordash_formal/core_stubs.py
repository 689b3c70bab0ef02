"""Stubs of a core's units. Their outputs are free, so proofs do not depend on the units."""

from typing import Any

from amaranth.hdl import Cat, Elaboratable, Instance, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.descriptors import UNITS
from tensordash.core.command_queue import CommandQueue
from tensordash.core.indexed_multiply import IndexedMultiply
from tensordash.core.multiply import Multiply
from tensordash.core.output import Output
from tensordash.core.sequencer import Sequencer
from tensordash.core.skipping_multiply import SkippingMultiply
from tensordash.core.unit_counters import UnitCounters
from tensordash.emission.verilog import members
from tensordash.memory.buffer import Buffer, PairBuffer
from tensordash.memory.step_index import StepIndex
from tensordash.memory.stream_buffer import PairStreamBuffer, StreamBuffer
from tensordash.movers.deflate import Deflate
from tensordash.movers.dropping_layout import DroppingLayout
from tensordash.movers.inflate import Inflate
from tensordash.movers.layout import Layout
from tensordash.movers.load import Load
from tensordash.movers.pair_layout import PairLayout
from tensordash.movers.read_arbiter import ReadArbiter
from tensordash.movers.store import Store
from tensordash.tile.tile import Tile

from .harness import FreeOutputs, Stub

__all__ = ["ALL_BUT_REGISTERS", "FREE_DATAPATH", "FREE_UNITS", "INSTANCES", "DeflateAbstraction"]

INSTANCES = {unit: "output_unit" if unit == "output" else unit for unit in UNITS}
"""Instance names of the units. `output` is a Verilog keyword."""


class DeflateAbstraction(Elaboratable):
    """An abstraction of deflate: an offered beat stays until the sink takes it or `start` rises.

    Data are zero while `mute` is high. All other outputs are free. The proof `deflate` shows that deflate has these
    properties.
    """

    def __init__(self, block: Block) -> None:
        assert isinstance(block, Deflate)
        self.block = block

    def elaborate(self, platform: Any) -> Module:
        """Drive free outputs, and hold a beat that waits."""
        m = Module()
        block, beats = self.block, self.block.beats
        payload = Value.cast(beats.payload)
        waits = Signal()
        data_waits = Signal()  # the beat waits and `mute` was low
        past_payload = Signal(len(payload), reset_less=True)
        free = {
            name: Signal(len(value), name=f"free_{name}") for name, value, is_input in members(block) if not is_input
        }
        for name, signal in free.items():
            m.submodules[f"free_{name}_cell"] = Instance("$anyseq", p_WIDTH=len(signal), o_Y=signal)
        width = len(beats.payload.data)
        data = Mux(data_waits, past_payload[:width], free["beats_payload"][:width])
        strobes = Mux(waits, past_payload[width:], free["beats_payload"][width:])
        m.d.comb += [
            block.units.eq(free["units"]),
            block.groups.ready.eq(free["groups_ready"]),
            block.whole_beats.eq(Mux(waits & (free["whole_beats"] == 0), 1, free["whole_beats"])),
            beats.valid.eq(block.whole_beats != 0),
            payload.eq(Cat(data & (~block.mute).replicate(width), strobes)),
        ]
        waiting = beats.valid & ~beats.ready & ~block.start
        m.d.sync += [waits.eq(waiting), data_waits.eq(waiting & ~block.mute), past_payload.eq(payload)]
        return m


FREE_DATAPATH = tuple(
    Stub(kind, FreeOutputs)
    for kind in (
        *(Tile, Layout, PairLayout, DroppingLayout, Multiply, SkippingMultiply, IndexedMultiply, Output),
        *(Buffer, PairBuffer, StreamBuffer, PairStreamBuffer, StepIndex, UnitCounters),
    )
)
"""Stubs of the components that do not drive the core's ports."""
FREE_UNITS = (
    *FREE_DATAPATH,
    Stub(Sequencer, FreeOutputs),
    Stub(Inflate, FreeOutputs),
    Stub(Deflate, DeflateAbstraction),
)
"""Stubs of all components except the registers, command queue, load, store and read arbiter."""
ALL_BUT_REGISTERS = (*FREE_UNITS, *(Stub(kind, FreeOutputs) for kind in (CommandQueue, Load, Store, ReadArbiter)))
"""Stubs of all components except the registers."""
