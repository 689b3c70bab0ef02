"""Use a Tile inside another Amaranth design: memories supply its operands, and its results are a stream."""

import numpy as np
from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.data import ArrayLayout
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from tensordash import Tile, TileConfig
from tensordash.layouts import beat_layout
from tensordash.tile.steps import StepsSignature


class StepMemory(wiring.Component):
    """A memory that offers the steps of a stream, (T, lanes) bit patterns, up to `depth` of them per cycle."""

    def __init__(self, steps, *, width: int, depth: int):
        self.steps, self.width, self.depth = steps, width, depth
        super().__init__({"port": Out(StepsSignature(width, len(steps[0]), depth))})

    def elaborate(self, platform):
        """Connect a read port of the memory to each step of the tile's port."""
        m = Module()
        port, count = self.port, len(self.steps)
        memory = Memory(shape=ArrayLayout(self.width, len(self.steps[0])), depth=count, init=self.steps)
        m.submodules.memory = memory
        next_step = Signal(range(count + 1))  # First step that the tile has not taken.
        remaining = Signal(range(count + 1))
        m.d.comb += [
            remaining.eq(count - next_step),
            port.available.eq(remaining),
            port.last.eq((remaining > 0) & (remaining <= self.depth)),
        ]
        with m.If(remaining > self.depth):
            m.d.comb += port.available.eq(self.depth)
        for slot in range(self.depth):
            read = memory.read_port(domain="comb")
            m.d.comb += [read.addr.eq(next_step + slot), port.steps[slot].eq(read.data)]
        m.d.sync += next_step.eq(next_step + port.taken)
        return m


class DotProducts(wiring.Component):
    """Multiplies rows of B by columns of A once after reset. `a` is (columns, T, lanes), `b` is (rows, T, lanes)."""

    def __init__(self, config: TileConfig, a, b):
        self.config, self.a, self.b = config, a, b
        super().__init__(
            {"out": Out(stream.Signature(beat_layout(config.out_rows, config.columns))), "cycles": Out(32)}
        )

    def elaborate(self, platform):
        """Connect a memory to every port of the tile."""
        m = Module()
        m.submodules.tile = tile = Tile(self.config)
        sides = (("a", self.a, self.config.a_format, tile.a), ("b", self.b, self.config.b_format, tile.b))
        for side, operands, fmt, ports in sides:
            for i, steps in enumerate(operands):
                memory = StepMemory(steps, width=fmt.width, depth=self.config.window_depth)
                m.submodules[f"{side}_{i}"] = memory
                wiring.connect(m, memory.port, ports[i])
        wiring.connect(m, tile.out, wiring.flipped(self.out))
        m.d.comb += self.cycles.eq(tile.cycles)
        return m


def main() -> None:
    """Simulate a 2 x 3 tile on small integers, where two thirds of B are zero, and compare with NumPy."""
    random = np.random.default_rng(0)
    config = TileConfig(rows=2, columns=3, format="int8")
    a = random.integers(-9, 10, (config.columns, 20, config.lanes), np.int8)
    b = random.integers(-9, 10, (config.rows, 20, config.lanes), np.int8) * (random.random((2, 20, 4)) < 0.33)
    design = DotProducts(config, a.view(np.uint8).tolist(), b.astype(np.int8).view(np.uint8).tolist())
    results = []

    async def consumer(ctx):
        ctx.set(design.out.ready, 1)
        while len(results) < config.rows:
            if ctx.get(design.out.valid):
                results.append([ctx.get(value) for value in ctx.get(design.out.payload).values[0]])
            await ctx.tick()
        print(f"{b.shape[1]} dense steps in {ctx.get(design.cycles)} cycles")

    simulator = Simulator(design)
    simulator.add_clock(1e-6)
    simulator.add_testbench(consumer)
    simulator.run_until(1e-3)
    c = np.array(results, np.uint32).view(np.int32)
    print(c)
    assert (c == np.einsum("rtl,ctl->rc", b.astype(int), a.astype(int))).all()


if __name__ == "__main__":
    main()
