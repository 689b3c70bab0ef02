"""AXI4-Stream wrapper: a tile behind standard streams."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from .block import Block
from .config import TileConfig
from .control import count_bits
from .counters import COUNTERS, FLAGS, counter_members
from .layouts import RESULT_BITS, steps_layout
from .ring_feeder import RingFeeder
from .tile import Tile

__all__ = ["AxiStreamTile", "StepFeeder"]


class StepFeeder(Block):
    """Turns beats of `depth` steps into what a tile's port wants: as many steps as there are, at any offset.

    Timing: a beat's steps are offered in the cycle after it was taken. It holds ``2 * depth - 1`` steps, enough that
    the tile never waits while beats keep coming. `tready` depends on `taken` in the same cycle.

    Parameters
    ----------
    width, lanes, depth : int
        Shape of a beat: `depth` steps of `lanes` values of `width` bits, in whole bytes.

    Members
    -------
    tdata, tkeep, tlast, tvalid, tready
        AXI4-Stream. The oldest step is in the lowest bytes; `tkeep` marks the steps that are there, which only in a
        stream's last beat may be fewer than `depth`; `tlast` ends the stream.
    steps, available, last, taken
        A tile's port.

    Source: AMBA AXI4-Stream Protocol, section 2.
    """

    def __init__(self, *, width: int, lanes: int, depth: int) -> None:
        self.lanes, self.depth, self.width = lanes, depth, width
        self.step_bits = width * lanes
        super().__init__(
            {
                "tdata": In(self.step_bits * depth),
                "tkeep": In(self.step_bits * depth // 8),
                "tlast": In(1),
                "tvalid": In(1),
                "tready": Out(1),
                "steps": Out(steps_layout(width, lanes, depth)),
                "available": Out(count_bits(depth)),
                "last": Out(1),
                "taken": In(count_bits(depth)),
            },
            identity=(width, lanes, depth),
        )

    def elaborate(self, platform):
        """A shift register of steps, each with the mark of a stream's end."""
        m = Module()
        depth, slots = self.depth, 2 * self.depth - 1
        held = Signal(ArrayLayout(self.step_bits, slots), reset_less=True)
        ending = Signal(slots)
        count = Signal(range(slots + 1))
        left = Signal(range(slots + 1))
        arriving = Signal(range(depth + 1))

        # Steps are whole: the first byte of each tells.
        kept = [self.tkeep[step * (self.step_bits // 8)] for step in range(depth)]
        entering = Signal()
        m.d.comb += [
            self.tready.eq(left <= slots - depth),
            entering.eq(self.tvalid & self.tready),
            left.eq(count - self.taken),
            arriving.eq(Mux(entering, sum(kept), 0)),
        ]
        m.d.sync += count.eq(left + arriving)
        shifted = held.as_value() >> (self.taken * self.step_bits)
        shifted_ending = ending >> self.taken
        for slot in range(slots):
            value, end = shifted.word_select(slot, self.step_bits), shifted_ending[slot]
            for step in range(min(depth, slot + 1)):
                here = left == slot - step
                ends = self.tlast & kept[step] & (Const(step == depth - 1) | ~Cat(kept[step + 1 :]).any())
                value = Mux(here, self.tdata.word_select(step, self.step_bits), value)
                end = Mux(here, entering & ends, end)
            m.d.sync += [held[slot].eq(value), ending[slot].eq(end)]

        # Offered: what is there, up to the first step that ends a stream.
        m.d.comb += self.available.eq(Mux(count < depth, count, depth))
        for step in reversed(range(depth)):
            with m.If(ending[step] & (count > step) & ~ending[:step].any()):
                m.d.comb += [self.available.eq(step + 1), self.last.eq(1)]
        m.d.comb += [self.steps[step].eq(held[step]) for step in range(depth)]
        return m


class AxiStreamTile(Block):
    """A tile with AXI4-Stream inputs and output.

    Timing: that of the tile, with one more cycle at the inputs.

    Parameters
    ----------
    config : TileConfig
        The tile's configuration.

    Members
    -------
    s_axis_a0_*, ..., s_axis_b0_*, ...
        One input stream per column (a) and per row (b), as in `StepFeeder`: beats have their oldest step in the lowest
        bytes whatever the tile's staging.
    m_axis_*
        Output beats: results (FP32; int8: INT32) of `out_rows` rows, the first column of the first row in the lowest
        bytes; `tlast` on a block's final beat.
    s_axis_c_*
        Only with `initial`: beats of C, in the same shape.
    clear, and counters and flags
        As in `Tile`.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.sides = [("a", i, config.a_format.width) for i in range(config.columns)]
        self.sides += [("b", i, config.b_format.width) for i in range(config.rows)]
        members: dict[str, Any] = {}
        for side, index, width in self.sides:
            bits = width * config.lanes * config.window_depth
            name = f"s_axis_{side}{index}"
            members |= {
                f"{name}_tdata": In(bits),
                f"{name}_tkeep": In(bits // 8),
                f"{name}_tlast": In(1),
                f"{name}_tvalid": In(1),
                f"{name}_tready": Out(1),
            }
        beat = RESULT_BITS * config.columns * config.out_rows
        if config.initial:
            members |= {
                "s_axis_c_tdata": In(beat),
                "s_axis_c_tlast": In(1),
                "s_axis_c_tvalid": In(1),
                "s_axis_c_tready": Out(1),
            }
        super().__init__(
            {
                **members,
                "m_axis_tdata": Out(beat),
                "m_axis_tlast": Out(1),
                "m_axis_tvalid": Out(1),
                "m_axis_tready": In(1),
                **counter_members(config.rows),
            },
            identity=(config,),
        )
        self.tile = Tile(config)

    def elaborate(self, platform):
        """A feeder per port."""
        m = Module()
        tile, config = self.tile, self.config
        m.submodules.tile = tile.place(platform)
        for side, index, width in self.sides:
            kind = RingFeeder if config.ring else StepFeeder
            feeder = kind(width=width, lanes=config.lanes, depth=config.window_depth)
            m.submodules[f"feeder_{side}{index}"] = feeder.place(platform)
            port, name = getattr(tile, side)[index], f"s_axis_{side}{index}"
            m.d.comb += [
                feeder.tdata.eq(getattr(self, f"{name}_tdata")),
                feeder.tkeep.eq(getattr(self, f"{name}_tkeep")),
                feeder.tlast.eq(getattr(self, f"{name}_tlast")),
                feeder.tvalid.eq(getattr(self, f"{name}_tvalid")),
                getattr(self, f"{name}_tready").eq(feeder.tready),
                port.steps.eq(feeder.steps),
                port.available.eq(feeder.available),
                port.last.eq(feeder.last),
                feeder.taken.eq(port.taken),
            ]
        if config.initial:
            m.d.comb += [
                tile.c.payload.values.eq(self.s_axis_c_tdata),
                tile.c.payload.last.eq(self.s_axis_c_tlast),
                tile.c.valid.eq(self.s_axis_c_tvalid),
                self.s_axis_c_tready.eq(tile.c.ready),
            ]
        m.d.comb += [
            self.m_axis_tdata.eq(tile.out.payload.values),
            self.m_axis_tlast.eq(tile.out.payload.last),
            self.m_axis_tvalid.eq(tile.out.valid),
            tile.out.ready.eq(self.m_axis_tready),
            tile.clear.eq(self.clear),
            *(getattr(self, name).eq(getattr(tile, name)) for name in (*COUNTERS, "row_wait", *FLAGS)),
        ]
        return m
