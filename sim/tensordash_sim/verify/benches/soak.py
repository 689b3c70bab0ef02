"""Bench of a soak job: episodes of random traffic on one tile, in lockstep with golden, with coverage."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import cocotb

from tensordash.configuration.formats import RESULT_FORMATS
from tensordash_sim.golden.ports import Outputs
from tensordash_sim.verify.job import BenchJob, current_job
from tensordash_sim.verify.lockstep import Lockstep
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.soak.coverage import Coverage
from tensordash_sim.verify.soak.stimulus import ARRIVALS, STALLS, Inputs, draw_arrival, draw_inputs, draw_stalls
from tensordash_sim.verify.stimulus import random_lengths
from tensordash_sim.verify.tile_inputs import near_the_limit

EPISODES = 16  # approximate number per job
CYCLES = 100_000  # maximum of an episode


@cocotb.test()
async def soak(dut) -> None:
    """Play episodes until the tile has consumed the job's steps."""
    job = current_job()
    player = Player(dut, job)
    await player.lockstep.start()
    while player.steps < job.options["steps"]:
        await player.episode()
    result = {
        "steps": player.steps,
        "cycles": player.lockstep.pins.cycle,
        "coverage": player.coverage.to_json(),
        "options": player.coverage.options,
    }
    Path(job.options["result"]).write_text(json.dumps(result), encoding="utf-8")


class Player:
    """Player of episodes on a tile in sequence; only episodes that test resets reset the tile.

    Attributes
    ----------
    steps : int
        Dense steps that the tile has consumed, equal to golden in every cycle.
    coverage : Coverage
        Coverage so far.
    """

    def __init__(self, dut, job: BenchJob) -> None:
        self.dut, self.config = dut, job.config
        self.random = Random(job.options["stimulus"])
        self.lockstep = Lockstep(Pins(dut), job.config, self.random)
        self.coverage = Coverage(job.config)
        self.steps = 0
        self._most = self._share = max(24, job.options["steps"] // EPISODES)
        self._stalls: Callable[[], float] = lambda: 0.0

    async def episode(self) -> None:
        """Play one episode of a random kind, with its own arrival and stalls."""
        arrival, stalls = self.random.choice(ARRIVALS), self.random.choice(STALLS)
        kinds = [self.traffic] * 6 + [self.single_steps, self.long_stream, self.resets, self.near_limit, self.disagree]
        kind = self.random.choice([*kinds, *([self.wrong_last] if self.config.initial else [])])
        self.coverage.add("arrival and stalls", f"{arrival}, {stalls}")
        slow = arrival in ("scarce", "bursts") or stalls in ("blocked", "bursts")
        self._share = self._most // 8 if slow else self._most  # Idle cycles soon add no coverage.
        self.lockstep.arrival = draw_arrival(self.random, arrival, self.config)
        self.lockstep.c_arrival = draw_arrival(self.random, self.random.choice(ARRIVALS), self.config)
        self._stalls = draw_stalls(self.random, stalls, self.config)
        await kind()
        await self.cycle(clear=self.random.random() < 0.5)

    async def cycle(self, *, clear: bool = False, reset: bool = False) -> Outputs:
        """Run one cycle in lockstep and record its coverage; return the outputs."""
        self.lockstep.stall = self._stalls()
        results = len(self.lockstep.results)
        outputs = await self.lockstep.cycle(clear=clear, reset=reset)
        waited = outputs.out_valid and len(self.lockstep.results) == results
        self.coverage.cycle(self.lockstep.golden, outputs, waited=waited, clear=clear, reset=reset)
        self.steps += outputs.advance
        return outputs

    def feed(self, inputs: Inputs) -> None:
        """Set the streams to offer to the idle tile, and record their coverage."""
        config, result = self.config, RESULT_FORMATS[self.config.numerics.result]
        for side, fmt, ports in (("a", config.a_format, inputs.a), ("b", config.b_format, inputs.b)):
            for streams in ports:
                steps = [step for stream in streams for step in stream]
                self.coverage.operands(side, fmt, (bits for step in steps for bits in step[: config.lanes]))
                self.coverage.scales(side, (bits for step in steps for bits in step[config.lanes :]))
        self.coverage.operands("c", result, (bits for block in inputs.c for row in block for bits in row))
        for place, styles in inputs.styles.items():
            for style in styles:
                self.coverage.add("zeros", f"{place} {style}")
        self.lockstep.results.clear()
        self.lockstep.feed(inputs.a, inputs.b, inputs.c)

    async def drain(self, clears: float = 0.0) -> None:
        """Run cycles until all results are out, with `clear` high in a share `clears` of them."""
        for _ in range(CYCLES):
            if len(self.lockstep.results) == self.lockstep.expected_count:
                self.coverage.results(value for row in self.lockstep.results for value in row)
                return
            await self.cycle(clear=self.random.random() < clears)
        raise AssertionError(f"not done after {CYCLES} cycles")

    def lengths(self) -> list[int]:
        """Return random stream lengths whose sum is at most an episode's share of steps."""
        lengths = random_lengths(self.random, 40, self.config.window_depth)
        while len(lengths) > 2 and sum(lengths) > self._share:
            lengths.pop()
        return lengths

    # Kinds of episodes

    async def traffic(self) -> None:
        """Play streams of all lengths."""
        self.feed(draw_inputs(self.random, self.config, self.lengths()))
        await self.drain(clears=self.random.choice((0, 0, 0, 0.05)))

    async def single_steps(self) -> None:
        """Play streams of one step, so that the window has as many stream ends as possible."""
        self.feed(draw_inputs(self.random, self.config, [1] * self.random.randint(8, 40)))
        await self.drain()

    async def long_stream(self) -> None:
        """Play a stream of several hundred steps, and a short one after it."""
        self.feed(draw_inputs(self.random, self.config, [self.random.randint(self._share, 2 * self._share), 2]))
        await self.drain()

    async def resets(self) -> None:
        """Reset the tile in random cycles."""
        for _ in range(self.random.randint(1, 4)):
            self.feed(draw_inputs(self.random, self.config, self.lengths()[:8]))
            until = self.random.choice((1, 10, 60, 200))
            for _ in range(self.random.randint(1, until)):
                await self.cycle()
            await self.cycle(reset=True)

    async def near_limit(self) -> None:
        """Let counters reach their largest value, where they saturate."""
        await near_the_limit(self.dut, self.lockstep)
        await self.traffic()

    async def disagree(self) -> None:
        """Play streams that end elsewhere at one port; then reset, since the ports no longer agree."""
        lengths = self.lengths()[:6]
        inputs = draw_inputs(self.random, self.config, lengths)
        other = draw_inputs(self.random, self.config, [max(1, T + self.random.choice((-1, 1, 2))) for T in lengths])
        side, more = self.random.choice(((inputs.a, other.a), (inputs.b, other.b)))
        port = self.random.randrange(len(side))
        side[port] = more[port]
        self.feed(inputs)
        for _ in range(self.random.randint(10, 80)):
            await self.cycle()
        await self.cycle(reset=True)

    async def wrong_last(self) -> None:
        """Play a block of C whose `last` is early or missing; the number of beats still ends the block."""
        self.feed(draw_inputs(self.random, self.config, self.lengths()[:4]))
        beats = self.lockstep.c.beats
        place = self.random.randrange(len(beats))
        beats[place] = replace(beats[place], last=not beats[place].last)
        await self.drain()
