"""AXI4-Stream wrapper: a tile with standard streams."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.config import TileConfig
from ..layouts import RESULT_BITS
from ..tile.status import status_members
from ..tile.tile import Tile
from .ring_feeder import RingFeeder
from .signature import AxiStreamSignature
from .step_feeder import StepFeeder

__all__ = ["AxiStreamTile"]


class AxiStreamTile(Block):
    """A tile with AXI4-Stream inputs and output.

    Timing: the tile's, after a `Feeder` on every input.

    Parameters
    ----------
    config : TileConfig
        The tile's configuration.

    Members
    -------
    s_axis_a0, ..., s_axis_b0, ... : In(AxiStreamSignature)
        One input stream per column (a) and per row (b), as in `Feeder`. The oldest step of a beat is in the lowest
        bytes, whatever the tile's staging is.
    m_axis : Out(AxiStreamSignature)
        Output beats: results (FP32; int8: INT32) of `out_rows` rows. The first column of the first row is in the lowest
        bytes. `tlast` marks a block's last beat.
    s_axis_c : In(AxiStreamSignature)
        Only with `initial`: beats of C, in the same shape.
    clear, idle, and counters and flags
        As in `Tile`. A beat that breaks the rules also sets `protocol_error`. `idle` also requires that no feeder holds
        a step.

    Source: docs/tile.md, "AXI4-Stream".
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        depth, beat = config.window_depth, RESULT_BITS * config.columns * config.out_rows
        self.sides = [("a", i, config.a_format.width) for i in range(config.columns)]
        self.sides += [("b", i, config.b_format.width) for i in range(config.rows)]
        super().__init__(
            {
                **{
                    f"s_axis_{side}{index}": In(AxiStreamSignature(8 * config.step_bytes(side) * depth, keep=True))
                    for side, index, _ in self.sides
                },
                **({"s_axis_c": In(AxiStreamSignature(beat, keep=False))} if config.initial else {}),
                "m_axis": Out(AxiStreamSignature(beat, keep=False)),
                **status_members(config),
            },
        )
        self.tile = Tile(config)
        kind = RingFeeder if config.ring else StepFeeder
        shape = {"lanes": config.lanes, "depth": depth, "scale_bits": config.numerics.scale_bits}
        self.feeders = [kind(width=width, **shape) for _, _, width in self.sides]
        self._wrong = Signal(name="wrong_beat")

    def elaborate(self, platform):
        """Connect a feeder to each input of the tile, and the output stream."""
        m = Module()
        tile = self.tile
        m.submodules.tile = placed(tile, platform)
        for (side, index, _), feeder in zip(self.sides, self.feeders, strict=True):
            m.submodules[f"feeder_{side}{index}"] = placed(feeder, platform)
            wiring.connect(m, wiring.flipped(getattr(self, f"s_axis_{side}{index}")), feeder.s_axis)
            wiring.connect(m, feeder.port, getattr(tile, side)[index])
        if self.config.initial:
            m.d.comb += [
                tile.c.payload.values.eq(self.s_axis_c.tdata),
                tile.c.payload.last.eq(self.s_axis_c.tlast),
                tile.c.valid.eq(self.s_axis_c.tvalid),
                self.s_axis_c.tready.eq(tile.c.ready),
            ]
        m.d.comb += [
            self.m_axis.tdata.eq(tile.out.payload.values),
            self.m_axis.tlast.eq(tile.out.payload.last),
            self.m_axis.tvalid.eq(tile.out.valid),
            tile.out.ready.eq(self.m_axis.tready),
        ]
        self._status(m)
        return m

    def _status(self, m: Module) -> None:
        """Combine the tile's status with the feeders'."""
        m.d.sync += self._wrong.eq((self._wrong | Cat(feeder.wrong for feeder in self.feeders).any()) & ~self.clear)
        added = {
            "idle": self.tile.idle & Cat(feeder.empty for feeder in self.feeders).all(),
            "protocol_error": self.tile.protocol_error | self._wrong,
        }
        for name, member in status_members(self.config).items():
            outer, inner = getattr(self, name), getattr(self.tile, name)
            m.d.comb += outer.eq(added.get(name, inner)) if member.flow == Out else inner.eq(outer)
