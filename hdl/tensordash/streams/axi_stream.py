"""AXI4-Stream wrapper: a tile behind standard streams."""

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.config import TileConfig
from ..layouts import RESULT_BITS
from ..tile.status import status_members
from ..tile.tile import Tile
from .ring_feeder import RingFeeder
from .step_feeder import StepFeeder

__all__ = ["AxiStreamTile"]


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
        One input stream per column (a) and per row (b), as in `Feeder`: beats have their oldest step in the lowest
        bytes whatever the tile's staging.
    m_axis_*
        Output beats: results (FP32; int8: INT32) of `out_rows` rows, the first column of the first row in the lowest
        bytes; `tlast` on a block's final beat.
    s_axis_c_*
        Only with `initial`: beats of C, in the same shape.
    clear, idle, and counters and flags
        As in `Tile`; `idle` says of the feeders as well that they hold no step.
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
                **status_members(config),
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
        ]
        self._status(m)
        return m

    def _status(self, m: Module) -> None:
        """The tile's own, but that it is not idle while steps are on their way to it."""
        tile = self.tile
        offered = Cat(getattr(tile, side)[index].available for side, index, _ in self.sides)
        for name, member in status_members(self.config).items():
            outer, inner = getattr(self, name), getattr(tile, name)
            if name == "idle":
                m.d.comb += outer.eq(inner & ~offered.any())
            else:
                m.d.comb += outer.eq(inner) if member.flow == Out else inner.eq(outer)
