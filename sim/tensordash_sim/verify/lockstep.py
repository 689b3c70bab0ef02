"""Lockstep of a tile's Verilog and its golden model."""

from collections.abc import Callable, Sequence
from random import Random

from tensordash import TileConfig

from ..golden.ports import Outputs
from ..golden.tile import Tile
from .pins import PinsLike, split
from .stimulus import Arrival, BlockSource, Source, on_lines, packed, packed_beat

__all__ = ["Lockstep"]

COUNTERS = ("cycles", "steps", "effectual", "stall_input", "stall_output", "input_limited")
FLAGS = ("protocol_error", "non_finite", "overflow", "result_non_finite")


class Lockstep:
    """Lockstep that drives a tile and its model with the same inputs and compares all outputs.

    Parameters
    ----------
    pins : Pins
        Pins of the simulation's top, or of a netlist's simulation.
    config : TileConfig
        The tile.
    idle, stall : float
        Probabilities per cycle that a port offers fewer steps than it has, and that the output is not ready.
    c_idle : float, optional
        `idle` of the C input; equal to `idle` if None.
    random : Random
        Source of all random choices.
    compare_every : int
        Cycles between comparisons of the counters (other outputs are compared in every cycle).
    snapshots : float
        Probability of a snapshot of the counters per cycle, if the tile has the input.
    """

    def __init__(
        self,
        pins: PinsLike,
        config: TileConfig,
        random: Random,
        *,
        idle: float = 0,
        stall: float = 0,
        c_idle: float | None = None,
        compare_every: int = 8,
        snapshots: float = 0.1,
    ) -> None:
        self.pins, self.config, self.random = pins, config, random
        self.golden = Tile(config)
        self.stall, self.compare_every = stall, compare_every
        self.snapshots = snapshots if config.snapshot else 0.0
        self.arrival = Arrival(random, idle)
        self.c_arrival = Arrival(random, idle if c_idle is None else c_idle)
        self.results: list[tuple[int, ...]] = []
        self.expected_count = 0
        self.entered = 0
        self.a: list[Source] = []
        self.b: list[Source] = []
        self.c = BlockSource([], config.out_rows)
        self.scale_bits = config.numerics.scale_bits
        self._sides = (("a", config.columns, config.a_format.width), ("b", config.rows, config.b_format.width))

    async def start(self) -> None:
        inputs = {"clear": 0, "out_ready": 0}
        for side, count, _ in self._sides:
            for i in range(count):
                inputs |= {f"{side}_{i}_steps": 0, f"{side}_{i}_available": 0, f"{side}_{i}_last": 0}
                inputs |= {f"{side}_{i}_scales": 0} if self.scale_bits else {}
        if self.config.initial:
            inputs |= {"c_valid": 0, "c_payload": 0}
        if self.config.snapshot:
            inputs["snapshot"] = 0
        await self.pins.reset(**inputs)

    def feed(self, a: Sequence[list], b: Sequence[list], c: Sequence[list] = ()) -> None:
        """Set the streams to offer to an idle tile: (stream, T, lanes) bit patterns for each column and each row.

        With a scale format, a step's scale follows its values.
        `c` is each stream's C, (stream, rows, columns), if the tile has a C input.
        """
        lanes = self.config.lanes
        self.a = [Source(list(streams), self.config.a_format.width, lanes) for streams in a]
        self.b = [Source(list(streams), self.config.b_format.width, lanes) for streams in b]
        self.c = BlockSource(c, self.config.out_rows)
        self.expected_count = len(self.results) + len(b[0]) * self.config.rows

    async def cycle(self, *, reset: bool = False, clear: bool = False) -> Outputs:
        """Run one cycle, optionally in reset or with `clear`; return the expected outputs."""
        depth = self.config.window_depth
        offers = [[source.offer(self.arrival.most(depth)) for source in side] for side in (self.a, self.b)]
        ready = self.random.random() >= self.stall
        pins = {"out_ready": int(ready), "clear": int(clear), "rst": int(reset)}
        for (side, _, width), offered in zip(self._sides, offers, strict=True):
            for i, (offer, bits) in enumerate(offered):
                # Data beyond the offered steps must not matter.
                pins[f"{side}_{i}_steps"] = self._lines(bits, width * self.config.lanes, offer.available)
                if self.scale_bits:
                    scales = packed([step[-1] for step in offer.steps], self.scale_bits)
                    pins[f"{side}_{i}_scales"] = self._lines(scales, self.scale_bits, offer.available)
                pins[f"{side}_{i}_available"] = offer.available
                pins[f"{side}_{i}_last"] = int(offer.last)
        beat = None
        if self.config.initial:
            beat = self.c.offer(self.c_arrival.ready())
            beat_bits = 32 * self.config.columns * self.config.out_rows + 1
            pins["c_valid"] = int(beat is not None)
            pins["c_payload"] = self._garbage(1, beat_bits) if beat is None else packed_beat(beat)
        snapshot = self.snapshots > 0 and self.random.random() < self.snapshots
        if self.config.snapshot:
            pins["snapshot"] = int(snapshot)
        self.pins.drive(**pins)
        await self.pins.settle()
        a, b = ([offer for offer, _ in offered] for offered in offers)
        expected = self.golden.cycle(a, b, ready, clear, beat, snapshot=snapshot, reset=reset)
        self._compare(expected)
        self.entered = 0 if reset else self.entered + expected.taken
        for source in (*self.a, *self.b):
            source.take(expected.taken)
        if beat is not None and expected.c_ready:
            self.c.take()
        if ready and expected.out is not None:
            self.results += expected.out.values  # `_compare` has checked that the pins are equal.
        await self.pins.tick()
        return expected

    def _lines(self, bits: int, step_bits: int, available: int) -> int:
        """Return the steps on their lines, and random bits beyond them."""
        depth = self.config.window_depth
        bits |= self._garbage(depth - available, step_bits) << (available * step_bits)
        return on_lines(bits, step_bits, depth, self.entered) if self.config.ring else bits

    async def run(
        self,
        *,
        limit: int = 200_000,
        each: Callable[[Outputs], None] = lambda _: None,
    ) -> None:
        """Run cycles until all results are out, then compare the counters.

        Raises
        ------
        AssertionError
            At the first difference, or after `limit` cycles.
        """
        for _ in range(limit):
            if len(self.results) == self.expected_count:
                self._compare_counters(self.golden.shown)
                return
            each(await self.cycle())
        raise AssertionError(f"not done after {limit} cycles")

    def _garbage(self, count: int, width: int) -> int:
        return self.random.getrandbits(count * width) if count else 0

    def _compare(self, expected: Outputs) -> None:
        for side, count, _ in self._sides:
            # All ports accept the same number of steps: check one per cycle, in rotation.
            port = f"{side}_{self.pins.cycle % count}_taken"
            self._same(port, expected.taken)
        self._same("out_valid", int(expected.out_valid))
        if self.config.initial:
            self._same("c_ready", int(expected.c_ready))
        if expected.out is not None:
            values = [value for row in expected.out.values for value in row]
            found = self.pins.read("out_payload")
            bits = split(found, 32, len(values))
            assert bits == values, self._say("out_payload", [hex(b) for b in bits], [hex(v) for v in values])
            last = found >> (32 * len(values))
            assert last == expected.out.last, self._say("out_payload.last", last, expected.out.last)
        for flag in (*FLAGS, "idle"):
            self._same(flag, int(getattr(expected, flag)))
        if expected.entry_line is not None:
            self._same("entry_line", 1 << expected.entry_line)
        if self.pins.cycle % self.compare_every == 0:
            self._compare_counters(expected.counters)

    def _compare_counters(self, counters) -> None:
        if not self.config.counts:
            return
        for name in COUNTERS:
            self._same(name, getattr(counters, name))
        waits = split(self.pins.read("row_wait"), 32, self.config.rows)
        assert waits == list(counters.row_wait), self._say("row_wait", waits, list(counters.row_wait))

    def _same(self, name: str, expected: int) -> None:
        found = self.pins.read(name)
        assert found == expected, self._say(name, found, expected)

    def _say(self, name: str, found, expected) -> str:
        return f"cycle {self.pins.cycle}: {name} is {found}, golden has {expected}"
