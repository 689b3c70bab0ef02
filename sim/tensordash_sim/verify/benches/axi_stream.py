"""Bench of the AXI4-Stream wrapper: results, order and rate against the golden products."""

from random import Random

import cocotb
import numpy as np

from tensordash import TileConfig
from tensordash.configuration.numerics import Exact
from tensordash_sim.golden.matmul import run_streams
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins, split
from tensordash_sim.verify.stimulus import BlockSource, packed, random_inputs, random_lengths


class Sender:
    """Sends beats on one input stream; once valid, a beat stays until it is taken.

    Parameters
    ----------
    name : str
        What the port's pins begin with.
    beats : list of dict of str to int
        What is on its pins for each beat, without `tvalid`.
    """

    def __init__(self, name: str, beats: list[dict[str, int]]) -> None:
        self.name, self.beats = name, beats
        self.sent, self.valid = 0, False

    def drive(self, pins: Pins, offer: bool) -> None:
        """Put the next beat on the pins, if one is due."""
        self.valid = self.sent < len(self.beats) and (self.valid or offer)
        shown = self.beats[self.sent] if self.valid else dict.fromkeys(self.beats[0], 0)
        pins.drive(**{f"{self.name}_{pin}": value for pin, value in {**shown, "tvalid": int(self.valid)}.items()})

    def taken(self, pins: Pins) -> None:
        """See whether the beat is taken in this cycle."""
        if self.valid and pins.read(f"{self.name}_tready"):
            self.sent, self.valid = self.sent + 1, False


def step_beats(streams: list, width: int, lanes: int, depth: int) -> list[dict[str, int]]:
    """Streams as beats of up to `depth` steps."""
    beats = []
    for stream in streams:
        for start in range(0, len(stream), depth):
            steps = stream[start : start + depth]
            data = packed([packed(step, width) for step in steps], width * lanes)
            keep = (1 << (width * lanes * len(steps) // 8)) - 1
            beats.append({"tdata": data, "tkeep": keep, "tlast": int(start + depth >= len(stream))})
    return beats


def c_beats(blocks: list, out_rows: int) -> list[dict[str, int]]:
    """Blocks of C as beats."""
    return [
        {"tdata": packed([value for row in beat.values for value in row], 32), "tlast": int(beat.last)}
        for beat in BlockSource(blocks, out_rows).beats
    ]


def lengths_for(config: TileConfig, random: Random, count: int) -> list[int]:
    """Lengths of streams whose results do not depend on when they arrive, which only the tile's own bench knows."""
    if isinstance(config.numerics.accumulator, Exact) or config.needs_full_window:
        return random_lengths(random, count, config.window_depth)
    return [1] * count


async def run(dut, idle: float, stall: float, count: int, reset_at: int = -1) -> None:
    """Send random streams, compare all results and counters at the end."""
    job = current_job()
    config, random = job.config, Random(f"{job.seed} axi {idle} {stall} {reset_at}")
    cocotb.log.info("seed %s", job.seed)
    depth, lanes = config.window_depth, config.lanes
    lengths = lengths_for(config, random, count)
    a, b, c = random_inputs(random, config, lengths)
    operands = [[np.array([port[i] for port in ports], np.uint32) for ports in (a, b)] for i in range(count)]
    golden = run_streams(
        [(*pair, np.array(c[i], np.uint32)) if c else tuple(pair) for i, pair in enumerate(operands)], config
    )

    def senders() -> list[Sender]:
        made = [
            Sender(f"s_axis_{side}{i}", step_beats(port, fmt.width, lanes, depth))
            for side, ports, fmt in (("a", a, config.a_format), ("b", b, config.b_format))
            for i, port in enumerate(ports)
        ]
        return [*made, Sender("s_axis_c", c_beats(c, config.out_rows))] if c else made

    pins, active = Pins(dut), senders()
    for sender in active:
        sender.drive(pins, False)
    await pins.reset(clear=0, m_axis_tready=0)
    results: list[list[int]] = []
    beats = config.rows // config.out_rows
    expected = golden.c_bits.reshape(count * beats, -1).tolist()
    for cycle in range(20_000 + 200 * sum(lengths)):
        ready = random.random() >= stall
        for sender in active:
            sender.drive(pins, random.random() >= idle)
        pins.drive(m_axis_tready=int(ready), rst=int(cycle == reset_at))
        await pins.settle()
        for sender in active:
            sender.taken(pins)
        if pins.read("m_axis_tvalid"):
            values = split(pins.read("m_axis_tdata"), 32, config.out_rows * config.columns)
            here = f"cycle {cycle}: beat {len(results)}"
            assert values == expected[len(results)], f"{here} is {values}, golden says {expected[len(results)]}"
            last = (len(results) + 1) % beats == 0
            assert pins.read("m_axis_tlast") == last, f"{here}: golden says last {last}"
            if ready:
                results.append(values)
        await pins.tick()
        if cycle == reset_at:
            results, active = [], senders()
        if cycle > reset_at and len(results) == len(expected):
            break
    assert len(results) == len(expected), f"{len(results)} beats came out, golden says {len(expected)}"
    pins.drive(m_axis_tready=0)
    await pins.settle()
    for name in ("steps", "effectual"):
        assert pins.read(name) == getattr(golden.counters, name), f"{name} is {pins.read(name)}"
    assert pins.read("protocol_error") == 0
    if not idle and not stall and reset_at < 0:
        # At full rate the wrapper costs no schedule: the same number as with producers that offer all they can.
        assert pins.read("cycles") == golden.counters.cycles, f"cycles is {pins.read('cycles')}"
        assert pins.read("input_limited") == golden.counters.input_limited


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def random_traffic(dut, idle: float, stall: float) -> None:
    """Streams of all lengths, with and without idle producers and back-pressure."""
    await run(dut, idle, stall, max(4, round(16 * current_job().effort)))


@cocotb.test()
async def reset_in_a_stream(dut) -> None:
    """A reset forgets all beats; the streams are sent again."""
    await run(dut, 0.2, 0.2, 4, reset_at=12)
