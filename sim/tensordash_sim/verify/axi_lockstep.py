"""Lockstep of an AXI4-Stream tile's Verilog and its golden model, which consists of feeders and a tile."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from tensordash import TileConfig

from ..golden.feeder import AxiBeat, Feeder
from ..golden.ports import Beat
from ..golden.tile import Tile
from .lockstep import COUNTERS, FLAGS
from .pins import Pins, split
from .stimulus import packed

__all__ = ["AxiLockstep", "beats_of", "with_null_beats"]


def beats_of(streams: Sequence[Sequence], depth: int, step_bytes: int) -> list[AxiBeat]:
    """Split streams of shape (stream, T, lanes) into beats of up to `depth` steps."""
    beats = []
    for stream in streams:
        for start in range(0, len(stream), depth):
            steps = stream[start : start + depth]
            keep = (1 << (step_bytes * len(steps))) - 1
            beats.append(AxiBeat(steps, keep, last=start + depth >= len(stream)))
    return beats


def with_null_beats(beats: Iterable[AxiBeat], depth: int, random: Random) -> list[AxiBeat]:
    """Return the same streams with null beats inserted.

    A null beat carries TLAST for half of the streams whose last beat is full. All other null beats carry nothing.
    """
    made = []
    for beat in beats:
        null = AxiBeat(beat.steps, 0, last=False)
        made += [null] * random.choice((0, 0, 0, 1, 2))
        if beat.last and len(beat.steps) == depth and random.random() < 0.5:
            made += [replace(beat, last=False), *[null] * random.choice((0, 1)), replace(null, last=True)]
        else:
            made.append(beat)
    return made


class _Sender:
    """Sender of beats on one stream; a valid beat stays until it is accepted."""

    def __init__(self, beats: Iterable) -> None:
        self.beats = list(beats)
        self.offered = False
        self.noise = 0  # data in bits without a step

    def offer(self, eager: bool):
        """Return the beat on the port, or None."""
        self.offered = bool(self.beats) and (self.offered or eager)
        return self.beats[0] if self.offered else None

    def take(self) -> None:
        """Remove the offered beat."""
        self.beats.pop(0)
        self.offered = False


class AxiLockstep:
    """Lockstep that drives an AXI4-Stream tile and its model with the same beats and compares all outputs.

    Parameters
    ----------
    pins : Pins
        Pins of the simulation's top.
    config : TileConfig
        The tile.
    random : Random
        Source of handshakes and of undefined data.
    idle, stall : float
        Probabilities per cycle that a sender delays a beat, and that the output is not ready.
    compare_every : int
        Cycles between comparisons of the counters.
    clears : float
        Probability that `clear` is high in a cycle.

    Attributes
    ----------
    results : list of tuple of int
        Values of each accepted output beat.
    wrong_beats : int
        Cycles in which an illegal beat entered.
    """

    def __init__(
        self,
        pins: Pins,
        config: TileConfig,
        random: Random,
        *,
        idle: float = 0,
        stall: float = 0,
        compare_every: int = 8,
        clears: float = 0,
    ) -> None:
        self.pins, self.config, self.random = pins, config, random
        self.idle, self.stall, self.compare_every, self.clears = idle, stall, compare_every, clears
        self.golden = Tile(config)
        self.sides = [("a", i, config.a_format.width) for i in range(config.columns)]
        self.sides += [("b", i, config.b_format.width) for i in range(config.rows)]
        self.feeders = [
            Feeder(depth=config.window_depth, step_bytes=config.step_bytes(side)) for side, _, _ in self.sides
        ]
        self.wrong_beat = False
        self.wrong_beats = 0
        self.results: list[tuple[int, ...]] = []
        self.feed([[] for _ in self.sides])

    def feed(self, beats: Sequence[Sequence[AxiBeat]], c: Sequence[Beat] = ()) -> None:
        """Set the beats to send from now on: for each column, for each row, and for C."""
        self.senders = [_Sender(each) for each in beats]
        self.c = _Sender(c)

    def beats(self, a: Sequence, b: Sequence) -> list[list[AxiBeat]]:
        """Split the columns' and the rows' streams into legal beats, with TLAST on each stream's last step."""
        config = self.config
        return [
            beats_of(streams, config.window_depth, config.step_bytes(side))
            for (side, _, _), streams in zip(self.sides, (*a, *b), strict=True)
        ]

    async def start(self) -> None:
        inputs = {"clear": 0, "m_axis_tready": 0}
        for name in [f"s_axis_{side}{i}" for side, i, _ in self.sides]:
            inputs |= {f"{name}_{pin}": 0 for pin in ("tdata", "tkeep", "tlast", "tvalid")}
        if self.config.initial:
            inputs |= {f"s_axis_c_{pin}": 0 for pin in ("tdata", "tlast", "tvalid")}
        if self.config.snapshot:
            inputs["snapshot"] = 0
        await self.pins.reset(**inputs)

    async def cycle(self, *, reset: bool = False, clear: bool = False) -> None:
        """Run one cycle, with `reset` or `clear` at its clock edge."""
        random, pins = self.random, self.pins
        clear |= self.clears > 0 and random.random() < self.clears
        ready = random.random() >= self.stall
        pins.drive(m_axis_tready=int(ready), clear=int(clear), rst=int(reset))
        for (side, _, _), sender in zip(self.sides, self.senders, strict=True):
            if not sender.offered:
                sender.noise = random.getrandbits(8 * self.config.step_bytes(side) * self.config.window_depth)
        shown = [sender.offer(random.random() >= self.idle) for sender in self.senders]
        for (side, i, width), sender, beat in zip(self.sides, self.senders, shown, strict=True):
            self._drive(side, i, width, beat, sender.noise)
        c = self.c.offer(random.random() >= self.idle)
        if self.config.initial:
            bits = 32 * self.config.columns * self.config.out_rows
            values = random.getrandbits(bits) if c is None else packed([v for row in c.values for v in row], 32)
            pins.drive(
                s_axis_c_tvalid=int(c is not None), s_axis_c_tdata=values, s_axis_c_tlast=int(bool(c and c.last))
            )
        snapshot = self.config.snapshot and random.random() < 0.2
        if self.config.snapshot:
            pins.drive(snapshot=int(snapshot))
        await pins.settle()
        offers = [feeder.offer() for feeder in self.feeders]
        a, b = offers[: self.config.columns], offers[self.config.columns :]
        expected = self.golden.cycle(a, b, ready, clear, c, snapshot=snapshot, reset=reset)
        for flag in FLAGS:
            self._same(flag, getattr(expected, flag) or (flag == "protocol_error" and self.wrong_beat))
        self._same("idle", expected.idle and all(feeder.empty for feeder in self.feeders))
        self._same("m_axis_tvalid", expected.out_valid)
        if expected.out is not None:
            results = [value for row in expected.out.values for value in row]
            found = split(pins.read("m_axis_tdata"), 32, len(results))
            assert found == results, self._say("m_axis_tdata", found, results)
            self._same("m_axis_tlast", expected.out.last)
            if ready:
                self.results.append(tuple(results))
        if self.config.counts and pins.cycle % self.compare_every == 0:
            for name in COUNTERS:
                self._same(name, getattr(expected.counters, name))
        wrong = False
        for (side, i, _), feeder, sender, beat in zip(self.sides, self.feeders, self.senders, shown, strict=True):
            takes = feeder.ready(expected.taken) and not reset
            self._same(f"s_axis_{side}{i}_tready", takes)
            wrong |= feeder.clock(expected.taken, beat)
            if takes and beat is not None:
                sender.take()
        if self.config.initial:
            self._same("s_axis_c_tready", expected.c_ready)
            if expected.c_ready and c is not None:
                self.c.take()
        self.wrong_beats += wrong
        self.wrong_beat = (self.wrong_beat or wrong) and not clear
        if reset:
            self.wrong_beat = False
            for feeder in self.feeders:
                feeder.reset()
        await pins.tick()

    async def run(self, results: int, *, limit: int = 100_000) -> None:
        """Run until the tile has sent `results` beats in total.

        Raises
        ------
        AssertionError
            At the first difference, or after `limit` cycles.
        """
        for _ in range(limit):
            if len(self.results) >= results:
                return
            await self.cycle()
        raise AssertionError(f"{len(self.results)} beats came out, golden has {results}")

    def _drive(self, side: str, index: int, width: int, beat: AxiBeat | None, bits: int) -> None:
        name, step_bits = f"s_axis_{side}{index}", width * self.config.lanes
        apart = 8 * self.config.step_bytes(side)  # a step's padding bits are undefined
        if beat is None:
            self.pins.drive(**{f"{name}_tvalid": 0, f"{name}_tdata": bits, f"{name}_tkeep": bits & 1})
            return
        for number, step in enumerate(beat.steps):
            bits &= ~(((1 << step_bits) - 1) << number * apart)
            bits |= packed(step[: self.config.lanes], width) << number * apart
            if self.config.numerics.scale is not None:  # in the step's top byte
                bits &= ~(0xFF << (number + 1) * apart - 8)
                bits |= step[-1] << (number + 1) * apart - 8
        pins = {"tdata": bits, "tkeep": beat.keep, "tlast": int(beat.last), "tvalid": 1}
        self.pins.drive(**{f"{name}_{pin}": value for pin, value in pins.items()})

    def _same(self, name: str, expected: int) -> None:
        found = self.pins.read(name)
        assert found == expected, self._say(name, found, int(expected))

    def _say(self, name: str, found, expected) -> str:
        return f"cycle {self.pins.cycle}: {name} is {found}, golden has {expected}"
